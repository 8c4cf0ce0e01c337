//! What do people see of the queue? How runs ended and what they measured is in the journal: the daemon adds it.

use super::runs::State;
use super::{Queue, RunKey, SweepState};
use crate::queue::host::Reached;
use crate::queue::request::{Filter, HostRow, RunRow, RunState, SweepRow};
use crate::queue::{Moment, Target, cells, estimate};
use std::collections::BTreeMap;

impl Queue {
    /// All sweeps, in the order of their submission.
    pub fn sweep_rows(&self, now: Moment) -> Vec<SweepRow> {
        self.sweeps.values().map(|state| self.sweep_row_of(state, now)).collect()
    }

    pub fn sweep_row(&self, name: &str, now: Moment) -> Option<SweepRow> {
        Some(self.sweep_row_of(self.sweeps.get(&self.sweep_key(name)?)?, now))
    }

    fn sweep_row_of(&self, state: &SweepState, now: Moment) -> SweepRow {
        let count = |of: State| u64::from(state.runs.count(of));
        let in_line = u64::from(state.chained);
        let held = state.hold.as_ref().filter(|hold| hold.until > now);
        let stuck = state.stuck.clone().or_else(|| held.map(|hold| format!("waits a while: {}", hold.why)));
        SweepRow {
            name: state.sweep.name.clone(),
            owner: state.sweep.owner.clone(),
            submitted: state.submitted,
            cells: state.runs.cells(),
            reps: state.sweep.reps,
            waiting: count(State::Waiting) + in_line,
            running: count(State::Live).saturating_sub(in_line),
            finished: count(State::Finished),
            failed: count(State::Failed),
            stopped: count(State::Stopped),
            priority: state.sweep.rules.priority,
            paused: state.paused,
            done_at: estimate::done_at(self, state, now),
            stuck,
        }
    }

    /// Those that the filter means, by sweep, configuration and copy; and how many there are in all. A filter by host finds
    /// what lives there.
    pub fn run_rows(&self, filter: &Filter, from: u32, limit: u32) -> (Vec<RunRow>, u64) {
        let mut rows = Vec::new();
        let mut total = 0u64;
        let page = u64::from(from)..u64::from(from) + u64::from(limit);
        let host = filter.host.as_deref().map(|name| self.host_key(name));
        for (key, state) in self.sweeps.iter().filter(|(_, state)| is_meant(state, filter)) {
            let mut names = None;
            let mut take = |index: u32| {
                if page.contains(&total) {
                    let names = names.get_or_insert_with(|| cells::differing(&state.sweep));
                    rows.extend(self.run_row((*key, index), state, names));
                }
                total += 1;
            };
            let wanted = |index: u32| {
                let shown = || state.runs.get(index).map(|slot| self.shown((*key, index), slot.state));
                filter.states.is_empty() || shown().is_some_and(|shown| filter.states.contains(&shown))
            };
            if let Some(host) = host {
                let live = host.and_then(|host| self.hosts.get(&host)).into_iter().flat_map(|host| &host.live);
                let here = live.filter(|run| run.0 == *key).filter_map(|run| Some((state.runs.id(run.1)?, run.1)));
                let sorted: BTreeMap<(u32, u32), u32> = here.filter(|(id, _)| is_in(filter, *id)).collect();
                sorted.into_values().filter(|index| wanted(*index)).for_each(take);
                continue;
            }
            let (cells, reps) = bounds(filter, state);
            for cell in cells {
                for index in reps.clone().filter_map(|rep| state.runs.index(cell, rep)).filter(|index| wanted(*index)) {
                    take(index);
                }
            }
        }
        (rows, total)
    }

    fn run_row(&self, key: RunKey, state: &SweepState, names: &[String]) -> Option<RunRow> {
        let slot = state.runs.get(key.1)?;
        let run = state.run_id(key.1)?;
        let live = self.live.get(&key);
        let hosts = live.into_iter().flat_map(|live| &live.seats).filter_map(|seat| self.hosts.get(&seat.host));
        Some(RunRow {
            differs: cells::values(&state.sweep, run.cell, names),
            run,
            state: self.shown(key, slot.state),
            attempt: slot.attempts,
            hosts: hosts.map(|host| host.policy.name.clone()).collect(),
            began: live.and_then(|live| live.began),
            ended: None,
            ending: state.endings.get(&key.1).cloned(),
            metrics: Vec::new(),
            trouble: None,
            stopping: live.is_some_and(|live| live.asked || live.stopping.is_some()),
            done_at: live.and_then(|live| estimate::run_done_at(state, live)),
        })
    }

    pub fn host_rows(&self) -> Vec<HostRow> {
        let row = |host: &super::HostState| HostRow {
            name: host.policy.name.clone(),
            connected: host.heard.is_some() && host.silent.is_none(),
            paused: host.paused,
            drained: host.drained.clone(),
            facts: host.facts.clone(),
            running: host.used.slots,
            slots: host.slots_shown(),
            heard: host.heard,
            problem: None,
            prepared: host.policy.environment.is_some(),
            pool: match &host.policy.reach {
                Some(Reached::Pool { pool, .. }) => Some(pool.clone()),
                _ => None,
            },
        };
        let mut rows: Vec<HostRow> = self.hosts.values().map(row).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }
}

fn is_meant(state: &SweepState, filter: &Filter) -> bool {
    let sweep = &state.sweep;
    filter.owner.as_ref().is_none_or(|owner| *owner == sweep.owner)
        && filter.target.as_ref().is_none_or(|target| target.sweep() == sweep.name)
        && (filter.states.is_empty() || filter.states.iter().any(|wanted| has(state, *wanted)))
}

/// Whether any run of it can be in this state: most sweeps of a long list are over.
fn has(state: &SweepState, wanted: RunState) -> bool {
    let count = |of: State| state.runs.count(of) > 0;
    match wanted {
        RunState::Waiting => count(State::Waiting) || state.chained > 0,
        RunState::Running => count(State::Live),
        RunState::Finished => count(State::Finished),
        RunState::Failed => count(State::Failed),
        RunState::Stopped => count(State::Stopped),
    }
}

fn is_in(filter: &Filter, (cell, rep): (u32, u32)) -> bool {
    match &filter.target {
        None | Some(Target::Sweep(_)) => true,
        Some(Target::Cell(_, wanted)) => cell == *wanted,
        Some(Target::Run(run)) => (cell, rep) == (run.cell, run.rep),
    }
}

/// Configurations and copies that a target means.
fn bounds(filter: &Filter, state: &SweepState) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
    let (cells, reps) = (state.runs.cells(), state.runs.reps());
    let one = |number: u32, of: u32| number.min(of)..number.saturating_add(1).min(of);
    match &filter.target {
        None | Some(Target::Sweep(_)) => (0..cells, 0..reps),
        Some(Target::Cell(_, cell)) => (one(*cell, cells), 0..reps),
        Some(Target::Run(run)) => (one(run.cell, cells), one(run.rep, reps)),
    }
}
