//! Does PyYAML, which programs of old read `param2val.yaml` with, read the values that were written?

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use shoal_core::queue::render::text::{param2val, params_json};
use shoal_core::queue::sweep::{Config, Value};
use std::io::Write;
use std::process::{Command, Stdio};

/// Reads pairs of YAML and JSON, and says in which the two differ; `==` of Python takes 1 and 1.0 for the same, `repr` does not.
const COMPARE: &str = "
import json, sys, yaml
for number, (text, wanted) in enumerate(json.load(sys.stdin)):
    found, wanted = yaml.safe_load(text), json.loads(wanted)
    if repr(found) != repr(wanted):
        sys.exit(f'{number}: {text!r} is read as {found!r}, not {wanted!r}')
";

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::Float),
        "[^\\x00]{0,16}".prop_map(Value::Text),
        "[-+]?[0-9._xbo:]{0,8}(e[-+]?[0-9])?".prop_map(Value::Text),
        "yes|no|on|Off|y|N|true|NULL|~|<<|=|\\.inf|-\\.NaN|0o7|0b1|1:30|2001-01-01|2001-01-01 10:00:00"
            .prop_map(Value::Text),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            proptest::collection::btree_map("[^\\x00]{0,10}", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

#[test]
fn python_reads_what_was_written() {
    let there = Command::new("python3").args(["-c", "import yaml"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no python3 with PyYAML");
        return;
    }
    let mut runner = TestRunner::default();
    let configs = proptest::collection::btree_map("[a-zA-Z_][a-z0-9_.-]{0,8}", values(), 1..5);
    let mut pairs: Vec<(String, String)> = Vec::new();
    for _ in 0..2000 {
        let config: Config = configs.new_tree(&mut runner).expect("a configuration").current();
        pairs.push((param2val(&config), params_json(&config)));
    }
    let mut python = Command::new("python3")
        .args(["-c", COMPARE])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    let input = serde_json::to_string(&pairs).expect("JSON");
    python.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("python reads");
    let output = python.wait_with_output().expect("python ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
