//! The schema and the reader say the same of a file's shape.

use serde_json::{Value, json};
use shoal_core::fleet::schema::native_json_schema;
use shoal_core::fleet::{self, native};

/// As much of JSON Schema as ours uses.
fn accepts(schema: &Value, value: &Value) -> bool {
    let list = |key: &str| schema[key].as_array().cloned().unwrap_or_default();
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("type {other}"),
    };
    let type_fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let fields_fit = value.as_object().is_none_or(|map| {
        let required = list("required").iter().filter_map(Value::as_str).all(|name| map.contains_key(name));
        required
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
    let number_fits = value.as_i64().is_none_or(|n| {
        n >= schema["minimum"].as_i64().unwrap_or(i64::MIN) && n <= schema["maximum"].as_i64().unwrap_or(i64::MAX)
    });
    let path_fits = schema["pattern"].is_null() || value.as_str().is_some_and(|s| s.starts_with(['/', '~']));
    let one_fits =
        schema["oneOf"].is_null() || list("oneOf").iter().filter(|option| accepts(option, value)).count() == 1;
    let any_fits = schema["anyOf"].is_null() || list("anyOf").iter().any(|option| accepts(option, value));
    type_fits && fields_fit && items_fit && number_fits && path_fits && one_fits && any_fits
}

#[test]
fn schema_and_reader_agree() {
    let schema = native_json_schema();
    for (file, good) in [
        (json!({"hosts": ["node[01-16]", "a@b:22"]}), true),
        (json!({"hosts": ["a", {"name": "b", "port": 22, "slots": 2, "groups": ["g"]}], "servers": ["a", "g"]}), true),
        (
            json!({"hosts": [{"address": "10.0.0.1", "slots": {"ranks": 1, "memory": "64GiB", "cpus": 4, "gpus": 0}}]}),
            true,
        ),
        (json!({"name": "x", "hosts": ["a"], "defaults": {"user": "u", "key": "k", "slots": {"cpus": 1}}}), true),
        (
            json!({"hosts": ["a"], "environment": {"virtualenv": "/v", "setup": "x", "modules": ["m"], "env": {"A": 1}}}),
            true,
        ),
        (json!({"hosts": ["a"], "shared": "/nfs", "master": "a", "workers": ["a", "a"]}), true),
        (
            json!({"hosts": ["a"], "queue": {"lost_after": "5m", "hosts": {"a": {"slots": 2, "owner": "u", "idle": "5m"}}}}),
            true,
        ),
        (json!({"hosts": ["a"], "queue": {"hosts": {"a": {"slot": 2}}}}), false),
        (json!({"hosts": []}), false),
        (json!({}), false),
        (json!({"hosts": "a"}), false),
        (json!({"hosts": ["a"], "usr": 1}), false),
        (json!({"hosts": [{"name": "a", "usr": "b"}]}), false),
        (json!({"hosts": [{"user": "a"}]}), false),
        (json!({"hosts": [{"name": "a", "port": 70000}]}), false),
        (json!({"hosts": ["a"], "defaults": {"name": "b"}}), false),
        (json!({"hosts": ["a"], "environment": {"virtualenv": "v"}}), false),
        (json!({"hosts": [{"name": "a", "slots": {"gpu": 1}}]}), false),
    ] {
        let text = file.to_string();
        assert_eq!(accepts(&schema, &file), good, "schema: {text}");
        assert_eq!(fleet::read("shoal.yaml", &text).is_ok(), good, "reader: {text}");
    }
}

#[test]
fn the_schema_has_the_fields_of_the_reader() {
    let schema = native_json_schema();
    let names = |at: &Value| -> Vec<String> {
        let mut names: Vec<String> = at["properties"].as_object().expect("fields").keys().cloned().collect();
        names.sort();
        names
    };
    let sorted = |known: &[&str]| {
        let mut names: Vec<String> = known.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    let top = &schema["properties"];
    assert_eq!(names(&schema), sorted(&native::FIELDS));
    assert_eq!(names(&top["environment"]), sorted(&native::ENVIRONMENT_FIELDS));
    assert_eq!(names(&top["defaults"]), sorted(&native::DEFAULTS_FIELDS));
    assert_eq!(names(&top["hosts"]["items"]["oneOf"][1]), sorted(&native::HOST_FIELDS));
    assert_eq!(names(&top["defaults"]["properties"]["slots"]["oneOf"][1]), sorted(&native::SLOTS_FIELDS));
    assert_eq!(names(&top["queue"]), sorted(&fleet::queue::QUEUE_FIELDS));
    let of_hosts = &top["queue"]["properties"]["hosts"]["additionalProperties"];
    assert_eq!(names(of_hosts), sorted(&fleet::queue::QUEUE_HOST_FIELDS));
}
