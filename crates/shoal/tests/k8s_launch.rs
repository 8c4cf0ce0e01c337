//! `shoal k8s launch` on a real control plane, with `kubectl` as the witness.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{Namespace, example, example_text, plane};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

fn named<'v>(objects: &'v [Value], field: &str) -> BTreeSet<&'v str> {
    objects.iter().filter_map(|object| object["metadata"][field].as_str()).collect()
}

/// What people have said of objects: all but what the cluster goes on writing into them.
fn wanted(objects: &[Value]) -> BTreeSet<String> {
    let said = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {} {} {}", metadata["uid"], metadata["labels"], metadata["annotations"], object["spec"])
    };
    objects.iter().map(said).collect()
}

/// What would be refused of an Indexed Job, or would never start, is left out; a set is a set.
#[test]
fn jobs_and_deployments_are_templates_too() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "kinds");
    let pod = "spec: {restartPolicy: RESTART, containers: [{name: w, image: here, command: [/bin/sh, -c, COMMAND]}]}";
    let pod = |restart: &str, command: &str| pod.replace("RESTART", restart).replace("COMMAND", command);
    let indexed = "completionMode: Indexed, completions: 4, parallelism: 2, backoffLimitPerIndex: 1, maxFailedIndexes: 1, suspend: true, successPolicy: {rules: [{succeededCount: 1}]}, podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [3]}}]}";
    let runs = here.write("runs.yaml", "runs: [{name: a, seeds: 2}]\n");
    let job = format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: indexed}}\nspec: {{{indexed}, template: {{{}}}}}\n",
        pod("Never", "'true'")
    );
    let job = here.write("job.yaml", &job);
    let launched = here.shoal(&["launch", "-f", &job, "--runs", &runs, "-y", "--wait", "finished"]);
    launched.expect(0, &["2 runs: 2 finished"]);
    let set = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: set}}\nspec: {{replicas: 3, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, {}}}}}\n",
        pod("Always", "sleep 600")
    );
    let set = here.write("set.yaml", &set);
    let launched = here.shoal(&["launch", "-f", &set, "--runs", &runs, "-y", "--keep-kind"]);
    launched.expect(0, &["2 runs: 2 running"]);
    assert_eq!(here.get("deployments").len(), 2);
    for template in [&job, &set] {
        here.shoal(&["destroy", "-f", template, "-y", "--grace", "1"]).expect(0, &["nothing of launch"]);
    }
    here.assert_empty();
}

