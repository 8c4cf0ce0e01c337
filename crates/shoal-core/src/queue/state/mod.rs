//! What is the state of the queue? The fold of its events, and nothing else (CORE-2).
//!
//! `apply` never fails: an event that makes no sense in the state it meets changes nothing (a second end of an attempt, an
//! end from a host that it was not given to, a name that nobody knows: QUEUE-2).
//!
//! | file | question |
//! |---|---|
//! | `runs`, `bits` | in which state each run is, in eight bytes and a bit |
//! | `sweeps`, `hosts`, `live` | what is known of a sweep, a host, a live attempt |
//! | `lines` | who holds a seat, and who is next in line for it |
//! | `ends` | what the end of an attempt changes |
//! | `waits` | what if a program is over and its results have no place |
//! | `asked` | what people's wishes change |
//! | `machines` | what hosts change by coming, falling silent and going |
//! | `top_up` | what a submission adds to what is there |
//! | `rows`, `look` | what people and the daemon see of it |

mod asked;
mod bits;
mod ends;
pub(in crate::queue) mod hosts;
mod lines;
pub(in crate::queue) mod live;
mod look;
mod machines;
mod rows;
pub(in crate::queue) mod runs;
pub(in crate::queue) mod sweeps;
mod top_up;
mod waits;

pub use look::LiveAttempt;
pub use top_up::{Refusal, again, changes, top_up};

use super::event::Event;
use super::share::User;
use super::{Attempt, Moment, RunId};
use hosts::HostState;
use live::Live;
use runs::State;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use sweeps::SweepState;

/// A sweep, and the place of a run in it.
pub(in crate::queue) type RunKey = (u32, u32);

/// Sweeps that have something to start: by priority, by user, in the order of their submission.
pub(in crate::queue) type Ready = BTreeMap<Reverse<i32>, BTreeMap<u32, BTreeSet<u32>>>;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Queue {
    pub(in crate::queue) sweeps: BTreeMap<u32, SweepState>,
    pub(in crate::queue) hosts: BTreeMap<u32, HostState>,
    pub(in crate::queue) users: Vec<User>,
    pub(in crate::queue) live: BTreeMap<RunKey, Live>,
    /// Live attempts that have to be told to end, and why.
    pub(in crate::queue) to_stop: BTreeMap<RunKey, String>,
    pub(in crate::queue) ready: Ready,
    sweep_names: BTreeMap<String, u32>,
    host_names: BTreeMap<String, u32>,
    user_names: BTreeMap<String, u32>,
    numbers: u32,
}

