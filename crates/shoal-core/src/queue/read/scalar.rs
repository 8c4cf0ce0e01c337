//! What does a value of a file mean as a parameter? As YAML 1.2's core schema has it; what cannot be written again is refused.

use crate::document::node::{Node, Value as Tree};
use crate::document::reader::Reader;
use crate::queue::render::template::LONGEST_NAME;
use crate::queue::sweep::Value;
use std::collections::BTreeMap;

/// Text without quotes, or why it is no value.
pub fn core(text: &str) -> Result<Value, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Err("it is not a number, which JSON cannot hold and which equals nothing"),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return Err("it is infinite, which JSON cannot hold");
    }
    let whole = match text.get(..2) {
        Some("0x") if is_made_of(&text[2..], |c| c.is_ascii_hexdigit()) => Some(i64::from_str_radix(&text[2..], 16)),
        Some("0o") if is_made_of(&text[2..], |c| matches!(c, '0'..='7')) => Some(i64::from_str_radix(&text[2..], 8)),
        _ if is_made_of(digits, |c| c.is_ascii_digit()) => Some(text.parse::<i64>()),
        _ => None,
    };
    if let Some(whole) = whole {
        return whole
            .map(Value::Int)
            .map_err(|_| "it does not fit into 64 bits; put it in quotes if it is meant as text");
    }
    if !is_float(digits) {
        return Ok(Value::Text(text.into()));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Float(number)),
        _ => Err("it is larger than any number of 64 bits"),
    }
}

fn is_made_of(text: &str, of: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(of)
}

fn is_float(digits: &str) -> bool {
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (digits, None),
    };
    let digit = |c: char| c.is_ascii_digit();
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    before.chars().chain(after.chars()).all(digit)
        && !(before.is_empty() && after.is_empty())
        && exponent.is_none_or(|exponent| is_made_of(exponent, digit))
}

/// Why text cannot be a parameter, or a part of one.
pub fn unwritable(text: &str) -> Option<&'static str> {
    text.contains('\0').then_some("it holds a NUL, which no argument, variable or YAML file can")
}

/// Why a key within a parameter cannot be one.
pub fn unwritable_key(text: &str) -> Option<&'static str> {
    match text.chars().count() > LONGEST_NAME {
        true => Some("it is longer than 100 characters"),
        false => unwritable(text),
    }
}

/// The value of a parameter, or what is wrong reported.
pub fn value(reader: &mut Reader, node: &Node, what: &str) -> Option<Value> {
    let refuse = |reader: &mut Reader, why: &str| {
        let wrong = reader.at(node.at, format!("{what} has a value that cannot be kept"));
        reader.report(wrong.found(node.description()).help(why));
        None
    };
    match &node.value {
        Tree::Scalar { text, plain } => {
            let read = if *plain { core(text) } else { Ok(Value::Text(text.clone())) };
            match read.and_then(|value| unwritable(text).map_or(Ok(value), Err)) {
                Ok(value) => Some(value),
                Err(why) => refuse(reader, why),
            }
        }
        Tree::List(items) => {
            let values: Vec<_> = items.iter().map(|item| value(reader, item, what)).collect();
            values.into_iter().collect::<Option<_>>().map(Value::List)
        }
        Tree::Map(_) => {
            let fields = reader.map(node, what)?;
            let mut map = BTreeMap::new();
            let mut complete = true;
            for (key, node) in fields.entries() {
                if let Some(why) = unwritable_key(&key.text) {
                    let wrong = reader.at(key.at, format!("{what} has a key that cannot be kept"));
                    reader.report(wrong.help(why));
                    complete = false;
                }
                match value(reader, node, what) {
                    Some(value) => drop(map.insert(key.text.clone(), value)),
                    None => complete = false,
                }
            }
            complete.then_some(Value::Map(map))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_text_means_what_the_core_schema_says() {
        let float = Value::Float;
        let int = Value::Int;
        for (text, expected) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("True", Value::Bool(true)),
            ("0", int(0)),
            ("-12", int(-12)),
            ("+7", int(7)),
            ("010", int(10)),
            ("0x1F", int(31)),
            ("0o17", int(15)),
            ("-9223372036854775808", int(i64::MIN)),
            ("0.1", float(0.1)),
            (".5", float(0.5)),
            ("1.", float(1.0)),
            ("1e-4", float(1e-4)),
            ("-1.5E+3", float(-1500.0)),
        ] {
            assert_eq!(core(text), Ok(expected), "{text}");
        }
        for text in
            ["yes", "1_000", "1:30", "2026-11-15", "--5", "-", ".", "e5", "1e", "0x", "0xg", "inf", "nan", "1.2.3"]
        {
            assert_eq!(core(text), Ok(Value::Text(text.into())), "{text}");
        }
        for text in [".nan", "-.inf", ".INF", "1e999", "9223372036854775808", "0xffffffffffffffff"] {
            assert!(core(text).is_err(), "{text}");
        }
    }
}
