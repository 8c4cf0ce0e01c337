//! What keeps a sweep from starting, whatever is free?

use crate::queue::Moment;
use crate::queue::state::Queue;
use crate::queue::state::runs::State;
use crate::queue::state::sweeps::SweepState;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) enum Closed {
    Paused,
    Stuck(String),
    /// Its results find no place; until then.
    Held {
        why: String,
        until: Moment,
    },
    /// Another sweep has to be complete; and how many of its runs will never be without somebody's help.
    WaitsFor {
        sweep: String,
        lost: u32,
        /// Some of it still runs, or may start.
        moves: bool,
    },
    Quota {
        user: String,
        slots: u32,
        /// What one run takes of them.
        ranks: u32,
    },
}

pub(in crate::queue) fn closed(queue: &Queue, state: &SweepState, now: Moment) -> Option<Closed> {
    if state.paused {
        return Some(Closed::Paused);
    }
    if let Some(why) = &state.stuck {
        return Some(Closed::Stuck(why.clone()));
    }
    if let Some(hold) = state.hold.as_ref().filter(|hold| hold.until > now) {
        return Some(Closed::Held { why: hold.why.clone(), until: hold.until });
    }
    // A sweep that is not there any more was complete when it was forgotten.
    let mut others = state.sweep.after.iter().filter_map(|name| queue.sweeps.get(&queue.sweep_key(name)?));
    others.find(|other| !other.is_complete()).map(|other| Closed::WaitsFor {
        sweep: other.sweep.name.clone(),
        lost: other.runs.count(State::Failed) + other.runs.count(State::Stopped),
        moves: other.runs.count(State::Live) > 0 || (other.runs.count(State::Waiting) > 0 && other.stuck.is_none()),
    })
}

/// Whether somebody who holds this many seats may have the ones that a run needs as well.
pub(in crate::queue) fn quota(queue: &Queue, user: u32, held: u32, ranks: u32) -> Option<Closed> {
    let user = queue.users.get(user as usize)?;
    let slots = user.quota?;
    (held.saturating_add(ranks) > slots).then(|| Closed::Quota { user: user.name.clone(), slots, ranks })
}
