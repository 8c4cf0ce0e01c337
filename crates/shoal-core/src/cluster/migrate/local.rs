//! Which lines change in an old file of a `local` cluster? Ray still reads its `min_workers`.

use super::entries::Entry;
use super::parts::{Edit, behind_key, commented_out, find};
use super::rewrite::greater;
use crate::document::reader::Fault;

pub fn edits(lines: &[&str], entries: &[Entry], notes: &mut Vec<String>) -> Result<Vec<Edit>, Fault> {
    let mut edits = Vec::new();
    for name in ["head_node", "worker_nodes"] {
        if let Some(entry) = find(entries, name) {
            let why = "the machines of a `local` cluster are what they are";
            edits.push(commented_out(lines, entry, why));
            notes.push(format!("`{name}` is a comment now: {why}"));
        }
    }
    match (find(entries, "min_workers"), find(entries, "initial_workers")) {
        (Some(least), Some(initial)) => {
            if let Some(value) = greater(lines, least, initial)? {
                edits.push(Edit { lines: least.start..least.end, with: vec![format!("min_workers: {value}")] });
            }
            edits.push(commented_out(lines, initial, "`min_workers` says it"));
            notes.push("`initial_workers` is a comment now: `min_workers` says it".into());
        }
        (None, Some(initial)) => {
            let mut with = vec![format!("min_workers{}", behind_key(lines, initial))];
            with.extend(lines[initial.start + 1..initial.end].iter().map(|line| (*line).to_string()));
            edits.push(Edit { lines: initial.start..initial.end, with });
            notes.push("`initial_workers` is `min_workers` now".into());
        }
        _ => {}
    }
    Ok(edits)
}
