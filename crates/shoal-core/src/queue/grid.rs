//! What does a command line ask for? `--grid lr=0.1,0.01`, `--zip depth=1,2`, `--set dropout=0.1`, `--when "lr < 0.05"`.
//!
//! Values are read as YAML's: commas between them, quotes around text with commas in it, brackets around lists. So the words become a
//! tree with places, like that of a file, and are read by the same reader.

use super::read::{Draft, read_tree};
use super::sweep::Pass;
use crate::diagnostic::{Diagnostic, Place};
use crate::document::node::{Key, Node, Value};
use crate::document::reader::{Fault, Reader};
use crate::document::yaml;

/// What stood on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// `lr=0.1,0.01`, `lr=1e-4..1e-1:4log`, `n=1..10`
    pub grid: Vec<String>,
    /// All of them move together.
    pub zip: Vec<String>,
    /// `dropout=0.1`
    pub set: Vec<String>,
    pub when: Vec<String>,
    /// `None`: as the command suggests.
    pub pass: Option<Pass>,
    pub argv: Vec<String>,
}

/// What they ask for; what else a sweep has is as in an empty file.
pub fn draft(words: &Words) -> Result<Draft, Vec<Diagnostic>> {
    let mut page = Page::default();
    let mut root = Vec::new();
    let tree = page
        .tree(words, &mut root)
        .map(|()| Node { at: Place { line: 1, column: 1, width: 1 }, value: Value::Map(root) });
    let text = page.lines.join("\n");
    read_tree(Reader::new("the command line", &text), tree, None)
}

/// The command line, one option a line, so that places in it can be shown.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
}

type Entries = Vec<(Key, Node)>;

impl Page {
    /// A new line; gives its place.
    fn line(&mut self, text: String) -> Place {
        let width = text.chars().count().max(1);
        // Messages show one line; what breaks it shows as a blank there.
        self.lines.push(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
        Place { line: self.lines.len(), column: 1, width }
    }

    fn tree(&mut self, words: &Words, root: &mut Entries) -> Result<(), Fault> {
        for (field, flag, given) in [("grid", "--grid", &words.grid), ("zip", "--zip", &words.zip)] {
            let mut entries = Entries::new();
            for word in given {
                entries.push(self.assignment(flag, word, true)?);
            }
            push(root, field, entries);
        }
        let mut entries = Entries::new();
        for word in &words.set {
            entries.push(self.assignment("--set", word, false)?);
        }
        push(root, "params", entries);
        let conditions: Vec<Node> = words.when.iter().map(|text| self.scalar("--when ", text)).collect();
        if let Some(at) = conditions.first().map(|node| node.at) {
            root.push((Key { at, text: "when".into() }, Node { at, value: Value::List(conditions) }));
        }
        if let Some(pass) = words.pass {
            let ways = [(pass.flags, "flags"), (pass.env, "env"), (pass.file, "file")];
            let ways: Vec<&str> = ways.into_iter().filter(|(given, _)| *given).map(|(_, way)| way).collect();
            let at = self.line(format!("--pass {}", if ways.is_empty() { "none".into() } else { ways.join(",") }));
            let node = |way: &str| Node { at, value: Value::Scalar { text: way.into(), plain: true } };
            let ways = ways.into_iter().map(node).collect();
            root.push((Key { at, text: "pass".into() }, Node { at, value: Value::List(ways) }));
        }
        let nodes: Vec<Node> = words.argv.iter().map(|word| self.scalar("", word)).collect();
        if let Some(at) = nodes.first().map(|node| node.at) {
            root.push((Key { at, text: "command".into() }, Node { at, value: Value::List(nodes) }));
        } else {
            let at = self.line("shoal sweep".into());
            return Err(Fault::new(at, "there is no command").help("add it at the end: -- python train.py"));
        }
        Ok(())
    }

    /// Text as it is, on a line of its own.
    fn scalar(&mut self, before: &str, text: &str) -> Node {
        let at = self.line(format!("{before}{text}"));
        let offset = before.chars().count();
        let at = Place { column: 1 + offset, width: (at.width - offset.min(at.width)).max(1), ..at };
        Node { at, value: Value::Scalar { text: text.into(), plain: true } }
    }

    /// `name=values`
    fn assignment(&mut self, flag: &str, word: &str, several: bool) -> Result<(Key, Node), Fault> {
        let line = self.line(format!("{flag} {word}"));
        let start = flag.chars().count() + 2;
        let Some((name, values)) = word.split_once('=') else {
            let at = Place { column: start, width: word.chars().count().max(1), ..line };
            let example = if several { "lr=0.1,0.01" } else { "lr=0.1" };
            return Err(
                Fault::new(at, format!("`{word}` gives no value")).help(&format!("write NAME=VALUE: {flag} {example}"))
            );
        };
        let key = Key { at: Place { column: start, width: name.chars().count().max(1), ..line }, text: name.into() };
        let (open, close) = if several { ("[", "]") } else { ("", "") };
        let shift = start + name.chars().count() + 1;
        let moved = |at: Place| Place {
            line: line.line,
            column: (shift + at.column - 1).saturating_sub(open.len()),
            width: at.width,
        };
        if values.contains(['\n', '\r']) {
            return Err(Fault::new(key.at, format!("`{name}` has a line break in its value"))
                .help("use a sweep's file for such text"));
        }
        if !several && values.is_empty() {
            return Ok((key.clone(), Node { at: key.at, value: Value::Scalar { text: String::new(), plain: false } }));
        }
        let parsed = yaml::parse(&format!("{open}{values}{close}")).map_err(|fault| {
            let help = "values are separated by commas; put text with special characters in quotes within quotes: 'name=\"a, b\"'";
            Fault::new(moved(fault.at), format!("the values of `{name}` cannot be read")).help(help)
        })?;
        // YAML would drop what is not there; people may have meant it.
        if several && !values.trim().is_empty() && values.trim_end().ends_with(',') {
            let at = Place { column: shift + values.trim_end().chars().count() - 1, width: 1, ..line };
            let help = format!("leave the comma out, or write an empty text in quotes: {flag} \"{name}={values}''\"");
            return Err(Fault::new(at, format!("nothing follows the last comma of `{name}`")).help(&help));
        }
        let mut node = shifted(parsed, &moved);
        if matches!(&node.value, Value::List(items) if several && items.is_empty()) {
            node.at = key.at;
        }
        Ok((key, node))
    }
}

fn push(root: &mut Entries, field: &str, entries: Entries) {
    if let Some(at) = entries.first().map(|(key, _)| key.at) {
        root.push((Key { at, text: field.into() }, Node { at, value: Value::Map(entries) }));
    }
}

/// The same tree, where it really stands.
fn shifted(node: Node, moved: &impl Fn(Place) -> Place) -> Node {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| shifted(item, moved)).collect()),
        Value::Map(entries) => {
            let entry = |(key, node): (Key, Node)| (Key { at: moved(key.at), ..key }, shifted(node, moved));
            Value::Map(entries.into_iter().map(entry).collect())
        }
        scalar => scalar,
    };
    Node { at: moved(node.at), value }
}

#[cfg(test)]
#[path = "grid_tests.rs"]
mod tests;
