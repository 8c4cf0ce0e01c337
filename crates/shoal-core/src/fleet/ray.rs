//! How is a Ray cluster file read, as far as it names machines that are there already (`provider.type: local`)?
//!
//! What concerns Ray alone is left out. What a run would miss (containers, proxies, set-up steps) is left out with a warning.
//! Set-up commands are not made part of the environment: Ray runs each once, in a shell of its own, to install things;
//! the native `setup` runs before every program.

use super::target::{self, is_this_machine};
use super::{Environment, Fleet, Host, Placement, Reach, Slots, native};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::document::yaml;
use std::collections::BTreeSet;

const FIELDS: [&str; 30] = [
    "cluster_name",
    "max_workers",
    "upscaling_speed",
    "idle_timeout_minutes",
    "provider",
    "auth",
    "docker",
    "head_node_type",
    "available_node_types",
    "file_mounts",
    "cluster_synced_files",
    "file_mounts_sync_continuously",
    "rsync_exclude",
    "rsync_filter",
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "metadata",
    "no_restart",
    // The dialect of 2020.
    "min_workers",
    "initial_workers",
    "autoscaling_mode",
    "target_utilization_fraction",
    "head_node",
    "worker_nodes",
    "worker_default_node_type",
    "bootstrapped",
];
const AUTH_FIELDS: [&str; 5] =
    ["ssh_user", "ssh_private_key", "ssh_public_key", "ssh_proxy_command", "ssh_proxy_use_node_id"];
const CLOUDS: [&str; 9] = ["aws", "gcp", "azure", "vsphere", "aliyun", "spark", "kuberay", "kubernetes", "external"];
const SET_UP: [&str; 5] =
    ["initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands", "file_mounts"];

pub(super) fn read(reader: &mut Reader, name: String, text: &str) -> Option<Fleet> {
    let root = reader.tree(yaml::parse(text))?;
    let fields = reader.fields(&root, "the cluster file", &FIELDS)?;
    let name = fields.get("cluster_name").map_or(Some(name), |node| native::safe_name(reader, node, "`cluster_name`"));
    let access = read_auth(reader, fields);
    let addresses = read_provider(reader, fields);
    warn_of_what_is_left_out(reader, fields);

    let (user, key) = access?;
    let mut hosts: Vec<Host> = Vec::new();
    let mut seen = BTreeSet::new();
    for (address, group) in addresses? {
        if !seen.insert(address.clone()) {
            continue;
        }
        let reach = match is_this_machine(&address) {
            true => Reach::Local,
            false => Reach::Ssh { user: user.clone(), port: None, key: key.clone(), jump: None },
        };
        let groups = vec![group.to_string()];
        hosts.push(Host { name: address.clone(), address, reach, groups, slots: Slots::default() });
    }
    let (environment, placement) = (Environment::default(), Placement::default());
    Some(Fleet { name: name?, hosts, environment, shared: None, placement })
}

/// The head and the workers, with the group each belongs to.
fn read_provider(reader: &mut Reader, fields: Fields) -> Option<Vec<(String, &'static str)>> {
    let Some(node) = fields.get("provider") else {
        let missing = reader.at(fields.at, "the cluster file has no `provider`");
        reader.report(missing.expected("`provider` with its `type`"));
        return None;
    };
    let provider = reader.map(node, "`provider`")?;
    let Some(kind) = provider.get("type") else {
        reader.report(reader.at(node.at, "`provider` has no `type`").expected("`type: local`"));
        return None;
    };
    match reader.text(kind, "`type`")? {
        "local" => {}
        cloud if CLOUDS.contains(&cloud) => {
            let wrong = reader.at(kind.at, format!("the machines of a cluster of type `{cloud}` are not known yet"));
            reader
                .report(wrong.expected("`local`").help("a cloud's machines have to be started first, with `shoal up`"));
            return None;
        }
        other => {
            let meant = crate::suggest::closest(other, CLOUDS.iter().copied().chain(["local"]));
            reader.report(
                reader.at(kind.at, format!("unknown provider `{other}`")).expected("`local`").suggestion(meant),
            );
            return None;
        }
    }
    if let Some(at) = provider.key("coordinator_address") {
        let wrong = reader.at(at, "machines lent by a coordinator are not supported");
        reader.report(wrong.help("list them as `head_ip` and `worker_ips`"));
        return None;
    }
    let Some(head) = provider.get("head_ip") else {
        reader.report(reader.at(node.at, "`provider` has no `head_ip`").expected("the address of the head"));
        return None;
    };
    let head = read_address(reader, head, "`head_ip`");
    let items = provider.get("worker_ips").and_then(|node| reader.list(node, "`worker_ips`", "addresses"));
    let workers: Vec<Option<String>> =
        items.unwrap_or_default().iter().map(|item| read_address(reader, item, "`worker_ips`")).collect();
    let workers: Option<Vec<String>> = workers.into_iter().collect();
    Some(std::iter::once((head?, "head")).chain(workers?.into_iter().map(|address| (address, "worker"))).collect())
}

fn read_address(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    if matches!(node.value, Value::Map(_)) {
        let wrong = reader.at(node.at, format!("{what} has a wrong value")).expected("an address").found("a map");
        reader.report(wrong.help("is this a placeholder in { } that still has to be filled in?"));
        return None;
    }
    let text = reader.text(node, what)?;
    match target::hosts(text) {
        Ok(names) if names.len() == 1 => names.into_iter().next(),
        Ok(_) => {
            reader.report(reader.at(node.at, "this form has no ranges").help("write each address by itself"));
            None
        }
        Err(error) => {
            reader.error(node.at, error.to_string());
            None
        }
    }
}

/// User and key for all hosts.
fn read_auth(reader: &mut Reader, fields: Fields) -> Option<(Option<String>, Option<String>)> {
    let Some(node) = fields.get("auth") else { return Some((None, None)) };
    let auth = reader.fields(node, "`auth`", &AUTH_FIELDS)?;
    let user = auth.get("ssh_user").and_then(|node| {
        let text = reader.text(node, "`ssh_user`")?;
        target::check_user(text).map(Into::into).map_err(|error| reader.error(node.at, error.to_string())).ok()
    });
    let key = auth.get("ssh_private_key").and_then(|node| native::text(reader, node, "`ssh_private_key`"));
    if let Some(at) = auth.key("ssh_proxy_command") {
        reader.warn(at, "`ssh_proxy_command` is not used", "put it into ~/.ssh/config as ProxyCommand");
    }
    Some((user, key))
}

fn warn_of_what_is_left_out(reader: &mut Reader, fields: Fields) {
    let given = |name: &str| {
        let node = fields.get(name)?;
        let empty = match &node.value {
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Scalar { .. } => node.is_nothing(),
        };
        fields.key(name).filter(|_| !empty)
    };
    for name in SET_UP {
        if let Some(at) = given(name) {
            reader.warn(at, format!("`{name}` is not used by runs"), "set the hosts up before, or with `shoal up`");
        }
    }
    if let Some(at) = given("docker") {
        reader.warn(at, "`docker` is not used: commands run on the hosts themselves", "remove it if that is right");
    }
}
