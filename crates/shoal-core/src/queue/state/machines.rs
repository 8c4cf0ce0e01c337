//! What do hosts change by coming, falling silent and going?

use super::Queue;
use super::hosts::HostState;
use crate::queue::Moment;
use crate::queue::host::{HostFacts, HostPolicy};
use crate::queue::work::Ending;

/// What is said of the runs of a host that somebody removed.
pub(super) const REMOVED: &str = "the host was removed";

impl Queue {
    /// A host that is known already gets another policy.
    pub(super) fn host_added(&mut self, policy: &HostPolicy) {
        if let Some(host) = self.host_key(&policy.name).and_then(|key| self.hosts.get_mut(&key)) {
            host.policy = policy.clone();
            return;
        }
        let key = self.next_number();
        self.host_names.insert(policy.name.clone(), key);
        self.hosts.insert(key, HostState::new(policy.clone()));
    }

    /// What it ran is lost.
    pub(super) fn host_removed(&mut self, at: Moment, name: &str) {
        self.host_lost(at, name, REMOVED);
        let Some(key) = self.host_names.remove(name) else { return };
        self.hosts.remove(&key);
        for sweep in self.sweeps.values_mut() {
            sweep.tallies.remove(&key);
        }
    }

    pub(super) fn host_seen(&mut self, at: Moment, name: &str, facts: &HostFacts) {
        let Some(host) = self.host_key(name).and_then(|key| self.hosts.get_mut(&key)) else { return };
        host.facts = Some(facts.clone());
        host.heard = Some(at);
        host.silent = None;
        host.lost = false;
    }

    pub(super) fn host_silent(&mut self, at: Moment, name: &str) {
        if let Some(host) = self.host_key(name).and_then(|key| self.hosts.get_mut(&key)) {
            host.silent.get_or_insert(at);
        }
    }

    pub(super) fn host_lost(&mut self, at: Moment, name: &str, why: &str) {
        let Some(key) = self.host_key(name) else { return };
        let Some(host) = self.hosts.get_mut(&key) else { return };
        host.lost = host.silent.is_some();
        let mut runs: Vec<_> = host.live.iter().copied().collect();
        // Those in line first: none of them takes over a seat that is lost as well.
        runs.sort_by_key(|run| self.live.get(run).is_some_and(|live| live.since.is_some()));
        for run in runs {
            let ranks = self.live.get(&run).map_or(0, |live| live.seats.len());
            for rank in 0..ranks {
                let here = |live: &super::live::Live| live.seats.get(rank).is_some_and(|seat| seat.host == key);
                if self.live.get(&run).is_some_and(here) {
                    self.end_rank(run, rank, Ending::lost(why), at);
                }
            }
        }
    }

    pub(super) fn host_drained(&mut self, name: &str, why: &str) {
        if let Some(host) = self.host_key(name).and_then(|key| self.hosts.get_mut(&key)) {
            host.drained.get_or_insert_with(|| why.into());
        }
    }

    /// Somebody says that a host is good again.
    pub(super) fn trust(&mut self, key: u32) {
        if let Some(host) = self.hosts.get_mut(&key) {
            host.drained = None;
            host.in_a_row = 0;
            host.not_started.clear();
        }
        for sweep in self.sweeps.values_mut() {
            sweep.tallies.remove(&key);
        }
    }
}
