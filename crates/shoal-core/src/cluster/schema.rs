//! What may stand in a cluster file of the current schema, in the words that editors understand: JSON Schema.
//!
//! Beside Ray's fields it has ours, and of Ray's it refuses what the reader refuses. It knows the shape only. The
//! names are those that the reader knows, which a test holds.

use super::read::fields;
use serde_json::{Map, Value, json};

pub const SCHEMA_ID: &str = "shoal-cluster-1";

pub fn cluster_json_schema() -> Value {
    let commands = |text: &str| json!({"description": text, "type": "array", "items": {"type": "string"}});
    let count = |text: &str| json!({"description": text, "type": "integer", "minimum": 0, "maximum": 10_000});
    let flag = |text: &str| json!({"description": text, "type": "boolean"});
    let known = [
        ("cluster_name", text("The cluster's name; without it, the file's.")),
        ("max_workers", count("The most workers of all types together.")),
        ("upscaling_speed", number("For Ray's autoscaler; does nothing here.")),
        ("idle_timeout_minutes", number("For Ray's autoscaler; does nothing here.")),
        ("provider", provider()),
        ("auth", auth()),
        ("docker", docker()),
        ("head_node_type", text("Which of the types is the head's.")),
        ("available_node_types", node_types()),
        (
            "file_mounts",
            json!({"description": "Path on the nodes: path here.", "type": "object", "additionalProperties": {"type": "string"}}),
        ),
        ("cluster_synced_files", commands("Paths of the head that workers get from it.")),
        ("file_mounts_sync_continuously", flag("Whether changes are sent on as they happen.")),
        ("rsync_exclude", commands("Patterns of rsync to leave out.")),
        ("rsync_filter", commands("Names of files with patterns, such as .gitignore.")),
        ("initialization_commands", commands("Run before the container is started, outside of it.")),
        ("setup_commands", commands("Run on all nodes.")),
        ("head_setup_commands", commands("Run on the head, behind `setup_commands`.")),
        ("worker_setup_commands", commands("Run on workers, behind `setup_commands`.")),
        ("head_start_ray_commands", commands("Start Ray on the head; without them it is not started.")),
        ("worker_start_ray_commands", commands("Start Ray on workers; RAY_HEAD_IP is set.")),
        ("metadata", json!({"description": "Not looked at."})),
        ("no_restart", json!({"description": "Ray's own; not looked at."})),
        ("bootstrapped", json!({"description": "Ray's own; not looked at."})),
        ("mesh_keys", flag("Let the nodes log in to each other, with a key made for this cluster.")),
    ];
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "Ray cluster file, as Shoal reads it",
        "type": "object",
        "additionalProperties": false,
        "required": ["provider"],
        "properties": object(&fields::TOP, &known),
    })
}

fn provider() -> Value {
    let machine = json!({"oneOf": [
        text("address, or user@address:port"),
        {
            "type": "object",
            "additionalProperties": false,
            "required": ["address"],
            "properties": object(&fields::MACHINE, &[("port", port())]),
        },
    ]});
    let local = [("head_ip", machine.clone()), ("worker_ips", json!({"type": "array", "items": machine}))];
    let mut properties = object(&fields::LOCAL, &local);
    let efs = json!({
        "description": "A file system on every node: an existing one, or one made with the cluster.",
        "type": "object",
        "additionalProperties": false,
        "properties": object(&fields::EFS, &[("create", json!({"type": "boolean"}))]),
    });
    let free = json!({"type": "object"});
    let flag = json!({"type": "boolean"});
    let aws = [
        ("efs", efs),
        ("placement", json!({"description": "One placement group for all nodes.", "enum": ["cluster"]})),
        ("security_group", free.clone()),
        ("key_pair", free.clone()),
        ("cloudwatch", free.clone()),
        ("aws_credentials", free),
        ("cache_stopped_nodes", flag.clone()),
        ("use_internal_ips", flag.clone()),
        ("use_external_head_ip", flag.clone()),
        ("disable_node_updaters", flag),
    ];
    properties.extend(object(&fields::AWS, &aws));
    properties.insert("type".into(), json!({"enum": ["local", "aws"]}));
    json!({"type": "object", "required": ["type"], "properties": properties})
}

fn auth() -> Value {
    let known = [("ssh_port", port()), ("ssh_proxy_use_node_id", json!({"type": "boolean"}))];
    json!({"type": "object", "additionalProperties": false, "properties": object(&fields::AUTH, &known)})
}

fn docker() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": container(&fields::DOCKER)})
}

fn container(names: &[&str]) -> Map<String, Value> {
    let kind = |name: &&str| match *name {
        name if name.ends_with("options") => json!({"type": "array", "items": {"type": "string"}}),
        "pull_before_run" | "use_podman" => json!({"type": "boolean"}),
        name if name.starts_with("disable_") => json!({"type": "boolean"}),
        _ => json!({"type": "string"}),
    };
    names.iter().map(|name| ((*name).to_string(), kind(name))).collect()
}

fn node_types() -> Value {
    let commands = json!({"type": "array", "items": {"type": "string"}});
    let count = json!({"type": "integer", "minimum": 0, "maximum": 10_000});
    let known = [
        ("node_config", json!({"description": "Arguments of EC2's RunInstances.", "type": "object"})),
        ("resources", json!({"type": "object", "additionalProperties": {"type": "number", "minimum": 0}})),
        ("min_workers", count.clone()),
        ("max_workers", count),
        ("idle_timeout_s", json!({})),
        ("priority", json!({"type": "integer"})),
        ("labels", json!({"type": "object"})),
        ("initialization_commands", commands.clone()),
        ("worker_setup_commands", commands),
        (
            "docker",
            json!({"type": "object", "additionalProperties": false, "properties": container(&fields::TYPE_DOCKER)}),
        ),
    ];
    let one = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["node_config"],
        "properties": object(&fields::NODE_TYPE, &known),
    });
    json!({"type": "object", "additionalProperties": one})
}

/// The named fields: what is known of them, text for the rest.
fn object(names: &[&str], known: &[(&str, Value)]) -> Map<String, Value> {
    let of = |name: &str| {
        known.iter().find(|(other, _)| *other == name).map_or_else(|| text(""), |(_, schema)| schema.clone())
    };
    names.iter().map(|name| ((*name).to_string(), of(name))).collect()
}

fn text(description: &str) -> Value {
    match description {
        "" => json!({"type": "string"}),
        _ => json!({"description": description, "type": "string"}),
    }
}

fn number(description: &str) -> Value {
    json!({"description": description, "type": "number", "minimum": 0})
}

fn port() -> Value {
    json!({"description": "ssh's port.", "type": "integer", "minimum": 1, "maximum": 65535})
}
