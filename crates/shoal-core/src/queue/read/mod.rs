//! What does a `sweep.yaml` ask for? All that is wrong with it at once, each with its place; nothing is looked up on a disk (CORE-1).
//!
//! | file | question |
//! |---|---|
//! | `fields` | which fields a file has, and what becomes of each |
//! | `command` | the program's words, and how parameters reach it |
//! | `parameters`, `product`, `listed`, `factor` | which configurations there are |
//! | `when/`, `conditions` | what a condition says, and which of them all leave |
//! | `needs` | resources, limits and rules |
//! | `folders` | source, data, environment |
//! | `scalar`, `range`, `words`, `amounts` | what a value, a range, a shell line, a duration is |
//! | `json` | the same from JSON, with a hundred thousand configurations |

pub mod amounts;
mod command;
mod conditions;
mod factor;
mod fields;
mod folders;
mod json;
mod listed;
mod needs;
mod parameters;
mod product;
pub mod range;
pub mod scalar;
pub mod when;
pub mod words;

pub use fields::FIELDS;
pub use folders::{ENVIRONMENT_FIELDS, FOLDER_FIELDS};
pub use json::from_json;
pub use needs::RESOURCES_FIELDS;
pub(crate) use needs::results;

use super::sweep::{Axes, Command, Pass, Provenance, Rules, SWEEP_VERSION, Sweep, Wants};
use super::work::Tree;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::document::node::Node;
use crate::document::reader::{Fault, Reader};
use crate::document::yaml;
use std::collections::BTreeMap;

/// A sweep but for what only the submitting machine knows: trees are still folders of it, and nobody owns it yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Without it: that of the folder (`name_from_folder`).
    pub name: Option<String>,
    pub parts: Vec<Axes>,
    pub reps: u32,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub pass: Pass,
    /// Copied when it is submitted, without what `.gitignore` and `ignore` leave out. Paths as written: relative to the file.
    pub source: Vec<Folder>,
    /// As `source`, but nothing is left out by `.gitignore`.
    pub data: Vec<Folder>,
    /// A folder of the hosts in which it runs, when nothing is copied.
    pub folder: Option<String>,
    pub setup: Vec<String>,
    pub virtualenv: Option<String>,
    /// The path of a lock file, relative to the file.
    pub requirements: Option<String>,
    pub wants: Wants,
    pub rules: Rules,
    pub after: Vec<String>,
    /// What looks like a slip but need not be one.
    pub warnings: Vec<Diagnostic>,
}

/// A folder, or a file, of the submitting machine, and where runs find it: `""` is their own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub path: String,
    pub at: String,
    /// As lines of a `.gitignore`.
    pub ignore: Vec<String>,
}

/// What the submitting machine adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Counts where the draft has no name.
    pub name: String,
    pub owner: String,
    /// `source` and `data`, packed.
    pub trees: Vec<Tree>,
    /// The text of the lock file.
    pub requirements: Option<String>,
    pub provenance: Provenance,
}

impl Draft {
    pub fn into_sweep(self, add: Submission) -> Sweep {
        Sweep {
            version: SWEEP_VERSION,
            name: self.name.unwrap_or(add.name),
            owner: add.owner,
            parts: self.parts,
            reps: self.reps,
            command: Command {
                argv: self.argv,
                env: self.env,
                pass: self.pass,
                trees: add.trees,
                folder: self.folder,
                setup: self.setup,
                virtualenv: self.virtualenv,
                requirements: add.requirements,
            },
            wants: self.wants,
            rules: self.rules,
            after: self.after,
            provenance: add.provenance,
        }
    }
}

/// Reads the text of a `sweep.yaml`; `file` names it in messages.
pub fn sweep(text: &str, file: &str) -> Result<Draft, Vec<Diagnostic>> {
    // Editors on Windows put a byte order mark there; it would count as a column.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read_tree(Reader::new(file, text), yaml::parse(text), None)
}

/// What a tree of fields asks for. `configs` come beside it where they are many.
pub(super) fn read_tree(
    mut reader: Reader,
    parsed: Result<Node, Fault>,
    configs: Option<listed::Bare>,
) -> Result<Draft, Vec<Diagnostic>> {
    let draft = reader.tree(parsed).and_then(|root| fields::read(&mut reader, &root, configs));
    match reader.finish(draft) {
        Ok((draft, warnings)) => Ok(Draft { warnings, ..draft }),
        Err(Diagnostics(found)) => Err(found),
    }
}

/// A sweep's name for a folder's: `our project (2)` is `our-project-2`.
pub fn name_from_folder(folder: &str) -> String {
    let last = folder.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let words: Vec<&str> = last.split(|c| !safe(c)).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").trim_start_matches(['-', '.']).chars().take(64).collect();
    if name.is_empty() { "sweep".into() } else { name }
}

#[cfg(test)]
mod tests;
