//! Which objects a cluster wants to have, under which names.

use super::ledger::Ledger;
use super::{Tags, launch, tags};
use crate::cluster::{Aws, Cluster, NodeType, Role};

/// Everything that should be there; what the file gives by name or id is looked up, the rest is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    pub key: Key,
    pub group: Group,
    pub efs: Option<FileSystem>,
    /// Its name.
    pub placement: Option<String>,
    pub nodes: Vec<Nodes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Of the file: in EC2 under this name; none: node types name their own.
    Given(Option<String>),
    /// A key of the user's: its public half goes to EC2 under this name.
    FromFile { name: String, key: String, public: Option<String> },
    /// Made for the cluster: its private half never leaves this machine.
    Made { name: String },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Group {
    /// All node types name their own.
    Given,
    /// Used if there is one of this name, made otherwise; with these rules beside ours.
    Named {
        name: String,
        rules: serde_json::Value,
    },
    Made {
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSystem {
    Given {
        id: String,
        mount: String,
    },
    /// With a security group of its own.
    Made {
        name: String,
        group: String,
        mount: String,
    },
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    pub role: Role,
    pub kind: String,
    pub count: u32,
    pub launch: String,
}

/// The parts that bear the tag `shoal-part`.
pub const NODES: &str = "nodes";
pub const STORE: &str = "efs";

/// What names begin with: no two ledgers make the same, so nobody else's object can be in the way.
pub fn base(cluster: &str, ledger: &Ledger) -> String {
    format!("shoal-{cluster}-{}", ledger.id)
}

pub fn want(cluster: &Cluster, aws: &Aws, ledger: &Ledger) -> Want {
    let base = base(&cluster.name, ledger);
    let types = || std::iter::once(&cluster.head).chain(&cluster.workers);
    let says = |kind: &NodeType, field: &str| kind.node_config.get(field).is_some_and(|value| !value.is_null());
    let key = match (&aws.key_name, &cluster.auth.key) {
        (Some(name), _) => Key::Given(Some(name.clone())),
        (None, _) if types().all(|kind| says(kind, "KeyName")) => Key::Given(None),
        (None, Some(key)) => {
            Key::FromFile { name: base.clone(), key: key.clone(), public: cluster.auth.public_key.clone() }
        }
        (None, None) => Key::Made { name: base.clone() },
    };
    let group = match &aws.security_group {
        Some(said) if said.get("GroupName").and_then(|name| name.as_str()).is_some() => Group::Named {
            name: said.get("GroupName").and_then(|name| name.as_str()).unwrap_or_default().into(),
            rules: said.get("IpPermissions").cloned().unwrap_or_default(),
        },
        // Without a name they are rules for the group that we make.
        Some(said) => {
            Group::Named { name: base.clone(), rules: said.get("IpPermissions").cloned().unwrap_or_default() }
        }
        None if types().all(|kind| says(kind, "SecurityGroupIds")) => Group::Given,
        None => Group::Made { name: base.clone() },
    };
    let efs = aws.efs.as_ref().map(|efs| match &efs.id {
        Some(id) => FileSystem::Given { id: id.clone(), mount: efs.mount.clone() },
        None => FileSystem::Made { name: base.clone(), group: format!("{base}-efs"), mount: efs.mount.clone() },
    });
    let nodes = |role: Role, kind: &NodeType, count: u32| Nodes {
        role,
        kind: kind.name.clone(),
        count,
        launch: launch::hash(kind, &cluster.auth, aws),
    };
    let workers = cluster.workers.iter().map(|kind| nodes(Role::Worker, kind, kind.min_workers));
    let nodes = std::iter::once(nodes(Role::Head, &cluster.head, 1)).chain(workers).collect();
    Want { key, group, efs, placement: aws.placement_group.then_some(base), nodes }
}

pub fn role_word(role: Role) -> &'static str {
    match role {
        Role::Head => "head",
        Role::Worker => "worker",
    }
}

/// What an instance bears from its first moment, and its disks with it.
pub fn node_tags(cluster: &str, ledger: &Ledger, nodes: &Nodes) -> Tags {
    let mut tags = tags(cluster, ledger, NODES);
    let role = role_word(nodes.role);
    for (key, value) in [
        (super::RAY_ROLE, role.to_string()),
        (super::RAY_TYPE, nodes.kind.clone()),
        (super::RAY_LAUNCH, nodes.launch.clone()),
        ("Name", format!("ray-{cluster}-{role}")),
    ] {
        tags.insert(key.into(), value);
    }
    tags
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::tests::ledger;
    use super::*;
    use crate::cluster::{Auth, Efs, Files, Provider};
    use serde_json::json;

    pub fn kind(name: &str, node_config: serde_json::Value, min_workers: u32) -> NodeType {
        NodeType {
            name: name.into(),
            node_config,
            resources: serde_json::Value::Null,
            min_workers,
            max_workers: min_workers,
            initialization_commands: Vec::new(),
            setup_commands: Vec::new(),
            start_commands: Vec::new(),
            docker: None,
        }
    }

    pub fn aws() -> Aws {
        Aws {
            region: "us-west-2".into(),
            zones: Vec::new(),
            cache_stopped_nodes: false,
            use_internal_ips: true,
            allow_from: Vec::new(),
            key_name: None,
            security_group: None,
            efs: None,
            placement_group: false,
        }
    }

    pub fn cluster(aws: Aws) -> Cluster {
        let node = json!({"ImageId": "ami-1", "InstanceType": "p3.2xlarge"});
        Cluster {
            name: "demo".into(),
            provider: Provider::Aws(aws),
            auth: Auth { user: Some("ubuntu".into()), ..Auth::default() },
            docker: None,
            head: kind("head", node.clone(), 0),
            workers: vec![kind("worker", node, 3)],
            max_workers: 3,
            files: Files::default(),
            mesh_keys: false,
        }
    }

    fn of(change: impl FnOnce(&mut Cluster, &mut Aws)) -> Want {
        let (mut aws, mut cluster) = (aws(), cluster(aws()));
        change(&mut cluster, &mut aws);
        want(&cluster, &aws, &ledger())
    }

    #[test]
    fn what_the_file_does_not_give_is_made_under_a_name_of_its_own() {
        let plain = of(|_, _| {});
        let name = "shoal-demo-0123abcd".to_string();
        assert_eq!(plain.key, Key::Made { name: name.clone() });
        assert_eq!(plain.group, Group::Made { name: name.clone() });
        assert_eq!((plain.efs, plain.placement), (None, None));
        let counts: Vec<_> = plain.nodes.iter().map(|n| (n.role, n.kind.as_str(), n.count)).collect();
        assert_eq!(counts, [(Role::Head, "head", 1), (Role::Worker, "worker", 3)]);

        let full = of(|_, aws| {
            aws.placement_group = true;
            aws.efs = Some(Efs { id: None, mount: "~/efs".into() });
        });
        assert_eq!(full.placement.as_ref(), Some(&name));
        let group = format!("{name}-efs");
        assert_eq!(full.efs, Some(FileSystem::Made { name, group, mount: "~/efs".into() }));
    }

    #[test]
    fn what_the_file_gives_is_used() {
        assert_eq!(of(|_, aws| aws.key_name = Some("lab".into())).key, Key::Given(Some("lab".into())));
        let name = "shoal-demo-0123abcd".into();
        let own = Key::FromFile { name, key: "/h/.ssh/k".into(), public: None };
        assert_eq!(of(|cluster, _| cluster.auth.key = Some("/h/.ssh/k".into())).key, own);
        let both = |cluster: &mut Cluster, field: &str| {
            cluster.head.node_config[field] = json!("x");
            cluster.workers[0].node_config[field] = json!("x");
        };
        assert_eq!(of(|cluster, _| both(cluster, "KeyName")).key, Key::Given(None));
        assert_eq!(of(|cluster, _| both(cluster, "SecurityGroupIds")).group, Group::Given);
        let named = of(|_, aws| aws.security_group = Some(json!({"GroupName": "lab", "IpPermissions": [1]})));
        assert_eq!(named.group, Group::Named { name: "lab".into(), rules: json!([1]) });
        let efs = Some(Efs { id: Some("fs-1".into()), mount: "/efs".into() });
        let given = Some(FileSystem::Given { id: "fs-1".into(), mount: "/efs".into() });
        assert_eq!(of(|_, aws| aws.efs = efs).efs, given);
    }
}
