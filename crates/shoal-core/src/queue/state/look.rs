//! What does the daemon have to know of the queue?

use super::runs::State;
use super::{Queue, RunKey};
use crate::queue::event::Seat;
use crate::queue::host::{HostFacts, HostPolicy};
use crate::queue::plan::LINE_STANDS_MS;
use crate::queue::request::RunState;
use crate::queue::sweep::Sweep;
use crate::queue::{Attempt, Moment, RunId, Target};

/// An attempt that lives, as far as the journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAttempt {
    pub attempt: Attempt,
    pub places: Vec<Seat>,
    /// Whom it stands in line behind now, which may be another one than when it was assigned.
    pub after: Option<Attempt>,
    pub assigned: Moment,
    pub began: Option<Moment>,
    /// It was told to end, and whether by way of a checkpoint.
    pub stopping: Option<bool>,
    /// Somebody wants it to end.
    pub asked: bool,
}

impl LiveAttempt {
    /// Told to end only if it had not begun: not by anybody, not for its desk's owner, not since another process of its gang ended.
    pub fn is_taken_back(&self) -> bool {
        self.stopping == Some(false) && !self.asked && self.places.len() == 1
    }
}

impl Queue {
    pub fn sweep(&self, name: &str) -> Option<&Sweep> {
        Some(&self.sweeps.get(&self.sweep_key(name)?)?.sweep)
    }

    /// Users with a bound on their processes.
    pub fn quotas(&self) -> impl Iterator<Item = (&str, u32)> {
        self.users.iter().filter_map(|user| Some((user.name.as_str(), user.quota?)))
    }

    /// In the order of their submission.
    pub fn sweep_names(&self) -> impl Iterator<Item = &str> {
        self.sweeps.values().map(|state| state.sweep.name.as_str())
    }

    /// Every copy of every configuration is there.
    pub fn is_complete(&self, sweep: &str) -> bool {
        self.sweep_key(sweep).and_then(|key| self.sweeps.get(&key)).is_some_and(super::SweepState::is_complete)
    }

    /// Nothing of it lives, and nothing starts by itself any more: it is complete, or what is left failed or was stopped,
    /// or it is stuck.
    pub fn is_over(&self, sweep: &str) -> bool {
        let state = self.sweep_key(sweep).and_then(|key| self.sweeps.get(&key));
        state.is_some_and(|s| s.is_over() || (s.stuck.is_some() && s.runs.count(State::Live) == 0))
    }

    /// Everything a host has been given and that is not over, in an order in which it can be told: whoever stands in line
    /// comes after the one it stands behind.
    pub fn assigned_on(&self, host: &str) -> Vec<(Attempt, u32)> {
        let mut all = Vec::new();
        let Some(key) = self.host_key(host) else { return all };
        let Some(state) = self.hosts.get(&key) else { return all };
        for first in state.live.iter().filter(|run| self.live.get(run).is_some_and(|live| live.line.ahead.is_none())) {
            let mut next = Some(*first);
            while let Some(run) = next {
                let Some(live) = self.live.get(&run) else { break };
                for (rank, seat) in live.seats.iter().enumerate() {
                    if seat.host == key && !seat.over {
                        all.extend(self.attempt_of(run).map(|attempt| (attempt, rank as u32)));
                    }
                }
                next = live.line.next.map(|next| (run.0, next));
            }
        }
        all
    }

    /// Attempts on a host that were told to end: to be told again when it comes back.
    pub fn stopping_on(&self, host: &str) -> Vec<(Attempt, bool)> {
        let state = self.host_key(host).and_then(|key| self.hosts.get(&key));
        let runs = state.into_iter().flat_map(|state| &state.live);
        runs.filter_map(|run| Some((self.attempt_of(*run)?, self.live.get(run)?.stopping?))).collect()
    }

