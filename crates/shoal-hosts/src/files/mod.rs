//! Files to nodes and back: what is in a tree, what a node lacks of it, and how the bytes get there.
//!
//! A node is told the whole list (names, modes, times, hashes) over its own ssh line and answers what it lacks. The bytes then come by rsync, over
//! the same line, or from a neighbour; whoever brings them, the node checks them against the list it had from here. So a chain of nodes
//! needs no trust, a cut leaves whole files or none, and running a command again sends only what is missing.
//!
//! | file | question |
//! |---|---|
//! | `rules`, `glob` | which files are meant, as rsync decides it (pure) |
//! | `manifest` | what is in a tree, and how is it written (pure) |
//! | `words` | what do sender and receiver say to each other (pure) |
//! | `choose` | which way do bytes take to each node (pure) |
//! | `tree`, `cache` | what is below a path here, and what is known of it from before |
//! | `seal` | how do bytes travel |
//! | `proof`, `neighbours` | how do nodes meet |
//! | `place` | where do files go, and how do they get their names |
//! | `space` | does what is to be written fit |
//! | `receive`, `unpack` | what does the receiving side do, and how do records become files |
//! | `line` | how do we speak with a node |
//! | `stop` | does somebody want it to end |
//! | `send` | how does a file become pieces |
//! | `rsync` | which words does rsync get |
//! | `push`, `relay`, `pull` | many nodes at once; a chain of them; from a node to here |

pub mod cache;
pub mod choose;
pub mod glob;
pub mod line;
pub mod manifest;
pub mod neighbours;
pub mod place;
pub mod proof;
pub mod pull;
pub mod push;
pub mod receive;
pub mod relay;
pub mod rsync;
pub mod rules;
pub mod seal;
pub mod send;
mod space;
pub mod stop;
pub mod tree;
pub mod unpack;
pub mod words;

pub use line::Trouble;
pub use pull::pull;
pub use push::{Sent, push};
pub use rules::Rules;
pub use stop::Stop;
pub use tree::{Tree, tree};

use crate::process::Process;
use crate::ssh::Settings;
use crate::ssh::deliver::Parcel;
use shoal_core::fleet::{Fleet, Host};
use std::path::PathBuf;

/// How a node is reached.
#[derive(Clone)]
pub struct Way<'a> {
    pub fleet: &'a Fleet,
    pub host: &'a Host,
    pub settings: &'a Settings,
    pub parcel: &'a Parcel,
    /// What the other nodes call it.
    pub internal: String,
    /// Where nobody can log in: who starts our program there. What does not fit is then refused before anything is sent.
    pub through: Option<&'a dyn Through>,
}

/// A way to where no login leads.
pub trait Through: Sync {
    /// Starts `shoal WORDS` there.
    fn start(&self, words: &str) -> Result<Process, Trouble>;
}

/// A file or folder of this machine and where nodes get it: what is in the folder goes into `remote`; a file gets that name, or goes
/// into it if it is a folder there or ends with a slash.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub local: PathBuf,
    /// `~` is the home of who logs in there; what is not absolute begins there.
    pub remote: String,
    pub rules: Rules,
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is in a target folder and not in the tree goes, unless the rules leave it out.
    pub delete: bool,
    /// Every node from here: nodes do not pass anything on.
    pub direct: bool,
    /// Over our own line even where rsync is on both ends.
    pub no_rsync: bool,
    /// The name under which patterns see the folder: rsync's `DIR` without a slash behind it.
    pub under: Option<String>,
    /// Asked to, it ends before everything is there.
    pub stop: Stop,
}

/// What one node's transfer is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    pub sent: u64,
    /// 0: not known.
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    Connecting,
    Looking,
    Sending,
    Done,
    /// Something worth a line.
    Note(String),
}

impl Progress {
    pub fn at(stage: Stage) -> Progress {
        Progress { stage, sent: 0, total: 0 }
    }

    pub fn sending(sent: u64, total: u64) -> Progress {
        Progress { stage: Stage::Sending, sent, total }
    }

    pub fn note(text: impl Into<String>) -> Progress {
        Progress::at(Stage::Note(text.into()))
    }
}
