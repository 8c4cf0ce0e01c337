//! How long will it take? From what finished runs of the same sweep took; where nothing is known, nothing is said.

use super::Moment;
use super::state::Queue;
use super::state::live::Live;
use super::state::runs::State;
use super::state::sweeps::SweepState;

/// When a live attempt will be over, near enough to keep a place for somebody else.
///
/// By the mean of its sweep, else by its time limit, else it is taken to be half done. One that is late ends any moment.
pub(in crate::queue) fn ends_at(state: &SweepState, live: &Live, now: Moment) -> Moment {
    let Some(since) = live.since else { return now };
    let limit = limit_ms(state);
    let whole = match (state.measured.mean_ms(), limit) {
        (Some(mean), Some(limit)) => mean.min(limit),
        (Some(mean), None) => mean,
        (None, Some(limit)) => limit,
        (None, None) => now.saturating_sub(since).saturating_mul(2),
    };
    since.saturating_add(whole).max(now)
}

/// How long a run of it takes at most, with a margin; `None`: nobody knows.
pub(in crate::queue) fn at_most_ms(state: &SweepState) -> Option<u64> {
    let careful = state.measured.careful_ms().map(|ms| ms.saturating_mul(2));
    match (careful, limit_ms(state)) {
        (Some(careful), Some(limit)) => Some(careful.min(limit)),
        (careful, limit) => careful.or(limit),
    }
}

fn limit_ms(state: &SweepState) -> Option<u64> {
    state.sweep.rules.time_limit_seconds.map(|seconds| seconds.saturating_mul(1000))
}

/// When all of a sweep will be done, if it goes on as it does now.
pub(in crate::queue) fn done_at(queue: &Queue, state: &SweepState, now: Moment) -> Option<Moment> {
    // Nothing of it runs: when its turn comes is another question.
    if state.heads.is_empty() || state.stuck.is_some() || state.paused {
        return None;
    }
    let mean = state.measured.mean_ms()?;
    let waiting = u64::from(state.runs.count(State::Waiting)) + u64::from(state.chained);
    let (left, longest) = left_ms(queue, state, now);
    let lanes = state.heads.len().max(1) as u64;
    let work = left.saturating_add(waiting.saturating_mul(mean));
    Some(now.saturating_add((work / lanes).max(longest)))
}

/// When a run of it starts that has this many before it in its own sweep, once the sweep gets its first seat at `first`, and
/// has this many seats.
pub(in crate::queue) fn starts_at(state: &SweepState, before: u64, first: Moment, seats: u64) -> Option<Moment> {
    if before == 0 {
        return Some(first);
    }
    Some(first.saturating_add(before.saturating_mul(state.measured.mean_ms()?) / seats.max(1)))
}

/// What is left to do of runs that hold a seat: in all, and of the longest.
fn left_ms(queue: &Queue, state: &SweepState, now: Moment) -> (u64, u64) {
    let Some(key) = queue.sweep_key(&state.sweep.name) else { return (0, 0) };
    let lives = state.heads.iter().filter_map(|run| queue.live.get(&(key, *run)));
    lives
        .map(|live| ends_at(state, live, now).saturating_sub(now))
        .fold((0, 0), |(sum, longest), left| (left.saturating_add(sum), left.max(longest)))
}