    pub fn live(&self, attempt: &Attempt) -> Option<LiveAttempt> {
        let key = self.live_key(attempt)?;
        let live = self.live.get(&key)?;
        Some(LiveAttempt {
            attempt: attempt.clone(),
            places: live.seats.iter().filter_map(|seat| self.seat(seat)).collect(),
            after: live.line.ahead.and_then(|ahead| self.attempt_of((key.0, ahead))),
            assigned: live.assigned,
            began: live.began,
            stopping: live.stopping,
            asked: live.asked,
        })
    }

    /// Whether the host has this attempt, as far as the journal says: anything else that it runs has to end (QUEUE-2).
    pub fn is_live_on(&self, attempt: &Attempt, host: &str) -> bool {
        let (Some(key), Some(host)) = (self.live_key(attempt), self.host_key(host)) else { return false };
        self.live.get(&key).is_some_and(|live| live.seats.iter().any(|seat| seat.host == host && !seat.over))
    }

    /// Whether it was ever made.
    pub fn is_known(&self, attempt: &Attempt) -> bool {
        self.state_of(&attempt.run).is_some_and(|(_, attempts)| (1..=attempts).contains(&attempt.number))
    }

    /// A run's state, and how many attempts were made.
    pub fn state_of(&self, run: &RunId) -> Option<(RunState, u32)> {
        let key = self.run_key(run)?;
        let slot = self.sweeps.get(&key.0)?.runs.get(key.1)?;
        Some((self.shown(key, slot.state), slot.attempts))
    }

    /// How many runs of a target are in one of these states.
    pub fn count(&self, target: &Target, states: &[RunState]) -> u64 {
        let Some(key) = self.sweep_key(target.sweep()) else { return 0 };
        let places = self.places_of(key, target);
        places.iter().filter(|(run, state)| states.contains(&self.shown((key, *run), *state))).count() as u64
    }

    pub fn hosts(&self) -> impl Iterator<Item = &HostPolicy> {
        self.hosts.values().map(|host| &host.policy)
    }

    pub fn host(&self, name: &str) -> Option<(&HostPolicy, Option<&HostFacts>)> {
        let host = self.hosts.get(&self.host_key(name)?)?;
        Some((&host.policy, host.facts.as_ref()))
    }

    /// Whether it is silent, since when.
    pub fn silent_since(&self, name: &str) -> Option<Moment> {
        self.hosts.get(&self.host_key(name)?)?.silent
    }

    /// When a plan may find something to do although nothing happens: nobody has to look before.
    pub fn wake_at(&self) -> Option<Moment> {
        let held = self.sweeps.values().filter(|state| state.ready.is_some()).filter_map(|state| state.hold.as_ref());
        let holds = held.filter(|hold| !hold.tried).map(|hold| hold.until);
        let lost = self.hosts.values().filter(|host| !host.lost && !host.live.is_empty()).filter_map(|host| {
            Some(host.silent?.saturating_add(host.policy.lost_after_seconds.saturating_mul(1000)).saturating_add(1))
        });
        let lines = self.sweeps.iter().filter(|(_, state)| state.chained > 0).flat_map(|(key, state)| {
            state.heads.iter().filter_map(|run| {
                let head = self.live.get(&(*key, *run))?;
                let next = self.live.get(&(*key, head.line.next?)).filter(|next| next.stopping.is_none())?;
                Some(head.since.unwrap_or(next.assigned).saturating_add(LINE_STANDS_MS))
            })
        });
        holds.chain(lost).chain(lines).min()
    }

    /// In line is not running.
    pub(in crate::queue) fn shown(&self, key: RunKey, state: State) -> RunState {
        match state {
            State::Live if self.live.get(&key).is_some_and(|live| live.since.is_none()) => RunState::Waiting,
            state => state.shown(),
        }
    }

    fn seat(&self, seat: &super::live::HeldSeat) -> Option<Seat> {
        let host = self.hosts.get(&seat.host)?.policy.name.clone();
        Some(Seat { host, devices: seat.devices.clone(), meet: seat.meet.clone() })
    }
}
