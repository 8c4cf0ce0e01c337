//! A file's tree as the JSON that Kubernetes takes.

use crate::document::node::{Node, Plain, Value, plain_meaning};
use serde_json::{Map, Number, Value as Json};

/// Unquoted words mean what YAML's core schema says, as everywhere here: `yes` is text.
pub fn json(node: &Node) -> Json {
    match &node.value {
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, node)| (key.text.clone(), json(node))).collect::<Map<_, _>>())
        }
        Value::Scalar { text, plain: false } => Json::String(text.clone()),
        Value::Scalar { text, plain: true } => match plain_meaning(text) {
            Plain::Nothing => Json::Null,
            Plain::Boolean => Json::Bool(text.eq_ignore_ascii_case("true")),
            Plain::Number => number(text).map_or_else(|| Json::String(text.clone()), Json::Number),
            Plain::Text => Json::String(text.clone()),
        },
    }
}

fn number(text: &str) -> Option<Number> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let digits = digits.trim_start_matches('+');
    let based = |prefix: &str, radix| i64::from_str_radix(digits.strip_prefix(prefix)?, radix).ok();
    // Modes of files are written this way: `defaultMode: 0644` is octal to Kubernetes, which reads YAML 1.1.
    let old_octal = || match digits.len() > 1 && digits.starts_with('0') && digits.chars().all(|c| c.is_digit(8)) {
        true => i64::from_str_radix(digits, 8).ok(),
        false => None,
    };
    let whole = based("0x", 16).or_else(|| based("0o", 8)).or_else(old_octal).or_else(|| digits.parse().ok());
    match whole {
        Some(whole) => Some(Number::from(sign * whole)),
        None => Number::from_f64(text.parse().ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::yaml;
    use serde_json::json as wanted;

    #[test]
    fn values_are_what_kubernetes_takes_them_for() {
        let text = "a: 4\nb: \"4\"\nc: true\nd: yes\ne:\nf: 0x1f\ng: 1.5\nh: [x, -3]\ni: {mode: 0644}\nj: 0o17\n";
        let tree = yaml::parse(text).expect("valid");
        let got = json(&tree);
        let wanted = wanted!({"a": 4, "b": "4", "c": true, "d": "yes", "e": null, "f": 31, "g": 1.5, "h": ["x", -3],
            "i": {"mode": 420}, "j": 15});
        assert_eq!(got, wanted);
    }
}