/// The words of the guide that this replaces: 3 GPUs x 4 replicas on pinned nodes, 12 seeds, 12 results, and nothing left.
#[test]
fn twelve_seeds_leave_twelve_results_and_nothing_else() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "twelve");
    let (template, runs) = (example("multi-seed-template.yaml"), example("runs.yaml"));
    let files = ["-f", template.as_str(), "--runs", runs.as_str()];

    let dry = here.shoal(&[&["launch", "--dry-run"], &files[..]].concat()).expect(0, &["12 pods and 3 GPUs"]);
    assert_eq!(dry.text.matches("kind: Job").count(), 12);
    here.assert_empty();
    // Nobody is asked where nobody can answer.
    let asked = here.shoal(&[&["launch"], &files[..]].concat());
    asked.expect(2, &["12 pods and 3 GPUs", "phortx1: GPU 0: 4, GPU 1: 4", "phortx2: GPU 0: 4", "say yes with -y"]);
    here.assert_empty();

    let launched = here.shoal(&[&["launch", "-y", "--json", "--wait", "finished"], &files[..]].concat()).expect(0, &[]);
    let outcome = launched.json();
    assert_eq!((&outcome["applied"], &outcome["reached"]), (&12.into(), &true.into()), "{outcome:#}");
    let results = here.volume.join("data/l2r/workspaces/ada/results/random");
    for seed in 0..12 {
        let text = std::fs::read_to_string(results.join(format!("seed-{seed}/result.txt"))).expect("a result");
        let gpu = if (4..8).contains(&seed) { 1 } else { 0 };
        assert_eq!(text, format!("-b random seed={seed} gpu={gpu} cuda=0\n"));
    }
    assert_eq!(std::fs::read_dir(&results).expect("results").count(), 12);
    let pods = here.get("pods");
    let on = |node: &str| pods.iter().filter(|pod| pod["spec"]["nodeName"] == node).count();
    assert_eq!((on("phortx1"), on("phortx2")), (8, 4));
    assert!(pods.iter().all(|pod| pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "shoal"));

    // What was printed before is what is there: the server finds no difference.
    let args = ["diff", "--server-side", "--field-manager=shoal", "--namespace=twelve", "--filename=-"];
    let mut diff = here.kubectl.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("kubectl");
    diff.stdin.take().expect("a pipe").write_all(dry.text.as_bytes()).expect("kubectl reads");
    let diff = diff.wait_with_output().expect("kubectl ends");
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));

    // Again: harmless. What is finished stays finished.
    let again = here.shoal(&[&["launch", "-y", "--json", "--wait", "finished"], &files[..]].concat());
    let again = again.expect(0, &["12 objects of launch `worker-pods` are there already"]).json();
    assert_eq!((&again["applied"], &again["there"]), (&0.into(), &12.into()));
    assert_eq!(named(&here.get("pods"), "uid"), named(&pods, "uid"));

    here.shoal(&["destroy", "-f", &template, "-y"]).expect(0, &["12 Jobs", "nothing of launch `worker-pods` is left"]);
    here.assert_empty();
    assert_eq!(std::fs::read_dir(&results).expect("results").count(), 12, "what was saved stays");
    here.shoal(&["destroy", "-f", &template, "-y"]).expect(0, &["nothing of launch `worker-pods` is in namespace"]);
}

/// Runs that take long: `launch` returns when all of them run.
#[test]
fn nothing_is_overwritten() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "keeps");
    let template = here.write("template.yaml", &example_text("multi-seed-template.yaml"));
    let runs = "env: {SECONDS_TO_TRAIN: 600}\nruns: [{name: random, node: phortx1, gpu: 0, seeds: 2}]\n";
    let runs = here.write("runs.yaml", runs);
    let launch = |template: &str, runs: &str, more: &[&str]| {
        here.shoal(&[&["launch", "-f", template, "--runs", runs, "-y"], more].concat())
    };
    let first = launch(&template, &runs, &[]).expect(0, &["2 runs: 2 running"]);
    assert_eq!(first.text.matches("running").count(), 2, "{}", first.text);
    let jobs = here.get("jobs");

    // The template has changed since.
    let changed = example_text("multi-seed-template.yaml").replace("l2r-node:latest", "l2r-node:2");
    let changed = here.write("changed.yaml", &changed);
    let refused = launch(&changed, &runs, &[]);
    refused.expect(2, &["asked for differently", "l2r-node:latest", "nothing was applied", "--name"]);
    // Another launch that would save to the same place.
    let path =
        "save_path: /mnt/worker-pods/random/seed-${SEED}\nruns: [{name: random, node: phortx1, gpu: 3, seeds: 1}]\n";
    let path = here.write("path.yaml", path);
    let refused = launch(&template, &path, &["--name", "other"]);
    refused.expect(2, &["would save to /mnt/worker-pods/random/seed-0", "share_save_path"]);
    // More on a GPU than asked for, counting what other launches run there.
    let full = here.write("full.yaml", "per_gpu: 2\nruns: [{name: b, node: phortx1, gpu: 0, seeds: 1}]\n");
    launch(&template, &full, &["--name", "other"]).expect(2, &["GPU 0 of phortx1 holds 2 already"]);
    // A Job of somebody else's.
    let foreign = "create job worker-pods-c-s0 --image=here --namespace=keeps -- true";
    here.kubectl.text(&foreign.split(' ').collect::<Vec<_>>());
    let c = here.write("c.yaml", "runs: [{name: c, seeds: 2}]\n");
    launch(&template, &c, &[]).expect(2, &["`worker-pods-c-s0` is there already and is not made by shoal"]);
    here.kubectl.text(&["delete", "job", "worker-pods-c-s0", "--namespace=keeps"]);
    assert_eq!(wanted(&here.get("jobs")), wanted(&jobs), "nothing was touched");

    // A run more is no change of the others.
    let more = here
        .write("more.yaml", "env: {SECONDS_TO_TRAIN: 600}\nruns: [{name: random, node: phortx1, gpu: 0, seeds: 3}]\n");
    let out = launch(&template, &more, &["--json"]).expect(0, &[]).json();
    assert_eq!((&out["applied"], &out["there"]), (&1.into(), &2.into()), "{out:#}");
    let status = here.shoal(&["status", "-f", &template, "--json"]).expect(0, &[]).json();
    let runs = status["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().all(|run| run["state"] == "running" && run["pod"].is_string()), "{status:#}");

    let out = here.shoal(&["destroy", "-f", &template, "-y", "--grace", "1", "--json"]).expect(0, &[]).json();
    assert_eq!(out["left"], serde_json::json!([]));
    here.assert_empty();
}

/// As many as a sweep has: all are there, and all go again. No node takes them, so that only the server has work.
#[test]
fn five_hundred_at_once() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "many");
    let template = example("multi-seed-template.yaml");
    let runs = here.write("runs.yaml", "runs: [{name: a, node: nowhere, seeds: 500}]\n");
    let begun = std::time::Instant::now();
    let launch = ["launch", "-f", &template, "--runs", &runs, "-y", "--wait", "none", "--json"];
    let out = here.shoal(&launch).expect(0, &["500 pods"]).json();
    println!("500 objects applied in {:.1?}", begun.elapsed());
    assert_eq!((&out["applied"], &out["not_made"]), (&500.into(), &serde_json::json!([])));
    assert_eq!(here.get("jobs").len(), 500);
    let begun = std::time::Instant::now();
    let status = here.shoal(&["status", "-f", &template, "--json"]).expect(0, &[]).json();
    println!("status of 500 in {:.1?}", begun.elapsed());
    assert_eq!(status["runs"].as_array().map(Vec::len), Some(500));
    let begun = std::time::Instant::now();
    here.shoal(&["destroy", "-f", &template, "-y"]).expect(0, &["500 Jobs", "nothing of launch"]);
    println!("500 destroyed in {:.1?}", begun.elapsed());
    here.assert_empty();
}

