//! How is a Ray cluster file read? Ray's current schema (2.60) and its dialect of 2020, with all that is wrong said
//! at once.
//!
//! Where it differs from Ray, and why:
//! - Nothing is installed or started that the file does not name. Ray's defaults fetch and start Ray; here a file
//!   without start commands gives plain machines that `shoal run` uses, and nobody's `pip` is called behind their
//!   back.
//! - Without `cache_stopped_nodes`, `down` terminates: what is stopped still costs money.
//! - A cluster without a name has that of its file; two files that both mean `default` would share their machines.
//! - Nobody adds workers later: the cluster has as many as `min_workers` says. `--autoscaling-config` of Ray's own
//!   file is left out of start commands, since that file holds the user's key and is not copied to the head.
//! - Unknown fields are errors at every level, and so are keys that are given twice.

mod auth;
mod aws;
mod commands;
mod counts;
mod docker;
mod files;
mod local;
mod locate;
mod node_types;
mod old;
mod provider;
mod raw;
pub mod slots;
mod start;
mod take;
pub mod values;
mod variables;

/// The fields of each part of the file, for those who describe it.
pub mod fields {
    pub use super::FIELDS as TOP;
    pub use super::auth::FIELDS as AUTH;
    pub use super::aws::{EFS_FIELDS as EFS, FIELDS as AWS};
    pub use super::docker::{FIELDS as DOCKER, TYPE_FIELDS as TYPE_DOCKER};
    pub use super::local::{FIELDS as LOCAL, MACHINE_FIELDS as MACHINE};
    pub use super::node_types::FIELDS as NODE_TYPE;
}

use super::{Cluster, Provider};
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::node::Node;
use crate::document::reader::{Fields, Reader};
use crate::document::yaml;
use crate::fleet::{detect, native};
use std::collections::BTreeMap;

/// Every field of both dialects; `FIELDS_OF_2020` are gone from Ray since.
pub const FIELDS: [&str; 24] = [
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
    "bootstrapped",
    // Ours.
    "mesh_keys",
];

/// `min_workers` is still read by current Ray for a `local` cluster.
pub const FIELDS_OF_2020: [&str; 7] = [
    "min_workers",
    "initial_workers",
    "autoscaling_mode",
    "target_utilization_fraction",
    "head_node",
    "worker_nodes",
    "worker_default_node_type",
];

/// The type of the head, and of the workers, where the file does not name its types.
pub const HEAD_TYPE: &str = "ray.head.default";
pub const WORKER_TYPE: &str = "ray.worker.default";

/// What is known beside the file: the command line and the environment, as values (CORE-1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// What fills the slots, by their names.
    pub values: BTreeMap<String, String>,
    pub env: BTreeMap<String, String>,
    pub home: Option<String>,
    pub min_workers: Option<u32>,
    pub max_workers: Option<u32>,
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Current,
    /// `head_node`, `worker_nodes`, `initial_workers`: what Ray itself refuses now.
    Of2020,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub cluster: Cluster,
    pub dialect: Dialect,
    pub warnings: Vec<Diagnostic>,
}

/// Reads a cluster from the text of a file; `file` names it in messages.
pub fn read(file: &str, text: &str, given: &Given) -> Result<Reading, Diagnostics> {
    let text = without_mark(text);
    let mut reader = Reader::new(file, text);
    let whole = read_text(&mut reader, file, text, given);
    reader.finish(whole).map(|((cluster, dialect), warnings)| Reading { cluster, dialect, warnings })
}

/// Editors on Windows put a byte order mark there; it would count as a column.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// As `read`, with a reader that somebody else finishes.
pub(crate) fn read_text(reader: &mut Reader, file: &str, text: &str, given: &Given) -> Option<(Cluster, Dialect)> {
    let mut root = reader.tree(yaml::parse_with_aliases(text))?;
    match slots::fill(reader, text, &mut root, &given.values) {
        Ok(()) => read_tree(reader, file, text, &root, given),
        Err(empty) => {
            look_on(reader, file, text, &root, given, &empty);
            None
        }
    }
}

/// Reports what else is wrong with a file that has empty slots. What they should have held is not known: that they
/// hold nothing good is not worth a second message.
pub(crate) fn look_on(reader: &mut Reader, file: &str, text: &str, root: &Node, given: &Given, empty: &[slots::Slot]) {
    let mut other = Reader::new(file, text);
    read_tree(&mut other, file, text, root, given);
    let Err(Diagnostics(found)) = other.finish(None::<()>) else { return };
    let at_slot = |at: Place| {
        let within = |slot: Place| slot.line == at.line && (slot.column..slot.column + slot.width).contains(&at.column);
        empty.iter().any(|slot| within(slot.at))
    };
    found.into_iter().filter(|diagnostic| !at_slot(diagnostic.at)).for_each(|diagnostic| reader.report(diagnostic));
}

/// The place of what is wrong with the file as a whole.
const TOP: Place = Place { line: 1, column: 1, width: 1 };

pub(crate) fn read_tree(
    reader: &mut Reader,
    file: &str,
    text: &str,
    root: &Node,
    given: &Given,
) -> Option<(Cluster, Dialect)> {
    let known: Vec<&str> = FIELDS.into_iter().chain(FIELDS_OF_2020).collect();
    let fields = reader.fields(root, "the cluster file", &known)?;
    let name = read_name(reader, file, fields, given);
    let provider = provider::read(reader, fields);
    let auth = auth::read(reader, fields, provider.as_ref());
    let docker = docker::read(reader, fields);
    let files = files::read(reader, text, fields, given);
    let mesh_keys = take::boolean(reader, fields, "mesh_keys").unwrap_or(false);
    let commands = commands::read(reader, fields);
    // Whether a field is of the old dialect depends on the provider.
    let mut provider = provider?;
    let dialect = old::dialect(fields, &provider);
    if let (Dialect::Of2020, Some(at)) = (dialect, old::first(fields, &provider)) {
        let help = format!("`shoal fleet migrate {file}` rewrites it and keeps the comments");
        reader.warn(at, "this file is in Ray's dialect of 2020, which current Ray refuses", &help);
    }
    let types = match &provider {
        Provider::Local(_) => node_types::of_local(reader, fields, &commands),
        Provider::Aws(_) => node_types::read(reader, fields, &commands, docker.as_ref()),
    };
    let mut types = types?;
    let max_workers = counts::settle(reader, fields, &mut provider, &mut types, given);
    Some((
        Cluster {
            name: name?,
            provider,
            auth: auth?,
            docker: docker.map(|both| both.docker),
            head: types.head,
            workers: types.workers.into_iter().map(|worker| worker.kind).collect(),
            max_workers: max_workers?,
            files: files?,
            mesh_keys,
        },
        dialect,
    ))
}

fn read_name(reader: &mut Reader, file: &str, fields: Fields, given: &Given) -> Option<String> {
    let from_file = match fields.get("cluster_name") {
        Some(node) => native::safe_name(reader, node, "`cluster_name`"),
        None => Some(detect::name_from_file(file)),
    };
    match &given.name {
        Some(name) if detect::is_safe_name(name) => Some(name.clone()),
        Some(name) => {
            let at = fields.key("cluster_name").unwrap_or(TOP);
            let wrong = reader.at(at, format!("`{name}` cannot be the name of a cluster"));
            reader
                .report(wrong.expected("letters, digits, `.`, `_` and `-`").help("give `--cluster-name` another one"));
            None
        }
        None => from_file,
    }
}
