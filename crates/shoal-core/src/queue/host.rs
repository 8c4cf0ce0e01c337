//! What does a machine have, and when may it be used?

use super::work::Start;
use crate::fleet::Environment;
use crate::job::Prepare;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an agent sees on its machine. Sent at hello and whenever it changes, at most every 5 s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Changes with every boot: what ran before is gone.
    pub boot: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub gpus: Vec<Gpu>,
    pub load1: f64,
    pub free_disk_bytes: u64,
    /// Seconds since somebody touched keyboard, mouse or terminal; `None`: nobody is logged in, or it cannot be known.
    pub idle_seconds: Option<u64>,
    /// Who is logged in.
    pub users: Vec<String>,
    /// By which address whoever reached it did, and where that came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Which nobody else gets as long as this agent lives: for gangs to meet at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// The folder that its agent keeps everything in, by device and number: with the same boot, it is the same machine and user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// One device, in PCI order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    pub uuid: String,
    pub pci: String,
    pub model: String,
    pub memory_bytes: u64,
    /// Taken by processes that are not ours.
    pub foreign_bytes: u64,
    /// Processes on it that are not ours.
    pub foreign_processes: u32,
}

/// What the file of the fleet, or an administrator, says of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostPolicy {
    pub name: String,
    pub groups: Vec<String>,
    /// Runs at once, at most; `None`: as many as its CPUs and GPUs allow.
    pub slots: Option<u32>,
    /// In place of what the agent counts.
    pub cpus: Option<u32>,
    pub memory_bytes: Option<u64>,
    /// Somebody's desk.
    pub owner: Option<OwnerPolicy>,
    /// Silent for this long: what it ran is lost, and starts elsewhere.
    pub lost_after_seconds: u64,
    /// How the daemon gets there. `None`: the host's agent calls.
    pub reach: Option<Reached>,
    /// What the file says that other hosts call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The daemon gets there through another host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jumped: bool,
    /// What every run finds there, as the fleet's file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Box<HostEnvironment>>,
}

/// A fleet's `environment`, as a host is told it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostEnvironment {
    pub virtualenv: Option<String>,
    /// Shell lines by which a conda environment is entered.
    pub conda: Vec<String>,
    /// Shell lines before everything else: modules, set-up.
    pub setup: Vec<String>,
    pub env: BTreeMap<String, String>,
}

impl HostEnvironment {
    /// Nothing if the file says nothing.
    pub fn of(said: &Environment) -> Option<Box<HostEnvironment>> {
        let Environment { prepare, env } = said;
        let conda = Prepare { conda: prepare.conda.clone(), ..Prepare::default() }.lines();
        let setup = Prepare { virtualenv: None, conda: None, ..prepare.clone() }.lines();
        let it = HostEnvironment { virtualenv: prepare.virtualenv.clone(), conda, setup, env: env.clone() };
        (it != HostEnvironment::default()).then(|| Box::new(it))
    }

    /// A run finds it, too; where its sweep says otherwise, the sweep counts. A Python of its own (virtualenv, lock file) keeps the fleet's away.
    pub fn give(&self, start: &mut Start) {
        let mut lines = self.setup.clone();
        if start.virtualenv.is_none() && start.requirements.is_none() {
            start.virtualenv.clone_from(&self.virtualenv);
            lines.extend(self.conda.iter().cloned());
        }
        lines.append(&mut start.setup);
        start.setup = lines;
        let is_new = |name: &String| !start.env.iter().any(|(known, _)| known == name);
        let mut env: Vec<(String, String)> = self
            .env
            .iter()
            .filter(|(name, _)| is_new(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        env.append(&mut start.env);
        start.env = env;
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// This machine.
    Here,
    /// Over ssh, as this text of a fleet file says of a host of this name.
    Ssh { fleet: String, base: String },
    /// Through an agent of this machine, which has runs done by the Kubernetes cluster that this text (JSON) describes.
    Pool { pool: String, base: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerPolicy {
    /// Their runs may start whenever they like.
    pub user: String,
    /// Untouched for this long before others' runs start.
    pub idle_seconds: u64,
    /// From the checkpoint signal (SIGUSR1) to the stop, when the owner is back.
    pub grace_seconds: u64,
}

/// The part of a device, or the whole, that a run holds (PLAN-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub uuid: String,
    pub milli: u32,
}
