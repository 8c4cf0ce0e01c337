//! The queue's side of `shoal ps`: sweeps, the runs of one, or counts of runs.

use super::connect::{Queue, Start, has_journal};
use super::dry_run::count;
use super::{lists, table, target, times};
use crate::args::ps::{Args, Group, State};
use crate::commands::ps::RECENT_MS;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use serde_json::json;
use shoal_core::queue::Moment;
use shoal_core::queue::request::{Filter, RunRow, RunState, SweepRow};
use shoal_daemon::queue::places::Store;
use shoal_daemon::queue::serve::{Ended, Holder, last_holder};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// A screenful and a bit; more with --all.
const FIRST: u32 = 100;
/// Runs in one answer.
const PAGE: u32 = 1000;

/// Whether runs of the queue are asked for, and not all that there is.
pub fn is_meant(args: &Args) -> bool {
    args.target.is_some() || !args.state.is_empty() || args.host.is_some() || args.group_by.is_some()
}

/// The sweeps, if there is a queue; what is wrong with it, if it does not answer. A queue that sleeps is woken for --all only.
pub fn sweeps(args: &Args) -> Result<Vec<SweepRow>, String> {
    let said = NotBegun::why;
    let found = match args.all && has_journal() {
        true => Some(Queue::open(Start::IfStore).map_err(said)?),
        false => Queue::found().map_err(said)?,
    };
    let Some(mut queue) = found else {
        if has_journal() {
            eprintln!("shoal ps: {}", asleep(Store::usual().and_then(|store| last_holder(&store)), times::now()));
        }
        return Ok(Vec::new());
    };
    let mut rows = queue.sweeps(true).map_err(said)?;
    let now = times::now();
    let is_over = |row: &SweepRow| row.waiting == 0 && row.running == 0;
    // When it ended is not known here; when it was submitted is.
    rows.retain(|row| args.all || !is_over(row) || now.saturating_sub(row.submitted) < RECENT_MS);
    rows.retain(|row| args.owner.as_ref().is_none_or(|owner| row.owner == *owner));
    Ok(rows)
}

/// Why nobody answers. Pure.
fn asleep(last: Option<Holder>, now: Moment) -> String {
    match last {
        Some(Holder { pid, host, since, ended: None, .. }) => format!(
            "the daemon is gone (process {pid} on {host}, started {} ago): it did not end by itself, so it was killed or its machine was \
             restarted. What runs goes on; nothing else starts until there is a daemon: `shoal serve` brings it back, and so does \
             `shoal ps --all`",
            times::coarse(now.saturating_sub(since))
        ),
        Some(Holder { ended: Some(Ended { work: true }), .. }) => {
            "the queue sleeps: its daemon was told to end while there was work. What \
             runs goes on; what waits starts when the queue is woken, by `shoal serve` or `shoal ps --all`"
                .into()
        }
        _ => "the queue sleeps; nothing was left to do. `shoal ps --all` wakes it".into(),
    }
}

pub fn table(rows: &[SweepRow]) -> String {
    lists::sweeps(rows, times::now(), table::width())
}

pub fn runs(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let target = args.target.as_deref().map(|word| target::find(&mut queue, word)).transpose()?;
    if let Some(name) = &args.host {
        super::host::find(&mut queue, name)?;
    }
    let states = args.state.iter().map(|state| (*state).into()).collect();
    let filter = Filter { target, states, owner: args.owner.clone(), host: args.host.clone() };
    if let Some(group) = args.group_by {
        return groups(args, &mut queue, filter, group);
    }
    if args.json {
        let rows = all(&mut queue, &filter)?;
        crate::say::line(json!({ "total": rows.len(), "runs": rows }));
        return Ok(Exit::Success.into());
    }
    let (rows, total) = match args.all {
        true => all(&mut queue, &filter).map(|rows| (rows, 0))?,
        false => queue.runs(&filter, 0, FIRST)?,
    };
    crate::say::out(lists::runs(&rows, times::now(), table::width()));
    if total > rows.len() as u64 {
        eprintln!("shoal ps: the first {FIRST} of {}; --all shows them, --state picks some", count(total, "run"));
    }
    Ok(Exit::Success.into())
}

