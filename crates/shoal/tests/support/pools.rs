//! A real Kubernetes with a volume, and a desk whose queue has pools there.

use super::desk::Desk;
use super::until;
use serde_json::{Value, json};
use shoal_testkit::Hosts;
use shoal_testkit::kubernetes::{ControlPlane, Kubectl, NodeSpec};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

pub const LONG: Duration = Duration::from_secs(300);
pub const SPACE: &str = "lab";
/// What a pool says of its namespace, image and volume.
pub const USUAL: &str = "namespace: lab, image: here, volumes: [{claim: data, at: /mnt, here: VOLUME}]";

pub struct Lab {
    daemon: Option<Child>,
    pub desk: Desk,
    pub plane: ControlPlane,
    /// What pods have at `/mnt`.
    pub volume: PathBuf,
    pub kubeconfig: PathBuf,
}

impl Lab {
    /// `pools`: lines of a fleet file's list, in which VOLUME is where this machine sees the volume. The queue is not started yet.
    pub fn new(nodes: impl IntoIterator<Item = NodeSpec>, hosts: Option<&Hosts>, pools: &[&str]) -> Option<Lab> {
        let mut plane = ControlPlane::up_or_skip()?;
        plane.add_nodes(nodes).expect("nodes");
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
        let pools: String = pools.iter().map(|pool| format!("  - {pool}\n")).collect();
        let pools = pools.replace("VOLUME", &volume.display().to_string());
        desk.file("lab.yaml", &format!("{hosts}pools:\n{pools}"));
        let kubeconfig = plane.kubeconfig();
        Some(Lab { daemon: None, desk, plane, volume, kubeconfig })
    }

    /// Starts the queue, and waits until all that it has is there.
    pub fn serve(&mut self) {
        let mut serve = self.desk.shoal(&["serve", "-f", "lab.yaml"]);
        serve.env("KUBECONFIG", &self.kubeconfig).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(serve.spawn().expect("shoal runs"));
        until(LONG, "all hosts and pools", || {
            let output = self.desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let all = all["hosts"].as_array().cloned().unwrap_or_default();
            (!all.is_empty() && all.iter().all(|host| host["connected"] == true)).then_some(())
        });
    }

    /// SIGKILL to the daemon, which was started here.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon");
        daemon.kill().expect("it was there");
        daemon.wait().expect("it ends");
    }

    pub fn kubectl(&self) -> Kubectl {
        self.plane.kubectl()
    }

    /// `sh NAME.sh N` for so many N.
    pub fn sweep(&self, name: &str, runs: u32, script: &str, more: &[&str]) {
        self.desk.file(&format!("{name}.sh"), script);
        let numbers: Vec<String> = (0..runs).map(|n| n.to_string()).collect();
        let (axis, file) = (format!("n={}", numbers.join(",")), format!("{name}.sh"));
        let args = [&["sweep", "--grid", &axis, "--name", name][..], more, &["--", "sh", &file, "{n}"]].concat();
        self.desk.says(&args);
    }

    pub fn row(&self, name: &str) -> Value {
        let output = self.desk.shoal(&["ps", "--json", "--all"]).output().expect("shoal runs");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all["sweeps"].as_array().into_iter().flatten().find(|row| row["name"] == name).cloned().unwrap_or_default()
    }

    #[track_caller]
    pub fn until_counts(&self, name: &str, what: &str, count: u32) {
        let log = || std::fs::read_to_string(self.desk.store().join("daemon.log")).unwrap_or_default();
        let end = Instant::now() + LONG;
        while self.row(name)[what] != count {
            let late = Instant::now() > end;
            assert!(!late, "{name}: {}\n{}\n{}", self.row(name), self.objects(), log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[track_caller]
    pub fn until_says(&self, args: &[&str], words: &str) {
        let end = Instant::now() + LONG;
        loop {
            let output = self.desk.shoal(args).output().expect("shoal runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if said.contains(words) {
                return;
            }
            assert!(Instant::now() < end, "no `{words}` in what {args:?} said:\n{said}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// So many lines of a file on the volume.
    #[track_caller]
    pub fn until_lines(&self, file: &str, count: usize) {
        let end = Instant::now() + LONG;
        while lines(&self.volume.join(file)).len() != count {
            let late = Instant::now() > end;
            assert!(!late, "{file}: {:?}, not {count}\n{}", lines(&self.volume.join(file)), self.objects());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn touch(&self, file: &str) {
        std::fs::write(self.volume.join(file), "").expect("a file");
    }

    /// Of a sweep's Jobs or pods, as the server has them.
    pub fn of_sweep(&self, kind: &str, sweep: &str) -> Vec<Value> {
        let which = format!("--selector=shoal/sweep={sweep}");
        let list = self.kubectl().json(&["get", kind, "--namespace", SPACE, &which]);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn objects(&self) -> String {
        self.kubectl().text(&["get", "jobs,pods", "--namespace", SPACE, "--output=name"])
    }

    /// When a sweep is over, nothing of it is left at the server.
    pub fn until_empty(&self) {
        until(LONG, "an empty namespace", || self.objects().trim().is_empty().then_some(()));
    }

    pub fn results(&self, name: &str) -> Vec<Value> {
        self.desk.json(&["results", name, "--json"])["rows"].as_array().cloned().unwrap_or_default()
    }

    /// SIGKILL to the agent or the keeper of a pool: the one process whose environment names the pool's folder and whose words include this.
    #[track_caller]
    pub fn kill(&self, pool: &str, word: &str) {
        let folder = format!("SHOAL_HOST_DIR={}", self.volume.join(".shoal").join(pool).display());
        let has = |pid: i32, file: &str, wanted: &str| {
            let read = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read.split(|byte| *byte == 0).any(|text| text == wanted.as_bytes())
        };
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let pids: Vec<i32> = pids.filter(|pid| has(*pid, "cmdline", word) && has(*pid, "environ", &folder)).collect();
        let [pid] = pids[..] else { panic!("`{word}` of {pool} is {pids:?}") };
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was there");
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

/// In order of the alphabet; none if it is not there.
pub fn lines(path: &Path) -> Vec<String> {
    let mut lines: Vec<String> = std::fs::read_to_string(path).unwrap_or_default().lines().map(String::from).collect();
    lines.sort();
    lines
}
