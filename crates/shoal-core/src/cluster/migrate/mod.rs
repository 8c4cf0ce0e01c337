//! How does a cluster file of Ray's dialect of 2020 become one of the current schema, with its comments and its layout?
//!
//! The text is edited by places, never printed anew: what is not touched stays as it was, to the last blank. The
//! result is read again, and given out only if it means the same cluster.

mod entries;
mod local;
mod old_types;
mod parts;
mod rewrite;

use super::read::{self, Dialect, Given, slots};
use crate::diagnostic::{Diagnostics, Place};
use crate::document::node::Node;
use crate::document::reader::{Fault, Reader};
use crate::document::yaml;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    pub text: String,
    /// What was done, a line each; none if the file was current already.
    pub notes: Vec<String>,
}

/// The current form of a file. Slots stay; they need no values here.
pub fn migrate(file: &str, text: &str, given: &Given) -> Result<Migrated, Diagnostics> {
    let bare = read::without_mark(text);
    let root = tree(file, bare)?;
    let given = with_samples(file, bare, &root, given);
    let before = read::read(file, bare, &given)?;
    if before.dialect == Dialect::Current {
        return Ok(Migrated { text: text.into(), notes: Vec::new() });
    }
    let (written, notes) = rewrite::rewrite(bare, &root, &before.cluster).map_err(|fault| beyond(file, bare, fault))?;
    let same = tree(file, &written).ok().and_then(|root| {
        // A slot that stood for a field that is gone is gone as well.
        let left = slots::find(&written, &root, &Default::default());
        let mut given = given.clone();
        let named = |name: &str| left.iter().any(|slot| slot.name == name) || !is_bare_slot(bare, name);
        given.values.retain(|name, _| named(name));
        read::read(file, &written, &given).ok()
    });
    if same.is_none_or(|after| after.cluster != before.cluster || after.dialect != Dialect::Current) {
        let top = Place { line: 1, column: 1, width: 1 };
        return Err(beyond(file, bare, Fault::new(top, "the layout of this file is beyond `migrate`")));
    }
    Ok(Migrated { text: written, notes })
}

/// Whether a slot is a slot by its looks, not because a value is given for it.
fn is_bare_slot(text: &str, name: &str) -> bool {
    let Ok(root) = yaml::parse_with_aliases(text) else { return false };
    slots::find(text, &root, &Default::default()).iter().any(|slot| slot.name == name)
}

fn tree(file: &str, text: &str) -> Result<Node, Diagnostics> {
    let mut reader = Reader::new(file, text);
    let root = reader.tree(yaml::parse_with_aliases(text));
    reader.finish(root).map(|(root, _)| root)
}

fn beyond(file: &str, text: &str, fault: Fault) -> Diagnostics {
    let reader = Reader::new(file, text);
    let help = fault.help.unwrap_or_else(|| "move the fields by hand, as docs/reference/cluster-file.md says".into());
    Diagnostics(vec![reader.at(fault.at, fault.message).help(help)])
}

/// Values for the slots that have none, so that the file can be read: text, or a number where text is wrong.
fn with_samples(file: &str, text: &str, root: &Node, given: &Given) -> Given {
    let empty = slots::find(text, root, &given.values);
    let mut sampled = given.clone();
    sampled.values.extend(empty.iter().map(|slot| (slot.name.clone(), "sample".to_string())));
    if let Err(Diagnostics(found)) = read::read(file, text, &sampled) {
        let wrong =
            |slot: &&slots::Slot| found.iter().any(|d| (d.at.line, d.at.column) == (slot.at.line, slot.at.column));
        sampled.values.extend(empty.iter().filter(wrong).map(|slot| (slot.name.clone(), "1".to_string())));
    }
    sampled
}
