//! Poseidon's promise, kept: scripts of TensorFlow 1 run unchanged under `psd_run`, on hosts over real ssh.
//!
//! Needs a Python with TensorFlow and the package (its wheel, for the sake of `shoal.pth`): `SHOAL_TEST_TENSORFLOW` names the interpreter
//! of a virtual environment that has both.

mod support;

use serde_json::Value;
use shoal_testkit::HostsSpec;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::launching::{Case, Lab};

const PYTHON: &str = "SHOAL_TEST_TENSORFLOW";

#[test]
fn poseidons_scripts_on_two_hosts() {
    let Some(python) = std::env::var_os(PYTHON).map(PathBuf::from) else {
        shoal_testkit::skip(format_args!(
            "{PYTHON} names no interpreter of an environment with tensorflow-cpu and shoal"
        ));
        return;
    };
    let mut spec = HostsSpec::new("tensorflow", 2);
    spec.share = needed_by(&python);
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
    let python = PathBuf::from(std::env::var_os(PYTHON).expect("an interpreter"));
    let virtualenv = python.ancestors().nth(2).expect("an environment");
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

/// The folders that an interpreter reads from, which hosts may hide.
fn needed_by(python: &Path) -> Vec<PathBuf> {
    let script = "import os, sys; print(*{sys.prefix, sys.base_prefix, *filter(os.path.isdir, sys.path)}, sep='\\n')";
    let output = Command::new(python).args(["-c", script]).output().expect("the interpreter");
    assert!(output.status.success(), "{}: {}", python.display(), String::from_utf8_lossy(&output.stderr));
    let mut folders: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect();
    folders.sort();
    // A folder brings everything below it.
    let all = folders.clone();
    folders.retain(|folder| !all.iter().any(|other| other != folder && folder.starts_with(other)));
    folders
}
