//! What somebody wants to run: the wish, before it is known where.

use super::secret::Secret;
use crate::job::Program;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The run's id, made outside; a safe file name.
    pub run: String,
    /// One program for all workers, or one for each.
    pub command: Vec<Program>,
    /// Without it: those the fleet's file lists, else one for every slot.
    pub workers: Option<u32>,
    /// Without it: those the fleet's file lists, else none, and the workers sum by themselves.
    pub servers: Option<u32>,
    /// Whether there is a `ps_master`. Programs that do not use our engine need none.
    pub master: bool,
    /// Only hosts with one of these names or groups; all, if there is none.
    pub on: Vec<String>,
    /// Whether hosts may get more workers than they have slots.
    pub oversubscribe: bool,
    /// Whether commands get Poseidon's flags: `--distributed`, `--master_address`, `--client_id`.
    pub flags: bool,
    pub env: BTreeMap<String, String>,
    /// Where workers run; without it the fleet's shared folder, else their home.
    pub cwd: Option<String>,
    pub logs: Logs,
    /// The run's secret, made outside.
    pub token: Secret,
    pub detached: bool,
    /// Milliseconds between asking a rank to end and ending it.
    pub grace_ms: u64,
    /// After how many milliseconds without a word a detached run takes one of its hosts for lost.
    pub silence_ms: u64,
}

/// As long as a network may be away without ending a detached run.
pub const SILENCE_MS: u64 = 30_000;

impl RunSpec {
    /// A run with nothing special about it.
    pub fn new(run: impl Into<String>, command: Vec<Program>, logs: Logs, token: Secret) -> RunSpec {
        RunSpec {
            run: run.into(),
            command,
            workers: None,
            servers: None,
            master: true,
            on: Vec::new(),
            oversubscribe: false,
            flags: false,
            env: BTreeMap::new(),
            cwd: None,
            logs,
            token,
            detached: false,
            grace_ms: 5_000,
            silence_ms: SILENCE_MS,
        }
    }
}

/// Where logs go, on every host: `<root>/<folder>/<rank>.log`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logs {
    pub root: String,
    pub folder: String,
}

impl Logs {
    /// As `psd_run` names them; the timestamp comes from outside.
    pub fn poseidon(root: impl Into<String>, timestamp: &str) -> Logs {
        Logs { root: root.into(), folder: format!("poseidon_log_{timestamp}") }
    }

    pub fn file(&self, rank: crate::rank::Rank) -> String {
        let root = self.root.trim_end_matches('/');
        let slash = if self.root.is_empty() { "" } else { "/" };
        format!("{root}{slash}{}/{rank}.log", self.folder)
    }
}
