//! What is known of a run that lives?

use super::logs::Log;
use super::records::{Begins, Line};
use super::words::{Alive, Begun, Prepared};
use crate::keeper::memory::Kills;
use crate::keeper::{prepare, spawn};
use crate::sweep::Sweep;
use std::fs::File;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub struct Live {
    pub begins: Begins,
    pub pid: u32,
    pub until: u64,
    pub started: Instant,
    pub grace: Duration,
    pub deadline: Option<Instant>,
    pub memory: Option<MemoryLimit>,
    pub kills: Option<Rc<Kills>>,
    pub progress: Option<Progress>,
    pub log: Option<Log>,
    /// Its first process is a guard of ours.
    pub guarded: bool,
    /// The agent knows that it lives, and where its output is.
    pub told: bool,
    pub stop: Option<Stop>,
    /// Its first process is over.
    pub leader: Option<Leader>,
    /// What it left behind is being ended.
    pub sweep: Option<Sweep>,
}

/// Looked at every second: the kernel's own limits need rights that we do not have.
pub struct MemoryLimit {
    pub bytes: u64,
    pub look_at: Instant,
}

/// A preparation that says how far it is.
pub struct Progress {
    pub prepared: Prepared,
    pub file: File,
}

/// Why it has to end, and what comes when.
#[derive(Debug, Clone)]
pub struct Stop {
    pub why: Why,
    /// SIGTERM, unless sent already.
    pub ask_at: Option<Instant>,
    pub kill_at: Instant,
    pub killed: bool,
    /// That it does not end all the same.
    pub said: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    Asked,
    TimeLimit,
    Memory,
    /// The keeper itself has to go. `felled`: somebody said so who is gone already, so it may have been one of its runs.
    Leaving {
        why: String,
        felled: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct Leader {
    pub status: i32,
    pub cpu_ms: u64,
    pub peak_bytes: u64,
    pub at: u64,
}

impl Progress {
    /// What of the preparation failed; nothing once the program's turn had come.
    pub fn failure(&mut self, ended: &str) -> Option<String> {
        let said = spawn::said(&mut self.file);
        prepare::failure(&said, &self.prepared.steps, &self.prepared.program, ended)
    }
}

impl Live {
    pub fn alive(&self) -> Alive {
        Alive {
            name: self.begins.name.clone(),
            note: self.begins.note.clone(),
            began: Some(Begun { at: self.begins.at, pid: self.pid, log: self.begins.log }),
        }
    }

    /// For a new file of records.
    pub fn lines(&self) -> [Line; 2] {
        let is = Line::Is { name: self.begins.name.clone(), pid: self.pid, until: self.until };
        [Line::Begins(self.begins.clone()), is]
    }
}
