//! Which kinds of nodes are there, and what is run on each?

use super::commands::Commands;
use super::docker::{self, Both};
use super::{HEAD_TYPE, WORKER_TYPE, old, raw, take};
use crate::cluster::NodeType;
use crate::diagnostic::Place;
use crate::document::node::{Key, Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::suggest::closest;
use serde_json::{Value as Json, json};

pub const FIELDS: [&str; 10] = [
    "node_config",
    "resources",
    "min_workers",
    "max_workers",
    "idle_timeout_s",
    "priority",
    "labels",
    "initialization_commands",
    "worker_setup_commands",
    "docker",
];

pub struct Types {
    pub head: NodeType,
    pub workers: Vec<Worker>,
}

pub struct Worker {
    pub kind: NodeType,
    pub at: Place,
    /// What the type itself says; without it, as many as the whole cluster may have.
    pub own_max: Option<u32>,
}

/// A `local` cluster has no types; its machines are what they are.
pub fn of_local(reader: &mut Reader, fields: Fields, commands: &Commands) -> Option<Types> {
    for name in ["available_node_types", "head_node", "worker_nodes"] {
        let given = take::present(fields, name)
            .filter(|node| !matches!(&node.value, Value::Map(entries) if entries.is_empty()));
        if let (Some(_), Some(at)) = (given, fields.key(name)) {
            let wrong = reader.at(at, format!("`{name}` has no meaning for a `local` cluster"));
            reader.report(wrong.help("remove it; what its machines have is found out"));
            return None;
        }
    }
    if let Some(node) = take::present(fields, "head_node_type") {
        reader.warn(node.at, "`head_node_type` has no meaning for a `local` cluster", "remove it");
    }
    let head = plain(HEAD_TYPE, Json::Null, commands, true);
    let worker = plain(WORKER_TYPE, Json::Null, commands, false);
    Some(Types { head, workers: vec![Worker { kind: worker, at: fields.at, own_max: None }] })
}

pub fn read(reader: &mut Reader, fields: Fields, commands: &Commands, docker: Option<&Both>) -> Option<Types> {
    match take::present(fields, "available_node_types") {
        Some(node) => read_types(reader, fields, node, commands, docker),
        None => {
            if let Some(at) = fields.key("head_node_type") {
                let wrong = reader.at(at, "`head_node_type` names a type, but the file has no `available_node_types`");
                reader.report(wrong.help("add the types, or remove it"));
                return None;
            }
            let head = old::node(reader, fields, "head_node");
            let worker = old::node(reader, fields, "worker_nodes");
            let ((head, head_resources), (worker, worker_resources)) = (head?, worker?);
            let mut head = plain(HEAD_TYPE, head.unwrap_or_else(usual_head), commands, true);
            head.resources = head_resources;
            let mut worker = plain(WORKER_TYPE, worker.unwrap_or_else(usual_worker), commands, false);
            worker.resources = worker_resources;
            worker.min_workers = old::minimum(reader, fields).unwrap_or(0);
            let at = fields.key("worker_nodes").unwrap_or(fields.at);
            Some(Types { head, workers: vec![Worker { kind: worker, at, own_max: None }] })
        }
    }
}

fn read_types(
    reader: &mut Reader,
    fields: Fields,
    node: &Node,
    commands: &Commands,
    docker: Option<&Both>,
) -> Option<Types> {
    for name in ["head_node", "worker_nodes"] {
        if let (true, Some(at)) = (old::is_given(fields, name), fields.key(name)) {
            let wrong = reader.at(at, format!("both `{name}` and `available_node_types` are given"));
            reader.report(wrong.help("keep `available_node_types`"));
            return None;
        }
    }
    let types = reader.map(node, "`available_node_types`")?;
    let head_name = head_name(reader, fields, types);
    let by_default = take::text(reader, fields, "worker_default_node_type");
    let minimum = old::minimum(reader, fields);
    let mut head: Option<Worker> = None;
    let mut workers = Vec::new();
    let mut complete = true;
    for (key, node) in types.entries() {
        let is_head = head_name.as_ref() == Some(&key.text);
        let Some(mut read) = read_type(reader, key, node, commands, docker, is_head) else {
            complete = false;
            continue;
        };
        let own = node.get("min_workers").is_some();
        if let (Some(minimum), false, true) = (minimum, own, by_default.as_ref() == Some(&key.text)) {
            read.kind.min_workers = minimum;
        }
        if is_head { head = Some(read) } else { workers.push(read) }
    }
    let head = head.filter(|_| complete)?;
    // Ray starts workers of the head's type as well, if its counts say so.
    if head.kind.min_workers > 0 || head.own_max.unwrap_or(0) > 0 {
        let mut kind = plain(&format!("{}-worker", head.kind.name), head.kind.node_config.clone(), commands, false);
        kind.resources = head.kind.resources.clone();
        kind.min_workers = head.kind.min_workers;
        workers.insert(0, Worker { kind, at: head.at, own_max: head.own_max });
    }
    let max_workers = head.own_max.unwrap_or(0);
    Some(Types { head: NodeType { max_workers, ..head.kind }, workers })
}

fn head_name(reader: &mut Reader, fields: Fields, types: Fields) -> Option<String> {
    let Some(node) = take::present(fields, "head_node_type") else {
        let at = fields.key("available_node_types").unwrap_or(fields.at);
        let wrong = reader.at(at, "which of the types is the head's is not said");
        reader.report(wrong.expected("`head_node_type` with the name of a type"));
        return None;
    };
    let name = reader.text(node, "`head_node_type`")?;
    let names = || types.entries().iter().map(|(key, _)| key.text.as_str());
    if names().any(|known| known == name) {
        return Some(name.into());
    }
    let listed: Vec<String> = names().map(|known| format!("`{known}`")).collect();
    let wrong =
        reader.at(node.at, format!("`available_node_types` has no `{name}`")).suggestion(closest(name, names()));
    reader.report(wrong.expected(format!("one of {}", listed.join(", "))));
    None
}

fn read_type(
    reader: &mut Reader,
    key: &Key,
    node: &Node,
    commands: &Commands,
    docker: Option<&Both>,
    is_head: bool,
) -> Option<Worker> {
    let what = format!("the node type `{}`", key.text);
    let fields = reader.fields(node, &what, &FIELDS)?;
    let Some(config) = take::present(fields, "node_config") else {
        if !fields.has_misspelt("node_config", &FIELDS) {
            let missing = reader.at(key.at, format!("{what} has no `node_config`"));
            reader.report(missing.help("add `node_config` with at least `InstanceType` and `ImageId`"));
        }
        return None;
    };
    reader.map(config, "`node_config`")?;
    refuse_persistent(reader, config);
    let mut kind = plain(&key.text, raw::json(reader, config, "`node_config`"), commands, is_head);
    kind.resources = take::present(fields, "resources").map_or(Json::Null, |node| resources(reader, node));
    kind.min_workers = take::count(reader, fields, "min_workers").unwrap_or(0);
    let own_max = take::count(reader, fields, "max_workers");
    if let Some(own) = take::texts(reader, fields, "initialization_commands", "commands") {
        kind.initialization_commands = own;
    }
    // Instead of all set-up commands, as in Ray; the head has its own list.
    if let Some(own) = take::texts(reader, fields, "worker_setup_commands", "commands").filter(|_| !is_head) {
        kind.setup_commands = own;
    }
    kind.docker = take::present(fields, "docker").and_then(|node| docker::of_type(reader, node, docker));
    if let Some(node) = take::present(fields, "labels") {
        let labels = reader.map(node, "`labels`")?;
        if !labels.entries().is_empty() {
            reader.warn(node.at, "`labels` are not used", "give them to `ray start` as `--labels`");
        }
    }
    Some(Worker { kind, at: key.at, own_max })
}

/// A persistent spot request outlives its instance: EC2 launches another when `down` has ended the one, and nothing of ours would know of it.
pub(super) fn refuse_persistent(reader: &mut Reader, config: &Node) {
    let kind =
        ["InstanceMarketOptions", "SpotOptions", "SpotInstanceType"].iter().try_fold(config, |node, key| node.get(key));
    let Some(kind) = kind else { return };
    if matches!(&kind.value, Value::Scalar { text, .. } if text == "persistent") {
        let wrong = reader.at(kind.at, "a persistent spot request launches anew what `shoal down` has ended");
        reader.report(wrong.expected("`one-time`").found("`persistent`").help(
            "remove `SpotInstanceType`, and `InstanceInterruptionBehavior` if it is not `terminate`; `shoal up` launches what was taken back",
        ));
    }
}

/// Ray's resources: numbers by name. Without any, Ray finds out what a node has.
pub fn resources(reader: &mut Reader, node: &Node) -> Json {
    let Some(map) = reader.map(node, "`resources`") else { return Json::Null };
    for (key, value) in map.entries() {
        let number = raw::json(reader, value, "`resources`");
        if number.as_f64().is_none_or(|n| n < 0.0) {
            reader.mismatch(value, &format!("`{}`", key.text), "a number from 0");
        }
    }
    if map.entries().is_empty() { Json::Null } else { raw::json(reader, node, "`resources`") }
}

fn plain(name: &str, node_config: Json, commands: &Commands, is_head: bool) -> NodeType {
    let (setup, start) = match is_head {
        true => (&commands.head_setup, &commands.head_start),
        false => (&commands.worker_setup, &commands.worker_start),
    };
    NodeType {
        name: name.into(),
        node_config,
        resources: Json::Null,
        min_workers: 0,
        max_workers: 0,
        initialization_commands: commands.initialization.clone(),
        setup_commands: setup.clone(),
        start_commands: start.clone(),
        docker: None,
    }
}

/// What Ray takes where the file says nothing.
pub(in crate::cluster) fn usual_head() -> Json {
    json!({"InstanceType": "m5.large", "BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 256}}]})
}

pub(in crate::cluster) fn usual_worker() -> Json {
    json!({"InstanceType": "m5.large", "InstanceMarketOptions": {"MarketType": "spot"}})
}
