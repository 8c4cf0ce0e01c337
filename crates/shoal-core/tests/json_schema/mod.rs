//! Does a value have the shape that a schema describes? As much of JSON Schema as ours use.

use serde_json::Value;

pub fn accepts(schema: &Value, value: &Value) -> bool {
    let list = |key: &str| schema[key].as_array().cloned().unwrap_or_default();
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    };
    let type_fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let fields_fit = value.as_object().is_none_or(|map| {
        let required = list("required").iter().filter_map(Value::as_str).all(|name| map.contains_key(name));
        let named = |name: &String| {
            schema["propertyNames"].is_null() || accepts(&schema["propertyNames"], &Value::String(name.clone()))
        };
        required
            && map.keys().all(named)
            && map.iter().all(|(name, value)| match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => false,
                (Value::Null, other) => other.is_null() || accepts(other, value),
                (known, _) => accepts(known, value),
            })
    });
    let items_fit = value.as_array().is_none_or(|items| {
        let enough = items.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0);
        enough && (schema["items"].is_null() || items.iter().all(|item| accepts(&schema["items"], item)))
    });
    let number_fits = value.as_f64().is_none_or(|n| {
        n >= schema["minimum"].as_f64().unwrap_or(f64::MIN) && n <= schema["maximum"].as_f64().unwrap_or(f64::MAX)
    });
    let length_fits =
        value.as_str().is_none_or(|text| text.chars().count() as u64 >= schema["minLength"].as_u64().unwrap_or(0));
    let pattern_fits = match (schema["pattern"].as_str(), value.as_str()) {
        (Some(pattern), Some(text)) => fits(pattern, text),
        _ => true,
    };
    let enum_fits = schema["enum"].is_null() || list("enum").contains(value);
    let one_fits =
        schema["oneOf"].is_null() || list("oneOf").iter().filter(|option| accepts(option, value)).count() == 1;
    let any_fits = schema["anyOf"].is_null() || list("anyOf").iter().any(|option| accepts(option, value));
    type_fits
        && fields_fit
        && items_fit
        && number_fits
        && length_fits
        && pattern_fits
        && enum_fits
        && one_fits
        && any_fits
}

/// The patterns of our schemas, each by what it means.
fn fits(pattern: &str, text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = |c: char| word(c) || matches!(c, '.' | '-');
    let first = |digit: bool| text.starts_with(|c: char| word(c) && (digit || !c.is_ascii_digit()));
    match pattern {
        "^(/|~$|~/)" => text.starts_with('/') || text == "~" || text.starts_with("~/"),
        "^/" => text.starts_with('/'),
        "\\.\\." => text.contains(".."),
        "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$" => first(true) && text.len() <= 64 && text.chars().all(name),
        "^[A-Za-z_][A-Za-z0-9_.-]{0,99}$" => first(false) && text.len() <= 100 && text.chars().all(name),
        "^[A-Za-z_][A-Za-z0-9_]*$" => first(false) && text.chars().all(word),
        other => panic!("pattern {other}"),
    }
}

/// The names of an object's fields, sorted.
pub fn names(at: &Value) -> Vec<String> {
    let mut names: Vec<String> = at["properties"].as_object().expect("fields").keys().cloned().collect();
    names.sort();
    names
}

pub fn sorted(known: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = known.iter().map(ToString::to_string).collect();
    names.sort();
    names
}
