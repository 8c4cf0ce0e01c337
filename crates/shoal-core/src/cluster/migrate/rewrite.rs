//! Which lines of an old file change, and into what?

use super::entries::{self, Entry};
use super::parts::{
    Edit, apply, behind_key, commented_out, comments, find, number, says_something, shifted, taken_out,
};
use super::{local, old_types};
use crate::cluster::read::{HEAD_TYPE, WORKER_TYPE};
use crate::cluster::{Cluster, Provider};
use crate::document::node::{Node, Value};
use crate::document::reader::Fault;

/// Fields that are gone from Ray, and what to know about that.
const GONE: [(&str, &str); 3] = [
    ("autoscaling_mode", "`upscaling_speed` is what Ray has instead"),
    ("target_utilization_fraction", "`upscaling_speed` is what Ray has instead"),
    ("worker_default_node_type", "every type has its own `min_workers`"),
];

/// The text in the current schema, and what was done to it.
pub fn rewrite(text: &str, root: &Node, cluster: &Cluster) -> Result<(String, Vec<String>), Fault> {
    let windows = text.contains("\r\n");
    let lines: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let entries = entries::of(&lines, root, lines.len())?;
    let mut notes = Vec::new();
    let mut edits = Vec::new();
    for (name, why) in GONE {
        if let Some(entry) = find(&entries, name) {
            edits.push(commented_out(&lines, entry, why));
            notes.push(format!("`{name}` is a comment now: {why}"));
        }
    }
    let more = match &cluster.provider {
        Provider::Local(_) => local::edits(&lines, &entries, &mut notes)?,
        Provider::Aws(_) if find(&entries, "available_node_types").is_some_and(says_something) => {
            old_types::edits(&lines, &entries, &mut notes)?
        }
        Provider::Aws(_) => edits_of_nodes(&lines, &entries, cluster, &mut notes)?,
    };
    edits.extend(more);
    let written = apply(&lines, edits);
    Ok((written.join(if windows { "\r\n" } else { "\n" }), notes))
}

/// `head_node` and `worker_nodes` become types.
fn edits_of_nodes(
    lines: &[&str],
    entries: &[Entry],
    cluster: &Cluster,
    notes: &mut Vec<String>,
) -> Result<Vec<Edit>, Fault> {
    let (head, worker) = (find(entries, "head_node"), find(entries, "worker_nodes"));
    let (least, initial) = (find(entries, "min_workers"), find(entries, "initial_workers"));
    let Some(first) = [head, worker, least, initial].into_iter().flatten().min_by_key(|entry| entry.above) else {
        return Ok(Vec::new());
    };
    let mut edits: Vec<Edit> = [head, worker].into_iter().flatten().map(taken_out).collect();
    let unit = [head, worker].into_iter().flatten().find_map(|entry| own_indent(entry)).unwrap_or(4);
    let mut block = vec!["available_node_types:".to_string()];
    let counts = minimum(lines, least, initial, unit * 2)?;
    block.extend(node_type(lines, HEAD_TYPE, head, &cluster.head.node_config, Vec::new(), unit)?);
    block.push(String::new());
    let usual = cluster.workers.first().map_or(serde_json::Value::Null, |kind| kind.node_config.clone());
    block.extend(node_type(lines, WORKER_TYPE, worker, &usual, counts, unit)?);
    block.push(String::new());
    block.push(format!("head_node_type: {HEAD_TYPE}"));
    edits.extend(least.map(taken_out));
    match (least, initial) {
        (Some(_), Some(initial)) => {
            edits.push(commented_out(lines, initial, &format!("`min_workers` of {WORKER_TYPE} says it")));
        }
        (None, initial) => edits.extend(initial.map(taken_out)),
        _ => {}
    }
    // Where the nodes stood; where there were none, at the counts, which are gone from there.
    let at = head.or(worker).map_or(first.above, |_| {
        [head, worker].into_iter().flatten().map(|entry| entry.above).min().unwrap_or(first.above)
    });
    match edits.iter_mut().find(|edit| edit.lines.start == at && edit.with.is_empty()) {
        Some(edit) => edit.with = block,
        None => edits.push(Edit { lines: at..at, with: block }),
    }
    for (name, entry) in [("head_node", head), ("worker_nodes", worker)] {
        if entry.is_some() {
            notes.push(format!("`{name}` is a type of `available_node_types` now"));
        }
    }
    if least.or(initial).is_some() {
        notes.push(format!("`min_workers` and `initial_workers` are `min_workers` of {WORKER_TYPE} now"));
    }
    Ok(edits)
}

