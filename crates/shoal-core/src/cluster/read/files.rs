//! Which files are put onto the nodes?

use super::variables::{Unknown, expand};
use super::{Given, locate, take};
use crate::cluster::{Files, Mount};
use crate::document::node::Node;
use crate::document::reader::{Fields, Reader};

pub fn read(reader: &mut Reader, text: &str, fields: Fields, given: &Given) -> Option<Files> {
    let mounts = match take::present(fields, "file_mounts") {
        None => Some(Vec::new()),
        Some(node) => read_mounts(reader, text, node, given),
    };
    let list = |reader: &mut Reader, name: &str, of: &str| take::texts(reader, fields, name, of).unwrap_or_default();
    Some(Files {
        synced: list(reader, "cluster_synced_files", "paths"),
        continuously: take::boolean(reader, fields, "file_mounts_sync_continuously").unwrap_or(false),
        exclude: list(reader, "rsync_exclude", "patterns"),
        filter: list(reader, "rsync_filter", "names of files with patterns"),
        mounts: mounts?,
    })
}

fn read_mounts(reader: &mut Reader, text: &str, node: &Node, given: &Given) -> Option<Vec<Mount>> {
    let map = reader.map(node, "`file_mounts`")?;
    let mut mounts = Vec::new();
    for (remote, local) in map.entries() {
        if remote.text.trim().is_empty() {
            reader.error(remote.at, "a path of `file_mounts` is empty");
            continue;
        }
        let Some(path) = reader.text(local, &format!("`{}`", remote.text)) else { continue };
        match expand(path, &given.env, given.home.as_deref()) {
            Ok(local) => mounts.push(Mount { remote: remote.text.clone(), local }),
            Err(unknown) => {
                let (piece, message, help) = match &unknown {
                    Unknown::Variable { piece, name } => (
                        piece,
                        format!("the environment has no `{name}`"),
                        "set it, or write the path out; `$$` is a `$`".to_string(),
                    ),
                    Unknown::Home { piece } => {
                        (piece, format!("whose home `{piece}` is, is not known"), "write the path out".to_string())
                    }
                };
                let at = locate::piece(text, local.at, piece, 0);
                reader.report(reader.at(at, message).help(help));
            }
        }
    }
    Some(mounts)
}