fn all(queue: &mut Queue, filter: &Filter) -> Result<Vec<RunRow>, NotBegun> {
    let mut rows: Vec<RunRow> = Vec::new();
    loop {
        let (page, total) = queue.runs(filter, rows.len() as u32, PAGE)?;
        let is_last = page.is_empty() || (rows.len() + page.len()) as u64 >= total;
        rows.extend(page);
        if is_last {
            return Ok(rows);
        }
    }
}

fn groups(args: &Args, queue: &mut Queue, mut filter: Filter, group: Group) -> Result<ExitCode, NotBegun> {
    let mut counts: BTreeMap<String, [u64; 5]> = BTreeMap::new();
    let head = match group {
        Group::Sweep => "SWEEP",
        Group::Host => "HOST",
        Group::State => "STATE",
    };
    let needs_runs = group == Group::Host
        || filter.host.is_some()
        || filter.target.as_ref().is_some_and(|t| target::name_of(t) != t.to_string());
    if needs_runs {
        if filter.states.is_empty() && group == Group::Host {
            // Where runs were before is history; where they are is the question.
            filter.states = vec![RunState::Running];
        }
        for row in all(queue, &filter)? {
            let whats = match group {
                Group::Sweep => vec![row.run.sweep.clone()],
                Group::State => vec![lists::word(row.state).to_string()],
                Group::Host => row.hosts.clone(),
            };
            for what in whats {
                counts.entry(what).or_default()[index(row.state)] += 1;
            }
        }
    } else {
        for row in queue.sweeps(true)? {
            let named = filter.target.as_ref().is_none_or(|target| target::name_of(target) == row.name);
            if !named || filter.owner.as_ref().is_some_and(|owner| row.owner != *owner) {
                continue;
            }
            let of = [row.waiting, row.running, row.finished, row.failed, row.stopped];
            for state in STATES.into_iter().filter(|state| filter.states.is_empty() || filter.states.contains(state)) {
                let what = if group == Group::Sweep { row.name.clone() } else { lists::word(state).into() };
                counts.entry(what).or_default()[index(state)] += of[index(state)];
            }
        }
    }
    let rows: Vec<(String, [u64; 5])> = counts.into_iter().filter(|(_, of)| of.iter().any(|n| *n > 0)).collect();
    if args.json {
        let groups = rows.iter().map(|(what, of)| {
            let of: serde_json::Map<_, _> =
                STATES.iter().map(|s| (lists::word(*s).into(), json!(of[index(*s)]))).collect();
            json!({ "group": what, "runs": of })
        });
        crate::say::line(json!({ "groups": groups.collect::<Vec<_>>() }));
    } else {
        crate::say::out(lists::groups(head, &rows, table::width()));
    }
    Ok(Exit::Success.into())
}

const STATES: [RunState; 5] =
    [RunState::Waiting, RunState::Running, RunState::Finished, RunState::Failed, RunState::Stopped];

fn index(state: RunState) -> usize {
    STATES.iter().position(|s| *s == state).unwrap_or(0)
}

impl From<State> for RunState {
    fn from(state: State) -> RunState {
        match state {
            State::Waiting => RunState::Waiting,
            State::Running => RunState::Running,
            State::Finished => RunState::Finished,
            State::Failed => RunState::Failed,
            State::Stopped => RunState::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_daemon_is_no_sleeping_one() {
        let last =
            |ended| Some(Holder { pid: 7, host: "lab".into(), since: 1_000, auto: true, listens: Vec::new(), ended });
        let gone = asleep(last(None), 61_000);
        for part in ["the daemon is gone", "process 7 on lab", "`shoal serve`", "`shoal ps --all`"] {
            assert!(gone.contains(part) && !gone.contains("sleeps"), "{gone}");
        }
        assert!(asleep(last(Some(Ended { work: true })), 0).contains("the queue sleeps: its daemon was told to end"));
        for nothing_to_do in [last(Some(Ended { work: false })), None] {
            assert!(asleep(nothing_to_do, 0).contains("the queue sleeps; nothing was left to do"));
        }
    }
}
