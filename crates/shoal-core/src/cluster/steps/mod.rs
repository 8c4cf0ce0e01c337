//! What has to be done on each node of a cluster, and what has been done already (PLAN-1: the plan leaves no choices).
//!
//! | file | question |
//! |---|---|
//! | `stamp` | when is a step the same step |
//! | `record` | what has a node done so far |
//! | `decide` | which steps run, which are skipped, and why |
//! | `list` | which steps does a node have, in which order |
//! | `stop` | what ends what the start commands started |
//! | `wire` | what do client and node say to each other |
//! | `render` | how is a plan shown |

pub mod decide;
pub mod list;
pub mod record;
pub mod render;
pub mod stamp;
pub mod stop;
pub mod wire;

use super::{Cluster, Node, Role};
use decide::{Because, Decision, Why};
use record::NodeRecord;
use serde::Serialize;
use stamp::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use wire::Containing;

/// Everything the plan of an `up` depends on.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub cluster: &'a Cluster,
    pub nodes: &'a [Node],
    /// The digest of each mounted tree, by its path on the nodes.
    pub trees: &'a BTreeMap<String, String>,
    /// The public half of the key by which nodes log in to each other.
    pub mesh: Option<&'a str>,
    /// What mounts the shared file system, where there is one.
    pub efs: Option<&'a str>,
    pub options: Options,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub no_restart: bool,
    pub restart_only: bool,
    /// Start commands run, though what they started runs.
    pub restart: bool,
    /// Ray is told not to report its use.
    pub no_usage_stats: bool,
    /// Commands run without the start-up files of a login.
    pub normal_shells: bool,
}

/// What a node said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub record: NodeRecord,
    /// The id of the cluster's container that runs there.
    pub container: Option<String>,
    /// Steps that left something running, all of which still runs.
    pub alive: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpPlan {
    pub cluster: String,
    pub nodes: Vec<NodePlan>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePlan {
    pub node: String,
    pub role: Role,
    /// Nothing was ever done for this cluster there, as far as is known.
    pub new: bool,
    /// Why it could not be asked. Its steps are then those of a new node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Unique on its node, and its name in records: `setup 2`.
    pub id: String,
    pub kind: Kind,
    /// What people wrote, or what it is about.
    pub what: String,
    #[serde(skip)]
    pub action: Action,
    #[serde(skip)]
    pub stamp: Stamp,
    pub decision: Decision,
}

/// The order is the order in which they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Connect,
    Files,
    Synced,
    Mesh,
    Efs,
    Initialization,
    Container,
    Setup,
    /// A worker's start command that only ends what ran there: it needs no head, and is not slowed down by one that is gone.
    Stop,
    Start,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Connect,
    /// This mount of the cluster is brought up to date.
    Files(usize),
    /// This path of the head is brought to the node.
    Synced(String),
    /// The key of the mesh is put in place.
    Mesh,
    /// This program is run there.
    Run(Vec<String>),
    /// The node's container is brought up.
    Container(Box<Containing>),
}

impl UpPlan {
    pub fn node(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|plan| plan.node == name)
    }
}

impl NodePlan {
    pub fn starts(&self) -> bool {
        self.to_run(|kind| kind >= Kind::Stop).next().is_some()
    }

    /// The head starts anew, or has done so without this node: what runs here belongs to what was there before.
    pub fn follow_the_head(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.decision == Decision::Skip(Why::Running)) {
            step.decision = Decision::Run(Because::After("the head's start".into()));
        }
    }

    /// The steps that are run, of the kinds that are asked for.
    pub fn to_run(&self, kinds: impl Fn(Kind) -> bool) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| kinds(step.kind) && matches!(step.decision, Decision::Run(_)))
    }
}

/// The plan of all nodes. Those that `known` does not hold could not be asked.
pub fn plan(wanted: &Wanted, known: &BTreeMap<String, Known>) -> UpPlan {
    let mut nodes: Vec<NodePlan> =
        wanted.nodes.iter().map(|node| plan_node(wanted, node, known.get(&node.host.name))).collect();
    // A head that could not be asked starts nothing; which of its starts the workers belong to is not known then.
    let head = nodes.iter().find(|plan| plan.role == Role::Head && known.contains_key(&plan.node));
    let is_new = head.is_some_and(NodePlan::starts);
    let epoch = head.map(|plan| known[&plan.node].record.epoch());
    for plan in nodes.iter_mut().filter(|plan| plan.role == Role::Worker) {
        let its = known.get(&plan.node).and_then(|known| known.record.epoch());
        if is_new || epoch.is_some_and(|epoch| epoch != its) {
            plan.follow_the_head();
        }
    }
    UpPlan { cluster: wanted.cluster.name.clone(), nodes }
}

/// The plan of one node by itself: whether its head starts anew is not asked here.
pub fn plan_node(wanted: &Wanted, node: &Node, known: Option<&Known>) -> NodePlan {
    let blank = Known { record: NodeRecord::new(&wanted.cluster.name), container: None, alive: BTreeSet::new() };
    let known = known.unwrap_or(&blank);
    let mut steps = list::steps(wanted, node);
    decide::decide(&mut steps, known, wanted.options);
    NodePlan { node: node.host.name.clone(), role: node.role, new: known.record.is_blank(), trouble: None, steps }
}

#[cfg(test)]
mod tests;
