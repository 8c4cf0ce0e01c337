//! How is Poseidon's cluster configuration, the JSON of `psd_run -c`, read?
//!
//! As Poseidon documents it, with two limits lifted: there may be more workers than servers or fewer, and a node that is
//! listed several times gets several ranks. `localhost` is this machine, reached without ssh.

use super::range::MOST_HOSTS;
use super::target::{self, is_this_machine};
use super::{Environment, Fleet, Host, Placement, Reach, Slots, native};
use crate::document::json;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::job::Prepare;
use std::collections::{BTreeMap, BTreeSet};

pub const FIELDS: [&str; 6] = ["worker_nodes", "server_nodes", "master_node", "pem_file", "virtualenv", "username"];

/// The user that Poseidon logs in as when told nothing.
pub const DEFAULT_USER: &str = "ubuntu";

pub(super) fn read(reader: &mut Reader, name: String, text: &str) -> Option<Fleet> {
    let root = reader.tree(json::parse(text))?;
    let fields = reader.fields(&root, "the configuration", &FIELDS)?;
    let workers = read_nodes(reader, fields, "worker_nodes", 1);
    // Required, as documented, but none is fine: then the workers sum by themselves.
    let servers = read_nodes(reader, fields, "server_nodes", 0);
    let master = match fields.get("master_node") {
        Some(node) => read_node(reader, node, "`master_node`"),
        None => Some("localhost".to_string()),
    };
    let user = fields.get("username").map_or(Some(DEFAULT_USER.to_string()), |node| read_user(reader, node));
    let key = fields.get("pem_file").and_then(|node| native::text(reader, node, "`pem_file`"));
    let virtualenv = fields.get("virtualenv").and_then(|node| native::path(reader, node, "`virtualenv`"));

    let (workers, servers, master) = (workers?, servers?, master?);
    let mut ranks: BTreeMap<&str, u32> = BTreeMap::new();
    for worker in &workers {
        *ranks.entry(worker).or_default() += 1;
    }
    let mut hosts: Vec<Host> = Vec::new();
    let mut seen = BTreeSet::new();
    for address in workers.iter().chain(&servers).chain([&master]) {
        if seen.insert(address.as_str()) {
            let reach = match is_this_machine(address) {
                true => Reach::Local,
                false => Reach::Ssh {
                    user: user.clone(),
                    port: None,
                    key: key.clone(),
                    jump: None,
                    proxy: None,
                    host_key: None,
                },
            };
            // A host that is named for a server or the master alone is not offered to workers.
            let slots = Slots { ranks: ranks.get(address.as_str()).copied().unwrap_or(0), ..Slots::default() };
            hosts.push(Host {
                name: address.clone(),
                address: address.clone(),
                internal: None,
                reach,
                groups: Vec::new(),
                slots,
            });
        }
    }
    let prepare = Prepare { virtualenv, ..Prepare::default() };
    Some(Fleet {
        name,
        hosts,
        environment: Environment { prepare, ..Environment::default() },
        shared: None,
        placement: Placement { master: Some(master), servers, workers },
        pools: Vec::new(),
    })
}

fn read_nodes(reader: &mut Reader, fields: Fields, field: &str, least: usize) -> Option<Vec<String>> {
    let what = format!("`{field}`");
    let Some(node) = fields.get(field) else {
        if !fields.has_misspelt(field, &FIELDS) {
            let missing = reader.at(fields.at, format!("{what} is missing"));
            reader.report(missing.expected(format!("a list of addresses, such as \"{field}\": [\"192.168.1.11\"]")));
        }
        return None;
    };
    let items = reader.list(node, &what, "addresses")?;
    if !(least..=MOST_HOSTS).contains(&items.len()) {
        reader.mismatch(node, &what, &format!("{least} to {MOST_HOSTS} addresses"));
        return None;
    }
    let nodes: Vec<Option<String>> = items.iter().map(|item| read_node(reader, item, &what)).collect();
    nodes.into_iter().collect()
}

fn read_node(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = match &node.value {
        Value::Scalar { .. } => reader.text(node, what)?,
        _ => {
            reader.mismatch(node, what, "an address in quotes");
            return None;
        }
    };
    let wrong = match target::hosts(text) {
        Ok(names) if names.len() == 1 && !text.contains('[') => return names.into_iter().next(),
        Ok(_) => {
            reader.at(node.at, "this form has no ranges").help("write each address by itself, or use the native form")
        }
        Err(_) if text.contains('@') => {
            reader.at(node.at, format!("`{text}` is no address")).help("give the user as \"username\", for all nodes")
        }
        Err(_) if text.matches(':').count() == 1 => reader
            .at(node.at, format!("`{text}` is no address"))
            .help("this form has no ports: give it in ~/.ssh/config, or use the native form"),
        Err(error) => reader.at(node.at, error.to_string()),
    };
    reader.report(wrong);
    None
}

fn read_user(reader: &mut Reader, node: &Node) -> Option<String> {
    let text = reader.text(node, "`username`")?;
    target::check_user(text).map(Into::into).map_err(|error| reader.error(node.at, error.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn the_example_of_psd_runs_help_is_read() {
        let text = r#"{
          "virtualenv": "/home/ubuntu/sandbox",
          "username": "ubuntu",
          "pem_file": "/path/to/pem-file.pem",
          "master_node": "localhost",
          "worker_nodes": ["192.168.1.11", "192.168.1.15"],
          "server_nodes": ["192.168.1.70", "192.168.1.80"]
        }"#;
        let fleet = read("config.json", text).expect("valid").fleet;
        assert_eq!(fleet.name, "config");
        assert_eq!(fleet.placement.workers, ["192.168.1.11", "192.168.1.15"]);
        assert_eq!(fleet.placement.servers, ["192.168.1.70", "192.168.1.80"]);
        assert_eq!(fleet.placement.master.as_deref(), Some("localhost"));
        assert_eq!(fleet.environment.prepare.virtualenv.as_deref(), Some("/home/ubuntu/sandbox"));
        assert_eq!(fleet.host("localhost").map(|h| &h.reach), Some(&Reach::Local));
        let Reach::Ssh { user, key, .. } = &fleet.hosts[0].reach else { panic!("ssh") };
        assert_eq!((user.as_deref(), key.as_deref()), (Some("ubuntu"), Some("/path/to/pem-file.pem")));
    }

    #[test]
    fn counts_may_differ_nodes_may_repeat_and_defaults_are_poseidons() {
        let text = r#"{"worker_nodes": ["10.0.0.1", "10.0.0.1", "10.0.0.2"], "server_nodes": ["10.0.0.1"]}"#;
        let fleet = read("config.json", text).expect("valid").fleet;
        let ranks: Vec<(&str, u32)> = fleet.hosts.iter().map(|h| (h.name.as_str(), h.slots.ranks)).collect();
        assert_eq!(ranks, [("10.0.0.1", 2), ("10.0.0.2", 1), ("localhost", 0)]);
        let Reach::Ssh { user, .. } = &fleet.hosts[0].reach else { panic!("ssh") };
        assert_eq!(user.as_deref(), Some(DEFAULT_USER));
        assert_eq!(fleet.placement.master.as_deref(), Some("localhost"));
    }
}
