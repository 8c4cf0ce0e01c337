//! The queue's side of `shoal ps`: sweeps, the runs of one, or counts of runs.

use super::connect::{Queue, Start, has_journal};
use super::dry_run::count;
use super::{lists, table, target, times};
use crate::args::ps::{Args, Group, State};
use crate::commands::ps::RECENT_MS;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use serde_json::{Value, json};
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

/// Whether the queue answered, and if not, why not. An empty list is said only by a queue that is known to be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Answers,
    /// There never was one here.
    None,
    /// Its daemon went by itself, with nothing left to do.
    Asleep,
    /// Its daemon was told to end while something waited or ran.
    Stopped,
    /// Its daemon was killed, or its machine restarted.
    Gone,
    /// It is there, and cannot be asked.
    Unreached,
}

pub struct Sweeps {
    pub standing: Standing,
    pub rows: Vec<SweepRow>,
    /// For people, if it does not answer.
    pub why: Option<String>,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Standing::Answers => "answers",
            Standing::None => "none",
            Standing::Asleep => "asleep",
            Standing::Stopped => "stopped",
            Standing::Gone => "gone",
            Standing::Unreached => "unreached",
        }
    }
}

impl Sweeps {
    /// Whether what is listed is all that there is.
    pub fn is_known(&self) -> bool {
        matches!(self.standing, Standing::Answers | Standing::None | Standing::Asleep)
    }

    /// `sweeps` and `queue` of `ps --json`: what nobody knows is null, not an empty list.
    pub fn json(&self) -> (Value, Value) {
        let rows = if self.is_known() { json!(self.rows) } else { Value::Null };
        (rows, json!({ "state": self.standing.word(), "why": self.why }))
    }
}

/// A queue that sleeps is woken for --all only.
pub fn sweeps(args: &Args) -> Sweeps {
    let unreached = |e: NotBegun| Sweeps { standing: Standing::Unreached, rows: Vec::new(), why: Some(e.why()) };
    ask(args).unwrap_or_else(unreached)
}

fn ask(args: &Args) -> Result<Sweeps, NotBegun> {
    let found = match args.all && has_journal() {
        true => Some(Queue::open(Start::IfStore)?),
        false => Queue::found()?,
    };
    let Some(mut queue) = found else {
        if !has_journal() {
            return Ok(Sweeps { standing: Standing::None, rows: Vec::new(), why: None });
        }
        let (standing, why) = asleep(Store::usual().and_then(|store| last_holder(&store)), times::now());
        return Ok(Sweeps { standing, rows: Vec::new(), why: Some(why) });
    };
    let mut rows = queue.sweeps(true)?;
    let now = times::now();
    let is_over = |row: &SweepRow| row.waiting == 0 && row.running == 0;
    // When it ended is not known here; when it was submitted is.
    rows.retain(|row| args.all || !is_over(row) || now.saturating_sub(row.submitted) < RECENT_MS);
    rows.retain(|row| args.owner.as_ref().is_none_or(|owner| row.owner == *owner));
    Ok(Sweeps { standing: Standing::Answers, rows, why: None })
}

