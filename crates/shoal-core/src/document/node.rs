//! One value of a file, and where it stands.

use crate::diagnostic::Place;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub at: Place,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text as written; `plain` when it stood without quotes, and so may mean a number, a boolean or nothing.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// In the order of the file; a key may be there twice, which is for the reader to refuse.
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub at: Place,
    pub text: String,
}

/// What unquoted text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plain {
    Nothing,
    Boolean,
    Number,
    Text,
}

/// As YAML's core schema has it.
pub fn plain_meaning(text: &str) -> Plain {
    let number = || {
        let digits = text.trim_start_matches(['-', '+']);
        digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && (digits.parse::<f64>().is_ok() || digits.starts_with("0x") || digits.starts_with("0o"))
    };
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Nothing,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Plain::Boolean,
        _ if number() => Plain::Number,
        _ => Plain::Text,
    }
}

impl Node {
    pub fn is_nothing(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if plain_meaning(text) == Plain::Nothing)
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// What this is, in the words of a message.
    pub fn description(&self) -> String {
        match &self.value {
            Value::List(items) if items.is_empty() => "an empty list".into(),
            Value::List(_) => "a list".into(),
            Value::Map(entries) if entries.is_empty() => "an empty map".into(),
            Value::Map(_) => "a map".into(),
            Value::Scalar { text, plain: true } => match plain_meaning(text) {
                Plain::Nothing => "nothing".into(),
                Plain::Number => format!("the number {}", short(text)),
                Plain::Boolean => short(text),
                Plain::Text => format!("`{}`", short(text)),
            },
            Value::Scalar { text, .. } if text.is_empty() => "empty text".into(),
            Value::Scalar { text, .. } => format!("the text \"{}\"", short(text)),
        }
    }
}

/// Text fit for one line of a message.
pub fn short(text: &str) -> String {
    const LONGEST: usize = 60;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_text_means_what_yaml_says() {
        for (text, meaning) in [
            ("", Plain::Nothing),
            ("null", Plain::Nothing),
            ("true", Plain::Boolean),
            ("yes", Plain::Text),
            ("-12", Plain::Number),
            ("3.10", Plain::Number),
            ("1e3", Plain::Number),
            ("0x1f", Plain::Number),
            ("10.0.0.1", Plain::Text),
            ("node01", Plain::Text),
            ("inf", Plain::Text),
            ("-", Plain::Text),
        ] {
            assert_eq!(plain_meaning(text), meaning, "{text}");
        }
    }
}
