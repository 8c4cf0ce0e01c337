//! What is known of a host?

use super::live::Shape;
use crate::queue::Moment;
use crate::queue::host::{HostFacts, HostPolicy};
use std::collections::BTreeSet;

/// Less than this is left on its disk: nothing more starts there.
const LEAST_DISK_BYTES: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::queue) struct HostState {
    pub policy: HostPolicy,
    pub facts: Option<HostFacts>,
    pub heard: Option<Moment>,
    pub silent: Option<Moment>,
    /// What it ran was given up; it has not been heard of since.
    pub lost: bool,
    pub paused: bool,
    pub drained: Option<String>,
    pub used: Used,
    /// Runs with an attempt there, whether it holds a seat or stands in line: sweep and place in it.
    pub live: BTreeSet<(u32, u32)>,
    /// Failures since the last success of anything.
    pub in_a_row: u32,
    /// Sweeps whose program could not be started there, since then.
    pub not_started: BTreeSet<u32>,
}

/// Held by live attempts. Devices are counted from the attempts themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::queue) struct Used {
    pub slots: u32,
    pub cpus_milli: u64,
    pub memory_bytes: u64,
}

/// Why a host takes nothing, whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) enum Shut {
    NeverSeen,
    Silent,
    Paused,
    Drained(String),
    DiskFull,
}

impl HostState {
    pub fn new(policy: HostPolicy) -> HostState {
        HostState {
            policy,
            facts: None,
            heard: None,
            silent: None,
            lost: false,
            paused: false,
            drained: None,
            used: Used::default(),
            live: BTreeSet::new(),
            in_a_row: 0,
            not_started: BTreeSet::new(),
        }
    }

    pub fn shut(&self) -> Option<Shut> {
        let Some(facts) = &self.facts else { return Some(Shut::NeverSeen) };
        if self.silent.is_some() {
            return Some(Shut::Silent);
        }
        if let Some(why) = &self.drained {
            return Some(Shut::Drained(why.clone()));
        }
        if self.paused {
            return Some(Shut::Paused);
        }
        (facts.free_disk_bytes < LEAST_DISK_BYTES).then_some(Shut::DiskFull)
    }

    /// Whether the owner of the desk, if it is one, is away for long enough.
    pub fn owner_is_away(&self) -> bool {
        let (Some(owner), Some(facts)) = (&self.policy.owner, &self.facts) else { return true };
        facts.idle_seconds.is_none_or(|idle| idle >= owner.idle_seconds)
    }

    pub fn is_owned_by(&self, user: &str) -> bool {
        self.policy.owner.as_ref().is_some_and(|owner| owner.user == user)
    }

    pub fn is_among(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| *name == self.policy.name || self.policy.groups.contains(name))
    }

    pub fn cpus(&self) -> u32 {
        self.policy.cpus.or_else(|| self.facts.as_ref().map(|facts| facts.cpus)).unwrap_or(0)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.policy.memory_bytes.or_else(|| self.facts.as_ref().map(|facts| facts.memory_bytes)).unwrap_or(0)
    }

    /// For people: runs at once, of those that want one CPU.
    pub fn slots_shown(&self) -> u32 {
        self.policy.slots.unwrap_or_else(|| self.cpus())
    }

    /// What bounds the number of runs at once, beside what they want.
    pub fn slots(&self) -> u32 {
        let gpus = self.facts.as_ref().map_or(0, |facts| facts.gpus.len() as u32);
        self.policy.slots.unwrap_or_else(|| self.cpus().max(gpus.saturating_mul(16)))
    }
}

impl Used {
    pub fn take(&mut self, shape: &Shape) {
        self.slots += 1;
        self.cpus_milli += u64::from(shape.cpus_milli);
        self.memory_bytes += shape.memory_bytes;
    }

    pub fn give_back(&mut self, shape: &Shape) {
        self.slots = self.slots.saturating_sub(1);
        self.cpus_milli = self.cpus_milli.saturating_sub(u64::from(shape.cpus_milli));
        self.memory_bytes = self.memory_bytes.saturating_sub(shape.memory_bytes);
    }
}
