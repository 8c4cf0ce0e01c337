//! Where do a cluster's machines come from, and what becomes of them?

use shoal_core::cluster::cloud::preview::Preview;
use shoal_core::cluster::{Cluster, Local as Machines, Node, Provider as Kind, machines};
use std::collections::BTreeSet;
use std::time::Duration;

/// What went wrong, and what could be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub what: String,
    pub hint: String,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n  hint: {}", self.what, self.hint)
    }
}

/// How machines are given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    pub workers_only: bool,
    pub keep_min_workers: bool,
    /// Stopped machines can be started again.
    pub keep_stopped: bool,
}

pub trait Provider {
    /// Those that are there, the head first.
    fn nodes(&self) -> Result<Vec<Node>, Trouble>;
    /// Makes those that are missing.
    fn ensure(&self, tell: &dyn Fn(&str)) -> Result<Vec<Node>, Trouble>;
    /// Gives them back; what is proved gone.
    fn end(&self, how: &End, tell: &dyn Fn(&str)) -> Result<Vec<String>, Trouble>;
    /// What it costs, in one line.
    fn costs(&self, now_ms: u64) -> Option<String>;
    /// Whether machines go on existing after `end`, so that what is on them has to be ended and removed.
    fn machines_stay(&self, _how: &End) -> bool {
        true
    }
    /// What `ensure` would make, where it makes anything.
    fn preview(&self) -> Result<Option<Preview>, Trouble> {
        Ok(None)
    }
    /// A cluster of this name that is there although nothing here knows of it.
    fn not_from_here(&self) -> Option<Trouble> {
        None
    }
    /// What was made for the cluster so far and is still there, in words.
    fn made(&self) -> Vec<String> {
        Vec::new()
    }
    /// How long a machine may take until it can be reached for the first time.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
    /// Whether it has only just started, so that a refused key may still mean "not yet".
    fn is_young(&self, _node: &Node) -> bool {
        false
    }
    /// What mounts the cluster's shared file system on a node.
    fn efs(&self) -> Option<String> {
        None
    }
}

pub fn of(cluster: &Cluster) -> Result<Box<dyn Provider>, Trouble> {
    match &cluster.provider {
        Kind::Local(machines) => Ok(Box::new(Local::new(cluster, machines))),
        Kind::Aws(aws) => Ok(Box::new(super::aws::Aws::new(cluster, aws)?)),
    }
}

/// Machines that are there already: nothing is made, nothing is given back.
pub struct Local {
    nodes: Vec<Node>,
}

impl Local {
    fn new(cluster: &Cluster, local: &Machines) -> Local {
        let mut seen = BTreeSet::new();
        // A machine that is named twice is one node.
        let all = machines::nodes(&cluster.auth, local).into_iter().filter(|node| seen.insert(node.host.name.clone()));
        let nodes = all.take(1 + cluster.max_workers as usize).collect();
        Local { nodes }
    }
}

impl Provider for Local {
    fn nodes(&self) -> Result<Vec<Node>, Trouble> {
        Ok(self.nodes.clone())
    }

    fn ensure(&self, _tell: &dyn Fn(&str)) -> Result<Vec<Node>, Trouble> {
        self.nodes()
    }

    fn end(&self, _how: &End, _tell: &dyn Fn(&str)) -> Result<Vec<String>, Trouble> {
        Ok(Vec::new())
    }

    fn costs(&self, _now_ms: u64) -> Option<String> {
        None
    }
}
