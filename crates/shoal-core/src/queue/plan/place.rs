//! On which hosts does a run go? A gang gets all its places or none (GANG-1).

use super::reserve::Reservation;
use super::room::{HostRoom, Need};
use super::suspect;
use crate::queue::Moment;
use crate::queue::host::Held;
use crate::queue::state::sweeps::SweepState;
use std::cmp::Reverse;

/// One process on one of the hosts, by its place in the list.
pub(in crate::queue) type Taken = (usize, Vec<Held>);

/// Who asks.
#[derive(Clone, Copy)]
pub(in crate::queue) struct Asker<'q> {
    pub state: &'q SweepState,
    pub need: Need,
    /// Where the run failed before: rather not again.
    pub avoid: Option<u32>,
    /// When it will be over at the latest, if it starts now.
    pub ends: Option<Moment>,
}

impl Asker<'_> {
    /// Whether the host would take it at all.
    pub fn may(&self, room: &HostRoom) -> bool {
        let sweep = &self.state.sweep;
        room.host.is_among(&sweep.wants.on)
            && (room.host.owner_is_away() || room.host.is_owned_by(&sweep.owner))
            && !suspect::is_kept_from(self.state, room.key)
            && !self.state.is_kept_off(room.key, room.host)
    }
}

/// Takes nothing yet: says what would be taken.
pub(in crate::queue) fn find(rooms: &[HostRoom], kept: Option<&Reservation>, asker: &Asker) -> Option<Vec<Taken>> {
    if asker.need.ranks == 1 {
        return one(rooms, kept, asker).map(|taken| vec![taken]);
    }
    gang(rooms, kept, asker)
}

/// The best host for a single process: one that is not somebody's desk, has no devices that would lie idle, and is the
/// emptiest of those; with devices, where it leaves the least over.
fn one(rooms: &[HostRoom], kept: Option<&Reservation>, asker: &Asker) -> Option<Taken> {
    let need = &asker.need;
    let fit =
        rooms.iter().enumerate().filter(|(_, room)| room.slots > 0 && asker.may(room)).filter_map(|(at, room)| {
            let devices = room.pick(need)?;
            kept.is_none_or(|kept| kept.allows(at, need, &devices, asker.ends)).then_some((at, room, devices))
        });
    let best = fit.min_by_key(|(_, room, devices)| {
        let left = devices.first().and_then(|held| room.devices.iter().find(|device| device.uuid == held.uuid));
        let desk = room.host.policy.owner.is_some() && !room.host.is_owned_by(&asker.state.sweep.owner);
        let idle_devices = need.shape.gpus_milli == 0 && !room.devices.is_empty();
        let left_over = left.map_or(0, |device| device.milli);
        (asker.avoid == Some(room.key), desk, idle_devices, left_over, Reverse((room.cpus_milli, room.slots)))
    });
    best.map(|(at, _, devices)| (at, devices))
}

/// Few hosts rather than many: those that take most of it first, and neighbours in number side by side.
fn gang(rooms: &[HostRoom], kept: Option<&Reservation>, asker: &Asker) -> Option<Vec<Taken>> {
    let need = &asker.need;
    let open = rooms.iter().enumerate().filter(|(_, room)| room.slots > 0 && asker.may(room));
    let mut hosts: Vec<(u32, usize)> = open.map(|(at, room)| (room.count(need, need.ranks), at)).collect();
    if hosts.iter().map(|(seats, _)| u64::from(*seats)).sum::<u64>() < u64::from(need.ranks) {
        return None;
    }
    hosts.sort_by_key(|(seats, at)| (Reverse(*seats), *at));
    let mut kept = kept.cloned();
    let mut taken: Vec<Taken> = Vec::new();
    for (_, at) in hosts {
        let mut room = rooms[at].clone();
        while (taken.len() as u32) < need.ranks
            && let Some(devices) = room.pick(need)
            && kept.as_ref().is_none_or(|kept| kept.allows(at, need, &devices, asker.ends))
        {
            room.take(need, &devices);
            if let Some(kept) = &mut kept {
                kept.book(at, need, &devices, asker.ends);
            }
            taken.push((at, devices));
        }
    }
    (taken.len() as u32 == need.ranks).then_some(taken)
}
