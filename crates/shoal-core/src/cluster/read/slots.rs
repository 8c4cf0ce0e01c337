//! Which values of a template still have to be filled in, and what fills them?
//!
//! `ImageId: { AMI ID }` is valid YAML: a map with one field that has no value. So an unfilled template reads without
//! an error, and fails only when Amazon is asked for an image of that name. Here such a map is a slot. Within text,
//! `{Your EFS file system ID}` is one; but text is mostly shell, which has braces of its own: there a slot is two
//! words or more that begin with a capital letter, or any name that is given. `${X}`, `{a,b}`, `{ cmd; }`, `{{...}}`,
//! `'{print $1}'` and JSON stay as they are.

use super::{TOP, locate};
use crate::diagnostic::Place;
use crate::document::node::{Node, Plain, Value, plain_meaning, short};
use crate::document::reader::Reader;
use crate::suggest::closest;
use std::collections::{BTreeMap, BTreeSet};

/// How often the text of a file is looked at for a place; no template has as many slots.
const MOST_LOOKS: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub name: String,
    pub at: Place,
}

/// Fills the slots of a tree, which keeps its places. Reports those that have no value and values that have no slot;
/// gives the former if anything was wrong.
pub fn fill(
    reader: &mut Reader,
    text: &str,
    root: &mut Node,
    values: &BTreeMap<String, String>,
) -> Result<(), Vec<Slot>> {
    let values: BTreeMap<String, &str> = values.iter().map(|(name, value)| (tidy(name), value.as_str())).collect();
    let mut walk = Walk { text, values: &values, used: BTreeSet::new(), empty: Vec::new(), looks: MOST_LOOKS };
    walk.node(root);
    let Walk { used, empty, .. } = walk;
    let unused: Vec<&String> = values.keys().filter(|name| !used.contains(*name)).collect();
    for slot in &empty {
        let wrong = reader.at(slot.at, format!("the slot `{}` is not filled in", short(&slot.name)));
        let fill = format!("--set '{}=...', or a line in a file for --values", slot.name);
        let near = closest(&slot.name, unused.iter().map(|name| name.as_str()));
        reader.report(match near {
            Some(near) => wrong.help(format!("{fill}; a value is given for `{near}`, which is no slot")),
            None => wrong.help(fill),
        });
    }
    for name in &unused {
        let near = closest(name, empty.iter().map(|slot| slot.name.as_str()).chain(used.iter().map(String::as_str)));
        let wrong = reader.at(TOP, format!("a value is given for `{}`, but the file has no such slot", short(name)));
        let wrong = wrong.suggestion(near);
        reader.report(match near {
            Some(_) => wrong,
            None => wrong.help("a slot is a name in { }, such as `{ AMI ID }`"),
        });
    }
    if empty.is_empty() && unused.is_empty() { Ok(()) } else { Err(empty) }
}

/// The slots that have no value yet, in the order of the file.
pub fn find(text: &str, root: &Node, values: &BTreeMap<String, String>) -> Vec<Slot> {
    let values: BTreeMap<String, &str> = values.iter().map(|(name, value)| (tidy(name), value.as_str())).collect();
    let mut walk = Walk { text, values: &values, used: BTreeSet::new(), empty: Vec::new(), looks: MOST_LOOKS };
    walk.node(&mut root.clone());
    walk.empty
}

/// Blanks and line ends between the words do not count.
pub fn tidy(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Walk<'a> {
    text: &'a str,
    values: &'a BTreeMap<String, &'a str>,
    used: BTreeSet<String>,
    empty: Vec<Slot>,
    /// What is left of `MOST_LOOKS`.
    looks: usize,
}

