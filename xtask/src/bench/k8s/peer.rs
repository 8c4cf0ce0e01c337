//! How does kubectl get as many Jobs to the server, and say how they are? It is the witness for ours as well.

use super::SPACE;
use crate::bench::queue::child;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(300);

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

    /// How many indexes the Jobs of a sweep of ours have.
    pub fn indexes(&self, sweep: &str) -> Result<usize> {
        let path = format!("/apis/batch/v1/namespaces/{SPACE}/jobs?labelSelector=shoal%2Fsweep%3D{sweep}");
        let (said, _) = self.timed(&["get", "--raw", &path])?;
        let list: Value = serde_json::from_str(&said).context("a list of Jobs")?;
        let jobs = list["items"].as_array().into_iter().flatten();
        Ok(jobs.filter_map(|job| job["spec"]["completions"].as_u64()).sum::<u64>() as usize)
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
