//! What may stand in a native file, in the words that editors understand: JSON Schema.
//!
//! It knows the shape only; what fits together is checked by reading the file. Fields are those the reader knows, which
//! `tests/schema.rs` holds.

use serde_json::{Value, json};

pub const SCHEMA_ID: &str = "shoal-fleet-1";

pub fn native_json_schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "Shoal fleet",
        "description": "The machines to train on, and what commands find there.",
        "type": "object",
        "additionalProperties": false,
        "anyOf": [{"required": ["hosts"]}, {"required": ["pools"]}],
        "properties": {
            "name": text("The fleet's name; without it, the file's."),
            "hosts": {
                "description": "The machines, in the order in which they are filled.",
                "type": "array",
                "minItems": 1,
                "items": {"oneOf": [
                    text("A host or a range of hosts: node01, user@node[01-16].lab:22, 10.0.0.[1-4,9]. localhost is this machine."),
                    host(),
                ]},
            },
            "pools": {
                "description": "Parts of Kubernetes clusters, for `shoal serve` alone: they take runs of the queue beside hosts.",
                "type": "array",
                "items": pool(),
            },
            "defaults": {
                "description": "Settings for all hosts that do not have their own.",
                "type": "object",
                "additionalProperties": false,
                "properties": access(),
            },
            "environment": environment(),
            "shared": path("A folder that all hosts see under this path; commands run there."),
            "master": text("Host that runs ps_master; without it, the first worker's."),
            "servers": texts("Hosts, ranges or groups that run ps_server."),
            "workers": texts("Hosts, ranges or groups that run the workers, in this order; a host may be there several times."),
            "queue": queue(),
        },
    })
}

fn host() -> Value {
    let mut properties = access();
    if let Some(map) = properties.as_object_mut() {
        map.insert("name".into(), text("What people call it; may be a range."));
        map.insert(
            "address".into(),
            text("What ssh and the other hosts call it; without it, its name. A range of the same length."),
        );
        map.insert("groups".into(), texts("Names to choose hosts by."));
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "anyOf": [{"required": ["name"]}, {"required": ["address"]}],
        "properties": properties,
    })
}

fn access() -> Value {
    json!({
        "user": text("Whom to log in as; without it, as ~/.ssh/config says."),
        "port": {"description": "ssh's port.", "type": "integer", "minimum": 1, "maximum": 65535},
        "key": text("The private key, on this machine."),
        "jump": text("The host of this file to go through."),
        "slots": {
            "description": "What there is room for: a number of workers, or more exactly.",
            "oneOf": [
                number(0),
                {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "ranks": number(0),
                        "cpus": number(1),
                        "gpus": number(0),
                        "memory": {"type": ["string", "integer"], "description": "A size such as 64GiB."},
                    },
                },
            ],
        },
    })
}

fn queue() -> Value {
    json!({
        "description": "For `shoal serve` alone: when and how much the queue may use hosts.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "lost_after": time("A host that is silent for so long is lost: its runs start elsewhere."),
            "results": path("Where results go, unless a sweep says otherwise: a folder that all hosts see."),
            "quotas": {
                "description": "By the name of a user: how many processes they may have at once.",
                "type": "object",
                "additionalProperties": number(0),
            },
            "hosts": {
                "description": "By the name of a host or a group.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "slots": number(1),
                        "cpus": number(1),
                        "memory": {"type": ["string", "integer"], "description": "A size such as 64GiB."},
                        "owner": text("Whose desk it is: their runs start whenever they like, others' when nobody is there."),
                        "idle": time("Untouched for so long before others' runs start."),
                        "grace": time("From the checkpoint signal to the stop, when the owner is back."),
                        "lost_after": time("As above, for this host."),
                    },
                },
            },
        },
    })
}

fn pool() -> Value {
    let size = json!({"type": ["string", "integer"], "description": "A size such as 64GiB."});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "slots", "kubernetes"],
        "properties": {
            "name": text("What people call it: lower-case letters, digits and `-`."),
            "groups": texts("Names to choose it by."),
            "slots": number(1),
            "cpus": number(1),
            "memory": size,
            "kubernetes": {
                "type": "object",
                "additionalProperties": false,
                "required": ["image", "volumes"],
                "properties": {
                    "context": text("Of the kubeconfig; without it, the one that it has chosen."),
                    "namespace": text("Without it, the context's."),
                    "image": text("What runs start in."),
                    "pull_secrets": texts("Secrets of the namespace to pull it with."),
                    "volumes": {"description": "Persistent volume claims.", "type": "array", "minItems": 1, "items": volume()},
                    "nodes": texts("Only on these, by kubernetes.io/hostname."),
                    "labels": {
                        "description": "Only on nodes with these.",
                        "type": "object",
                        "additionalProperties": {"type": ["string", "number", "boolean"]},
                    },
                    "tolerations": {"type": "array", "items": toleration()},
                    "gpus": gpus(),
                    "runtime_class": text("How containers are run, where the cluster has several ways."),
                    "service_account": text("Whose pods they are."),
                    "shm": size,
                },
            },
        },
    })
}

fn volume() -> Value {
    let absolute = |what: &str| json!({"description": what, "type": "string", "pattern": "^/"});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["claim", "at"],
        "properties": {
            "claim": text("Its name."),
            "at": absolute("Where pods find it."),
            "here": absolute("Where the queue's machine sees the same files; one volume needs it."),
        },
    })
}

fn toleration() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "key": {"type": ["string", "number", "boolean"]},
            "operator": {"enum": ["Equal", "Exists"]},
            "value": {"type": ["string", "number", "boolean"]},
            "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
        },
    })
}

fn gpus() -> Value {
    json!({
        "description": "How its runs share GPUs.",
        "type": "object",
        "additionalProperties": false,
        "required": ["count"],
        "properties": {
            "share": {"enum": ["whole", "pinned", "slices", "mps"]},
            "count": number(1),
            "runs": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "On one GPU at once, at most."},
            "resource": text("What the device plugin calls them: nvidia.com/gpu."),
        },
    })
}

fn environment() -> Value {
    json!({
        "description": "What commands find on every host.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "virtualenv": path("The root of a virtualenv: what $VIRTUAL_ENV is in it."),
            "conda": text("A conda environment, by name or folder."),
            "modules": one_or_many("For `module load`."),
            "setup": one_or_many("Shell lines that run before the command, in its shell."),
            "env": {
                "description": "Environment variables.",
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
        },
    })
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string", "minLength": 1})
}

fn time(description: &str) -> Value {
    json!({"description": description, "type": ["string", "integer"]})
}

fn path(description: &str) -> Value {
    json!({"description": description, "type": "string", "pattern": "^(/|~$|~/)"})
}

fn texts(description: &str) -> Value {
    json!({"description": description, "type": "array", "items": {"type": "string", "minLength": 1}})
}

fn one_or_many(description: &str) -> Value {
    json!({"description": description, "oneOf": [{"type": "string", "minLength": 1}, texts("")]})
}

fn number(low: u32) -> Value {
    json!({"type": "integer", "minimum": low, "maximum": 10_000})
}
