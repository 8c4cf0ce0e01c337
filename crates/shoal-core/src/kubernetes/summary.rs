//! What will a launch take, in words that one says yes to?

use super::plan::{Object, Plan};
use super::template::{Kind, PLUGIN};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub fn of(plan: &Plan, namespace: &str) -> String {
    let mut held: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut free, mut from_plugin) = (0, 0);
    for object in &plan.objects {
        let run = &object.run;
        match (&run.gpu, asked_of_plugin(object)) {
            (Some(gpu), _) => *held.entry((run.node.as_deref().unwrap_or("any node"), gpu)).or_default() += 1,
            (None, 0) => free += 1,
            (None, asked) => from_plugin += asked,
        }
    }
    let nodes: BTreeSet<&str> = held.keys().map(|(node, _)| *node).collect();
    let pods = plan.objects.len();
    let mut text = format!(
        "launch `{}` takes {} and {} in namespace `{namespace}`",
        plan.launch,
        count(pods, "pod"),
        count(held.len() + from_plugin, "GPU")
    );
    for node in nodes {
        let gpus: Vec<String> = held
            .iter()
            .filter(|((on, _), _)| *on == node)
            .map(|((_, gpu), runs)| format!("GPU {gpu}: {runs}"))
            .collect();
        text.push_str(&format!("\n  {node}: {}", gpus.join(", ")));
    }
    if from_plugin > 0 {
        text.push_str(&format!("\n  {} of the device plugin, on whichever nodes have them", count(from_plugin, "GPU")));
    }
    if !held.is_empty() {
        text.push_str("\n  pinned GPUs are not counted by Kubernetes: nobody else is kept from them");
    }
    if free > 0 {
        text.push_str(&format!("\n  {} without a GPU of its own", count(free, "pod")));
    }
    if plan.kind.starts_again() {
        text.push_str(&format!("\n  a {} starts its pod again whenever it ends, also after success", plan.kind.word()));
    }
    text
}

/// GPUs that an object asks the device plugin for, over all containers of its pod.
fn asked_of_plugin(object: &Object) -> usize {
    let path = if object.kind == Kind::Pod { "/spec/containers" } else { "/spec/template/spec/containers" };
    let containers = object.manifest.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let asked = containers.map(|container| &container["resources"]["limits"][PLUGIN]);
    // A quantity may be a number or a text.
    asked.filter_map(|said| said.as_u64().or_else(|| said.as_str()?.parse().ok())).sum::<u64>() as usize
}

pub fn count(number: usize, of: &str) -> String {
    if number == 1 { format!("1 {of}") } else { format!("{number} {of}s") }
}
