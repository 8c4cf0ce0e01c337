//! What differs between what is asked for now and what was asked for before?

use serde_json::Value;

/// One place that differs; `None` where one side has nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub path: String,
    pub was: Option<Value>,
    pub is: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".into(), short);
        write!(f, "{} is {} there, {} in the files", self.path, show(&self.was), show(&self.is))
    }
}

fn short(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// In the order of the paths.
pub fn between(was: &Value, is: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(was), Some(is), &mut found);
    found
}

fn compare(path: String, was: Option<&Value>, is: Option<&Value>, found: &mut Vec<Difference>) {
    match (was, is) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let only_new = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_new) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(path, a.get(key), b.get(key), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                compare(format!("{path}[{index}]"), a.get(index), b.get(index), found);
            }
        }
        (was, is) if was != is => found.push(Difference { path, was: was.cloned(), is: is.cloned() }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_place_that_differs_is_named() {
        let was = json!({"a": {"image": "x:1"}, "args": ["p", "q"], "same": 1, "gone": true});
        let is = json!({"a": {"image": "x:2"}, "args": ["p"], "same": 1, "new": null});
        let said: Vec<String> = between(&was, &is).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "a.image is \"x:1\" there, \"x:2\" in the files",
                "args[1] is \"q\" there, nothing in the files",
                "gone is true there, nothing in the files",
                "new is nothing there, null in the files",
            ]
        );
        assert_eq!(between(&was, &was), []);
    }
}
