//! Poseidon's promise, kept: scripts of TensorFlow 1 run unchanged under `psd_run`, on hosts over real ssh.
//!
//! Needs a Python with TensorFlow and the package: `support/interpreter.rs`.

mod support;

use serde_json::Value;
use shoal_testkit::HostsSpec;
use std::path::{Path, PathBuf};
use support::interpreter;
use support::launching::{Case, Lab};

#[test]
fn poseidons_scripts_on_two_hosts() {
    let Some(python) = interpreter::or_skip() else { return };
    let mut spec = HostsSpec::new("tensorflow", 2);
    spec.share = interpreter::needed_by(&python);
    spec.share.push(root());
    let Some(lab) = Lab::with(spec) else { return };
    lab.run(&[("poseidon", both)]);
    lab.is_clean();
}

/// One after the other: TensorFlow is heavy, and the machine may be small.
fn both(case: &Case) {
    let workers = train(case, "train.py", "--max_steps=60 --use_sfb=True");
    assert!(workers.iter().all(|worker| worker["accuracy"].as_f64().is_some_and(|a| a > 0.9)), "{workers:?}");
    // The folder is another one on each host, as `/tmp` is.
    let workers = train(case, "monitored.py", "--max_steps=40 --train_dir=/tmp/monitored");
    assert!(workers.iter().all(|worker| worker["average"].is_array()), "{workers:?}");
    for host in 0..2 {
        let written = case.lab.on(host, "ls /tmp/monitored");
        assert!(written.contains("checkpoint") && written.contains("tfevents"), "{written}");
    }
}

/// What each worker printed last. All must have ended with the same weights.
fn train(case: &Case, script: &str, flags: &str) -> Vec<Value> {
    let virtualenv = interpreter::virtualenv(&interpreter::or_skip().expect("an interpreter"));
    let nodes = format!("[\"{}\", \"{}\"]", case.address(0), case.address(1));
    let config = format!(
        "{{\"username\": \"root\", \"pem_file\": \"{}\", \"virtualenv\": \"{}\", \"worker_nodes\": {nodes}, \"server_nodes\": {nodes}}}",
        case.lab.hosts().key().display(),
        virtualenv.display(),
    );
    case.file("config.json", &config);
    let path = root().join("examples/tensorflow-v1").join(script);
    let command = format!("TF_CPP_MIN_LOG_LEVEL=2 OMP_NUM_THREADS=1 python {} {flags}", path.display());
    case.psd_run(&["-c", "config.json", "-o", script, &command]).run().exits(0);
    let last = |k: usize| -> Value {
        let log = case.log(script, &format!("worker{k}"));
        let told = log.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        told.unwrap_or_else(|| panic!("worker{k} told nothing:\n{log}"))
    };
    let workers = vec![last(0), last(1)];
    assert_eq!(workers[0]["weights"], workers[1]["weights"], "{script}");
    workers
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_path_buf()
}
