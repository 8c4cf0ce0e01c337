//! `shoal plan` as people meet it: predictions, and what it says to those who ask wrongly. What it prints is kept in `tests/cli`.

mod support;

use std::path::Path;
use std::process::{Command, Output};
use support::snapshot;

const MLP: &str = r#"{
  "model": "mlp", "batch": 32,
  "layers": [
    {"name": "fc1", "kind": "linear", "shape": [4096, 4096], "bias": true},
    {"name": "fc2", "kind": "linear", "shape": [4096, 4096], "bias": true},
    {"name": "fc3", "kind": "linear", "shape": [1000, 4096], "bias": true}
  ]
}
"#;

fn shoal(folder: &Path, columns: u32, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.arg("plan").args(args).current_dir(folder).env("COLUMNS", columns.to_string());
    command.output().expect("it runs")
}

/// The command and all that it said, as in a terminal.
fn seen(folder: &Path, columns: u32, args: &[&str]) -> String {
    let out = shoal(folder, columns, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = out.status.code().map_or_else(|| "killed".into(), |code| code.to_string());
    let end = if out.status.success() { String::new() } else { format!("[exit code {code}]\n") };
    format!("$ shoal plan {}\n{}{}{end}", args.join(" "), text(&out.stdout), text(&out.stderr))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("mlp.json"), MLP).expect("a file");
    folder
}

#[test]
fn predictions_are_tables_that_fit() {
    let folder = folder();
    for (name, columns, args) in [
        ("plan_vgg19", 80, "--model vgg19 --workers 4 --bandwidth 1gbit --flops 200G"),
        ("plan_vgg19_wide", 140, "--model vgg19 --workers 4 --bandwidth 1gbit --flops 200G"),
        ("plan_resnet50", 80, "--model resnet50 --workers 8 --bandwidth 1gbit --batch 16"),
        ("plan_file", 80, "--model mlp.json --workers 8 --bandwidth 10gbit --flops 100G --servers 2"),
        ("plan_alone", 80, "--model mlp.json --workers 1 --bandwidth 1gbit"),
        (
            "plan_lossy",
            80,
            "--model mlp.json --workers 4 --bandwidth 1gbit --batch 4096 --flops 2T --allow bf16,powersgd:4",
        ),
    ] {
        let text = seen(folder.path(), columns, &args.split(' ').collect::<Vec<_>>());
        for line in text.lines().skip(1) {
            assert!(line.chars().count() <= columns as usize, "{name}: {line}");
        }
        snapshot::check(name, &text);
    }
}

#[test]
fn what_is_wrong_is_said_with_a_hint() {
    let folder = folder();
    let misspelt =
        MLP.replace("\"kind\"", "\"kin\"").replace("4096, 4096], \"bias\": true", "4096], \"bias\": \"yes\"");
    for (name, text) in [("misspelt.json", misspelt.as_str()), ("cut.json", &MLP[..200]), ("empty.json", "")] {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    std::fs::write(folder.path().join("bytes.json"), [0x7b, 0xff]).expect("a file");
    let rest = "--workers 4 --bandwidth 1gbit";
    let mut text = String::new();
    for args in [
        format!("--model misspelt.json {rest}"),
        format!("--model cut.json {rest}"),
        format!("--model empty.json {rest}"),
        format!("--model bytes.json {rest}"),
        format!("--model missing.json {rest}"),
        format!("--model vgg91 {rest}"),
        format!("--model . {rest}"),
        format!("--model train.py:make {rest} --python no-such-python"),
        "--model vgg19 --workers 4 --bandwidth 1000".into(),
        "--model vgg19 --workers 4 --bandwidth fast".into(),
        "--model vgg19 --workers 0 --bandwidth 1gbit".into(),
        format!("--model vgg19 {rest} --per-host 8"),
        format!("--model vgg19 {rest} --flops quick"),
        format!("--model vgg19 {rest} --flops 50G --measure"),
        format!("--model vgg19 {rest} --rtt 3"),
        format!("--model vgg19 {rest} --allow dense"),
        format!("--model vgg19 {rest} --use-sfb yes"),
        format!("--model vgg19 {rest} --input 3,4"),
    ] {
        let said = seen(folder.path(), 80, &args.split(' ').collect::<Vec<_>>());
        assert!(said.contains("[exit code "), "{said}");
        text.push_str(&said);
        text.push('\n');
    }
    snapshot::check("plan_wrong", &text);
}

/// The JSON has what the table has, and adds up.
#[test]
fn json_adds_up() {
    let folder = folder();
    let args = "--model mlp.json --workers 4 --bandwidth 1gbit --flops 50G --json";
    let out = shoal(folder.path(), 80, &args.split(' ').collect::<Vec<_>>());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let planned = &json["planned"];
    let parts: f64 = ["compute", "rebuild", "waiting"].iter().map(|part| number(&planned[part])).sum();
    assert!((number(&planned["seconds"]) - parts).abs() < 1e-9, "{planned}");
    let layers = json["layers"].as_array().expect("layers");
    let sent: f64 = layers.iter().map(|layer| number(&layer["bytes"])).sum();
    assert!((sent - number(&planned["sent"])).abs() < 1.0, "{json}");
    // (32 + 1) rows of everybody's two factors to three others, four bytes a number.
    assert_eq!(number(&layers[0]["bytes"]), 4.0 * 33.0 * 8192.0 * 3.0, "{json}");
    assert!(number(&json["dense"]["seconds"]) > 3.0 * number(&planned["seconds"]), "{json}");
}

/// A reader that went away, of either stream, changes nothing but what is read: no panic, the exit code that it would have been.
#[test]
fn a_closed_pipe_is_no_panic() {
    let plan = |model: &str| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shoal"));
        command.args(["plan", "--model", model, "--workers", "8", "--bandwidth", "1gbit"]);
        command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        command.status().expect("it runs").code()
    };
    assert_eq!(plan("vgg19"), Some(0));
    assert_eq!(plan("no-such-model"), Some(2));
}
