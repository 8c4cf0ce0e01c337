//! Which short runs are assigned ahead?
//!
//! Where a run takes a few milliseconds, asking for the next one takes longer than running it. So as much as is measured
//! to fit into half a second stands in line on the same seat, if nobody who would come first waits for the host.

use super::place::Asker;
use super::starts::{Current, Starts, next_attempt};
use super::stops::LINE_STANDS_MS;
use crate::queue::Attempt;
use crate::queue::event::{Action, Seat};
use crate::queue::state::live::Shape;
use crate::queue::state::runs::State;

const AHEAD_MS: u64 = 500;
const LONGEST: u64 = 64;
/// Finished runs, before their mean says anything.
const LEAST_MEASURED: u32 = 4;

/// A seat, who is last in its line, and how many stand there.
struct Seated {
    last: Attempt,
    seat: Seat,
    behind: u32,
}

pub(super) fn lengthen(starts: &mut Starts, current: &mut Current) {
    let depth = depth(current);
    if depth == 0 {
        return;
    }
    let seats = seats(starts, current);
    // What is left is shared out between the seats: the last ones must not stand behind each other.
    let waiting = (current.state.runs.count(State::Waiting) as usize).saturating_sub(current.placed.len());
    let fair = waiting.div_ceil(seats.len().max(1)).min(depth as usize) as u32;
    for mut seated in seats {
        // In batches: a line is filled up when half of it is gone.
        if seated.behind > depth / 2 {
            continue;
        }
        for _ in seated.behind..fair.max(seated.behind) {
            let Some(run) = next(current) else { return };
            let Some(attempt) = next_attempt(current.state, run) else { return };
            current.from = run + 1;
            let after = std::mem::replace(&mut seated.last, attempt.clone());
            starts.actions.push(Action::Start { attempt, places: vec![seated.seat.clone()], after: Some(after) });
        }
    }
}

/// Runs that are tried one at a time stand in no line.
fn next(current: &Current) -> Option<u32> {
    let mut run = current.state.runs.waiting_from(current.from)?;
    while current.state.is_watched(run) {
        run = current.state.runs.waiting_from(run + 1)?;
    }
    Some(run)
}

fn depth(current: &Current) -> u32 {
    let measured = &current.state.measured;
    if current.need.ranks > 1 || measured.finished < LEAST_MEASURED {
        return 0;
    }
    measured.careful_ms().map_or(0, |ms| (AHEAD_MS / ms.max(1)).min(LONGEST) as u32)
}

fn seats(starts: &Starts, current: &Current) -> Vec<Seated> {
    let mut seats = Vec::new();
    let asker = Asker { state: current.state, need: current.need, avoid: None, ends: None };
    for run in &current.state.heads {
        let key = (current.key, *run);
        let Some(head) = starts.queue.live.get(&key) else { continue };
        let [seat] = head.seats.as_slice() else { continue };
        let open =
            |at: &usize| starts.rooms[*at].key == seat.host && !starts.claimed[*at] && asker.may(&starts.rooms[*at]);
        let Some(at) = (0..starts.rooms.len()).find(open) else { continue };
        // Behind one that turned out to be long nobody stands: they would be taken back again.
        let is_long = head.since.is_some_and(|since| starts.now.saturating_sub(since) >= LINE_STANDS_MS);
        if is_long || head.stopping.is_some() || head.asked || head.shape != Shape::of(&current.state.sweep.wants) {
            continue;
        }
        let Some(last) = starts.queue.attempt_of((current.key, head.line.last.unwrap_or(*run))) else { continue };
        let seat = Seat { host: starts.rooms[at].host.policy.name.clone(), devices: seat.devices.clone(), meet: None };
        seats.push(Seated { last, seat, behind: head.line.behind });
    }
    let placed = current.placed.iter().filter(|(_, at, _)| !starts.claimed[*at]);
    seats.extend(placed.map(|(attempt, _, seat)| Seated { last: attempt.clone(), seat: seat.clone(), behind: 0 }));
    seats
}
