//! What is to be done now? Who starts where, who has to end, which host takes no more (CORE-1).
//!
//! A plan works on what was applied, so it says nothing twice: its actions become events before they are done.
//!
//! | file | question |
//! |---|---|
//! | `room`, `devices` | what is free on a host, and which devices a run would get |
//! | `gate` | what keeps a sweep from starting, whatever is free |
//! | `place` | on which hosts a run, or a gang, goes |
//! | `reserve` | until when the first that does not fit keeps others from its places |
//! | `lines` | which short runs are assigned ahead |
//! | `meet` | where the ranks of a gang find each other |
//! | `starts` | who is next, and where it goes |
//! | `stops` | who has to end |
//! | `suspect` | which host fails what works elsewhere |
//! | `silent` | whose runs are lost |

pub(in crate::queue) mod devices;
pub(in crate::queue) mod gate;
mod lines;
pub(in crate::queue) mod meet;
pub(in crate::queue) mod place;
pub(in crate::queue) mod reserve;
pub(in crate::queue) mod room;
pub mod silent;
mod starts;
mod stops;
pub(in crate::queue) mod suspect;

pub(in crate::queue) use stops::LINE_STANDS_MS;
pub use stops::TAKEN_BACK;

use super::Moment;
use super::event::Action;
use super::state::Queue;
use std::collections::BTreeSet;

pub fn plan(queue: &Queue, now: Moment) -> Vec<Action> {
    let mut actions = stops::stops(queue, now);
    let drains = suspect::drains(queue);
    let drained: BTreeSet<u32> = drains.iter().map(|(host, _)| *host).collect();
    actions.extend(drains.into_iter().map(|(_, action)| action));
    actions.extend(starts::starts(queue, &drained, now));
    actions
}

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;
