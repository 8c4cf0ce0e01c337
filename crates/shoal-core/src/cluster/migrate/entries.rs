//! Which lines of a file belong to which field? A field's comments are those right above it.

use crate::document::node::{Key, Node, Value};
use crate::document::reader::Fault;

/// The lines of one field, counted from 0: `above..start` its comments, `start..end` itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'n> {
    pub key: &'n Key,
    pub node: &'n Node,
    pub above: usize,
    pub start: usize,
    pub end: usize,
}

/// The fields of a map that is written in lines (not in braces), in the order of the file; `end` is the line behind
/// the map.
pub fn of<'n>(lines: &[&str], map: &'n Node, end: usize) -> Result<Vec<Entry<'n>>, Fault> {
    let Value::Map(fields) = &map.value else { return Ok(Vec::new()) };
    let flow = || Fault::new(map.at, "fields in { } cannot be moved").help("write one field to a line, without braces");
    let mut sorted: Vec<&(Key, Node)> = fields.iter().collect();
    sorted.sort_by_key(|(key, _)| (key.at.line, key.at.column));
    let mut entries: Vec<Entry> = Vec::new();
    for (key, node) in sorted {
        let start = key.at.line - 1;
        let line = lines.get(start).copied().unwrap_or_default();
        let leads = line.chars().take(key.at.column - 1).all(|c| c == ' ');
        let floor = entries.last().map_or(0, |last| last.start + 1);
        if !leads || start < floor || start >= end {
            return Err(flow());
        }
        let mut above = start;
        while above > floor && is_comment_at(lines[above - 1], key.at.column - 1) {
            above -= 1;
        }
        if let Some(last) = entries.last_mut() {
            last.end = content_end(lines, last.start, above, key.at.column - 1);
        }
        entries.push(Entry { key, node, above, start, end });
    }
    if let (Some(last), Some(column)) = (entries.last_mut(), fields.first().map(|(key, _)| key.at.column - 1)) {
        last.end = content_end(lines, last.start, end, column);
    }
    Ok(entries)
}

fn is_comment_at(line: &str, column: usize) -> bool {
    indent(line) == column && line.trim_start().starts_with('#')
}

/// Behind the last line that is neither blank nor a comment of the level of the fields.
fn content_end(lines: &[&str], start: usize, end: usize, column: usize) -> usize {
    let aside = |line: &str| line.trim().is_empty() || (line.trim_start().starts_with('#') && indent(line) <= column);
    (start + 1..end).rev().find(|index| !aside(lines[*index])).map_or(start + 1, |last| last + 1)
}

pub fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