impl Queue {
    pub fn new() -> Queue {
        Queue::default()
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Submitted { at, sweep } => self.submitted(*at, sweep),
            Event::ToppedUp { name, new, reps, like, .. } => self.topped_up(name, new, *reps, like),
            Event::Assigned { at, attempt, places, after } => self.assigned(*at, attempt, places, after.as_ref()),
            Event::Began { at, attempt } => self.began(*at, attempt),
            Event::Ended { at, host, ended } => self.ended(*at, host, ended),
            Event::ResultsWait { at, host, attempt, rank } => self.results_wait(*at, host, attempt, *rank),
            Event::StopAsked { target, by, .. } => self.stop_asked(target, by),
            Event::Stopping { attempt, checkpoint_first, .. } => self.stopping(attempt, *checkpoint_first),
            Event::Retried { target, .. } => self.retried(target),
            Event::Paused { what, .. } => self.set_paused(what, true),
            Event::Resumed { what, .. } => self.set_paused(what, false),
            Event::HostAdded { policy, .. } => self.host_added(policy),
            Event::HostRemoved { at, name } => self.host_removed(*at, name),
            Event::HostSeen { at, name, facts } => self.host_seen(*at, name, facts),
            Event::HostSilent { at, name } => self.host_silent(*at, name),
            Event::HostLost { at, name, why } => self.host_lost(*at, name, why),
            Event::HostDrained { name, why, .. } => self.host_drained(name, why),
            Event::QuotaSet { user, slots, .. } => {
                let user = self.user(user);
                self.users[user as usize].quota = *slots;
            }
            Event::Forgotten { name, .. } => self.forgotten(name),
        }
    }

    /// Runs that wait and were given to nobody yet.
    pub fn waiting_total(&self) -> u64 {
        self.sweeps.values().map(|sweep| u64::from(sweep.runs.count(State::Waiting))).sum()
    }

    /// What it takes of memory, near enough to notice when a run costs more than it should.
    pub fn approx_bytes(&self) -> usize {
        let sweeps: usize = self.sweeps.values().map(|sweep| sweep.bytes() + axes_bytes(sweep)).sum();
        let live = self.live.len() * (size_of::<Live>() + 160);
        let hosts =
            self.hosts.values().map(|host| size_of::<HostState>() + 2_000 + host.live.len() * 24).sum::<usize>();
        sweeps + live + hosts + self.users.len() * (size_of::<User>() + 100)
    }

    pub(in crate::queue) fn sweep_key(&self, name: &str) -> Option<u32> {
        self.sweep_names.get(name).copied()
    }

    pub(in crate::queue) fn host_key(&self, name: &str) -> Option<u32> {
        self.host_names.get(name).copied()
    }

    pub(in crate::queue) fn run_key(&self, run: &RunId) -> Option<RunKey> {
        let sweep = self.sweep_key(&run.sweep)?;
        Some((sweep, self.sweeps.get(&sweep)?.runs.index(run.cell, run.rep)?))
    }

    /// The place of an attempt, if it is the one that lives.
    fn live_key(&self, attempt: &Attempt) -> Option<RunKey> {
        let key = self.run_key(&attempt.run)?;
        (self.live.get(&key)?.number == attempt.number).then_some(key)
    }

    pub(in crate::queue) fn attempt_of(&self, key: RunKey) -> Option<Attempt> {
        self.sweeps.get(&key.0)?.attempt(key.1, self.live.get(&key)?.number)
    }

    /// The number of a user; who is not known becomes so.
    fn user(&mut self, name: &str) -> u32 {
        if let Some(known) = self.user_names.get(name) {
            return *known;
        }
        let number = self.users.len() as u32;
        self.users.push(User::new(name));
        self.user_names.insert(name.into(), number);
        number
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Keeps the list of those that have something to start; called whenever that may have changed.
    fn reindex(&mut self, key: u32) {
        let Some(sweep) = self.sweeps.get_mut(&key) else { return };
        let open = sweep.runs.count(State::Waiting) > 0 && !sweep.paused && sweep.stuck.is_none();
        let wanted = open.then_some(sweep.sweep.rules.priority);
        let (before, user) = (sweep.ready, sweep.user);
        if before == wanted {
            return;
        }
        sweep.ready = wanted;
        self.unlist(key, before, user);
        if let Some(priority) = wanted {
            self.ready.entry(Reverse(priority)).or_default().entry(user).or_default().insert(key);
        }
    }

    fn unlist(&mut self, key: u32, priority: Option<i32>, user: u32) {
        let Some(priority) = priority else { return };
        let Some(band) = self.ready.get_mut(&Reverse(priority)) else { return };
        if let Some(sweeps) = band.get_mut(&user) {
            sweeps.remove(&key);
            if sweeps.is_empty() {
                band.remove(&user);
            }
        }
        if band.is_empty() {
            self.ready.remove(&Reverse(priority));
        }
    }

    fn began(&mut self, at: Moment, attempt: &Attempt) {
        let Some(key) = self.live_key(attempt) else { return };
        if let Some(live) = self.live.get_mut(&key) {
            live.began.get_or_insert(at);
        }
    }
}

fn axes_bytes(sweep: &SweepState) -> usize {
    let rows = |rows: &Vec<Vec<Option<super::sweep::Value>>>| rows.iter().map(|row| 24 + row.len() * 48).sum::<usize>();
    let part = |part: &super::sweep::Axes| {
        let only = part.only.as_ref().map_or(0, |only| only.capacity() * 4);
        only + part.fixed.len() * 96 + part.dimensions.iter().map(|dimension| 96 + rows(&dimension.rows)).sum::<usize>()
    };
    sweep.sweep.parts.iter().map(part).sum()
}

#[cfg(test)]
mod tests;
