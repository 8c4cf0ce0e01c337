//! `status`: what each node says of itself, compared with what the file wants.

use super::account::PARTIAL;
use super::crew::{common, each, not_begun};
use super::provider;
use super::push;
use super::session::Session;
use crate::commands::run::NotBegun;
use serde::Serialize;
use serde_json::json;
use shoal_core::cluster::steps::decide::{Because, Decision};
use shoal_core::cluster::steps::record::Outcome;
use shoal_core::cluster::steps::{Kind, Known, NodePlan, Options, Wanted, plan_node};
use shoal_core::cluster::{Cluster, Node, Role};
use shoal_daemon::records::unix_ms;
use std::process::ExitCode;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum State {
    UpToDate,
    /// Nothing was ever done for the cluster there.
    New,
    /// Set up, never started.
    NotStarted,
    Failed {
        step: String,
        how: String,
    },
    /// The file, or what it mounts, is not what was set up.
    Behind {
        step: String,
        why: String,
    },

    Unreachable {
        what: String,
        hint: String,
    },
}

impl State {
    fn words(&self) -> String {
        match self {
            State::UpToDate => "up to date".into(),
            State::New => "never set up".into(),
            State::NotStarted => "set up, not started".into(),
            State::Failed { step, how } => format!("{step}: {how}"),
            State::Behind { step, why } => format!("{step} would run: {why}"),
            State::Unreachable { what, hint } => format!("{what}\n    hint: {hint}"),
        }
    }
}

pub fn status(cluster: &Cluster, json: bool) -> Result<ExitCode, NotBegun> {
    let provider = provider::of(cluster).map_err(not_begun)?;
    let nodes = provider.nodes().map_err(not_begun)?;
    // Files that are not here cannot be compared; everything else can.
    let trees = push::trees(&cluster.files, &|text| eprintln!("{text}")).map_err(NotBegun::Wrong)?;
    let common = common(cluster, &nodes, None)?;
    let mesh =
        super::lock::folder(&cluster.name).and_then(|folder| std::fs::read_to_string(folder.join("mesh.pub")).ok());
    let efs = provider.efs();
    let mesh = mesh.as_deref().filter(|_| cluster.mesh_keys);
    let wanted =
        Wanted { cluster, nodes: &nodes, trees: &trees, mesh, efs: efs.as_deref(), options: Options::default() };
    let states: Vec<State> = each(nodes.iter().collect(), |node| match Session::open(&common, &node.host) {
        Ok(session) => {
            let state = state(&plan_node(&wanted, node, Some(&session.known)), &session.known);
            session.close();
            state
        }
        Err(no_line) => {
            let trouble = no_line.trouble(&cluster.name);
            State::Unreachable { what: trouble.what, hint: trouble.hint }
        }
    });
    let costs = provider.costs(unix_ms());
    let good = states.iter().filter(|state| **state == State::UpToDate).count();
    let code = match good {
        good if good == states.len() && good > 0 => 0,
        0 => 1,
        _ => PARTIAL,
    };
    if json {
        let node = |(node, state): (&Node, &State)| {
            let mut value = serde_json::to_value(state).unwrap_or_default();
            if let Some(map) = value.as_object_mut() {
                map.insert("node".into(), json!(node.host.name));
                map.insert("role".into(), json!(node.role));
                map.insert("address".into(), json!(node.host.address));
            }
            value
        };
        let list: Vec<_> = nodes.iter().zip(&states).map(node).collect();
        crate::say::line(json!({ "version": 1, "cluster": cluster.name, "nodes": list, "costs": costs }));
    } else {
        crate::say::out(table(cluster, &nodes, &states, costs));
        // What runs under this name is not ours to reach, but may be ours to pay.
        if let Some(trouble) = nodes.is_empty().then(|| provider.not_from_here()).flatten() {
            eprintln!("shoal status: {trouble}");
        }
    }
    Ok(ExitCode::from(code))
}

/// What a node's record means, given what the file wants (pure).
fn state(plan: &NodePlan, known: &Known) -> State {
    if plan.new && known.record.steps.is_empty() {
        return State::New;
    }
    let mut failed = plan.steps.iter().filter_map(|step| match &known.record.steps.get(&step.id)?.outcome {
        Outcome::Failed(how) => Some(State::Failed { step: step.id.clone(), how: how.to_string() }),
        Outcome::Begun => Some(State::Failed { step: step.id.clone(), how: "cut off".into() }),
        Outcome::Done => None,
    });
    if let Some(state) = failed.next() {
        return state;
    }
    let unstarted = plan.steps.iter().any(|step| step.kind >= Kind::Stop && !known.record.steps.contains_key(&step.id));
    let behind = plan.steps.iter().find_map(|step| match &step.decision {
        Decision::Run(_) if unstarted && step.kind >= Kind::Stop => Some(State::NotStarted),
        Decision::Run(because) if *because != Because::Always => {
            Some(State::Behind { step: step.id.clone(), why: because.to_string() })
        }
        _ => None,
    });
    behind.unwrap_or(State::UpToDate)
}

fn table(cluster: &Cluster, nodes: &[Node], states: &[State], costs: Option<String>) -> String {
    let width = nodes.iter().map(|node| node.host.name.chars().count()).max().unwrap_or(0);
    let mut out = format!("cluster {}\n", cluster.name);
    for (node, state) in nodes.iter().zip(states) {
        let role = if node.role == Role::Head { "head" } else { "worker" };
        out.push_str(&format!("  {:<width$}  {role:<6}  {}\n", node.host.name, state.words()));
    }
    if nodes.is_empty() {
        out.push_str("  not up: it has no machines; `shoal up` makes them\n");
    }
    out.extend(costs.map(|costs| format!("{costs}\n")));
    out
}
