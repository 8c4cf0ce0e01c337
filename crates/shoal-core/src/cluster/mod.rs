//! A cluster as a Ray cluster file describes it: machines that are there or can be made, what is put onto them, what is run on them.
//! A fleet is what remains of it when a run only wants to know where its ranks go.

pub mod cloud;
pub mod docker;
pub mod docker_files;
pub mod machines;
pub mod migrate;
pub mod read;
pub mod schema;
pub mod session;
pub mod shell;
pub mod steps;

use crate::fleet::{Fleet, Host};
use serde::{Deserialize, Serialize};

/// A whole file, with every default filled in: whoever has it needs to look nothing up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// A safe file name.
    pub name: String,
    pub provider: Provider,
    pub auth: Auth,
    pub docker: Option<Docker>,
    pub head: NodeType,
    /// In the order of the file. A `local` cluster has one.
    pub workers: Vec<NodeType>,
    /// Of all types together.
    pub max_workers: u32,
    pub files: Files,
    /// Whether the nodes may log in to each other, with a key made for this cluster.
    pub mesh_keys: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Provider {
    Local(Local),
    Aws(Aws),
}

/// Machines that are there already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    pub head: Machine,
    pub workers: Vec<Machine>,
    /// What the head is called from here, where that differs from what the nodes call it.
    pub external_head: Option<String>,
}

/// One machine of a `local` cluster; what is not said here is as in `Auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub address: String,
    pub user: Option<String>,
    pub port: Option<u16>,
    pub key: Option<String>,
    pub jump: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Aws {
    pub region: String,
    /// Tried in this order; none: any of the region.
    pub zones: Vec<String>,
    /// What `down` does without being told: stop instead of terminate.
    pub cache_stopped_nodes: bool,
    pub use_internal_ips: bool,
    /// Who may come in by ssh, as `provider.allow_from` says: addresses or networks (`203.0.113.7`, `10.0.0.0/8`). None: this machine alone.
    #[serde(default)]
    pub allow_from: Vec<String>,
    /// Of an existing key pair.
    pub key_name: Option<String>,
    pub security_group: Option<serde_json::Value>,
    pub efs: Option<Efs>,
    /// `placement: cluster`.
    pub placement_group: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Efs {
    /// `None`: made with the cluster.
    pub id: Option<String>,
    /// Where nodes mount it, such as `~/efs`.
    pub mount: String,
}

/// How nodes are reached unless they say otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    pub user: Option<String>,
    pub key: Option<String>,
    pub public_key: Option<String>,
    pub proxy_command: Option<String>,
    pub port: Option<u16>,
    pub jump: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Docker {
    pub head_image: String,
    pub worker_image: String,
    pub container_name: String,
    pub pull_before_run: bool,
    pub head_run_options: Vec<String>,
    pub worker_run_options: Vec<String>,
    pub detect_runtime: bool,
    pub detect_shm_size: bool,
    pub use_podman: bool,
}

/// What kind of node, how many of it, and what is run there. The lists of commands are complete: what the file says for all nodes is in
/// front of what it says for the role or the type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeType {
    pub name: String,
    /// Arguments for EC2's RunInstances, as boto3 spells them; null for a `local` cluster.
    pub node_config: serde_json::Value,
    /// Ray's resources, given to `ray start` through RAY_OVERRIDE_RESOURCES as Ray does; null if not said.
    pub resources: serde_json::Value,
    pub min_workers: u32,
    pub max_workers: u32,
    pub initialization_commands: Vec<String>,
    pub setup_commands: Vec<String>,
    pub start_commands: Vec<String>,
    /// Instead of the cluster's, for workers of this type.
    pub docker: Option<TypeDocker>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeDocker {
    pub image: Option<String>,
    pub run_options: Vec<String>,
    pub pull_before_run: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub mounts: Vec<Mount>,
    /// Paths of the head that workers get from it; they may not be there yet.
    pub synced: Vec<String>,
    pub continuously: bool,
    /// Patterns of rsync.
    pub exclude: Vec<String>,
    /// Names of files with patterns, such as `.gitignore`, looked for in every folder.
    pub filter: Vec<String>,
}

/// A file or folder of this machine, and where nodes have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// As in the file; `~` is for the node to understand.
    pub remote: String,
    /// With `~` and variables replaced.
    pub local: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Head,
    Worker,
}

/// A node that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub role: Role,
    /// Of the cluster's types.
    pub kind: String,
    pub host: Host,
    /// What the other nodes call it; `RAY_HEAD_IP` is this of the head.
    pub internal: String,
}

impl Cluster {
    pub fn kind(&self, name: &str) -> Option<&NodeType> {
        std::iter::once(&self.head).chain(&self.workers).find(|kind| kind.name == name)
    }
}

/// The nodes as a fleet that runs and sweeps can use: the head first, groups `head` and `worker`. Ranks call each other what the nodes do.
pub fn fleet(name: &str, nodes: &[Node]) -> Fleet {
    let host = |node: &Node| {
        let internal = Some(node.internal.clone()).filter(|internal| *internal != node.host.address);
        Host { internal, ..node.host.clone() }
    };
    Fleet { name: name.into(), hosts: nodes.iter().map(host).collect(), ..Fleet::local() }
}
