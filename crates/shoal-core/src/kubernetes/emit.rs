//! JSON as YAML that reads back as the same: what `--dry-run` prints.

use serde_json::Value;
use std::fmt::Write;

/// Several objects as one text for `kubectl apply -f -`.
pub fn documents<'v>(objects: impl IntoIterator<Item = &'v Value>) -> String {
    objects.into_iter().map(|object| format!("---\n{}", yaml(object))).collect()
}

pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut text, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut text, value, 0),
        _ => writeln!(text, "{}", scalar(value)).unwrap_or_default(),
    }
    text
}

fn block(text: &mut String, value: &Value, depth: usize) {
    let margin = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(text, "{margin}{}:", word(key));
                after_key(text, value, depth + 1);
            }
        }
        Value::Array(items) => {
            for item in items {
                if is_block(item) {
                    // The item's first line stands beside its dash.
                    let mut inner = String::new();
                    block(&mut inner, item, depth + 1);
                    let _ = write!(text, "{margin}- {}", inner.trim_start_matches(' '));
                } else {
                    let _ = writeln!(text, "{margin}- {}", scalar(item));
                }
            }
        }
        _ => {}
    }
}

fn after_key(text: &mut String, value: &Value, depth: usize) {
    if is_block(value) {
        text.push('\n');
        block(text, value, depth);
    } else {
        let _ = writeln!(text, " {}", scalar(value));
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// Unquoted only where no reader of any YAML could take it for something else; quoted text is JSON's, which is YAML's too.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let means = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let unquoted = starts && text.chars().all(plain) && !means.contains(&text.to_ascii_lowercase().as_str());
    if unquoted { text.into() } else { Value::String(text.into()).to_string() }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;
    use crate::document::yaml as reader;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn it_reads_as_people_write_it() {
        let value = json!({"kind": "Job", "metadata": {"labels": {}, "name": "a"}, "spec": {"args": [["x"], {"b": 1, "c": "1"}, "no"]}});
        let wanted = "kind: Job\nmetadata:\n  labels: {}\n  name: a\nspec:\n  args:\n    - - x\n    - b: 1\n      c: \"1\"\n    - \"no\"\n";
        assert_eq!(yaml(&value), wanted);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            "[a-z0-9:#\\n\"' -]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z0-9./ -]{1,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same(value in prop::collection::btree_map("[a-z]{1,6}", values(), 1..4)) {
            let value = Value::Object(value.into_iter().collect());
            let text = yaml(&value);
            let read = reader::parse(&text).map_err(|f| TestCaseError::fail(format!("{}\n{text}", f.message)))?;
            prop_assert_eq!(tree::json(&read), value, "{}", text);
        }
    }
}
