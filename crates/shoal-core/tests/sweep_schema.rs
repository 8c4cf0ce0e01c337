//! The schema of a sweep's file says the same of its shape as the reader and the document.

mod json_schema;

use json_schema::{accepts, names, sorted};
use serde_json::{Value, json};
use shoal_core::document::node::{Node, Value as Tree};
use shoal_core::document::yaml;
use shoal_core::queue::read::{self, scalar};
use shoal_core::queue::schema::sweep_json_schema;
use std::fs;
use std::path::{Path, PathBuf};

/// A file as an editor sees it.
fn as_json(node: &Node) -> Value {
    match &node.value {
        Tree::Scalar { text, plain: false } => text.clone().into(),
        Tree::Scalar { text, plain: true } => {
            let value = scalar::core(text).map(|value| serde_json::to_value(value).expect("JSON"));
            value.unwrap_or_else(|_| text.clone().into())
        }
        Tree::List(items) => items.iter().map(as_json).collect(),
        Tree::Map(entries) => entries.iter().map(|(key, node)| (key.text.clone(), as_json(node))).collect(),
    }
}

fn of_yaml(text: &str) -> Value {
    as_json(&yaml::parse(text).expect("a tree"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Blocks of YAML in documents that are sweeps, or parts of one.
fn documented() -> Vec<(String, String)> {
    let folders = ["docs/guides", "docs/reference"].map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let mut found = Vec::new();
    for path in files.map(|entry| entry.expect("an entry").path()) {
        let text = fs::read_to_string(&path).expect("readable");
        for (block, _) in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```")) {
            let whole = if block.contains("command:") { block.to_string() } else { format!("command: train\n{block}") };
            // Fleets and clusters are described in blocks of YAML too.
            if read::sweep(&whole, "block").is_ok() {
                found.push((path.display().to_string(), whole));
            }
        }
    }
    found
}

/// Texts of files in the tests of this repository that the reader takes.
fn tested() -> Vec<(String, String)> {
    let files = [
        "crates/shoal-core/src/queue/read/tests.rs",
        "crates/shoal/tests/sweep.rs",
        "crates/shoal-core/src/queue/render/tests.rs",
    ];
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(root().join(file)).expect("readable");
        for literal in text.split('"').map(|part| part.replace("\\n", "\n").replace("\\\"", "\"")) {
            if literal.contains("command:") && read::sweep(&literal, "literal").is_ok() {
                found.push((file.into(), literal));
            }
        }
    }
    found
}

#[test]
fn every_example_has_the_shape() {
    let schema = sweep_json_schema();
    let (documented, tested) = (documented(), tested());
    assert!(documented.len() >= 5, "only {} examples in documents", documented.len());
    assert!(tested.len() >= 3, "only {} examples in tests", tested.len());
    for (file, text) in documented.iter().chain(&tested) {
        assert!(accepts(&schema, &of_yaml(text)), "{file}:\n{text}");
    }
}

#[test]
fn schema_and_reader_agree() {
    let schema = sweep_json_schema();
    for (rest, good) in [
        (json!({}), true),
        (json!({"command": ["python", "train.py", 3, true]}), true),
        (json!({"grid": {"lr": [0.1, "a", null, true, [1, 2], {"a": 1}]}}), true),
        (json!({"zip": {"a": [1, 2], "b": [3, 4]}}), true),
        (json!({"zip": [{"a": [1, 2]}, {"b": [3, 4]}]}), true),
        (
            json!({"list": [{"a": 1}, {"a": 2}], "params": {"b": "x"}, "duplicates": "merge", "reps": 3, "seed": 0}),
            true,
        ),
        (json!({"grid": {"a": [1, 2]}, "when": "a < 2"}), true),
        (json!({"grid": {"a": [1, 2]}, "when": ["a < 2", true]}), true),
        (json!({"pass": "none", "env": {"A": 1, "B": "x"}, "name": "mlp-1"}), true),
        (json!({"pass": ["flags", "file"]}), true),
        (json!({"source": "none"}), true),
        (
            json!({"source": ["a", {"path": "b", "at": "c", "ignore": ["*.pt"]}], "data": {"path": "d", "at": "e"}}),
            true,
        ),
        (
            json!({"folder": "~/project", "environment": {"virtualenv": "~/v", "modules": "m", "setup": ["a", "b"]}}),
            true,
        ),
        (json!({"environment": {"conda": "c", "requirements": "lock.txt"}}), true),
        (
            json!({"resources": {"cpus": 0.5, "memory": "4GiB", "gpus": 0.25, "gpu_memory": "1GiB", "ranks": 2, "on": "a"}}),
            true,
        ),
        (
            json!({"time_limit": "1h30m", "grace": 5, "retries": 0, "stop_after_failures": "never", "fatal_codes": 3}),
            true,
        ),
        (json!({"fatal_codes": [3, 4], "priority": -5, "after": ["pretrain"], "results": "/nfs", "version": 1}), true),
        (json!({"gird": {}}), false),
        (json!({"command": []}), false),
        (json!({"command": 3}), false),
        (json!({"name": "-x"}), false),
        (json!({"name": ".x"}), false),
        (json!({"grid": [1]}), false),
        (json!({"grid": {"a": []}}), false),
        (json!({"grid": {"a": 3}}), false),
        (json!({"grid": {"a b": [1]}}), false),
        (json!({"list": []}), false),
        (json!({"list": {"a": 1}}), false),
        (json!({"list": [3]}), false),
        (json!({"duplicates": "drop"}), false),
        (json!({"reps": 0}), false),
        (json!({"reps": "2"}), false),
        (json!({"seed": -1}), false),
        (json!({"pass": "flag"}), false),
        (json!({"env": {"A-B": 1}}), false),
        (json!({"source": {"from": "a"}}), false),
        (json!({"folder": "project"}), false),
        (json!({"environment": {"venv": "/v"}}), false),
        (json!({"resources": {"gpu": 1}}), false),
        (json!({"resources": {"ranks": 0}}), false),
        (json!({"retries": 5000}), false),
        (json!({"fatal_codes": [0]}), false),
        (json!({"priority": 5000}), false),
        (json!({"after": "a b"}), false),
        (json!({"results": "here"}), false),
        (json!({"version": 2}), false),
    ] {
        let mut file = json!({"command": "train"});
        file.as_object_mut().expect("fields").extend(rest.as_object().expect("fields").clone());
        let text = file.to_string();
        assert_eq!(accepts(&schema, &file), good, "schema: {text}");
        assert_eq!(read::sweep(&text, "sweep.yaml").is_ok(), good, "reader: {text}");
    }
    assert!(!accepts(&schema, &json!({"grid": {"a": [1]}})), "a command is needed");
    // A range stands without quotes, so it cannot be written as JSON.
    let ranges = "command: train\ngrid: {n: 1..4, m: [1..4, 7]}\n";
    assert!(accepts(&schema, &of_yaml(ranges)) && read::sweep(ranges, "sweep.yaml").is_ok());
}

#[test]
fn the_schema_has_the_fields_of_the_reader_and_of_the_document() {
    let schema = sweep_json_schema();
    let top = &schema["properties"];
    assert_eq!(names(&schema), sorted(&read::FIELDS));
    assert_eq!(names(&top["resources"]), sorted(&read::RESOURCES_FIELDS));
    assert_eq!(names(&top["environment"]), sorted(&read::ENVIRONMENT_FIELDS));
    assert_eq!(names(&top["source"]["anyOf"][0]["oneOf"][1]), sorted(&read::FOLDER_FIELDS));
    // The first column of the document's tables, where it names keys and not ways or variables.
    let text = fs::read_to_string(root().join("docs/reference/sweep-file.md")).expect("the document");
    let mut seen = 0;
    for table in text.split("| key | meaning |\n|---|---|\n").skip(1) {
        for line in table.lines().take_while(|line| line.starts_with("| `")) {
            let key = line.trim_start_matches("| `").split('`').next().expect("a key");
            assert!(top[key].is_object(), "the schema has no `{key}`, which the document has");
            seen += 1;
        }
    }
    assert_eq!(seen, read::FIELDS.len(), "each key has its row in the document");
}
