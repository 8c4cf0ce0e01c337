//! Which fleet is a Ray cluster file, as far as it names machines that are there already (`provider.type: local`)?
//!
//! The file is read as a whole by `cluster::read`. What a run would miss (containers, set-up steps) is left out with a warning.
//! Set-up commands are not made part of the environment: Ray runs each once, in a shell of its own, to install things;
//! the native `setup` runs before every program.

use super::Fleet;
use crate::cluster::read::{self, Given};
use crate::cluster::{Cluster, Provider, machines};
use crate::document::node::{Node, Value};
use crate::document::reader::Reader;
use crate::document::yaml;
use std::collections::BTreeMap;

const SET_UP: [&str; 5] =
    ["initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands", "file_mounts"];

/// How the warning of what only `shoal up` does begins, behind the field's name.
pub const LEFT_OUT: &str = "is not used by runs";

pub(super) fn read(reader: &mut Reader, file: &str, text: &str, values: &BTreeMap<String, String>) -> Option<Fleet> {
    let mut root = reader.tree(yaml::parse_with_aliases(text))?;
    let given = Given { values: values.clone(), ..Given::default() };
    let slots = read::slots::fill(reader, text, &mut root, &given.values);
    warn_of_what_is_left_out(reader, &root);
    // Paths of this machine mean nothing to a run; whether their variables are set is for `shoal up` to ask.
    if let Value::Map(entries) = &mut root.value {
        entries.retain(|(key, _)| key.text != "file_mounts");
    }
    if let Err(empty) = slots {
        read::look_on(reader, file, text, &root, &given, &empty);
        return None;
    }
    let (cluster, _) = read::read_tree(reader, file, text, &root, &given)?;
    let Cluster { name, auth, provider, .. } = &cluster;
    match provider {
        Provider::Local(local) => Some(machines::plainly_named(machines::fleet(name, &machines::nodes(auth, local)))),
        Provider::Aws(_) => {
            let at = root.get("provider").and_then(|node| node.get("type")).map_or(root.at, |node| node.at);
            let wrong = reader.at(at, "the machines of a cluster of type `aws` are not known yet");
            reader.report(
                wrong
                    .expected("`local`")
                    .help(format!("start them with `shoal up {file}`, then `shoal run -f {file}`")),
            );
            None
        }
    }
}

fn warn_of_what_is_left_out(reader: &mut Reader, root: &Node) {
    let Value::Map(entries) = &root.value else { return };
    let given = |name: &str| {
        let (key, node) = entries.iter().find(|(key, _)| key.text == name)?;
        let empty = match &node.value {
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            Value::Scalar { .. } => node.is_nothing(),
        };
        Some(key.at).filter(|_| !empty)
    };
    for name in SET_UP {
        if let Some(at) = given(name) {
            reader.warn(at, format!("`{name}` {LEFT_OUT}"), "set the hosts up before, or with `shoal up`");
        }
    }
    if let Some(at) = given("docker") {
        reader.warn(at, "`docker` is not used: commands run on the hosts themselves", "remove it if that is right");
    }
}