/// Why nobody answers. Pure.
fn asleep(last: Option<Holder>, now: Moment) -> (Standing, String) {
    match last {
        Some(Holder { pid, host, since, ended: None, .. }) => {
            let text = format!(
                "the daemon is gone (process {pid} on {host}, started {} ago): it did not end by itself, so it was killed or its machine was \
                 restarted. What runs goes on; nothing else starts until there is a daemon: `shoal serve` brings it back, and so does \
                 `shoal ps --all`",
                times::coarse(now.saturating_sub(since))
            );
            (Standing::Gone, text)
        }
        Some(Holder { ended: Some(Ended { work: true }), .. }) => {
            let text = "the queue sleeps: its daemon was told to end while there was work. What \
                        runs goes on; what waits starts when the queue is woken, by `shoal serve` or `shoal ps --all`";
            (Standing::Stopped, text.into())
        }
        _ => (Standing::Asleep, "the queue sleeps; nothing was left to do. `shoal ps --all` wakes it".into()),
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
    // Where runs ended is in the journal, page by page; where they are is known at once.
    let ended_too = args.host.is_some() && (target.is_some() || !args.state.is_empty() || args.all);
    let host = args.host.clone();
    let filter = Filter { target, states, owner: args.owner.clone(), host: host.clone().filter(|_| !ended_too) };
    let host = host.filter(|_| ended_too);
    if let Some(group) = args.group_by {
        return groups(args, &mut queue, filter, host.as_deref(), group);
    }
    if args.json {
        let rows = all(&mut queue, &filter, host.as_deref())?;
        crate::say::line(json!({ "total": rows.len(), "runs": rows }));
        return Ok(Exit::Success.into());
    }
    let (rows, total) = match args.all || host.is_some() {
        true => all(&mut queue, &filter, host.as_deref()).map(|rows| (rows, 0))?,
        false => queue.runs(&filter, 0, FIRST)?,
    };
    crate::say::out(lists::runs(&rows, times::now(), table::width()));
    if total > rows.len() as u64 {
        eprintln!("shoal ps: the first {FIRST} of {}; --all shows them, --state picks some", count(total, "run"));
    }
    Ok(Exit::Success.into())
}

/// Of this host only, if one is named.
fn all(queue: &mut Queue, filter: &Filter, host: Option<&str>) -> Result<Vec<RunRow>, NotBegun> {
    let mut rows: Vec<RunRow> = Vec::new();
    let mut read = 0;
    loop {
        let (page, total) = queue.runs(filter, read, PAGE)?;
        read += page.len() as u32;
        let is_last = page.is_empty() || u64::from(read) >= total;
        rows.extend(page.into_iter().filter(|row| is_of(row, host)));
        if is_last {
            return Ok(rows);
        }
    }
}

fn is_of(row: &RunRow, host: Option<&str>) -> bool {
    host.is_none_or(|host| row.hosts.iter().any(|there| there == host))
}

fn groups(
    args: &Args,
    queue: &mut Queue,
    mut filter: Filter,
    host: Option<&str>,
    group: Group,
) -> Result<ExitCode, NotBegun> {
    let mut counts: BTreeMap<String, [u64; 5]> = BTreeMap::new();
    let head = match group {
        Group::Sweep => "SWEEP",
        Group::Host => "HOST",
        Group::State => "STATE",
    };
    let needs_runs = group == Group::Host
        || args.host.is_some()
        || filter.target.as_ref().is_some_and(|t| target::name_of(t) != t.to_string());
    if needs_runs {
        if filter.states.is_empty() && group == Group::Host && args.target.is_none() && !args.all {
            // Of everything there ever was, where runs were before is history; where they are is the question.
            filter.states = vec![RunState::Running];
        }
        for row in all(queue, &filter, host)? {
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
        let (standing, gone) = asleep(last(None), 61_000);
        assert_eq!(standing, Standing::Gone);
        for part in ["the daemon is gone", "process 7 on lab", "`shoal serve`", "`shoal ps --all`"] {
            assert!(gone.contains(part) && !gone.contains("sleeps"), "{gone}");
        }
        let (standing, stopped) = asleep(last(Some(Ended { work: true })), 0);
        assert_eq!(standing, Standing::Stopped);
        assert!(stopped.contains("the queue sleeps: its daemon was told to end"));
        for nothing_to_do in [last(Some(Ended { work: false })), None] {
            let (standing, text) = asleep(nothing_to_do, 0);
            assert_eq!(standing, Standing::Asleep);
            assert!(text.contains("the queue sleeps; nothing was left to do"));
        }
    }

    /// A program that reads `sweeps` of a queue that nobody answers for must not take it for an empty one.
    #[test]
    fn what_nobody_knows_is_null() {
        let of = |standing| Sweeps { standing, rows: Vec::new(), why: None }.json().0;
        for known in [Standing::Answers, Standing::None, Standing::Asleep] {
            assert_eq!(of(known), json!([]));
        }
        for unknown in [Standing::Stopped, Standing::Gone, Standing::Unreached] {
            assert_eq!(of(unknown), Value::Null);
        }
    }
}
