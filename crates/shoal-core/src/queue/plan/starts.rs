//! Who is next, and where does it go?
//!
//! By priority; within one, whoever has used least of late is next, and of theirs the sweep that was submitted first. The
//! first that finds no room keeps its places; who comes after it may go ahead where that does no harm (`reserve`).
//!
//! The work is bounded by what is placed and by how many sweeps there are, not by how many runs wait.

use super::place::{self, Asker};
use super::reserve::Reservation;
use super::room::{HostRoom, Need};
use super::{gate, lines, meet};
use crate::queue::event::{Action, Seat};
use crate::queue::state::Queue;
use crate::queue::state::sweeps::SweepState;
use crate::queue::{Attempt, Moment, estimate, share};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn starts(queue: &Queue, drained: &BTreeSet<u32>, now: Moment) -> Vec<Action> {
    if queue.ready.is_empty() {
        return Vec::new();
    }
    let mut starts = Starts::new(queue, drained, now);
    for users in queue.ready.values() {
        if starts.is_pointless() {
            break;
        }
        starts.band(users);
    }
    starts.actions
}

pub(super) struct Starts<'q> {
    pub queue: &'q Queue,
    pub now: Moment,
    /// Hosts that take something.
    pub rooms: Vec<HostRoom<'q>>,
    /// Hosts that somebody waits for: nobody after them lengthens a line there.
    pub claimed: Vec<bool>,
    kept: Option<Reservation<'q>>,
    /// Who found no room: the same need finds none either.
    blocked: Vec<(Need, &'q [String], u32)>,
    /// Hosts with a run that was alive when two keepers were killed: no second one goes there.
    watched: BTreeSet<u32>,
    /// Seats of each user: those they hold and those they get.
    held: BTreeMap<u32, u32>,
    /// Ports where gangs meet, by host.
    promised: Vec<(u32, u16)>,
    pub actions: Vec<Action>,
}

/// A user, and how far they got.
struct Turn<'q> {
    user: u32,
    share: f64,
    sweeps: Vec<u32>,
    current: Option<Current<'q>>,
}

/// A sweep, and how far it got.
pub(super) struct Current<'q> {
    pub key: u32,
    pub state: &'q SweepState,
    pub need: Need,
    /// The next run that waits is here or later.
    pub from: u32,
    /// What was placed, by host: what stands behind it may be added at once.
    pub placed: Vec<(Attempt, usize, Seat)>,
}

enum Step {
    Placed,
    /// Not this one for now; the next may.
    Passed,
    /// Nothing of it waits any more.
    Through,
    NoRoom,
    Quota,
}

