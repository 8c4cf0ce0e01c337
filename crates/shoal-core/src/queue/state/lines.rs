//! Who holds a seat, and who is next in line for it? (PLAN-2: only the first of a line holds anything)

use super::live::{HeldSeat, Line, Live, Shape};
use super::runs::State;
use super::{Queue, RunKey};
use crate::queue::event::Seat;
use crate::queue::{Attempt, Moment, share};

impl Queue {
    /// Only a run that waits, only its next attempt, only on hosts that there are.
    pub(super) fn assigned(&mut self, at: Moment, attempt: &Attempt, places: &[Seat], after: Option<&Attempt>) {
        let Some(key) = self.run_key(&attempt.run) else { return };
        // Whoever holds no seat has none to leave to others.
        let leaves = |ahead: &RunKey| ahead.0 == key.0 && self.live.get(ahead).is_some_and(|live| !live.waits());
        let ahead = after.and_then(|ahead| self.live_key(ahead)).filter(leaves);
        let seats: Option<Vec<HeldSeat>> = places
            .iter()
            .map(|seat| {
                let (host, devices) = (self.host_key(&seat.host)?, seat.devices.clone());
                Some(HeldSeat { host, devices, meet: seat.meet.clone(), waits: false, over: false })
            })
            .collect();
        let Some(seats) = seats.filter(|seats| !seats.is_empty()) else { return };
        let Some(sweep) = self.sweeps.get_mut(&key.0) else { return };
        let next = |slot: super::runs::Slot| {
            slot.state == State::Waiting && slot.attempts.checked_add(1) == Some(attempt.number)
        };
        if !sweep.runs.get(key.1).is_some_and(next) {
            return;
        }
        sweep.runs.change(key.1, |slot| {
            slot.state = State::Live;
            slot.attempts = attempt.number;
        });
        sweep.avoid.remove(&key.1);
        sweep.endings.remove(&key.1);
        if let Some(hold) = sweep.hold.as_mut().filter(|hold| hold.until <= at) {
            hold.tried = true;
        }
        for seat in &seats {
            if let Some(host) = self.hosts.get_mut(&seat.host) {
                host.live.insert(key);
            }
        }
        let live = Live {
            number: attempt.number,
            seats,
            shape: Shape::of(&sweep.sweep.wants),
            weight: share::weight(&sweep.sweep.wants),
            assigned: at,
            began: None,
            since: None,
            line: Line::default(),
            asked: false,
            stopping: None,
            failure: None,
            stopped: false,
            ran: None,
        };
        self.live.insert(key, live);
        match ahead {
            Some(ahead) => self.stand_in_line(key, ahead),
            None => self.hold(key, at),
        }
        self.reindex(key.0);
    }

    /// At the end of the line that `ahead` is in.
    fn stand_in_line(&mut self, key: RunKey, ahead: RunKey) {
        let first = self.first_of_line(ahead);
        let Some(head) = self.live.get_mut(&first) else { return };
        let last = head.line.last.unwrap_or(first.1);
        head.line.last = Some(key.1);
        head.line.behind += 1;
        if let Some(last) = self.live.get_mut(&(key.0, last)) {
            last.line.next = Some(key.1);
        }
        if let Some(live) = self.live.get_mut(&key) {
            live.line.ahead = Some(last);
        }
        if let Some(sweep) = self.sweeps.get_mut(&key.0) {
            sweep.chained += 1;
        }
    }

    pub(in crate::queue) fn first_of_line(&self, key: RunKey) -> RunKey {
        let mut first = key;
        // As long as a line at most; it has no circles, since everyone joins at its end.
        while let Some(ahead) = self.live.get(&first).and_then(|live| live.line.ahead) {
            first = (first.0, ahead);
        }
        first
    }

    /// Takes it out of its line; whoever was next gets the seat if it was the first.
    pub(super) fn leave_line(&mut self, key: RunKey, live: &Live, at: Moment) {
        let place = |run: u32| (key.0, run);
        match live.line.ahead {
            None => {
                let Some(next) = live.line.next else { return };
                let Some(heir) = self.live.get_mut(&place(next)) else { return };
                heir.line.ahead = None;
                heir.line.behind = live.line.behind.saturating_sub(1);
                heir.line.last = live.line.last.filter(|last| *last != next);
                if let Some(sweep) = self.sweeps.get_mut(&key.0) {
                    sweep.chained = sweep.chained.saturating_sub(1);
                }
                self.hold(place(next), at);
            }
            Some(ahead) => {
                let first = self.first_of_line(place(ahead));
                if let Some(head) = self.live.get_mut(&first) {
                    head.line.behind = head.line.behind.saturating_sub(1);
                    if head.line.last == Some(key.1) {
                        head.line.last = Some(ahead).filter(|ahead| *ahead != first.1);
                    }
                }
                if let Some(one) = self.live.get_mut(&place(ahead)) {
                    one.line.next = live.line.next;
                }
                if let Some(one) = live.line.next.and_then(|next| self.live.get_mut(&place(next))) {
                    one.line.ahead = Some(ahead);
                }
                if let Some(sweep) = self.sweeps.get_mut(&key.0) {
                    sweep.chained = sweep.chained.saturating_sub(1);
                }
            }
        }
    }

    fn hold(&mut self, key: RunKey, at: Moment) {
        let Some(live) = self.live.get_mut(&key) else { return };
        live.since = Some(at);
        let Some(sweep) = self.sweeps.get_mut(&key.0) else { return };
        sweep.heads.insert(key.1);
        for seat in live.seats.iter().filter(|seat| seat.holds()) {
            if let Some(host) = self.hosts.get_mut(&seat.host) {
                host.used.take(&live.shape);
            }
            if let Some(user) = self.users.get_mut(sweep.user as usize) {
                user.hold(live.weight, at);
            }
        }
    }

    /// What one process held is free.
    pub(super) fn give_back(&mut self, key: RunKey, rank: usize, at: Moment) {
        let (Some(live), Some(sweep)) = (self.live.get(&key), self.sweeps.get(&key.0)) else { return };
        let held = live.seats.get(rank).filter(|seat| seat.holds());
        let (Some(seat), Some(since)) = (held, live.since) else { return };
        if let Some(host) = self.hosts.get_mut(&seat.host) {
            host.used.give_back(&live.shape);
        }
        if let Some(user) = self.users.get_mut(sweep.user as usize) {
            user.release(live.weight, since, at);
        }
    }

    /// One process is over.
    pub(super) fn release(&mut self, key: RunKey, rank: usize, at: Moment) {
        self.give_back(key, rank, at);
        self.wait_no_more(key, rank);
        let Some(live) = self.live.get_mut(&key) else { return };
        let Some(seat) = live.seats.get_mut(rank) else { return };
        seat.over = true;
        let host = seat.host;
        if live.seats.iter().all(|seat| seat.over || seat.host != host)
            && let Some(host) = self.hosts.get_mut(&host)
        {
            host.live.remove(&key);
        }
    }
}
