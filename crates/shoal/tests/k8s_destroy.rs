//! `shoal k8s destroy` says what is left, and why.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{Namespace, example, nodes};
use shoal_testkit::kubernetes::ControlPlane;
use shoal_testkit::wait;
use std::time::Duration;

#[test]
fn what_is_stuck_is_named_with_its_reason() {
    let Some(mut plane) = ControlPlane::up_or_skip() else { return };
    plane.add_nodes(nodes()).expect("two nodes");
    let here = Namespace::new(&plane, "ends");
    let template = example("multi-seed-template.yaml");
    let runs = "env: {SECONDS_TO_TRAIN: 600}\nruns: [{name: a, node: phortx1, gpu: 0, seeds: 1}, {name: b, node: phortx2, gpu: 0, seeds: 1}]\n";
    let runs = here.write("runs.yaml", runs);
    let launch = ["launch", "-f", &template, "--runs", &runs, "-y"];
    here.shoal(&launch).expect(0, &["2 runs: 2 running"]);
    let list = here.shoal(&["destroy", "-f", &template, "--dry-run"]).expect(0, &["would remove 2 Jobs, 2 Pods"]);
    assert!(list.text.contains("job/worker-pods-a-0-phortx1-s0"), "{}", list.text);
    assert_eq!(here.get("jobs").len(), 2);

    // Somebody's finalizer holds a Job.
    let held = "worker-pods-a-0-phortx1-s0";
    let patch = r#"{"metadata": {"finalizers": ["lab.example/keep"]}}"#;
    here.kubectl.text(&["patch", "job", held, "--type=merge", "--patch", patch, "--namespace=ends"]);
    let destroy = ["destroy", "-f", template.as_str(), "-y", "--grace", "1"];
    let out = here.shoal(&[&destroy[..], &["--timeout", "10"]].concat());
    out.expect(4, &["Job worker-pods-a-0-phortx1-s0 is left", "lab.example/keep", "1 object of launch"]);
    here.shoal(&launch).expect(2, &["still being destroyed"]);
    let patch = r#"{"metadata": {"finalizers": null}}"#;
    here.kubectl.text(&["patch", "job", held, "--type=merge", "--patch", patch, "--namespace=ends"]);
    here.shoal(&destroy).expect(0, &["nothing of launch"]);
    here.assert_empty();

    // The server restarts while it is waited for.
    here.shoal(&launch).expect(0, &["2 runs: 2 running"]);
    plane.kill_api_server();
    here.shoal(&destroy).expect(3, &["cannot be reached: nobody listens there"]);
    plane.start_api_server().expect("the server");
    here.kubectl.text(&[
        "patch",
        "job",
        held,
        "--type=merge",
        "--patch",
        r#"{"metadata": {"finalizers": ["lab.example/keep"]}}"#,
        "--namespace=ends",
    ]);
    let waiting = here
        .command(&[&destroy[..], &["--namespace", "ends"]].concat())
        .env("KUBECONFIG", &here.kubeconfig)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("shoal starts");
    let alone = || (here.get("pods").is_empty() && here.get("jobs").len() == 1).then_some(());
    wait::until(Duration::from_secs(60), alone).expect("all but the held one go");
    plane.restart_api_server().expect("the server");
    here.kubectl.text(&["patch", "job", held, "--type=merge", "--patch", patch, "--namespace=ends"]);
    let out = waiting.wait_with_output().expect("shoal ends");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("nothing of launch"), "{said}");
    here.assert_empty();

    // A node that does not answer any more.
    here.shoal(&launch).expect(0, &["2 runs: 2 running"]);
    plane.kill_node("phortx2");
    let conditions = "--output=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let lost = || (here.kubectl.text(&["get", "node", "phortx2", conditions]) == "Unknown").then_some(());
    wait::until(Duration::from_secs(60), lost).expect("the controllers miss the node");
    let out = here.shoal(&[&destroy[..], &["--timeout", "15"]].concat());
    out.expect(4, &["its node phortx2 does not answer", "--force", "Pod worker-pods-b-0-phortx2-s0"]);
    here.shoal(&[&destroy[..], &["--force"]].concat()).expect(0, &["nothing of launch"]);
    here.assert_empty();
}
