//! Until when does the first that does not fit keep others from its places?
//!
//! It gets the hosts that will have room for it soonest, by what is measured of the runs that are there. Others may go ahead
//! on them if they are over by then, or if there is room enough for both. Nobody is let in on the word of a run that is late
//! (it "ends now"), so from the moment that was foreseen on nobody is let in at all: it waits for runs that were there, not
//! for ever.

use super::place::Asker;
use super::room::{HostRoom, Need, seats_on};
use crate::queue::Moment;
use crate::queue::estimate;
use crate::queue::host::Held;
use crate::queue::state::Queue;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub(in crate::queue) struct Reservation<'q> {
    /// When there will be room.
    pub at: Moment,
    need: Need,
    hosts: BTreeMap<usize, Kept<'q>>,
}

#[derive(Debug, Clone)]
struct Kept<'q> {
    seats: u32,
    /// What will be free then, before it takes its part.
    then: HostRoom<'q>,
}

impl<'q> Reservation<'q> {
    /// `None`: it would not fit even if everything that runs were over.
    pub fn earliest(queue: &'q Queue, rooms: &[HostRoom<'q>], asker: &Asker, now: Moment) -> Option<Reservation<'q>> {
        let need = asker.need;
        let mut then: BTreeMap<usize, HostRoom<'q>> =
            rooms.iter().enumerate().filter(|(_, room)| asker.may(room)).map(|(at, room)| (at, room.clone())).collect();
        let mut seats: BTreeMap<usize, u32> =
            then.iter().map(|(at, room)| (*at, room.count(&need, need.ranks))).collect();
        let mut ends = Vec::new();
        for (at, room) in &then {
            let here = seats_on(queue, room.key, room.host);
            ends.extend(here.map(|(seat, need, state, live, run)| {
                (estimate::ends_at(state, live, now), *at, run, need, &seat.devices)
            }));
        }
        ends.sort_by_key(|(end, at, run, ..)| (*end, *at, *run));
        let enough = |seats: &BTreeMap<usize, u32>| {
            seats.values().map(|seats| u64::from(*seats)).sum::<u64>() >= u64::from(need.ranks)
        };
        let mut at = now;
        let mut ends = ends.into_iter();
        while !enough(&seats) {
            let (end, host, _, of, devices) = ends.next()?;
            let room = then.get_mut(&host)?;
            room.give_back(&of, devices);
            seats.insert(host, room.count(&need, need.ranks));
            at = at.max(end);
        }
        let mut hosts = BTreeMap::new();
        let mut order: Vec<(usize, u32)> = seats.into_iter().filter(|(_, seats)| *seats > 0).collect();
        order.sort_by_key(|(at, seats)| (std::cmp::Reverse(*seats), *at));
        let mut left = need.ranks;
        for (at, seats) in order {
            let seats = seats.min(left);
            if let Some(then) = then.remove(&at).filter(|_| seats > 0) {
                hosts.insert(at, Kept { seats, then });
            }
            left -= seats;
        }
        Some(Reservation { at, need, hosts })
    }

    /// Whether a process may go there although somebody is before it.
    pub fn allows(&self, at: usize, need: &Need, devices: &[Held], ends: Option<Moment>) -> bool {
        let Some(kept) = self.hosts.get(&at).filter(|_| !self.is_over(ends)) else { return true };
        if !kept.then.has(need, devices) {
            return false;
        }
        let mut then = kept.then.clone();
        then.take(need, devices);
        then.count(&self.need, kept.seats) >= kept.seats
    }

    /// It goes there.
    pub fn book(&mut self, at: usize, need: &Need, devices: &[Held], ends: Option<Moment>) {
        let over = self.is_over(ends);
        if let Some(kept) = self.hosts.get_mut(&at).filter(|_| !over) {
            kept.then.take(need, devices);
        }
    }

    fn is_over(&self, ends: Option<Moment>) -> bool {
        ends.is_some_and(|ends| ends <= self.at)
    }
}
