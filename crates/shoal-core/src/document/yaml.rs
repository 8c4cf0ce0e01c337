//! How is YAML text read into a tree, without letting the file decide how much memory that takes?
//!
//! Anchors, aliases and tags are refused: no file of ours needs them, and aliases are how a small file becomes a huge tree.

use super::node::{Key, Node, Value};
use super::reader::Fault;
use crate::diagnostic::Place;
use saphyr_parser::{Event, Parser, Span};

/// The longest text that is read.
pub const MOST_BYTES: usize = 2 << 20;
/// The deepest nesting; our own forms need five.
const DEEPEST: usize = 32;

/// A collection that has not ended, and the key that waits for its value.
struct Open {
    node: Node,
    key: Option<Key>,
}

/// The one document of a text. An empty text is an empty map, so that its missing fields are what gets reported.
pub fn parse(text: &str) -> Result<Node, Fault> {
    let start = Place { line: 1, column: 1, width: 1 };
    if text.len() > MOST_BYTES {
        return Err(Fault::new(start, format!("the file is too long: more than {} MiB", MOST_BYTES >> 20)));
    }
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| syntax_fault(&e))?;
        let at = place(span);
        let finished = match event {
            Event::Alias(_) => return Err(Fault::new(at, "aliases are not supported here").help("write the value out")),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Fault::new(at, "a second document in the file").help("keep one document to a file"));
            }
            Event::Scalar(_, _, anchor, ref tag) => {
                plain_only(at, anchor, tag.is_some())?;
                let Event::Scalar(text, style, ..) = event else { continue };
                let plain = style == saphyr_parser::ScalarStyle::Plain;
                Some(Node { at, value: Value::Scalar { text: text.into_owned(), plain } })
            }
            Event::SequenceStart(anchor, ref tag) | Event::MappingStart(anchor, ref tag) => {
                plain_only(at, anchor, tag.is_some())?;
                if open.len() == DEEPEST {
                    return Err(Fault::new(at, format!("nested more than {DEEPEST} levels deep")));
                }
                let value = match event {
                    Event::SequenceStart(..) => Value::List(Vec::new()),
                    _ => Value::Map(Vec::new()),
                };
                open.push(Open { node: Node { at: Place { width: 1, ..at }, value }, key: None });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|ended| ended.node),
            _ => None,
        };
        if let Some(node) = finished {
            match open.last_mut() {
                Some(parent) => attach(parent, node)?,
                None => root = Some(node),
            }
        }
    }
    let root = root.filter(|node| !node.is_nothing());
    Ok(root.unwrap_or(Node { at: start, value: Value::Map(Vec::new()) }))
}

fn attach(parent: &mut Open, mut node: Node) -> Result<(), Fault> {
    match &mut parent.node.value {
        Value::List(items) => items.push(node),
        Value::Map(entries) => match parent.key.take() {
            Some(key) => {
                // A value that was left out has no place of its own: what is wrong with it is wrong at its key.
                if matches!(&node.value, Value::Scalar { text, plain: true } if text.is_empty()) {
                    node.at = key.at;
                }
                entries.push((key, node));
            }
            None => match node.value {
                Value::Scalar { text, .. } => parent.key = Some(Key { at: node.at, text }),
                _ => {
                    let fault = Fault::new(node.at, "a list or map cannot be the name of a field");
                    return Err(fault.help("is this a placeholder in { } that still has to be filled in?"));
                }
            },
        },
        Value::Scalar { .. } => {}
    }
    Ok(())
}

fn plain_only(at: Place, anchor: usize, tagged: bool) -> Result<(), Fault> {
    match (anchor, tagged) {
        (0, false) => Ok(()),
        (0, true) => Err(Fault::new(at, "tags are not supported here").help("remove the word that begins with `!`")),
        _ => Err(Fault::new(at, "anchors are not supported here").help("remove the word that begins with `&`")),
    }
}

fn place(span: Span) -> Place {
    let (start, end) = (span.start, span.end);
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
    Place { line: start.line(), column: start.col() + 1, width: width.max(1) }
}

fn syntax_fault(error: &saphyr_parser::ScanError) -> Fault {
    let mark = error.marker();
    let at = Place { line: mark.line().max(1), column: mark.col() + 1, width: 1 };
    let fault = Fault::new(at, format!("this is not YAML: {}", error.info()));
    match error.info() {
        info if info.contains("tab") => fault.help("indent with spaces, not tabs"),
        info if info.contains("block") => fault.help("does this line begin in the same column as its neighbours?"),
        info if info.contains("':'") => fault.help("is a bracket or a quote above not closed?"),
        _ => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(text: &str, path: &[&str]) -> (usize, usize, usize) {
        let root = parse(text).expect("valid");
        let node = path.iter().try_fold(&root, |node, name| node.get(name)).expect("it is there");
        (node.at.line, node.at.column, node.at.width)
    }

    #[test]
    fn every_value_knows_its_place() {
        let text = "name: lab\nhosts:\n  - node01\ndefaults: {user: älice, port: 22}\nempty:\n";
        assert_eq!(place_of(text, &["name"]), (1, 7, 3));
        assert_eq!(place_of(text, &["defaults", "user"]), (4, 18, 5));
        assert_eq!(place_of(text, &["defaults", "port"]), (4, 31, 2));
        assert_eq!(place_of(text, &["empty"]), (5, 1, 5), "a missing value is reported at its key");
    }

    #[test]
    fn bombs_and_oddities_are_refused() {
        let deep = "[".repeat(100);
        for (text, says) in [
            ("a: &x 1\nb: *x\n", "anchors"),
            ("a: !!str 1\n", "tags"),
            ("a: 1\n---\nb: 2\n", "second document"),
            ("{a: 1}: 2\n", "name of a field"),
            ("a: [1, 2\n", "not YAML"),
            (deep.as_str(), "32 levels"),
        ] {
            let fault = parse(text).expect_err("refused");
            assert!(fault.message.contains(says), "{says}: {}", fault.message);
        }
        assert!(parse(&"#".repeat(MOST_BYTES + 1)).is_err());
    }

    #[test]
    fn nothing_is_an_empty_map() {
        for text in ["", "# only words\n", "---\n", "null\n"] {
            assert_eq!(parse(text).expect("valid").value, Value::Map(Vec::new()), "{text}");
        }
    }
}
