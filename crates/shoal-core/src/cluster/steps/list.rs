//! Which steps does a node have, in which order? What has been done already is not asked here.

use super::decide::{Because, Decision};
use super::stamp::{Stamp, names};
use super::stop::only_stops_ray;
use super::wire::Containing;
use super::{Action, Kind, Step, Wanted};
use crate::cluster::docker::{self, in_container};
use crate::cluster::{Docker, Node, NodeType, Role, shell};

/// Every process that a start command leaves behind bears this with the cluster's name, so that `down` can find it.
pub const MARK: &str = "SHOAL_CLUSTER";

const USAGE_STATS: &str = "RAY_USAGE_STATS_ENABLED";

pub fn steps(wanted: &Wanted, node: &Node) -> Vec<Step> {
    let cluster = wanted.cluster;
    let kind = cluster.kind(&node.kind).unwrap_or(&cluster.head);
    let docker = cluster.docker.as_ref();
    let mut list = List { wanted, steps: Vec::new(), chain: String::new() };
    list.add("connect", Kind::Connect, &node.host.address, Action::Connect, Stamp::default());
    list.files(node.role);
    if let Some(key) = wanted.mesh {
        let others: Vec<&str> = wanted.nodes.iter().map(|other| other.internal.as_str()).collect();
        let stamp = Stamp::new("", &["mesh", key, &others.join(" ")], &[]);
        list.add("mesh", Kind::Mesh, "a key with which the nodes log in to each other", Action::Mesh, stamp);
    }
    if let Some(command) = wanted.efs {
        let run = Action::Run(shell::login_shell(command, &[]));
        list.add("efs", Kind::Efs, command, run, Stamp::new("", &["efs", command], &[]));
    }
    list.commands("init", Kind::Initialization, &kind.initialization_commands, None, &[]);
    if let Some(docker) = docker {
        list.container(docker, node.role, kind);
    }
    list.commands("setup", Kind::Setup, &kind.setup_commands, docker, &[]);
    list.commands("start", Kind::Start, &kind.start_commands, docker, &start_environment(wanted, node, kind));
    if node.role == Role::Worker {
        let starts = list.steps.iter_mut().filter(|step| step.kind == Kind::Start);
        // With its head gone, a worker of Ray takes half a minute to stop: that comes before the head's own turn.
        starts.take_while(|step| only_stops_ray(&step.what)).for_each(|step| step.kind = Kind::Stop);
    }
    list.steps
}

/// As Ray gives it, and our mark.
fn start_environment(wanted: &Wanted, node: &Node, kind: &NodeType) -> Vec<(String, String)> {
    let head = wanted.nodes.iter().find(|node| node.role == Role::Head).map(|head| head.internal.clone());
    let mut env = vec![(MARK.to_string(), wanted.cluster.name.clone())];
    env.extend(head.map(|address| ("RAY_HEAD_IP".to_string(), address)));
    if kind.resources.as_object().is_some_and(|map| !map.is_empty()) {
        env.push(("RAY_OVERRIDE_RESOURCES".into(), kind.resources.to_string()));
    }
    if node.role == Role::Head && wanted.options.no_usage_stats {
        env.push((USAGE_STATS.into(), "0".into()));
    }
    env
}

struct List<'a> {
    wanted: &'a Wanted<'a>,
    steps: Vec<Step>,
    /// The hash of the last command so far.
    chain: String,
}

impl List<'_> {
    fn add(&mut self, id: &str, kind: Kind, what: &str, action: Action, stamp: Stamp) {
        let decision = Decision::Run(Because::Always);
        self.steps.push(Step { id: id.into(), kind, what: what.into(), action, stamp, decision });
    }

    fn files(&mut self, role: Role) {
        let files = &self.wanted.cluster.files;
        for (index, mount) in files.mounts.iter().enumerate() {
            let digest = self.wanted.trees.get(&mount.remote).map_or("", String::as_str);
            let rules = format!("{:?} {:?}", files.exclude, files.filter);
            let stamp = Stamp::new("", &["files", &mount.remote, &rules], &[digest]);
            self.add(&format!("files {}", mount.remote), Kind::Files, &mount.remote, Action::Files(index), stamp);
        }
        if role == Role::Worker {
            for path in &files.synced {
                let stamp = Stamp::new("", &["synced", path], &[]);
                self.add(&format!("synced {path}"), Kind::Synced, path, Action::Synced(path.clone()), stamp);
            }
        }
    }

    fn container(&mut self, docker: &Docker, role: Role, kind: &NodeType) {
        let mounts = &self.wanted.cluster.files.mounts;
        let remote: Vec<&str> = mounts.iter().map(|mount| mount.remote.as_str()).collect();
        let made_of = format!("{:?} {docker:?}", docker::container(docker, role, kind.docker.as_ref()));
        let stamp = Stamp::new(&self.chain, &[&made_of, &remote.join("\n")], &[]);
        self.chain.clone_from(&stamp.hash);
        let containing =
            Containing { docker: docker.clone(), role, kind: kind.docker.clone(), mounts: mounts.clone(), anew: false };
        let action = Action::Container(Box::new(containing));
        self.add("container", Kind::Container, &docker.container_name, action, stamp);
    }

    fn commands(
        &mut self,
        name: &str,
        kind: Kind,
        commands: &[String],
        docker: Option<&Docker>,
        env: &[(String, String)],
    ) {
        for (index, command) in commands.iter().enumerate() {
            let argv = match self.wanted.options.normal_shells {
                true => shell::normal_shell(command, env),
                false => shell::login_shell(command, env),
            };
            let argv = docker.map_or_else(|| argv.clone(), |docker| in_container(docker, &argv, false));
            let mounts = self.wanted.cluster.files.mounts.iter().filter(|mount| names(command, &mount.remote));
            let digests: Vec<&str> =
                mounts.filter_map(|mount| self.wanted.trees.get(&mount.remote)).map(String::as_str).collect();
            // Whether Ray reports its use is no reason to end what runs on it.
            let counts = |(key, _): &&(String, String)| key != USAGE_STATS;
            let own: Vec<&str> = std::iter::once(name)
                .chain([command.as_str()])
                .chain(env.iter().filter(counts).flat_map(|(key, value)| [key.as_str(), value.as_str()]))
                .collect();
            let stamp = Stamp::new(&self.chain, &own, &digests);
            self.chain.clone_from(&stamp.hash);
            self.add(&format!("{name} {}", index + 1), kind, command, Action::Run(argv), stamp);
        }
    }
}
