//! Which host fails what works elsewhere?
//!
//! A host is kept from a sweep when its failures there, in a row, are too many to be chance: if, since the first of them,
//! a run of the sweep fails elsewhere with probability p, then p to the power of their number is less than one in ten
//! thousand. So five will do where all is well elsewhere, and more are needed where failing is common; and where part of a
//! grid fails, it fails everywhere at the same time. A host on which nothing of the sweep has ever succeeded is kept from it
//! after as many failures as would stop the sweep, until others have been tried as often; if there are others.
//!
//! It is drained when its failures are no chance and nothing else has succeeded on it meanwhile; or when the programs of
//! three sweeps in a row could not be started there, none of which failed so on another host.

use crate::queue::event::Action;
use crate::queue::state::Queue;
use crate::queue::state::hosts::HostState;
use crate::queue::state::sweeps::SweepState;

const LEAST_IN_A_ROW: u32 = 5;
const CHANCE: f64 = 1e-4;
const NOT_STARTED: usize = 3;

/// Whether the host fails this sweep while others do not.
fn fails_alone(state: &SweepState, host: u32) -> bool {
    let Some(here) = state.tallies.get(&host).filter(|tally| tally.in_a_row >= LEAST_IN_A_ROW) else { return false };
    let (all, before) = (state.outcomes, here.since);
    let finished = all.finished.saturating_sub(before.finished);
    let failed = all.failed.saturating_sub(before.failed).saturating_sub(here.in_a_row);
    let p = (f64::from(failed) + 1.0) / (f64::from(finished) + f64::from(failed) + 2.0);
    // Multiplied, so that it is the same everywhere; beyond a few dozen it is nothing anyway.
    finished > 0 && (0..here.in_a_row.min(64)).fold(1.0, |chance, _| chance * p) < CHANCE
}

/// Whether nothing of the sweep should go to this host for now.
pub(in crate::queue) fn is_kept_from(state: &SweepState, host: u32) -> bool {
    let Some(here) = state.tallies.get(&host).filter(|tally| tally.in_a_row > 0) else { return false };
    let limit = state.sweep.rules.stop_after_failures;
    let never = limit > 0 && here.finished == 0 && here.in_a_row >= limit && !state.no_choice;
    let undecided = || {
        let others = state.tallies.iter().filter(|(other, _)| **other != host);
        let ended =
            others.fold(0u32, |sum, (_, tally)| sum.saturating_add(tally.finished).saturating_add(tally.failed));
        ended < limit.max(LEAST_IN_A_ROW)
    };
    (never && undecided()) || fails_alone(state, host)
}

/// Hosts that take no more from now on.
pub(super) fn drains(queue: &Queue) -> Vec<(u32, Action)> {
    let hosts = queue.hosts.iter().filter(|(_, host)| host.drained.is_none());
    hosts.filter_map(|(key, host)| Some((*key, drain(queue, *key, host)?))).collect()
}

fn drain(queue: &Queue, key: u32, host: &HostState) -> Option<Action> {
    let action = |why: String| Action::Drain { host: host.policy.name.clone(), why };
    let known = host.not_started.iter().filter_map(|sweep| queue.sweeps.get(sweep));
    let only_here =
        known.filter(|state| state.tallies.iter().all(|(other, tally)| *other == key || !tally.not_started));
    if host.not_started.len() >= NOT_STARTED && queue.hosts.len() > 1 && only_here.count() >= NOT_STARTED {
        return Some(action(format!("programs of {} sweeps in a row could not be started", host.not_started.len())));
    }
    if host.in_a_row < LEAST_IN_A_ROW {
        return None;
    }
    let state = queue.sweeps.values().find(|state| fails_alone(state, key))?;
    let why = format!("{} runs in a row failed here, while `{}` succeeds elsewhere", host.in_a_row, state.sweep.name);
    Some(action(why))
}
