//! What are the pieces that a migrated file is put together from?

use super::entries::{Entry, indent};
use crate::document::node::{Node, Plain, Value, plain_meaning};
use std::ops::Range;

/// Lines that take the place of others.
pub struct Edit {
    pub lines: Range<usize>,
    pub with: Vec<String>,
}

/// Puts the edits in; lines that are taken out leave no two blank lines behind.
pub fn apply(lines: &[&str], mut edits: Vec<Edit>) -> Vec<String> {
    edits.sort_by_key(|edit| (edit.lines.start, edit.lines.end));
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    for edit in edits {
        out.extend(lines[next.min(edit.lines.start)..edit.lines.start].iter().map(|line| (*line).to_string()));
        next = edit.lines.end;
        let emptied = edit.with.is_empty() && !edit.lines.is_empty();
        out.extend(edit.with);
        let blank_before = out.last().is_none_or(|line| line.trim().is_empty());
        while emptied
            && blank_before
            && lines.get(next).is_some_and(|line| line.trim().is_empty())
            && next + 1 < lines.len()
        {
            next += 1;
        }
    }
    out.extend(lines[next.min(lines.len())..].iter().map(|line| (*line).to_string()));
    out
}

/// Lines at another depth: what stood at `from` stands at `to`, deeper lines as much deeper as before.
pub fn shifted(lines: &[&str], from: usize, to: usize) -> Vec<String> {
    let shift = |line: &&str| match line.trim().is_empty() {
        true => String::new(),
        false => format!("{}{}", " ".repeat(to + indent(line).saturating_sub(from)), line.trim_start_matches(' ')),
    };
    lines.iter().map(shift).collect()
}

/// The comments above a field, at another depth.
pub fn comments(lines: &[&str], entry: &Entry, to: usize) -> Vec<String> {
    shifted(&lines[entry.above..entry.start], entry.key.at.column - 1, to)
}

/// What stands behind the name of a field on its line, from the colon on.
pub fn behind_key<'l>(lines: &[&'l str], entry: &Entry) -> &'l str {
    let line = lines[entry.start];
    let end = entry.key.at.column - 1 + entry.key.at.width;
    let rest = line.char_indices().nth(end).map_or("", |(at, _)| &line[at..]);
    rest.find(':').map_or(rest, |colon| &rest[colon..])
}

/// A field as a comment that says why.
pub fn commented_out(lines: &[&str], entry: &Entry, why: &str) -> Edit {
    let column = " ".repeat(entry.key.at.column - 1);
    let with = std::iter::once(format!("{column}# Left out by `shoal fleet migrate`: {why}."))
        .chain(lines[entry.start..entry.end].iter().map(|line| format!("{column}# {}", line.trim_end())))
        .collect();
    Edit { lines: entry.start..entry.end, with }
}

/// A field that is not there any more, nor are its comments.
pub fn taken_out(entry: &Entry) -> Edit {
    Edit { lines: entry.above..entry.end, with: Vec::new() }
}

/// A whole number that is written as one.
pub fn number(node: &Node) -> Option<u32> {
    match &node.value {
        Value::Scalar { text, plain: true } if plain_meaning(text) == Plain::Number => text.parse().ok(),
        _ => None,
    }
}

pub fn find<'e, 'n>(entries: &'e [Entry<'n>], name: &str) -> Option<&'e Entry<'n>> {
    entries.iter().find(|entry| entry.key.text == name)
}

/// Whether a field says anything: not nothing, and no empty map.
pub fn says_something(entry: &Entry) -> bool {
    !entry.node.is_nothing() && !matches!(&entry.node.value, Value::Map(fields) if fields.is_empty())
}
