//! `kubectl` on a plane: the independent witness of what Shoal says it did.

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// `kubectl` may wait for things itself; longer than this is a test that hangs.
const BOUND_S: &str = "180";

#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    pub(super) fn new(program: PathBuf, kubeconfig: PathBuf, home: PathBuf) -> Self {
        Self { program, kubeconfig, home }
    }

    /// To be run by the caller: `logs -f`, say. It has none of the user's own settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", BOUND_S]).arg(&self.program).args(args);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).stdin(Stdio::null());
        command
    }

    /// # Panics
    /// When `kubectl` does not start.
    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap_or_else(|error| panic!("kubectl does not start: {error}"))
    }

    pub fn ok(&self, args: &[&str]) -> bool {
        self.output(args).status.success()
    }

    /// What it prints.
    ///
    /// # Panics
    /// When it fails; with what it said.
    pub fn text(&self, args: &[&str]) -> String {
        told(args, &self.output(args))
    }

    /// What it prints with `--output=json`; null where there is nothing of the kind.
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.text(&[args, &["--output=json", "--ignore-not-found"]].concat());
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// `kubectl apply -f -` of one document or several, YAML or JSON.
    pub fn apply(&self, documents: &str) -> String {
        self.fed(&["apply", "--filename=-"], documents)
    }

    fn fed(&self, args: &[&str], documents: &str) -> String {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("kubectl does not start: {error}"));
        // It may refuse before it has read all; its answer says so.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(documents.as_bytes()));
        told(args, &child.wait_with_output().expect("kubectl was started here"))
    }

    /// Asks the server to evict a pod, as whoever empties a node does: budgets count, and the pod ends with the condition `DisruptionTarget`.
    pub fn evict(&self, namespace: &str, pod: &str) -> String {
        let of = serde_json::json!({"name": pod, "namespace": namespace});
        let eviction = serde_json::json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": of});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        self.fed(&["create", "--raw", &path, "--filename=-"], &eviction.to_string())
    }

    /// Makes the namespace and waits until a pod may be made in it.
    pub fn namespace(&self, name: &str) {
        self.text(&["create", "namespace", name]);
        let of = format!("--namespace={name}");
        self.text(&["wait", "serviceaccount/default", "--for=create", "--timeout=60s", &of]);
        self.text(&["wait", "configmap/kube-root-ca.crt", "--for=create", "--timeout=60s", &of]);
    }
}

fn told(args: &[&str], output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {} ended with {}: {stdout}{stderr}", args.join(" "), output.status);
    stdout
}
