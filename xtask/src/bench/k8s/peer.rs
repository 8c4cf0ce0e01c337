//! How does kubectl get as many Jobs to the server, and say how they are? It is the witness for ours as well.

use super::SPACE;
use crate::bench::queue::child;
use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);
/// Until kubectl follows. What comes before that it hears of as well.
const OPENING: Duration = Duration::from_millis(500);

/// Ends with this.
pub struct Follow {
    child: Child,
    jobs: Receiver<usize>,
}

impl Follow {
    /// Until Jobs with so many indexes were heard of.
    pub fn until(&self, cells: usize, end: Instant) -> Result<()> {
        let mut count = 0;
        while count < cells {
            let left = end.saturating_duration_since(Instant::now());
            let more = self.jobs.recv_timeout(left);
            count += more.with_context(|| format!("{count} of {cells} cells are at the server"))?;
        }
        Ok(())
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        // Its first process is `timeout`, which passes this on and sees to the rest.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

pub struct Kubectl {
    kubectl: shoal_testkit::kubernetes::Kubectl,
    file: PathBuf,
}

impl Kubectl {
    pub fn new(kubectl: shoal_testkit::kubernetes::Kubectl, folder: &Path) -> Self {
        Self { kubectl, file: folder.join("jobs.json") }
    }

    fn timed(&self, args: &[&str]) -> Result<(String, f64)> {
        child::timed(&mut self.kubectl.command(args))
    }

    /// Hears of the Jobs of a sweep of ours as they come: to ask for them again and again would take a good part of this machine.
    pub fn follow(&self, sweep: &str) -> Result<Follow> {
        let which = format!("watch=1&labelSelector=shoal%2Fsweep%3D{sweep}");
        let path = format!("/apis/batch/v1/namespaces/{SPACE}/jobs?{which}");
        let mut command = self.kubectl.command(&["get", "--raw", &path]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("kubectl")?;
        let out = child.stdout.take().context("its output")?;
        let (send, jobs) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                let is_new = event["type"] == "ADDED";
                let count = event["object"]["spec"]["completions"].as_u64().filter(|_| is_new);
                if count.is_some_and(|count| send.send(count as usize).is_err()) {
                    return;
                }
            }
        });
        std::thread::sleep(OPENING);
        Ok(Follow { child, jobs })
    }

    /// The seconds until it has made so many Jobs, in one go.
    pub fn make(&self, how: &[&str], count: usize) -> Result<f64> {
        let job = |n: usize| {
            let container = json!({"name": "run", "image": "bench", "command": ["true", n.to_string()]});
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{n}"), "namespace": SPACE},
                "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}})
        };
        let items: Vec<Value> = (1..=count).map(job).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        std::fs::write(&self.file, list.to_string()).context("the Jobs of the peer")?;
        let file = format!("--filename={}", self.file.display());
        let (said, took) = self.timed(&[how, &[file.as_str()]].concat())?;
        ensure!(said.lines().count() == count, "kubectl made {} Jobs, not {count}", said.lines().count());
        Ok(took)
    }

    pub fn get(&self, count: usize) -> Result<f64> {
        let (said, took) = self.timed(&["get", "jobs", "--namespace", SPACE])?;
        ensure!(said.lines().count() == count + 1, "kubectl lists {} Jobs, not {count}", said.lines().count());
        Ok(took)
    }

    pub fn remove(&self) -> Result<()> {
        self.timed(&["delete", "jobs", "--all", "--namespace", SPACE, "--wait=false"])?;
        self.until_empty()
    }

    /// No Job and no pod is left.
    pub fn until_empty(&self) -> Result<()> {
        let none = || {
            let said = self.timed(&["get", "jobs,pods", "--namespace", SPACE, "--output=name"]);
            said.is_ok_and(|(said, _)| said.trim().is_empty())
        };
        ensure!(child::until(PATIENCE, none), "Jobs or pods are left after {PATIENCE:?}");
        Ok(())
    }
}