/// Somebody deletes a set: launching again makes that one, and no other. Sets of one name never take each other's pods.
#[test]
fn a_set_that_somebody_deleted_is_made_anew() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "sets");
    let template = example("multi-seed-template.yaml");
    let runs = "env: {SECONDS_TO_TRAIN: 600}\nruns: [{name: a, node: phortx1, gpu: 0, seeds: 2}, {name: b, node: phortx2, gpu: 1, seeds: 1}]\n";
    let runs = here.write("runs.yaml", runs);
    let launch = ["launch", "-f", &template, "--runs", &runs, "-y", "--keep-kind", "--json"];
    here.shoal(&[&launch[..], &["--wait", "finished"]].concat()).expect(2, &["a ReplicaSet never finishes"]);
    let out = here.shoal(&launch).expect(0, &["3 runs: 3 running"]).json();
    assert!(out["runs"][0]["kind"] == "ReplicaSet" && out["applied"] == 3, "{out:#}");
    let pods = here.get("pods");
    assert_eq!(pods.len(), 3);

    let gone = out["runs"][0]["object"].as_str().expect("a name").to_string();
    here.kubectl.text(&["delete", "replicaset", &gone, "--namespace=sets", "--cascade=foreground", "--grace-period=1"]);
    let out = here.shoal(&launch).expect(0, &["3 runs: 3 running"]).json();
    assert_eq!((&out["applied"], &out["there"]), (&1.into(), &2.into()), "{out:#}");
    let now = here.get("pods");
    let (before, after) = (named(&pods, "uid"), named(&now, "uid"));
    assert_eq!((after.len(), before.intersection(&after).count()), (3, 2));

    let out = here.shoal(&["destroy", "-f", &template, "-y", "--grace", "1"]);
    out.expect(0, &["3 ReplicaSets, 3 Pods removed"]);
    here.assert_empty();
}
