//! Why does a run not run? Asked of the same functions that decide.
//!
//! | file | question |
//! |---|---|
//! | `hosts` | whether any host would take it, and why not |
//! | `ahead` | who comes first |

mod ahead;
mod hosts;

use super::plan::gate::{self, Closed};
use super::plan::place::{self, Asker};
use super::plan::reserve::Reservation;
use super::plan::room::{HostRoom, Need};
use super::request::{RunState, WhyRow};
use super::state::runs::State;
use super::state::sweeps::SweepState;
use super::state::{Queue, RunKey};
use super::{Moment, RunId, Target, estimate};
use ahead::Ahead;

/// Rows for one question, at most.
const MOST_ROWS: u32 = 100;
/// Sweeps that wait for each other in a row: further ones are not looked at.
const LONGEST_CHAIN: u32 = 50;

/// A code for programs, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct Reason {
    code: &'static str,
    text: String,
    starts_at: Option<Moment>,
    forever: bool,
}

fn reason(code: &'static str, text: impl Into<String>) -> Reason {
    Reason { code, text: text.into(), starts_at: None, forever: false }
}

/// Nothing that goes on by itself changes it.
fn forever(reason: Reason) -> Reason {
    Reason { forever: true, ..reason }
}

/// For a run, why it is as it is; for a configuration, of each copy; for a sweep, of the first run in each state that it
/// has runs in, those that wait first.
pub fn why(queue: &Queue, target: &Target, now: Moment) -> Vec<WhyRow> {
    let Some(key) = queue.sweep_key(target.sweep()) else { return Vec::new() };
    let Some(state) = queue.sweeps.get(&key) else { return Vec::new() };
    let runs: Vec<u32> = match target {
        Target::Run(run) => state.runs.index(run.cell, run.rep).into_iter().collect(),
        Target::Cell(_, cell) => {
            (0..state.runs.reps().min(MOST_ROWS)).filter_map(|rep| state.runs.index(*cell, rep)).collect()
        }
        Target::Sweep(_) => examples(queue, state, key),
    };
    runs.into_iter().filter_map(|run| row(queue, state, (key, run), now)).collect()
}

fn examples(queue: &Queue, state: &SweepState, key: u32) -> Vec<u32> {
    let states = [State::Waiting, State::Live, State::Failed, State::Stopped, State::Finished];
    let first = |wanted: State| {
        let is = |run: &u32| state.runs.get(*run).is_some_and(|slot| slot.state == wanted);
        match wanted {
            State::Waiting => state.runs.waiting_from(0),
            State::Live => {
                let any = || queue.live.range((key, 0)..=(key, u32::MAX)).next().map(|((_, run), _)| *run);
                state.heads.first().copied().or_else(any)
            }
            _ if state.runs.count(wanted) == 0 => None,
            _ => (0..state.runs.len()).find(is),
        }
    };
    states.into_iter().filter_map(first).collect()
}

fn row(queue: &Queue, state: &SweepState, key: RunKey, now: Moment) -> Option<WhyRow> {
    let slot = state.runs.get(key.1)?;
    let run = state.run_id(key.1)?;
    let why = match slot.state {
        State::Waiting => waits(queue, state, key, now, LONGEST_CHAIN),
        State::Live => lives(queue, state, key, now)?,
        State::Finished => reason("done", "it has finished"),
        State::Failed => failed(state, key.1, &run, slot.free),
        State::Stopped => stopped(state, key.1, &run),
    };
    let shown: RunState = queue.shown(key, slot.state);
    Some(WhyRow {
        run,
        state: shown,
        reason: why.text,
        code: why.code.into(),
        starts_at: why.starts_at,
        forever: why.forever,
    })
}

fn failed(state: &SweepState, index: u32, run: &RunId, free: u8) -> Reason {
    let how = state.endings.get(&index).map_or_else(|| "it failed".into(), |ending| format!("it failed: {ending}"));
    let often = if free > 20 { format!(" (it was given up after {} such ends)", free) } else { String::new() };
    reason("failed", format!("{how}{often}; `shoal logs {run}` shows its output, `shoal retry {run}` starts it again"))
}

fn stopped(state: &SweepState, index: u32, run: &RunId) -> Reason {
    let left = state.endings.get(&index).map_or_else(String::new, |ending| format!(" ({ending})"));
    reason("stopped", format!("somebody stopped it{left}; `shoal retry {run}` starts it again"))
}

fn lives(queue: &Queue, state: &SweepState, key: RunKey, now: Moment) -> Option<Reason> {
    let live = queue.live.get(&key)?;
    let hosts: Vec<_> = live.seats.iter().filter_map(|seat| queue.hosts.get(&seat.host)).collect();
    let mut names: Vec<&str> = hosts.iter().map(|host| host.policy.name.as_str()).collect();
    names.dedup();
    let on = names.join(", ");
    if let Some(host) = hosts.iter().find(|host| host.silent.is_some()) {
        let name = &host.policy.name;
        let text = format!("it is on {on}; nothing is heard of {name}, and it starts elsewhere if that goes on");
        return Some(reason("host_silent", text));
    }
    if live.asked || live.stopping.is_some() {
        return Some(reason("stopping", format!("it was told to end, on {on}")));
    }
    if let Some(ahead) = live.line.ahead.and_then(|ahead| state.run_id(ahead)) {
        let starts_at = estimate::ends_at(state, queue.live.get(&queue.first_of_line(key))?, now);
        let text = format!("it starts on {on} when {ahead} is over");
        return Some(Reason { code: "in_line", text, starts_at: Some(starts_at), forever: false });
    }
    if live.waits() {
        let text = format!("its program is over; what it left waits on {on} for its place, and it holds no seat");
        return Some(reason("results_wait", text));
    }
    Some(reason("running", format!("it runs on {on}")))
}

