//! How is YAML text read into a tree, without letting the file decide how much memory that takes?
//!
//! Tags are refused. Anchors, aliases and merge keys (`<<`) are refused as well where no file of ours needs them; Ray's files may have
//! them, as PyYAML reads them, but aliases are how a small file becomes a huge tree, and so there is a limit to what they stand for.

use super::node::{Key, Node, Value};
use super::reader::Fault;
use crate::diagnostic::Place;
use saphyr_parser::{Event, Parser, Span};
use std::collections::{BTreeMap, BTreeSet};

/// The longest text that is read.
pub const MOST_BYTES: usize = 2 << 20;
/// The deepest nesting; our own forms need five.
const DEEPEST: usize = 32;
/// The most values that aliases may add to a file.
const MOST_COPIED: usize = 20_000;

/// A collection that has not ended, and the key that waits for its value.
struct Open {
    node: Node,
    key: Option<Key>,
    anchor: usize,
}

/// What anchors stand for, and how many values aliases may still add.
struct Anchors {
    allowed: bool,
    known: BTreeMap<usize, Node>,
    left: usize,
}

/// The one document of a text. An empty text is an empty map, so that its missing fields are what gets reported.
pub fn parse(text: &str) -> Result<Node, Fault> {
    parse_tree(text, false)
}

/// As `parse`, with anchors, aliases and merge keys. What stands for an alias has the place of its anchor.
pub fn parse_with_aliases(text: &str) -> Result<Node, Fault> {
    parse_tree(text, true)
}

fn parse_tree(text: &str, allowed: bool) -> Result<Node, Fault> {
    let start = Place { line: 1, column: 1, width: 1 };
    if text.len() > MOST_BYTES {
        return Err(Fault::new(start, format!("the file is too long: more than {} MiB", MOST_BYTES >> 20)));
    }
    let mut anchors = Anchors { allowed, known: BTreeMap::new(), left: MOST_COPIED };
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|e| syntax_fault(&e))?;
        let at = place(span);
        let finished = match event {
            Event::Alias(anchor) => Some(anchors.copy(at, anchor, open.len())?),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Fault::new(at, "a second document in the file").help("keep one document to a file"));
            }
            Event::Scalar(_, _, anchor, ref tag) => {
                anchors.check(at, anchor, tag.is_some())?;
                let Event::Scalar(text, style, ..) = event else { continue };
                let plain = style == saphyr_parser::ScalarStyle::Plain;
                let node = Node { at, value: Value::Scalar { text: text.into_owned(), plain } };
                anchors.keep(anchor, &node);
                Some(node)
            }
            Event::SequenceStart(anchor, ref tag) | Event::MappingStart(anchor, ref tag) => {
                anchors.check(at, anchor, tag.is_some())?;
                if open.len() == DEEPEST {
                    return Err(too_deep(at));
                }
                let value = match event {
                    Event::SequenceStart(..) => Value::List(Vec::new()),
                    _ => Value::Map(Vec::new()),
                };
                open.push(Open { node: Node { at: Place { width: 1, ..at }, value }, key: None, anchor });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(mut ended) => {
                    if allowed {
                        merge(&mut ended.node)?;
                    }
                    anchors.keep(ended.anchor, &ended.node);
                    Some(ended.node)
                }
                None => None,
            },
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

