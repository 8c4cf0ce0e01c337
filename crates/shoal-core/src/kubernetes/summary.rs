//! What will a launch take, in words that one says yes to?

use super::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

pub fn of(plan: &Plan, namespace: &str) -> String {
    let mut held: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut free = 0;
    for run in plan.objects.iter().map(|object| &object.run) {
        match &run.gpu {
            Some(gpu) => *held.entry((run.node.as_deref().unwrap_or("any node"), gpu)).or_default() += 1,
            None => free += 1,
        }
    }
    let nodes: BTreeSet<&str> = held.keys().map(|(node, _)| *node).collect();
    let pods = plan.objects.len();
    let mut text = format!(
        "launch `{}` takes {} and {} in namespace `{namespace}`",
        plan.launch,
        count(pods, "pod"),
        count(held.len(), "GPU")
    );
    for node in nodes {
        let gpus: Vec<String> = held
            .iter()
            .filter(|((on, _), _)| *on == node)
            .map(|((_, gpu), runs)| format!("GPU {gpu}: {runs}"))
            .collect();
        text.push_str(&format!("\n  {node}: {}", gpus.join(", ")));
    }
    if !held.is_empty() {
        text.push_str("\n  pinned GPUs are not counted by Kubernetes: nobody else is kept from them");
    }
    if free > 0 {
        text.push_str(&format!("\n  {} on no GPU of their own", count(free, "pod")));
    }
    if plan.kind.starts_again() {
        text.push_str(&format!("\n  a {} starts its pod again whenever it ends, also after success", plan.kind.word()));
    }
    text
}

pub fn count(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}
