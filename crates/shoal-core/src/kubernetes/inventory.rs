//! What has Shoal made in a namespace, and is it of this pool and of whoever asks? Everything of ours bears [`MANAGED_BY`]; the rest is in labels, and
//! in what pods are: as whose they run, and from which folder.

use super::gang::GANGS;
use super::helper::{self, HELPER};
use super::names::{LAUNCH, MANAGED_BY, MANAGER, RUN};
use super::pool::job::{POOL, SWEEP};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What selects everything of ours, whosever it is.
pub fn selector() -> String {
    format!("{MANAGED_BY}={MANAGER}")
}

/// Who asks, and for which pool.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub pool: &'a str,
    /// What Jobs of its queue bear ([`super::pool::job::owner`]); none: there is no queue.
    pub owner: Option<&'a str>,
    /// The pool's folder on the volume.
    pub root: &'a str,
    pub user: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "what", content = "name", rename_all = "snake_case")]
pub enum What {
    Sweep(String),
    /// Of `shoal run`.
    Gang(String),
    /// For files and shells.
    Helper(String),
    /// Of `shoal k8s`, which has verbs of its own.
    Launch(String),
    Other(String),
}

impl What {
    /// For people.
    pub fn words(&self) -> String {
        let (kind, name) = match self {
            What::Sweep(name) => ("sweep", name),
            What::Gang(name) => ("run", name),
            What::Helper(name) => ("files or shell", name),
            What::Launch(name) => ("launch", name),
            What::Other(name) => ("other", name),
        };
        format!("{kind} {name}")
    }
}

/// Of a Job or a pod: what it is of, and whether that is of this pool and of whoever asks.
pub fn of(object: &Value, asked: &Asked) -> (What, bool) {
    let label = |key: &str| object["metadata"]["labels"][key].as_str();
    let name = || object["metadata"]["name"].as_str().unwrap_or_default().to_string();
    let template = &object["spec"]["template"]["spec"];
    let pod = if template.is_null() { &object["spec"] } else { template };
    let is_theirs = pod["securityContext"]["runAsUser"].as_u64() == Some(asked.user.into());
    if let Some(pool) = label(POOL) {
        return (What::Sweep(label(SWEEP).unwrap_or_default().into()), asked.owner == Some(pool));
    }
    if let Some(name) = label(HELPER) {
        return (What::Helper(name.into()), is_theirs && label(helper::OF) == Some(&helper::of(asked.pool)));
    }
    if let Some(launch) = label(LAUNCH) {
        return (What::Launch(launch.into()), false);
    }
    let Some(run) = label(RUN) else { return (What::Other(name()), false) };
    let below = format!("{}/{GANGS}/", asked.root);
    let folder = pod["containers"][0]["command"][3].as_str().unwrap_or_default();
    (What::Gang(run.into()), is_theirs && folder.starts_with(&below))
}

/// How much of one thing there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub jobs: usize,
    pub running: usize,
    pub waiting: usize,
    pub ended: usize,
}

impl Count {
    pub fn pods(&self) -> usize {
        self.running + self.waiting + self.ended
    }

    /// `3 running, 1 waiting`.
    pub fn words(&self) -> String {
        let parts = [(self.running, "running"), (self.waiting, "waiting"), (self.ended, "ended")];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if parts.is_empty() { "none".into() } else { parts.join(", ") }
    }
}

/// All that is there, and whether it is theirs.
pub fn count(jobs: &[Value], pods: &[Value], asked: &Asked) -> BTreeMap<(What, bool), Count> {
    let mut all: BTreeMap<(What, bool), Count> = BTreeMap::new();
    for job in jobs {
        all.entry(of(job, asked)).or_default().jobs += 1;
    }
    for pod in pods {
        let count = all.entry(of(pod, asked)).or_default();
        match pod["status"]["phase"].as_str() {
            Some("Running") => count.running += 1,
            Some("Succeeded" | "Failed") => count.ended += 1,
            _ => count.waiting += 1,
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ASKED: Asked = Asked { pool: "cloud", owner: Some("cloud-01"), root: "/hot/.shoal/cloud", user: 7 };

    fn job(labels: Value, user: u32, folder: &str) -> Value {
        let pod = json!({"securityContext": {"runAsUser": user}, "containers": [{"command": ["/bin/sh", "-c", "x", folder]}]});
        json!({"metadata": {"name": "j", "labels": labels}, "spec": {"template": {"spec": pod}}})
    }

    /// The pod of a Job.
    fn pod_of(job: &Value, phase: &str) -> Value {
        json!({"metadata": job["metadata"], "spec": job["spec"]["template"]["spec"], "status": {"phase": phase}})
    }

    #[test]
    fn what_is_theirs_is_told_from_what_is_others() {
        let gang = json!({RUN: "r1"});
        let helper = |of: &str| json!({HELPER: "h", helper::OF: of});
        for (object, what, theirs) in [
            (job(json!({POOL: "cloud-01", SWEEP: "six"}), 7, ""), What::Sweep("six".into()), true),
            (job(json!({POOL: "cloud-02", SWEEP: "six"}), 7, ""), What::Sweep("six".into()), false),
            (job(gang.clone(), 7, "/hot/.shoal/cloud/gangs/r1/worker"), What::Gang("r1".into()), true),
            (job(gang.clone(), 8, "/hot/.shoal/cloud/gangs/r1/worker"), What::Gang("r1".into()), false),
            (job(gang, 7, "/hot/.shoal/cloud2/gangs/r1/worker"), What::Gang("r1".into()), false),
            (job(helper("cloud"), 7, ""), What::Helper("h".into()), true),
            (job(helper("other"), 7, ""), What::Helper("h".into()), false),
            (job(json!({LAUNCH: "l", RUN: "l-s0"}), 7, "/hot/.shoal/cloud/gangs/x"), What::Launch("l".into()), false),
            (job(json!({}), 7, ""), What::Other("j".into()), false),
        ] {
            assert_eq!(of(&object, &ASKED), (what.clone(), theirs));
            assert_eq!(of(&pod_of(&object, "Running"), &ASKED), (what, theirs), "its pod");
        }
        let nobody = Asked { owner: None, ..ASKED };
        assert!(!of(&job(json!({POOL: "cloud-01"}), 7, ""), &nobody).1);
    }

    #[test]
    fn things_are_counted_with_their_pods() {
        let job = job(json!({POOL: "cloud-01", SWEEP: "six"}), 7, "");
        let pods: Vec<Value> =
            ["Running", "Pending", "Succeeded", "Failed"].iter().map(|phase| pod_of(&job, phase)).collect();
        let all = count(&[job], &pods, &ASKED);
        let count = &all[&(What::Sweep("six".into()), true)];
        assert_eq!((count.jobs, count.pods(), count.words().as_str()), (1, 4, "1 running, 1 waiting, 2 ended"));
        assert_eq!(Count::default().words(), "none");
    }
}
