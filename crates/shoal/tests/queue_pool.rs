//! Sweeps on a pool: a real control plane, pods that really run, and the queue as everywhere else (QUEUE-1, QUEUE-2).

mod support;

use serde_json::{Value, json};
use shoal_testkit::kubernetes::{ControlPlane, Kubectl, NodeSpec};
use shoal_testkit::{Hosts, HostsSpec};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use support::desk::{Desk, read};
use support::until;

const LONG: Duration = Duration::from_secs(300);
const SPACE: &str = "lab";

/// A plane with two nodes, a claim, and a desk whose queue has a pool there.
struct Lab {
    daemon: Option<Child>,
    desk: Desk,
    plane: ControlPlane,
    volume: PathBuf,
}

impl Lab {
    fn up_or_skip(hosts: Option<&Hosts>) -> Option<Lab> {
        let mut plane = ControlPlane::up_or_skip()?;
        plane.add_nodes([NodeSpec::new("one"), NodeSpec::new("two")]).expect("nodes");
        let kubectl = plane.kubectl();
        kubectl.namespace(SPACE);
        let volume = plane.folder().join("volume");
        std::fs::create_dir_all(&volume).expect("a folder");
        let size = json!({"storage": "1Gi"});
        let objects = [
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "data"}, "spec": {
                "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": volume}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": SPACE}, "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "data", "resources": {"requests": size}}}),
        ];
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
        let desk = hosts.map_or_else(Desk::new, |hosts| Desk::with_ssh(hosts.ssh_config()));
        let names = hosts.into_iter().flat_map(Hosts::iter).map(|host| format!("  - {{name: {}}}\n", host.name));
        let names: String = names.collect();
        let hosts = if names.is_empty() { String::new() } else { format!("hosts:\n{names}") };
        let here = volume.display();
        desk.file(
            "lab.yaml",
            &format!(
                "{hosts}pools:\n  - name: cloud\n    slots: 8\n    kubernetes:\n      namespace: {SPACE}\n      image: here\n      volumes: [{{claim: data, at: /mnt, here: {here}}}]\n      gpus: {{share: pinned, count: 1, runs: 2}}\n      nodes: [one, two]\n"
            ),
        );
        let mut lab = Lab { daemon: None, desk, plane, volume };
        let mut serve = lab.desk.shoal(&["serve", "-f", "lab.yaml"]);
        serve.env("KUBECONFIG", lab.plane.kubeconfig()).stdout(Stdio::null()).stderr(Stdio::null());
        lab.daemon = Some(serve.spawn().expect("shoal runs"));
        until(LONG, "the pool", || {
            let output = lab.desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let all = all["hosts"].as_array().cloned().unwrap_or_default();
            (!all.is_empty() && all.iter().all(|host| host["connected"] == true)).then_some(())
        });
        Some(lab)
    }

    fn kubectl(&self) -> Kubectl {
        self.plane.kubectl()
    }

    fn sweep(&self, name: &str, runs: u32, script: &str, more: &[&str]) {
        self.desk.file(&format!("{name}.sh"), script);
        let numbers: Vec<String> = (0..runs).map(|n| n.to_string()).collect();
        let (axis, file) = (format!("n={}", numbers.join(",")), format!("{name}.sh"));
        let args = [&["sweep", "--grid", &axis, "--name", name][..], more, &["--", "sh", &file, "{n}"]].concat();
        self.desk.says(&args);
    }

    fn row(&self, name: &str) -> Value {
        let output = self.desk.shoal(&["ps", "--json", "--all"]).output().expect("shoal runs");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all["sweeps"].as_array().into_iter().flatten().find(|row| row["name"] == name).cloned().unwrap_or_default()
    }

    fn until_counts(&self, name: &str, what: &str, count: u32) {
        let log = || std::fs::read_to_string(self.desk.store().join("daemon.log")).unwrap_or_default();
        let end = std::time::Instant::now() + LONG;
        while self.row(name)[what] != count {
            let late = std::time::Instant::now() > end;
            assert!(!late, "{name}: {}\n{}\n{}", self.row(name), self.objects(), log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn objects(&self) -> String {
        self.kubectl().text(&["get", "jobs,pods", "--namespace", SPACE, "--output=name"])
    }

    /// When a sweep is over, nothing of it is left at the server.
    fn until_empty(&self) {
        until(LONG, "an empty namespace", || self.objects().trim().is_empty().then_some(()));
    }

    fn results(&self, name: &str) -> Vec<Value> {
        self.desk.json(&["results", name, "--json"])["rows"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.desk.shoal(&["serve", "--stop", "--stop-runs"]).output();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    let mut lines: Vec<String> = read(path).lines().map(String::from).collect();
    lines.sort();
    lines
}

#[test]
fn a_sweep_on_a_pool_gives_every_result_once() {
    let Some(lab) = Lab::up_or_skip(None) else { return };
    let script = "echo number $1 >>/mnt/ledger; echo hello from $1; echo $SHOAL_SEED >left; until [ -e /mnt/go ]; do sleep 0.1; done\n";
    lab.sweep("six", 6, script, &[]);
    lab.until_counts("six", "running", 6);
    let jobs = until(LONG, "all runs as indexes of Jobs", || {
        let jobs = lab.kubectl().json(&["get", "jobs", "--namespace", SPACE, "--selector=shoal/sweep=six"]);
        let jobs = jobs["items"].as_array().cloned().unwrap_or_default();
        let indexes: u64 = jobs.iter().filter_map(|job| job["spec"]["completions"].as_u64()).sum();
        (indexes == 6).then_some(jobs)
    });
    assert!(jobs.len() < 6, "every run has a Job of its own: {jobs:#?}");
    assert!(jobs.iter().all(|job| job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "shoal"));
    until(LONG, "the output of a live run", || {
        lab.desk.says(&["logs", "six:3.0"]).contains("hello from 3").then_some(())
    });
    std::fs::write(lab.volume.join("go"), "").expect("a file");
    lab.until_counts("six", "finished", 6);
    let mut numbers: Vec<String> = (0..6).map(|n| format!("number {n}")).collect();
    numbers.sort();
    assert_eq!(lines(&lab.volume.join("ledger")), numbers);
    let rows = lab.results("six");
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(read(&Path::new(row["folder"].as_str().expect("a folder")).join("left")), "0\n");
        assert_eq!(row["host"], "cloud");
    }
    lab.until_empty();

    // Ends are the queue's own: a code, a limit of memory, somebody who stops it.
    lab.sweep("fails", 1, "exit 3\n", &[]);
    lab.until_counts("fails", "failed", 1);
    assert!(lab.desk.says(&["ps", "fails"]).contains("exit code 3"));
    lab.sweep(
        "eats",
        1,
        "exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'\n",
        &["--memory", "64M"],
    );
    lab.until_counts("eats", "failed", 1);
    assert!(lab.desk.says(&["ps", "eats"]).contains("out of memory"));
    lab.sweep("endless", 2, "echo up; exec sleep 600\n", &[]);
    until(LONG, "a pod that runs", || lab.desk.says(&["logs", "endless:1.0"]).contains("up").then_some(()));
    lab.desk.says(&["stop", "endless"]);
    lab.until_counts("endless", "stopped", 2);
    lab.until_empty();

    // A GPU is seen by no more runs than the pool says, and each knows which it is.
    lab.sweep(
        "gpus",
        4,
        "echo $NVIDIA_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES >left; hostname >>left\n",
        &["--gpus", "0.5"],
    );
    lab.until_counts("gpus", "finished", 4);
    for row in lab.results("gpus") {
        let left = read(&Path::new(row["folder"].as_str().expect("a folder")).join("left"));
        assert!(left.starts_with("0 0\n"), "{left}");
    }
    // What no node takes is said, in the scheduler's words.
    lab.kubectl().text(&["cordon", "one"]);
    lab.kubectl().text(&["cordon", "two"]);
    lab.sweep("waits", 1, "true\n", &[]);
    until(LONG, "the scheduler's reason", || {
        lab.desk.says(&["why", "waits"]).contains("nodes are available").then_some(())
    });
    lab.kubectl().text(&["uncordon", "one"]);
    lab.until_counts("waits", "finished", 1);
    lab.until_empty();
}

#[test]
fn hosts_and_a_pool_share_a_sweep_while_the_api_server_is_killed() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("pool", 2)) else { return };
    let Some(mut lab) = Lab::up_or_skip(Some(&hosts)) else { return };
    const RUNS: u32 = 40;
    lab.sweep("mixed", RUNS, "sleep 0.5; echo $1 >left\n", &[]);
    until(LONG, "a first result of the pool", || {
        lab.results("mixed").iter().any(|row| row["host"] == "cloud").then_some(())
    });
    lab.plane.kill_api_server();
    // Pods go on meanwhile, and hosts as well.
    let before = lab.row("mixed")["finished"].as_u64().unwrap_or(0);
    until(LONG, "something to finish without the server", || {
        (lab.row("mixed")["finished"].as_u64().unwrap_or(0) > before).then_some(())
    });
    lab.plane.start_api_server().expect("the server");
    lab.until_counts("mixed", "finished", RUNS);
    let rows = lab.results("mixed");
    let mut left: Vec<u32> = rows
        .iter()
        .map(|row| {
            read(&Path::new(row["folder"].as_str().expect("a folder")).join("left")).trim().parse().expect("a number")
        })
        .collect();
    left.sort_unstable();
    assert_eq!(left, (0..RUNS).collect::<Vec<_>>());
    assert!(rows.iter().any(|row| row["host"] != "cloud"), "no host has run anything");
    lab.until_empty();
}