/// How deep the fields of a map stand that is written in lines.
fn own_indent(entry: &Entry) -> Option<usize> {
    match &entry.node.value {
        Value::Map(fields) => {
            let first = fields.iter().map(|(key, _)| key.at).min()?;
            (first.line > entry.key.at.line && !in_braces(entry)).then_some(first.column - 1)
        }
        _ => None,
    }
}

fn in_braces(entry: &Entry) -> bool {
    // A map in braces begins at its brace; one in lines at its first field.
    match &entry.node.value {
        Value::Map(fields) => {
            fields.iter().all(|(key, _)| (key.at.line, key.at.column) != (entry.node.at.line, entry.node.at.column))
        }
        _ => false,
    }
}

/// One type, from the field it was; `usual` is what it is where the file says nothing.
fn node_type(
    lines: &[&str],
    name: &str,
    entry: Option<&Entry>,
    usual: &serde_json::Value,
    counts: Vec<String>,
    unit: usize,
) -> Result<Vec<String>, Fault> {
    let (one, two, three) = (unit, unit * 2, unit * 3);
    let pad = |depth: usize, text: &str| format!("{}{text}", " ".repeat(depth));
    let mut out = entry.map(|entry| comments(lines, entry, one)).unwrap_or_default();
    out.push(pad(one, &format!("{name}:")));
    out.extend(counts);
    let Some(entry) = entry.filter(|entry| says_something(entry)) else {
        out.push(pad(two, "resources: {}"));
        out.push(pad(two, &format!("node_config: {usual}")));
        return Ok(out);
    };
    let resources = resources(lines, entry)?;
    match &resources {
        Some(own) => {
            let column = own.key.at.column - 1;
            out.extend(comments(lines, own, two));
            out.extend(shifted(&lines[own.start..own.end], column, two));
        }
        None => out.push(pad(two, "resources: {}")),
    }
    out.push(pad(two, &format!("node_config{}", behind_key(lines, entry))));
    let gone = resources.as_ref().map_or(0..0, |own| own.above..own.end);
    let body: Vec<&str> =
        (entry.start + 1..entry.end).filter(|index| !gone.contains(index)).map(|index| lines[index]).collect();
    out.extend(shifted(&body, own_indent(entry).unwrap_or(0), three));
    Ok(out)
}

/// The resources that were part of the node's configuration in 2020.
fn resources<'n>(lines: &[&str], entry: &Entry<'n>) -> Result<Option<Entry<'n>>, Fault> {
    let Value::Map(fields) = &entry.node.value else { return Ok(None) };
    let Some((key, _)) = fields.iter().find(|(key, _)| key.text == "resources") else { return Ok(None) };
    if own_indent(entry).is_none() || fields.len() == 1 {
        return Err(Fault::new(key.at, "`resources` cannot be moved out of here").help("write one field to a line"));
    }
    Ok(entries::of(lines, entry.node, entry.end)?.into_iter().find(|own| own.key.text == "resources"))
}

/// The line that says how many workers, with the comments it had.
fn minimum(lines: &[&str], least: Option<&Entry>, initial: Option<&Entry>, depth: usize) -> Result<Vec<String>, Fault> {
    let (from, value) = match (least, initial) {
        (None, None) => return Ok(Vec::new()),
        (Some(least), None) => (least, None),
        (None, Some(initial)) => (initial, None),
        (Some(least), Some(initial)) => (least, greater(lines, least, initial)?),
    };
    let mut out = comments(lines, from, depth);
    let pad = " ".repeat(depth);
    out.push(match value {
        Some(value) => format!("{pad}min_workers: {value}"),
        None => format!("{pad}min_workers{}", behind_key(lines, from)),
    });
    out.extend(shifted(&lines[from.start + 1..from.end], 0, depth));
    Ok(out)
}

/// The number that counts, if it is not that of `least`.
pub fn greater(lines: &[&str], least: &Entry, initial: &Entry) -> Result<Option<u32>, Fault> {
    match (number(least.node), number(initial.node)) {
        (Some(least), Some(initial)) => Ok((initial > least).then_some(initial)),
        _ if initial.node.is_nothing() => Ok(None),
        (None, Some(initial)) if least.node.is_nothing() => Ok(Some(initial)),
        _ if behind_key(lines, least).trim() == behind_key(lines, initial).trim() => Ok(None),
        _ => {
            let fault = Fault::new(initial.key.at, "`min_workers` and `initial_workers` cannot be compared");
            Err(fault.help("the greater one counts: write numbers, or the same slot twice"))
        }
    }
}
