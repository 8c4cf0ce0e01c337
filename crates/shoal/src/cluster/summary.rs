//! What does a cluster file come to, in a few lines: its machines, or how many of what.

use crate::commands::fleet::{as_json, table};
use crate::say;
use serde_json::{Value, json};
use shoal_core::cluster::{Aws, Cluster, NodeType, Provider, machines};

pub fn print(cluster: &Cluster, as_data: bool) {
    match &cluster.provider {
        Provider::Local(local) => {
            let fleet = machines::fleet(&cluster.name, &machines::nodes(&cluster.auth, local));
            if as_data { say::line(as_json(&fleet)) } else { say::out(table(&fleet)) }
        }
        Provider::Aws(aws) if as_data => say::line(types_as_json(cluster, aws)),
        Provider::Aws(aws) => say::out(types_table(cluster, aws)),
    }
}

/// Every type with how many nodes of it are started.
fn types(cluster: &Cluster) -> impl Iterator<Item = (&NodeType, &'static str, u32)> {
    let workers = cluster.workers.iter().map(|kind| (kind, "worker", kind.min_workers));
    std::iter::once((&cluster.head, "head", 1)).chain(workers)
}

fn text<'t>(kind: &'t NodeType, name: &str) -> &'t str {
    kind.node_config.get(name).and_then(Value::as_str).unwrap_or("-")
}

fn types_as_json(cluster: &Cluster, aws: &Aws) -> Value {
    let types = types(cluster).map(|(kind, role, nodes)| {
        json!({ "name": kind.name, "role": role, "nodes": nodes, "most": kind.max_workers.max(nodes),
                "instance": kind.node_config.get("InstanceType"), "image": kind.node_config.get("ImageId") })
    });
    json!({ "name": cluster.name, "provider": "aws", "region": aws.region, "types": types.collect::<Vec<_>>() })
}

fn types_table(cluster: &Cluster, aws: &Aws) -> String {
    let nodes: u32 = types(cluster).map(|(_, _, nodes)| nodes).sum();
    let word = if nodes == 1 { "node" } else { "nodes" };
    let mut out = format!("{}: {nodes} {word} on aws, {}\n", cluster.name, aws.region);
    let width = types(cluster).map(|(kind, ..)| kind.name.len()).max().unwrap_or(0).max(4);
    out.push_str(&format!("{:<width$}  {:<6}  {:>5}  {:<14}  IMAGE\n", "TYPE", "ROLE", "NODES", "INSTANCE"));
    for (kind, role, nodes) in types(cluster) {
        let (instance, image) = (text(kind, "InstanceType"), text(kind, "ImageId"));
        out.push_str(&format!("{:<width$}  {role:<6}  {nodes:>5}  {instance:<14}  {image}\n", kind.name));
    }
    out
}
