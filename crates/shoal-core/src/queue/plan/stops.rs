//! Who has to end?

use crate::queue::Moment;
use crate::queue::event::Action;
use crate::queue::state::live::Live;
use crate::queue::state::runs::State;
use crate::queue::state::{Queue, RunKey};
use std::collections::BTreeSet;

/// Whoever is first of a line for longer than this is not short: those behind it are taken back.
pub(in crate::queue) const LINE_STANDS_MS: u64 = 2_000;

/// Why somebody in line is taken back, and how such a stop is told from all others: its host ends it only if it has not begun. The one before it
/// may be over while its results still wait for a drive; then whoever follows runs already, and what it did must not be thrown away (QUEUE-2).
pub const TAKEN_BACK: &str = "the run before it takes longer than expected";

pub(super) fn stops(queue: &Queue, now: Moment) -> Vec<Action> {
    let mut told = BTreeSet::new();
    let mut actions = Vec::new();
    let mut stop = |run: RunKey, checkpoint_first: bool, why: &str| {
        let open = queue.live.get(&run).is_some_and(|live| live.stopping.is_none());
        if let Some(attempt) = queue.attempt_of(run).filter(|_| open && told.insert(run)) {
            actions.push(Action::Stop { attempt, checkpoint_first, why: why.into() });
        }
    };
    for (run, why) in &queue.to_stop {
        stop(*run, false, why);
    }
    for (run, why) in disturbing(queue) {
        stop(run, true, &why);
    }
    for run in stranded(queue, now) {
        stop(run, false, TAKEN_BACK);
    }
    actions
}

/// Others' runs on the desk of somebody who is back.
fn disturbing(queue: &Queue) -> impl Iterator<Item = (RunKey, String)> {
    let back = queue.hosts.iter().filter(|(_, host)| host.silent.is_none() && !host.owner_is_away());
    back.flat_map(move |(key, host)| {
        let name = &host.policy.name;
        let owner = host.policy.owner.as_ref().map_or("", |owner| owner.user.as_str());
        let others = host
            .live
            .iter()
            .filter(move |run| queue.sweeps.get(&run.0).is_some_and(|state| state.sweep.owner != owner));
        // Whose program is over disturbs nobody.
        let runs = |live: &Live| live.seats.iter().any(|seat| seat.host == *key && seat.holds());
        let others = others.filter(move |run| queue.live.get(run).is_some_and(runs));
        others.map(move |run| (*run, format!("{owner} is back at {name}")))
    })
}

/// Those that stand in line behind a run that turned out to be long.
fn stranded(queue: &Queue, now: Moment) -> Vec<RunKey> {
    let mut all = Vec::new();
    let sweeps = queue.sweeps.iter().filter(|(_, state)| state.chained > 0 && state.runs.count(State::Live) > 0);
    for (key, state) in sweeps {
        for run in &state.heads {
            let Some(head) = queue.live.get(&(*key, *run)).filter(|head| head.line.behind > 0) else { continue };
            if head.since.is_none_or(|since| now.saturating_sub(since) < LINE_STANDS_MS) {
                continue;
            }
            let mut next = head.line.next;
            while let Some(run) = next {
                all.push((*key, run));
                next = queue.live.get(&(*key, run)).and_then(|live| live.line.next);
            }
        }
    }
    all
}
