//! What does a tree mean to a form with known fields? Takes values out of it and collects all that is wrong, not just the first.

use super::node::{Key, Node, Plain, Value, plain_meaning, short};
use crate::diagnostic::{Diagnostic, Diagnostics, Place, Severity};
use crate::suggest::closest;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Why a text is no tree at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub at: Place,
    pub message: String,
    pub help: Option<String>,
}

impl Fault {
    pub fn new(at: Place, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into(), help: None }
    }

    #[must_use]
    pub fn help(mut self, text: &str) -> Fault {
        self.help = Some(text.into());
        self
    }
}

/// A file with more errors than this is not the file that was meant; the rest is not collected.
const MOST_KEPT: usize = 50;

/// Collects the diagnostics of one file.
#[derive(Debug)]
pub struct Reader<'t> {
    file: &'t str,
    lines: Vec<&'t str>,
    found: Vec<Diagnostic>,
}

/// The known fields of a map.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'n> {
    pub at: Place,
    entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    pub fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
    }

    pub fn key(&self, name: &str) -> Option<Place> {
        self.entries.iter().find(|(key, _)| key.text == name).map(|(key, _)| key.at)
    }

    /// Whether an unknown field is there that was probably meant to be this one, and has been reported as such.
    pub fn has_misspelt(&self, name: &str, known: &[&str]) -> bool {
        let unknown = self.entries.iter().map(|(key, _)| key.text.as_str()).filter(|key| !known.contains(key));
        unknown.take(MOST_KEPT).any(|key| closest(key, known.iter().copied()) == Some(name))
    }

    pub fn entries(&self) -> &'n [(Key, Node)] {
        self.entries
    }
}

impl<'t> Reader<'t> {
    pub fn new(file: &'t str, text: &'t str) -> Reader<'t> {
        Reader { file, lines: text.lines().collect(), found: Vec::new() }
    }

    /// A diagnostic for this file, not yet reported.
    pub fn at(&self, at: Place, message: impl Into<String>) -> Diagnostic {
        let source = self.lines.get(at.line.saturating_sub(1)).copied().unwrap_or("").to_string();
        Diagnostic {
            severity: Severity::Error,
            file: self.file.into(),
            at,
            source,
            message: message.into(),
            expected: None,
            found: None,
            suggestion: None,
            help: None,
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() {
            self.found.push(diagnostic);
        }
    }

    /// Whether there is no point in looking for more.
    pub fn is_full(&self) -> bool {
        self.found.len() >= MOST_KEPT
    }

    /// Whether something is wrong there already.
    pub fn has_error_at(&self, at: Place) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.at == at && diagnostic.severity == Severity::Error)
    }

    pub fn error(&mut self, at: Place, message: impl Into<String>) {
        self.report(self.at(at, message));
    }

    pub fn warn(&mut self, at: Place, message: impl Into<String>, help: &str) {
        let diagnostic = self.at(at, message).help(help);
        self.report(Diagnostic { severity: Severity::Warning, ..diagnostic });
    }

    /// The tree, or its fault reported.
    pub fn tree(&mut self, parsed: Result<Node, Fault>) -> Option<Node> {
        parsed
            .map_err(|fault| {
                let diagnostic = self.at(fault.at, fault.message);
                self.report(Diagnostic { help: fault.help, ..diagnostic });
            })
            .ok()
    }

    /// The value with its warnings, if there was no error; else everything, in the order of the file.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        self.found.sort_by_key(|diagnostic| (diagnostic.at.line, diagnostic.at.column));
        let failed = self.found.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
        match value {
            Some(value) if !failed => Ok((value, self.found)),
            _ => Err(Diagnostics(self.found)),
        }
    }

    pub fn mismatch(&mut self, node: &Node, what: &str, expected: &str) {
        self.report(self.at(node.at, format!("{what} has a wrong value")).expected(expected).found(node.description()));
    }

    /// A map of which only `known` fields may be there, each once.
    pub fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let fields = self.map(node, what)?;
        for (key, _) in fields.entries.iter().filter(|(key, _)| !known.contains(&key.text.as_str())) {
            if self.is_full() {
                break;
            }
            let diagnostic = self.at(key.at, format!("unknown field `{}` in {what}", short(&key.text)));
            let meant = closest(&key.text, known.iter().copied());
            let diagnostic = diagnostic.suggestion(meant);
            let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            // A list that nobody reads to the end helps only those who have nothing else to go by.
            let listed = meant.is_none() || known.len() <= 10;
            self.report(if listed { diagnostic.expected(format!("one of {}", names.join(", "))) } else { diagnostic });
        }
        Some(fields)
    }

    /// A map with names of the user's own, each once.
    pub fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<Fields<'n>> {
        let Value::Map(entries) = &node.value else {
            self.mismatch(node, what, "a map of fields");
            return None;
        };
        let mut first_lines = BTreeMap::new();
        for (key, _) in entries {
            if let Some(first) = first_lines.get(key.text.as_str()) {
                let message = format!("`{}` is given twice in {what}", short(&key.text));
                self.report(self.at(key.at, message).help(format!("the first is in line {first}")));
            }
            first_lines.entry(key.text.as_str()).or_insert(key.at.line);
        }
        Some(Fields { at: node.at, entries })
    }

    pub fn list<'n>(&mut self, node: &'n Node, what: &str, of: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            _ => {
                self.mismatch(node, what, &format!("a list of {of}"));
                None
            }
        }
    }

    /// Text that is not empty. Unquoted numbers and booleans are most likely in the wrong field.
    pub fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, plain } if !text.trim().is_empty() => {
                let meaning = if *plain { plain_meaning(text) } else { Plain::Text };
                if meaning == Plain::Text {
                    return Some(text);
                }
                let quoted =
                    self.at(node.at, format!("{what} has a wrong value")).expected("text").found(node.description());
                self.report(if meaning == Plain::Nothing {
                    quoted
                } else {
                    quoted.help("put it in quotes if it is meant as text")
                });
                None
            }
            _ => {
                self.mismatch(node, what, "text");
                None
            }
        }
    }

    /// Text as written, whatever it looks like: the value of an environment variable.
    pub fn any_text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, .. } if !node.is_nothing() => Some(text),
            _ => {
                self.mismatch(node, what, "text, a number or a boolean");
                None
            }
        }
    }

    pub fn integer(&mut self, node: &Node, what: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let number = match &node.value {
            Value::Scalar { text, plain: true } => text.parse().ok().filter(|n| range.contains(n)),
            _ => None,
        };
        if number.is_none() {
            let expected = match *range.end() {
                u64::MAX => format!("a whole number from {}", range.start()),
                end => format!("a whole number from {} to {end}", range.start()),
            };
            self.mismatch(node, what, &expected);
        }
        number
    }
}
