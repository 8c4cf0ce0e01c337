//! What does a part of the file mean that is handed on as it is (`node_config`, `resources`, `security_group`)? What
//! PyYAML makes of it.

use super::take::as_boolean;
use crate::document::node::{Node, Plain, Value, plain_meaning};
use crate::document::reader::Reader;
use serde_json::{Map, Number, Value as Json};

/// The value as JSON. Keys that are given twice are reported.
pub fn json(reader: &mut Reader, node: &Node, what: &str) -> Json {
    match &node.value {
        Value::Scalar { text, plain: false } => Json::from(text.as_str()),
        Value::Scalar { text, plain: true } => scalar(text),
        Value::List(items) => Json::Array(items.iter().map(|item| json(reader, item, what)).collect()),
        Value::Map(entries) => {
            let _ = reader.map(node, what);
            let entries = entries.iter().map(|(key, value)| (key.text.clone(), json(reader, value, what)));
            Json::Object(entries.collect::<Map<_, _>>())
        }
    }
}

fn scalar(text: &str) -> Json {
    if let Some(said) = as_boolean(text) {
        return Json::Bool(said);
    }
    match plain_meaning(text) {
        Plain::Nothing => Json::Null,
        Plain::Number => number(text).map_or_else(|| Json::from(text), Json::Number),
        Plain::Boolean | Plain::Text => Json::from(text),
    }
}

fn number(text: &str) -> Option<Number> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let whole = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        // A leading zero is YAML 1.1's octal.
        None if digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| c.is_ascii_digit()) => {
            i64::from_str_radix(digits, 8).ok()
        }
        None => digits.parse().ok(),
    };
    match whole {
        Some(whole) => Some(Number::from(whole * sign)),
        // Without a point PyYAML sees text: `1e3` is a name.
        None if digits.contains('.') => text.parse().ok().and_then(Number::from_f64),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::yaml;
    use serde_json::json;

    #[test]
    fn values_mean_what_pyyaml_makes_of_them() {
        let text = "{a: 1, b: -2, c: 0x10, d: 010, e: 1.5, f: 1e3, g: yes, h: 'yes', i: ~, j: ami-1, k: [x, {y: Off}], l: '5'}";
        let root = yaml::parse(text).expect("valid");
        let mut reader = Reader::new("x.yaml", text);
        let wanted = json!({"a": 1, "b": -2, "c": 16, "d": 8, "e": 1.5, "f": "1e3", "g": true, "h": "yes", "i": null,
            "j": "ami-1", "k": ["x", {"y": false}], "l": "5"});
        assert_eq!(json(&mut reader, &root, "`x`"), wanted);
    }
}