impl Walk<'_> {
    fn node(&mut self, node: &mut Node) {
        if let Some(name) = self.slot_map(node) {
            let width = locate::width_to(self.text, node.at, '}');
            if let Some(value) = self.value(&name, node.at, width) {
                // A number that is filled in is a number: `max_workers: { How many }`.
                let plain = matches!(plain_meaning(&value), Plain::Number | Plain::Boolean);
                node.value = Value::Scalar { text: value, plain };
            }
            return;
        }
        match &mut node.value {
            Value::List(items) => items.iter_mut().for_each(|item| self.node(item)),
            Value::Map(entries) => {
                for (key, value) in entries {
                    if let Some(text) = self.filled(&key.text, key.at, false) {
                        key.text = text;
                    }
                    self.node(value);
                }
            }
            Value::Scalar { text, plain } => {
                if let Some(filled) = self.filled(text, node.at, true) {
                    *plain = false;
                    *text = filled;
                }
            }
        }
    }

    fn value(&mut self, name: &str, at: Place, width: usize) -> Option<String> {
        match self.values.get(name) {
            Some(value) => {
                self.used.insert(name.into());
                Some((*value).into())
            }
            None => {
                self.empty.push(Slot { name: name.into(), at: Place { width: at.width.max(width), ..at } });
                None
            }
        }
    }

    /// The name of a map in braces whose fields have neither values nor colons: one field, or words.
    fn slot_map(&mut self, node: &Node) -> Option<String> {
        let Value::Map(entries) = &node.value else { return None };
        let left_out = |node: &Node| matches!(&node.value, Value::Scalar { text, plain: true } if text.is_empty());
        let words = entries.len() == 1 || entries.iter().any(|(key, _)| key.text.trim().contains(' '));
        if entries.is_empty() || entries.len() > 8 || !words || !entries.iter().all(|(_, value)| left_out(value)) {
            return None;
        }
        self.looks = self.looks.checked_sub(1)?;
        let bare = |at: Place| !locate::after(self.text, at).trim_start().starts_with(':');
        let braces = locate::begins(self.text, node.at) == Some('{');
        let names: Vec<String> = entries.iter().map(|(key, _)| tidy(&key.text)).collect();
        (braces && entries.iter().all(|(key, _)| bare(key.at))).then(|| names.join(", "))
    }

    /// Text with its slots filled; `None` if nothing changed.
    fn filled(&mut self, text: &str, at: Place, may_be_whole: bool) -> Option<String> {
        let mut out = String::new();
        let (mut rest, mut before, mut changed) = (text, None, false);
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(start) = rest.find('{') {
            out.push_str(&rest[..start]);
            before = rest[..start].chars().next_back().or(before);
            let whole = may_be_whole && text.trim().len() == rest[start..].trim_end().len();
            match self.slot_text(&rest[start..], before, whole) {
                Some((name, raw)) => {
                    let nth = seen.entry(raw.to_string()).or_insert(0);
                    self.looks = self.looks.saturating_sub(1);
                    let place = if self.looks > 0 { locate::piece(self.text, at, raw, *nth) } else { at };
                    *nth += 1;
                    match self.value(&name, place, place.width) {
                        Some(value) => out.push_str(&value),
                        None => out.push_str(raw),
                    }
                    changed = true;
                    rest = &rest[start + raw.len()..];
                    before = Some('}');
                }
                None => {
                    out.push('{');
                    rest = &rest[start + 1..];
                    before = Some('{');
                }
            }
        }
        out.push_str(rest);
        changed.then_some(out)
    }

    /// The slot that a text begins with: its name, and how it is written.
    fn slot_text<'t>(&self, text: &'t str, before: Option<char>, whole: bool) -> Option<(String, &'t str)> {
        let end = text.find('}')?;
        let (raw, inner, behind) = (&text[..=end], &text[1..end], &text[end + 1..]);
        if matches!(before, Some('$' | '{' | '\\' | '%' | '@')) || behind.starts_with('}') {
            return None;
        }
        let name = tidy(inner);
        let letters = |c: char| c.is_alphanumeric() || " _-./".contains(c);
        let words = name.contains(' ') && name.chars().all(letters) && name.starts_with(char::is_alphabetic);
        let asks = words && (name.starts_with(char::is_uppercase) || (whole && behind.trim().is_empty()));
        (asks || self.values.contains_key(&name)).then_some((name, raw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::yaml;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn empty(text: &str) -> Vec<(String, usize, usize, usize)> {
        let root = yaml::parse(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.message));
        let slots = find(text, &root, &BTreeMap::new());
        slots.into_iter().map(|slot| (slot.name, slot.at.line, slot.at.column, slot.at.width)).collect()
    }

    #[test]
    fn slots_are_found_at_their_places() {
        let text = "a: { AMI ID }\nb:\n  - sudo mount -t efs {Your EFS ID}:/ ~/efs && echo {Your EFS ID}\nc: |\n  x\n  y { Some Name }\nd: '{ some name }'\n~/{Project Name}: x\n";
        let found: Vec<_> = empty(text);
        let wanted = [
            ("AMI ID", 1, 4),
            ("Your EFS ID", 3, 23),
            ("Your EFS ID", 3, 53),
            ("Some Name", 6, 5),
            ("some name", 7, 5),
            ("Project Name", 8, 3),
        ];
        let places: Vec<_> = found.iter().map(|(name, line, column, _)| (name.as_str(), *line, *column)).collect();
        assert_eq!(places, wanted);
    }

    #[test]
    fn braces_of_the_shell_and_of_yaml_are_left_alone() {
        for text in [
            "a: echo ${X} ${SOME_NAME:-a b}\n",
            "a: cp {a,b} x{1..3}\n",
            "a: '{ echo Some Words; }'\n",
            "a: awk '{print $1}' x | awk '{ print NF }'\n",
            "a: docker inspect -f '{{.State.Running}}' {} \\;\n",
            "a: 'curl -d ''{\"Some Key\": 1}'''\n",
            "a: {}\n",
            "a: {CPU: }\n",
            "a: {b: 1}\n",
            "a:\n  CPU:\n",
            "a: [x, {b: }]\n",
            "a: find . -exec rm {} +\n",
            "a: rsync {SRC} {DST}\n",
        ] {
            assert_eq!(empty(text), [], "{text}");
        }
    }

    #[test]
    fn what_is_given_fills_them_and_keeps_the_places() {
        let text = "a: { AMI ID }\nn: {How many}\nb:\n  - mount {EFS}:/ x${EFS}\n";
        let mut root = yaml::parse(text).expect("valid");
        let mut reader = Reader::new("x.yaml", text);
        let given = values(&[("AMI  ID", "ami-1"), ("How many", "4"), ("EFS", "fs-1")]);
        assert_eq!(fill(&mut reader, text, &mut root, &given), Ok(()));
        assert_eq!(root.get("a").map(Node::description).as_deref(), Some("the text \"ami-1\""));
        assert_eq!(root.get("n").map(|n| (n.description(), n.at.line)), Some(("the number 4".into(), 2)));
        let Some(Value::List(items)) = root.get("b").map(|n| &n.value) else { panic!("a list") };
        assert_eq!(items[0].description(), "the text \"mount fs-1:/ x${EFS}\"");
    }

    #[test]
    fn what_has_no_value_and_what_has_no_slot_is_said() {
        let text = "a: { AMI ID }\n";
        let mut root = yaml::parse(text).expect("valid");
        let mut reader = Reader::new("x.yaml", text);
        assert!(fill(&mut reader, text, &mut root, &values(&[("AMI Id", "ami-1"), ("zone", "a")])).is_err());
        let said = reader.finish(Some(())).expect_err("errors").to_string();
        for words in
            ["`AMI ID` is not filled in", "given for `AMI Id`, which", "did you mean `AMI ID`?", "no such slot"]
        {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
