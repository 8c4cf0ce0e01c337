//! How is a plan shown to people? Nodes that have the same plan are shown once.

use super::decide::Decision;
use super::{Kind, NodePlan, Step, UpPlan};
use crate::cluster::Role;
use crate::document::node::short;

/// The whole plan, as `--plan` prints it.
pub fn render(plan: &UpPlan) -> String {
    let mut out = format!("cluster {}: {}\n", plan.cluster, count(plan.nodes.len(), "node"));
    let mut shown: Vec<(Vec<&NodePlan>, Vec<String>)> = Vec::new();
    for node in &plan.nodes {
        let lines: Vec<String> = node.steps.iter().filter(|step| step.kind != Kind::Connect).map(line).collect();
        match shown.iter_mut().find(|(nodes, l)| *l == lines && nodes[0].role == node.role && alike(nodes[0], node)) {
            Some((nodes, _)) => nodes.push(node),
            None => shown.push((vec![node], lines)),
        }
    }
    for (nodes, lines) in shown {
        let names: Vec<&str> = nodes.iter().map(|node| node.node.as_str()).collect();
        let role = match nodes[0].role {
            Role::Head => "head",
            Role::Worker => "worker",
        };
        let state = match &nodes[0].trouble {
            Some(why) => format!(" (cannot be asked: {why})"),
            None if nodes[0].new => " (new)".into(),
            None => String::new(),
        };
        out.push_str(&format!("\n{role} {}{state}\n", names.join(", ")));
        if lines.is_empty() {
            out.push_str("  nothing to do\n");
        }
        lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    let steps = || plan.nodes.iter().flat_map(|node| &node.steps).filter(|step| step.kind != Kind::Connect);
    let run = steps().filter(|step| matches!(step.decision, Decision::Run(_))).count();
    out.push_str(&format!("\n{} would run, {} would be skipped\n", count(run, "step"), steps().count() - run));
    out
}

fn alike(one: &NodePlan, other: &NodePlan) -> bool {
    one.new == other.new && one.trouble == other.trouble
}

fn line(step: &Step) -> String {
    let what = short(&step.what);
    // The id of files says what they are.
    let name = if step.id.ends_with(&step.what) { step.id.clone() } else { format!("{}: {what}", step.id) };
    match &step.decision {
        Decision::Run(because) => format!("run   {name}  ({because})"),
        Decision::Skip(why) => format!("skip  {name}  ({why})"),
    }
}

pub fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// What runs and what is skipped, in a line for each group of nodes to which the same applies.
pub fn summary(plan: &UpPlan) -> Vec<String> {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    let asked: Vec<&NodePlan> = plan.nodes.iter().filter(|node| node.trouble.is_none()).collect();
    for node in &asked {
        let text = in_words(node);
        match groups.iter_mut().find(|(words, _)| *words == text) {
            Some((_, names)) => names.push(&node.node),
            None => groups.push((text, vec![&node.node])),
        }
    }
    let names = |names: Vec<&str>| match names.len() {
        n if n > 1 && n == asked.len() => format!("all {n} nodes"),
        _ => names.join(", "),
    };
    groups.into_iter().map(|(words, nodes)| format!("{}: {words}", names(nodes))).collect()
}

fn in_words(node: &NodePlan) -> String {
    let mut run: Vec<(String, Vec<&str>)> = Vec::new();
    let mut skip: Vec<(String, Vec<&str>)> = Vec::new();
    for step in node.steps.iter().filter(|step| step.kind != Kind::Connect) {
        let (list, why) = match &step.decision {
            Decision::Run(because) => (&mut run, because.to_string()),
            Decision::Skip(why) => (&mut skip, why.to_string()),
        };
        match list.iter_mut().find(|(known, _)| *known == why) {
            Some((_, ids)) => ids.push(&step.id),
            None => list.push((why, vec![&step.id])),
        }
    }
    let words = |list: Vec<(String, Vec<&str>)>| {
        let parts: Vec<String> = list.into_iter().map(|(why, ids)| format!("{} ({why})", ids.join(", "))).collect();
        parts.join("; ")
    };
    match (run.is_empty(), skip.is_empty()) {
        (true, true) => "nothing to do".into(),
        (false, true) => format!("runs {}", words(run)),
        (true, false) => format!("skips {}", words(skip)),
        (false, false) => format!("runs {}; skips {}", words(run), words(skip)),
    }
}
