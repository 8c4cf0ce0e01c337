//! Which lines change in an old file that has node types already, and beside them counts for all workers?

use super::entries::{self, Entry};
use super::parts::{Edit, behind_key, commented_out, find, number};
use super::rewrite::greater;
use crate::document::node::Value;
use crate::document::reader::Fault;

pub fn edits(lines: &[&str], entries: &[Entry], notes: &mut Vec<String>) -> Result<Vec<Edit>, Fault> {
    let mut edits = Vec::new();
    for name in ["head_node", "worker_nodes"] {
        if let Some(entry) = find(entries, name) {
            edits.push(commented_out(lines, entry, "the types say it"));
            notes.push(format!("`{name}` is a comment now: the types say it"));
        }
    }
    let (least, initial) = (find(entries, "min_workers"), find(entries, "initial_workers"));
    let by_default = find(entries, "worker_default_node_type").and_then(|entry| match &entry.node.value {
        Value::Scalar { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let count = match (least, initial) {
        (Some(least), Some(initial)) => greater(lines, least, initial)?
            .map_or_else(|| behind_key(lines, least).into(), |value| format!(": {value}")),
        (Some(entry), None) | (None, Some(entry)) => match number(entry.node) {
            Some(value) => format!(": {value}"),
            None => behind_key(lines, entry).to_string(),
        },
        (None, None) => return Ok(edits),
    };
    for entry in [least, initial].into_iter().flatten() {
        edits.push(commented_out(lines, entry, "every type has its own `min_workers`"));
        notes.push(format!("`{}` is a comment now: every type has its own `min_workers`", entry.key.text));
    }
    let Some(types) = find(entries, "available_node_types") else { return Ok(edits) };
    let types = entries::of(lines, types.node, types.end)?;
    let Some(named) = by_default.and_then(|name| find(&types, name)) else { return Ok(edits) };
    if named.node.get("min_workers").is_some() {
        return Ok(edits);
    }
    let fields = entries::of(lines, named.node, named.end)?;
    let Some(first) = fields.first() else { return Ok(edits) };
    let line = format!("{}min_workers{count}", " ".repeat(first.key.at.column - 1));
    edits.push(Edit { lines: first.above..first.above, with: vec![line] });
    notes.push(format!("the type `{}` has `min_workers` now", named.key.text));
    Ok(edits)
}