fn waits(queue: &Queue, state: &SweepState, key: RunKey, now: Moment, chain: u32) -> Reason {
    if let Some(closed) = gate::closed(queue, state, now) {
        let others = chain.checked_sub(1);
        let stands = others.and_then(|chain| stands(queue, &closed, now, chain));
        return stands.unwrap_or_else(|| said(closed, &state.sweep.name));
    }
    let need = Need::of(state);
    let held = queue.users.get(state.user as usize).map_or(0, |user| user.held);
    let asker = Asker { state, need, avoid: None, ends: estimate::at_most_ms(state).map(|ms| now.saturating_add(ms)) };
    if let Some(no) = hosts::none_would(queue, &asker) {
        return no;
    }
    if let Some(closed) = gate::quota(queue, state.user, held, need.ranks) {
        return said(closed, &state.sweep.name);
    }
    let open = queue.hosts.iter().filter(|(_, host)| host.shut().is_none());
    let rooms: Vec<HostRoom> = open.map(|(key, host)| HostRoom::now(queue, *key, host)).collect();
    let ahead = Ahead::of(queue, state, key, now);
    let fits = place::find(&rooms, None, &asker).is_some();
    let seat = Reservation::earliest(queue, &rooms, &asker, now).map(|kept| kept.at);
    let before = u64::from(state.runs.waiting_before(key.1));
    let seats = match state.heads.len() as u64 {
        0 => hosts::seats_of(&rooms, &asker),
        held => held,
    };
    let first = seat.and_then(|seat| Some(seat.saturating_add(ahead.work_ms(queue)?)));
    let starts_at = first.and_then(|first| estimate::starts_at(state, before, first, seats));
    let (code, text) = match (ahead.is_nobody(), fits) {
        (false, _) => ("behind_others", ahead.sentence()),
        (true, true) if before == 0 => ("next", "it starts now".into()),
        (true, _) => ("hosts_busy", busy(before)),
    };
    Reason { code, text, starts_at, forever: false }
}

/// Whether the sweep that has to be complete before will never be, as things are.
fn stands(queue: &Queue, closed: &Closed, now: Moment, chain: u32) -> Option<Reason> {
    let Closed::WaitsFor { sweep, moves: true, .. } = closed else { return None };
    let key = queue.sweep_key(sweep)?;
    let other = queue.sweeps.get(&key)?;
    if other.runs.count(State::Live) > 0 {
        return None;
    }
    let why = waits(queue, other, (key, other.runs.waiting_from(0)?), now, chain);
    let text =
        || format!("`{sweep}` has to be complete before it starts, and that cannot start as things are: {}", why.text);
    why.forever.then(|| forever(reason("waits_for_sweep", text())))
}

fn busy(before: u64) -> String {
    let others = match before {
        0 => "it is the next".into(),
        1 => "one run of its sweep is before it".into(),
        n => format!("{n} runs of its sweep are before it"),
    };
    format!("the hosts that can take it are busy; {others}")
}

fn said(closed: Closed, name: &str) -> Reason {
    match closed {
        Closed::Paused => reason("paused", format!("the sweep is paused; `shoal resume {name}` lets it go on")),
        Closed::Stuck(why) => reason(
            "sweep_stuck",
            format!("nothing of the sweep starts any more: {why}; mend it, then `shoal retry {name}`"),
        ),
        Closed::Held { why, until } => {
            let text = format!("results could not be put in place, so the sweep waits a while: {why}");
            Reason { code: "results_held", text, starts_at: Some(until), forever: false }
        }
        Closed::WaitsFor { sweep, lost: 0, .. } => {
            reason("waits_for_sweep", format!("`{sweep}` has to be complete before it starts"))
        }
        Closed::WaitsFor { sweep, lost, moves } => {
            let text = format!(
                "`{sweep}` has to be complete before it starts, and {lost} of its runs failed or were stopped; \
                 `shoal retry {sweep}` starts them again"
            );
            let why = reason("waits_for_sweep", text);
            if moves { why } else { forever(why) }
        }
        Closed::Quota { user, slots: 0, .. } => forever(reason("quota", format!("{user} may have no processes here"))),
        Closed::Quota { user, slots, ranks } if ranks > slots => {
            let text = format!("{user} may have {} at once, and one run of it has {ranks}", processes(slots));
            forever(reason("quota", text))
        }
        Closed::Quota { user, slots, .. } => {
            reason("quota", format!("{user} may have {} at once, and has them", processes(slots)))
        }
    }
}

fn processes(n: u32) -> String {
    if n == 1 { "1 process".into() } else { format!("{n} processes") }
}

#[cfg(test)]
mod tests;
