//! How are the simple values of a cluster file taken out of it? A field without a value (all its lines are comments)
//! is as if it were not there.

use crate::document::node::{Node, Plain, Value, plain_meaning};
use crate::document::reader::{Fields, Reader};

/// More nodes than this is a slip of the keyboard.
pub const MOST_NODES: u64 = 10_000;

/// The field's value, unless there is none.
pub fn present<'n>(fields: Fields<'n>, name: &str) -> Option<&'n Node> {
    fields.get(name).filter(|node| !node.is_nothing())
}

pub fn boolean(reader: &mut Reader, fields: Fields, name: &str) -> Option<bool> {
    let node = present(fields, name)?;
    let said = match &node.value {
        Value::Scalar { text, plain: true } => as_boolean(text),
        _ => None,
    };
    if said.is_none() {
        reader.mismatch(node, &format!("`{name}`"), "true or false");
    }
    said
}

/// As PyYAML reads it: YAML 1.1 has more words for it than 1.2.
pub fn as_boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

pub fn count(reader: &mut Reader, fields: Fields, name: &str) -> Option<u32> {
    let node = present(fields, name)?;
    reader.integer(node, &format!("`{name}`"), 0..=MOST_NODES).and_then(|n| u32::try_from(n).ok())
}

/// Text, where empty text means that there is none, as Ray's own examples have it.
pub fn text(reader: &mut Reader, fields: Fields, name: &str) -> Option<String> {
    let node = present(fields, name)?;
    match &node.value {
        Value::Scalar { text, plain: false } if text.trim().is_empty() => None,
        _ => reader.text(node, &format!("`{name}`")).map(Into::into),
    }
}

/// A list of texts; `None` where the file has no such field.
pub fn texts(reader: &mut Reader, fields: Fields, name: &str, of: &str) -> Option<Vec<String>> {
    let node = fields.get(name)?;
    if node.is_nothing() {
        return Some(Vec::new());
    }
    let items = reader.list(node, &format!("`{name}`"), of)?;
    Some(items.iter().filter_map(|item| one_of(reader, item, name)).collect())
}

/// One command or pattern. `true` and `5` are commands as well; a map is what a colon makes of one.
fn one_of(reader: &mut Reader, item: &Node, name: &str) -> Option<String> {
    match &item.value {
        Value::Scalar { text, .. } if !text.trim().is_empty() && !item.is_nothing() => Some(text.clone()),
        Value::Map(_) => {
            let wrong = reader.at(item.at, format!("an item of `{name}` has a wrong value"));
            let wrong = wrong.expected("text").found(item.description());
            reader.report(
                wrong.help("text with a colon and a blank in it stands in quotes, or after `- >-` on lines of its own"),
            );
            None
        }
        _ => {
            reader.mismatch(item, &format!("an item of `{name}`"), "text");
            None
        }
    }
}

/// A number that is not negative, whole or not; only looked at.
pub fn check_number(reader: &mut Reader, fields: Fields, name: &str) {
    let Some(node) = present(fields, name) else { return };
    let number = match &node.value {
        Value::Scalar { text, plain: true } if plain_meaning(text) == Plain::Number => text.parse::<f64>().ok(),
        _ => None,
    };
    if number.is_none_or(|n| n < 0.0) {
        reader.mismatch(node, &format!("`{name}`"), "a number from 0");
    }
}
