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

/// When a run will be over if it takes as long as others of its sweep; `None`: none of them is over yet, or it does not run.
pub(in crate::queue) fn run_done_at(state: &SweepState, live: &Live) -> Option<Moment> {
    let since = live.since.filter(|_| !live.waits())?;
    // By the clock of its host, which may be behind.
    let began = live.began.map_or(since, |began| began.max(since));
    let mean = state.measured.mean_ms()?;
    Some(began.saturating_add(limit_ms(state).map_or(mean, |limit| limit.min(mean))))
}

/// The same, by how far it says it is: `progress` from 0 to 1, or `step` of `steps`, or `epoch` of `epochs`. Of the first hundredth nothing follows.
pub fn by_progress(numbers: &[(String, String)], began: Moment, now: Moment) -> Option<Moment> {
    const LEAST: f64 = 0.01;
    let number = |name: &str| numbers.iter().find(|(known, _)| known == name)?.1.trim().parse::<f64>().ok();
    let ratio = |of: &str, all: &str| Some(number(of)? / number(all).filter(|all| *all > 0.0)?);
    let done = number("progress").or_else(|| ratio("step", "steps")).or_else(|| ratio("epoch", "epochs"))?;
    if !(LEAST..=1.0).contains(&done) {
        return None;
    }
    let took = now.saturating_sub(began) as f64;
    Some(now.saturating_add((took * (1.0 - done) / done) as u64))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_says_how_far_it_is_is_believed() {
        let numbers =
            |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect::<Vec<_>>();
        for (said, done_at) in [
            (&[("progress", "0.25")][..], Some(5_000)),
            (&[("loss", "3"), ("step", "100"), ("steps", "200")], Some(3_000)),
            (&[("epoch", "2"), ("epochs", "2")], Some(2_000)),
            (&[("step", "100")], None),
            (&[("step", "1"), ("steps", "0")], None),
            (&[("progress", "0.001")], None),
            (&[("progress", "1.5")], None),
            (&[("progress", "NaN")], None),
        ] {
            assert_eq!(by_progress(&numbers(said), 1_000, 2_000), done_at, "{said:?}");
        }
    }
}