impl Anchors {
    fn check(&self, at: Place, anchor: usize, tagged: bool) -> Result<(), Fault> {
        if tagged {
            return Err(Fault::new(at, "tags are not supported here").help("remove the word that begins with `!`"));
        }
        if anchor != 0 && !self.allowed {
            return Err(Fault::new(at, "anchors are not supported here").help("remove the word that begins with `&`"));
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, node: &Node) {
        if anchor != 0 {
            self.known.insert(anchor, node.clone());
        }
    }

    fn copy(&mut self, at: Place, anchor: usize, depth: usize) -> Result<Node, Fault> {
        if !self.allowed {
            return Err(Fault::new(at, "aliases are not supported here").help("write the value out"));
        }
        let Some(node) = self.known.get(&anchor) else {
            return Err(Fault::new(at, "this alias is inside of what it stands for").help("write the value out"));
        };
        if depth + levels(node) > DEEPEST {
            return Err(too_deep(at));
        }
        match self.left.checked_sub(size(node)) {
            Some(left) => self.left = left,
            None => {
                let why = format!("the aliases of this file stand for more than {MOST_COPIED} values");
                return Err(Fault::new(at, why).help("write the values out"));
            }
        }
        Ok(node.clone())
    }
}

fn too_deep(at: Place) -> Fault {
    Fault::new(at, format!("nested more than {DEEPEST} levels deep"))
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|(_, node)| size(node)).sum::<usize>(),
    }
}

fn levels(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 0,
        Value::List(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|(_, node)| levels(node)).max().unwrap_or(0),
    }
}

/// Puts the fields of `<<` where the map has none of its own by that name; of several maps, the first one that has it counts.
fn merge(node: &mut Node) -> Result<(), Fault> {
    let Value::Map(entries) = &mut node.value else { return Ok(()) };
    if !entries.iter().any(|(key, _)| key.text == "<<") {
        return Ok(());
    }
    let (merged, mut own): (Vec<_>, Vec<_>) =
        std::mem::take(entries).into_iter().partition(|(key, _)| key.text == "<<");
    let mut names: BTreeSet<String> = own.iter().map(|(key, _)| key.text.clone()).collect();
    for (key, node) in merged {
        let maps = match node.value {
            Value::List(items) => items,
            _ => vec![node],
        };
        for map in maps {
            let Value::Map(others) = map.value else {
                return Err(Fault::new(key.at, "`<<` takes a map or a list of maps"));
            };
            for (other, value) in others {
                if names.insert(other.text.clone()) {
                    own.push((other, value));
                }
            }
        }
    }
    *entries = own;
    Ok(())
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
        info if info.contains("flow") => fault.help("is a bracket or a brace not closed, or a comma left out?"),
        info if info.contains("mapping values") => {
            fault.help("is this line indented too far? Text with a colon and a blank in it stands in quotes")
        }
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
    fn aliases_and_merge_keys_are_read_where_they_are_allowed() {
        let text = "a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x\nd: {<<: [{q: 4}, *x]}\n";
        let root = parse_with_aliases(text).expect("valid");
        let number = |path: [&str; 2]| root.get(path[0]).and_then(|n| n.get(path[1])).map(Node::description);
        assert_eq!(number(["b", "q"]).as_deref(), Some("the number 3"));
        assert_eq!(number(["b", "p"]).as_deref(), Some("the number 1"));
        assert_eq!(number(["c", "q"]).as_deref(), Some("the number 2"));
        assert_eq!(number(["d", "q"]).as_deref(), Some("the number 4"));
    }

    #[test]
    fn aliases_are_bounded() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_string();
        for n in 1..10 {
            let row = vec![format!("*a{}", n - 1); 10].join(", ");
            laughs.push_str(&format!("a{n}: &a{n} [{row}]\n"));
        }
        let deep: String =
            (1..60).fold("a0: &a0 [x]\n".to_string(), |text, n| text + &format!("a{n}: &a{n} [*a{}]\n", n - 1));
        for (text, says) in [
            (laughs.as_str(), "20000 values"),
            (deep.as_str(), "32 levels"),
            ("a: &x [*x]\n", "inside of what it stands for"),
            ("a: {<<: 1}\n", "takes a map"),
            ("a: !!str 1\n", "tags"),
        ] {
            let fault = parse_with_aliases(text).expect_err(says);
            assert!(fault.message.contains(says), "{says}: {}", fault.message);
        }
    }

    #[test]
    fn nothing_is_an_empty_map() {
        for text in ["", "# only words\n", "---\n", "null\n"] {
            assert_eq!(parse(text).expect("valid").value, Value::Map(Vec::new()), "{text}");
        }
    }
}