impl<'q> Starts<'q> {
    fn new(queue: &'q Queue, drained: &BTreeSet<u32>, now: Moment) -> Starts<'q> {
        let open = queue.hosts.iter().filter(|(key, host)| host.shut().is_none() && !drained.contains(key));
        let mut rooms: Vec<HostRoom> = open.map(|(key, host)| HostRoom::now(queue, *key, host)).collect();
        rooms.sort_by(|a, b| a.host.policy.name.cmp(&b.host.policy.name));
        Starts {
            queue,
            now,
            claimed: vec![false; rooms.len()],
            rooms,
            kept: None,
            blocked: Vec::new(),
            watched: watched(queue),
            held: BTreeMap::new(),
            promised: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Nothing is free, and nobody further back can get anything by standing in line.
    fn is_pointless(&self) -> bool {
        self.rooms.iter().all(|room| room.slots == 0) && self.claimed.iter().all(|claimed| *claimed)
    }

    fn band(&mut self, users: &'q BTreeMap<u32, BTreeSet<u32>>) {
        let turn = |(user, sweeps): (&u32, &'q BTreeSet<u32>)| Turn {
            user: *user,
            share: self.queue.users.get(*user as usize).map_or(0.0, |user| user.share(self.now)),
            sweeps: sweeps.iter().rev().copied().collect(),
            current: None,
        };
        let mut turns: Vec<Turn> = users.iter().map(turn).collect();
        while let Some(at) = least(&turns) {
            let turn = &mut turns[at];
            if turn.current.is_none() {
                match turn.sweeps.pop() {
                    Some(key) => turn.current = self.open(key),
                    None => {
                        turns.swap_remove(at);
                        continue;
                    }
                }
            }
            let Some(current) = &mut turn.current else { continue };
            match self.step(current, turn.user) {
                Step::Placed => {
                    let weight = share::weight(&current.state.sweep.wants) * u64::from(current.need.ranks);
                    turn.share += share::just_started(weight);
                }
                Step::Passed => {}
                Step::Through | Step::Quota => turn.current = None,
                Step::NoRoom => {
                    lines::lengthen(self, current);
                    self.claim(current);
                    turn.current = None;
                    if self.is_pointless() {
                        return;
                    }
                }
            }
        }
    }

    fn open(&self, key: u32) -> Option<Current<'q>> {
        let state = self.queue.sweeps.get(&key)?;
        if gate::closed(self.queue, state, self.now).is_some() {
            return None;
        }
        Some(Current { key, state, need: Need::of(state), from: 0, placed: Vec::new() })
    }

    fn step(&mut self, current: &mut Current<'q>, user: u32) -> Step {
        let Some(run) = current.state.runs.waiting_from(current.from) else { return Step::Through };
        let held = self.held.get(&user).copied();
        let held = held.unwrap_or_else(|| self.queue.users.get(user as usize).map_or(0, |user| user.held));
        if gate::quota(self.queue, user, held, current.need.ranks).is_some() {
            return Step::Quota;
        }
        let memo = (current.need, current.state.sweep.wants.on.as_slice(), user);
        if self.blocked.contains(&memo) {
            return Step::NoRoom;
        }
        let asker = Asker {
            state: current.state,
            need: current.need,
            avoid: current.state.avoid.get(&run).copied(),
            ends: estimate::at_most_ms(current.state).map(|ms| self.now.saturating_add(ms)),
        };
        let Some(taken) = place::find(&self.rooms, self.kept.as_ref(), &asker) else {
            if self.kept.is_none() {
                self.kept = Reservation::earliest(self.queue, &self.rooms, &asker, self.now);
            } else if place::find(&self.rooms, None, &asker).is_some() {
                // Only the one before it is in the way: another sweep that is quicker may still fit.
                return Step::NoRoom;
            }
            // A host that is kept from this sweep may take another of the same need.
            let state = current.state;
            if state.tallies.values().all(|tally| tally.in_a_row == 0) && state.unplaced.is_empty() {
                self.blocked.push(memo);
            }
            return Step::NoRoom;
        };
        let Some(attempt) = next_attempt(current.state, run) else { return Step::Through };
        current.from = run + 1;
        if current.state.is_watched(run) {
            let hosts: Vec<u32> = taken.iter().map(|(at, _)| self.rooms[*at].key).collect();
            if hosts.iter().any(|host| self.watched.contains(host)) {
                return Step::Passed;
            }
            self.watched.extend(hosts);
        }
        self.held.insert(user, held + current.need.ranks);
        let mut places = Vec::with_capacity(taken.len());
        for (at, devices) in taken {
            let room = &mut self.rooms[at];
            room.take(&current.need, &devices);
            if let Some(kept) = &mut self.kept {
                kept.book(at, &current.need, &devices, asker.ends);
            }
            let seat = Seat { host: room.host.policy.name.clone(), devices, meet: None };
            if current.need.ranks == 1 {
                current.placed.push((attempt.clone(), at, seat.clone()));
            }
            places.push(seat);
        }
        if let Some(meet) = meet::place(self.queue, &attempt, &places, &mut self.promised) {
            places[0].meet = Some(meet);
        }
        self.actions.push(Action::Start { attempt, places, after: None });
        Step::Placed
    }

    /// Where it could go if there were room, nobody after it stands in line. What would not fit even then claims nothing.
    fn claim(&mut self, current: &Current<'q>) {
        let asker = Asker { state: current.state, need: current.need, avoid: None, ends: None };
        let need = &current.need;
        let seats = |room: &HostRoom| {
            if asker.may(room) { HostRoom::empty(room.key, room.host).count(need, need.ranks) } else { 0 }
        };
        if self.claimed.iter().all(|claimed| *claimed) {
            return;
        }
        let seats: Vec<u32> = self.rooms.iter().map(seats).collect();
        if seats.iter().map(|seats| u64::from(*seats)).sum::<u64>() < u64::from(need.ranks) {
            return;
        }
        self.claimed.iter_mut().zip(seats).for_each(|(claimed, seats)| *claimed |= seats > 0);
    }
}

/// Hosts where a run lives that was alive when two keepers were killed.
pub(in crate::queue) fn watched(queue: &Queue) -> BTreeSet<u32> {
    let sweeps = queue.sweeps.iter().filter(|(_, state)| !state.felled.is_empty());
    let runs = sweeps.flat_map(|(key, state)| state.felled.keys().map(move |run| (*key, *run, state)));
    let live =
        runs.filter(|(_, run, state)| state.is_watched(*run)).filter_map(|(key, run, _)| queue.live.get(&(key, run)));
    live.flat_map(|live| live.seats.iter().map(|seat| seat.host)).collect()
}

pub(super) fn next_attempt(state: &SweepState, run: u32) -> Option<Attempt> {
    state.attempt(run, state.runs.get(run)?.attempts.checked_add(1)?)
}

/// Who is next: the least share, then whoever came to the queue first.
fn least(turns: &[Turn]) -> Option<usize> {
    let order = |a: &Turn, b: &Turn| a.share.total_cmp(&b.share).then(a.user.cmp(&b.user));
    (0..turns.len()).min_by(|a, b| order(&turns[*a], &turns[*b]))
}
