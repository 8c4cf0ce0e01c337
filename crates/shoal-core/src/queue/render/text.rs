//! How is a value written: as a word, as JSON, as YAML?

use crate::queue::sweep::{Config, Value};

/// As one word: text as it is, numbers in their shortest form, `true` and `false`; lists and maps as JSON.
pub fn word(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => json(other),
    }
}

pub fn json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The content of `params.json`.
pub fn params_json(config: &Config) -> String {
    serde_json::to_string(config).unwrap_or_default() + "\n"
}

/// The content of `param2val.yaml`: one parameter a line, sorted. Readers of YAML 1.1 (PyYAML) and 1.2 (ours) read the same from it.
pub fn param2val(config: &Config) -> String {
    if config.is_empty() {
        return "{}\n".into();
    }
    config.iter().map(|(name, value)| format!("{}: {}\n", yaml_text(name), yaml(value))).collect()
}

/// On one line, in flow style.
pub fn yaml(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(yes) => yes.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => yaml_float(*number),
        Value::Text(text) => yaml_text(text),
        Value::List(items) => format!("[{}]", items.iter().map(yaml).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}: {}", yaml_text(key), yaml(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// To YAML 1.1 a number needs a point, and an exponent its sign: `1e-05` is text there.
fn yaml_float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { ".nan".into() } else { format!("{}.inf", if number < 0.0 { "-" } else { "" }) };
    }
    let text = json(&Value::Float(number));
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// Without quotes only where no reader, old or new, takes it for anything else.
fn yaml_text(text: &str) -> String {
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"];
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(inner);
    if plain && !WORDS.contains(&text.to_ascii_lowercase().as_str()) {
        return text.into();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            ' '..='~' => quoted.push(c),
            // What YAML does not call printable, ends lines in some readers, or is taken for a byte order mark.
            '\u{0}'..='\u{9f}' => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
