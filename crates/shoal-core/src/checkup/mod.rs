//! Is a fleet fit to train on? What is looked at, what the answers mean, and how people see them.
//!
//! | file | question |
//! |---|---|
//! | `facts` | what does a host tell about itself (WIRE-1) |
//! | `network` | what do two hosts tell about the way between them; who is measured when (WIRE-1) |
//! | `reach` | how far did we get on the way in, and what did it look like |
//! | `judge`, `judge_python` | what do a host's facts mean |
//! | `peers` | what do the measurements between hosts mean |
//! | `pools` | what does a cluster say about a part of it that is to take runs |
//! | `compare` | which host is unlike the others |
//! | `cells`, `table`, `notes`, `pairs_table` | how it is shown |

mod cells;
pub mod compare;
pub mod facts;
pub mod judge;
mod judge_python;
pub mod network;
mod notes;
mod pairs_table;
pub mod peers;
pub mod pools;
pub mod reach;
pub mod table;

use network::Pair;
use serde::{Serialize, Serializer};
use std::fmt;

/// Everything that is looked at, in the order in which one thing needs the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    Ssh,
    HostKey,
    Key,
    Shell,
    Sessions,
    Shoal,
    Clock,
    Python,
    Shared,
    Disk,
    Memory,
    Cpus,
    Gpus,
    Ports,
    Files,
    Sudo,
    Peers,
    Cluster,
    Namespace,
    Rights,
    Quota,
    Volume,
    Here,
    Image,
    Nodes,
}

impl Check {
    pub const ALL: [Check; 25] = [
        Check::Ssh,
        Check::HostKey,
        Check::Key,
        Check::Shell,
        Check::Sessions,
        Check::Shoal,
        Check::Clock,
        Check::Python,
        Check::Shared,
        Check::Disk,
        Check::Memory,
        Check::Cpus,
        Check::Gpus,
        Check::Ports,
        Check::Files,
        Check::Sudo,
        Check::Peers,
        Check::Cluster,
        Check::Namespace,
        Check::Rights,
        Check::Quota,
        Check::Volume,
        Check::Here,
        Check::Image,
        Check::Nodes,
    ];

    /// What people and programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Check::Ssh => "ssh",
            Check::HostKey => "host-key",
            Check::Key => "key",
            Check::Shell => "shell",
            Check::Sessions => "sessions",
            Check::Shoal => "shoal",
            Check::Clock => "clock",
            Check::Python => "python",
            Check::Shared => "shared",
            Check::Disk => "disk",
            Check::Memory => "memory",
            Check::Cpus => "cpus",
            Check::Gpus => "gpus",
            Check::Ports => "ports",
            Check::Files => "files",
            Check::Sudo => "sudo",
            Check::Peers => "peers",
            Check::Cluster => "cluster",
            Check::Namespace => "namespace",
            Check::Rights => "rights",
            Check::Quota => "quota",
            Check::Volume => "volume",
            Check::Here => "here",
            Check::Image => "image",
            Check::Nodes => "nodes",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Green,
    /// Could not be looked at, because something before it failed.
    Unknown,
    /// Works, but may surprise.
    Yellow,
    /// Runs will fail.
    Red,
}

/// One answer about one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: Check,
    pub level: Level,
    /// For a cell of a table: a word or two.
    pub cell: String,
    /// The same as a clause.
    pub text: String,
    /// What to do about it; never missing where the level is yellow or red.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    pub fn green(check: Check, cell: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding { check, level: Level::Green, cell: cell.into(), text: text.into(), hint: None }
    }

    pub fn unknown(check: Check, text: impl Into<String>) -> Finding {
        Finding { check, level: Level::Unknown, cell: "-".into(), text: text.into(), hint: None }
    }

    pub fn yellow(check: Check, cell: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { check, level: Level::Yellow, cell: cell.into(), text: text.into(), hint: Some(hint.into()) }
    }

    pub fn red(check: Check, cell: impl Into<String>, text: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding { level: Level::Red, ..Finding::yellow(check, cell, text, hint) }
    }
}

/// All answers about one host, in the order of the checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostReport {
    pub name: String,
    pub address: String,
    pub findings: Vec<Finding>,
    /// What the host said about itself, where it could be asked.
    pub facts: Option<facts::Facts>,
}

impl HostReport {
    /// A part of a cluster, not a machine.
    pub fn is_pool(&self) -> bool {
        self.finding(Check::Cluster).is_some()
    }

    pub fn finding(&self, check: Check) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.check == check)
    }

    /// Puts a finding in its place; a worse one about the same check stays.
    pub fn add(&mut self, finding: Finding) {
        match self.findings.iter_mut().find(|old| old.check == finding.check) {
            Some(old) if old.level >= finding.level => {}
            Some(old) => *old = finding,
            None => {
                let at = self.findings.partition_point(|old| old.check < finding.check);
                self.findings.insert(at, finding);
            }
        }
    }

    /// Says of every check in `checks` without an answer why there is none.
    pub fn fill(&mut self, checks: &[Check], why: &str) {
        for check in checks.iter().filter(|check| self.finding(**check).is_none()).copied().collect::<Vec<_>>() {
            self.add(Finding::unknown(check, why));
        }
    }
}

/// Changes whenever the meaning of a field of the report does (WIRE-1).
pub const REPORT_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub version: u32,
    pub fleet: String,
    pub hosts: Vec<HostReport>,
    pub pairs: Vec<Pair>,
}

impl Report {
    pub fn count(&self, level: Level) -> usize {
        self.hosts.iter().flat_map(|host| &host.findings).filter(|finding| finding.level == level).count()
    }
}
