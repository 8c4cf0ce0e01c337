//! What is a host told to run, and how can that end?

use super::host::Held;
use super::{Attempt, Moment};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Stands in `argv` for the run's folder, which only the host knows: the agent puts the path there. No argument of a program can hold
/// a NUL, so nothing else looks like it.
pub const RUN_DIR_MARK: &str = "\u{0}run_dir\u{0}";

/// Everything an agent needs to start one attempt; it makes no choices (PLAN-1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub attempt: Attempt,
    pub argv: Vec<String>,
    /// Beside what the host's login gives; in this order. Values are never logged (SEC-2).
    pub env: Vec<(String, String)>,
    pub setup: Vec<String>,
    pub virtualenv: Option<String>,
    /// Text of a lock file (pip): an environment made of it once per host, by its digest; `virtualenv` is what it is based on.
    pub requirements: Option<String>,
    /// Trees of files that it finds in its folder; they have to be on the host before it starts.
    pub trees: Vec<Tree>,
    /// Instead of a folder of its own.
    pub folder: Option<String>,
    /// Runs where and when that one is over, on its seat: decided beforehand where runs are short.
    pub after: Option<Attempt>,
    /// Which process of a gang this is, and on which hosts the others are, by number. One host: an ordinary run.
    pub rank: u32,
    pub hosts: Vec<String>,
    /// Written into its folder before it starts: name, content.
    pub files: Vec<(String, String)>,
    /// Written beside the folder that its results become, when they do, unless it is there: name, content (`param2val.yaml`).
    #[serde(default)]
    pub beside: Vec<(String, String)>,
    pub devices: Vec<Held>,
    pub memory_bytes: Option<u64>,
    pub time_limit_seconds: Option<u64>,
    pub grace_seconds: u32,
    pub publish: Publish,
    /// What the folder for results is known by; nothing is put into another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_mark: Option<String>,
    /// It gets a folder with `run.json` even if it leaves no file: somebody named the place, and looks there for all that have finished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// A keeper was killed while it ran: another process of ours stands between it and the next one, so that it kills only that if it kills
    /// its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
    /// For `run.json`; none where the source is under no version control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Of which state of somebody's work a run's source is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub commit: String,
    /// Whether anything differed from it, files that it does not know included; none if that could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    /// Digest of a tree whose one file, [`DIFF_FILE`], is the difference. The host gets it like any tree, and writes it beside results once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// From where it was submitted.
    pub folder: String,
    pub host: String,
}

/// What the difference to a commit is called in its tree.
pub const DIFF_FILE: &str = "diff.patch";

impl Origin {
    /// What it is called in the folder that holds those of all configurations: by its content, so that it is there once.
    pub fn diff_name(&self) -> Option<String> {
        let digest = self.diff.as_deref()?;
        digest.get(..16).map(|digest| format!("source-{digest}.patch"))
    }
}

/// A tree of files, by the digest of its packed form, and where its run finds it: `""` is the folder itself, whose entries are then
/// links into the one copy that the host has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub digest: String,
    pub at: String,
}

/// Where what a run leaves in its folder goes when it has succeeded. A run that leaves nothing needs no place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publish {
    /// A folder of a drive that the host sees, which must not be there yet: staged beside it, synced, made visible by rename.
    Folder(String),
    /// To the daemon, over the line; it does the same in its store, under this name.
    Send(String),
}

/// How an attempt ended. Codes as the kernel gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Exited(i32),
    /// By a signal that nobody here sent.
    Signaled(i32),
    OutOfMemory,
    TimeLimit,
    /// The program was never executed.
    NotStarted {
        why: String,
    },
    /// We asked it to end.
    Stopped,
    /// The host, or the keeper, is gone; what became of it cannot be known. Nothing of it is left.
    Lost {
        why: String,
        /// Whoever kept it was killed while it ran, by nobody knows whom: it may have been the run itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        felled: bool,
    },
    /// It succeeded, but its results could not be put where they belong; they are kept on the host.
    NotPublished {
        why: String,
    },
}

/// What a host knows when an attempt is over. Kept there until it is acknowledged (QUEUE-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub attempt: Attempt,
    /// Which process of a gang.
    #[serde(default)]
    pub rank: u32,
    pub ending: Ending,
    pub began: Moment,
    pub ended: Moment,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    pub peak_gpu_bytes: u64,
    pub output_bytes: u64,
    /// The last number of each metric, in the order of their first appearance.
    pub metrics: Vec<(String, String)>,
    /// The last lines of its output, if it failed.
    pub tail: String,
    /// The folder its results are in, if it left any.
    pub results: Option<String>,
}

impl Ending {
    pub fn success(&self) -> bool {
        *self == Ending::Exited(0)
    }

    /// Nobody is to blame, and nobody could be.
    pub fn lost(why: impl Into<String>) -> Ending {
        Ending::Lost { why: why.into(), felled: false }
    }

    /// Whether the program is to blame, so that trying again costs a retry.
    pub fn is_of_the_program(&self) -> bool {
        !matches!(self, Ending::Stopped | Ending::Lost { .. } | Ending::NotPublished { .. }) && !self.success()
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "exit code {code}"),
            Ending::Signaled(signal) => write!(f, "signal {signal}"),
            Ending::OutOfMemory => f.write_str("out of memory"),
            Ending::TimeLimit => f.write_str("time limit reached"),
            Ending::NotStarted { why } => write!(f, "not started: {why}"),
            Ending::Stopped => f.write_str("stopped"),
            Ending::Lost { why, .. } => write!(f, "lost: {why}"),
            Ending::NotPublished { why } => write!(f, "results not put in place: {why}"),
        }
    }
}
