//! Which nodes of a pool take nothing now, and when is a run that waits for its node given back to the queue?
//!
//! Only where the queue says which GPU of which node a run sees (`share: pinned`): elsewhere the scheduler finds another node by itself.

use crate::fleet::pool::{Pool, Share};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes by name, and why each takes nothing.
pub type Shut = BTreeMap<String, String>;

/// A node that has taken no pod for so long is avoided, as long as there are others; and how long it is.
const PATIENCE: Duration = Duration::from_secs(120);
pub const AVOIDED: Duration = Duration::from_secs(600);
/// Until the queue has heard that a node is shut: before, it would choose the same one again.
const TOLD: Duration = Duration::from_secs(15);

/// `nodes`: all of the cluster; none where we may not look.
pub fn shut<'v>(pool: &Pool, nodes: impl IntoIterator<Item = &'v Value>) -> Shut {
    const HOSTNAME: &str = "/metadata/labels/kubernetes.io~1hostname";
    let named = nodes.into_iter().filter_map(|node| Some((node.pointer(HOSTNAME)?.as_str()?, node)));
    let nodes: BTreeMap<&str, &Value> = named.collect();
    if nodes.is_empty() || !is_pinned(pool) {
        return Shut::new();
    }
    let why = |name: &String| match nodes.get(name.as_str()) {
        None => Some("is not there"),
        Some(node) if node["spec"]["unschedulable"] == true => Some("is cordoned"),
        Some(node) if !is_ready(node) => Some("does not answer"),
        Some(_) => None,
    };
    pool.kubernetes.nodes.iter().filter_map(|name| Some((name.clone(), why(name)?.to_string()))).collect()
}

pub fn is_pinned(pool: &Pool) -> bool {
    pool.kubernetes.gpus.as_ref().is_some_and(|gpus| gpus.share == Share::Pinned)
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// A pod of which no node is found is pinned to a node.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    pub node: &'a str,
    /// For how long no node has taken it.
    pub since: Duration,
    /// Why its node is shut, and for how long.
    pub shut: Option<(&'a str, Duration)>,
    /// Whether another node of the pool is open.
    pub elsewhere: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    Wait,
    /// Nobody says why, but its node takes nothing: others do not go there for a while.
    Avoid,
    /// It goes back to the queue, at no cost, and why.
    GiveUp(String),
}

pub fn advice(waiting: &Waiting) -> Advice {
    match waiting.shut {
        // Where no other node would take it, it may as well wait here.
        _ if !waiting.elsewhere => Advice::Wait,
        Some((why, since)) if since >= TOLD => Advice::GiveUp(format!("its node {} {why}", waiting.node)),
        Some(_) => Advice::Wait,
        None if waiting.since >= PATIENCE => Advice::Avoid,
        None => Advice::Wait,
    }
}

/// What is said of the pool.
pub fn words(shut: &Shut) -> Option<String> {
    let each: Vec<String> = shut.iter().map(|(node, why)| format!("node {node} {why}")).collect();
    (!each.is_empty()).then(|| format!("{}: nothing starts on its GPUs until that is over", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const POOL: &str = r#"{"name":"p","slots":1,"kubernetes":{"image":"i","volumes":[],"nodes":["n1","n2","n3","n4"],"gpus":{"share":"pinned","count":2,"runs":1,"resource":"r"}}}"#;

    #[test]
    fn nodes_that_take_nothing_are_known_where_one_may_look() {
        let node = |name: &str, ready: &str, cordoned: bool| {
            json!({"metadata": {"name": "other", "labels": {"kubernetes.io/hostname": name}}, "spec": {"unschedulable": cordoned},
                   "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        };
        let nodes = [node("n1", "True", false), node("n2", "Unknown", false), node("n3", "True", true)];
        let mut pool: Pool = serde_json::from_str(POOL).expect("a pool");
        let found = shut(&pool, &nodes);
        let wanted = [("n2", "does not answer"), ("n3", "is cordoned"), ("n4", "is not there")];
        assert_eq!(found, wanted.map(|(node, why)| (node.to_string(), why.to_string())).into());
        assert!(words(&found).expect("words").starts_with("node n2 does not answer, node n3 is cordoned, "));
        assert_eq!(shut(&pool, &[]), Shut::new(), "nobody may look");
        pool.kubernetes.gpus.as_mut().expect("gpus").share = Share::Whole;
        assert_eq!(shut(&pool, &nodes), Shut::new(), "the scheduler chooses");
    }

    #[test]
    fn a_run_whose_node_takes_nothing_goes_back_where_another_would_take_it() {
        let up = || Advice::GiveUp("its node n is cordoned".into());
        for (since, shut, elsewhere, wanted) in [
            (500, None, false, Advice::Wait),
            (500, Some(500), false, Advice::Wait),
            (119, None, true, Advice::Wait),
            (120, None, true, Advice::Avoid),
            (500, Some(14), true, Advice::Wait),
            (3, Some(15), true, up()),
        ] {
            let shut = shut.map(|since| ("is cordoned", Duration::from_secs(since)));
            let waiting = Waiting { node: "n", since: Duration::from_secs(since), shut, elsewhere };
            assert_eq!(advice(&waiting), wanted, "{waiting:?}");
        }
    }
}
