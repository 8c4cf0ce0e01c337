//! What exactly is a host told to run for one attempt? Pure: the same sweep, attempt and seats give the same `Start` (PLAN-1).
//!
//! | file | question |
//! |---|---|
//! | `template` | what is text in a word, and what stands for something |
//! | `words` | the program and its arguments |
//! | `env` | the environment: who it is, its devices, its gang |
//! | `text` | how a value is written: as a word, as JSON, as YAML |
//! | `time` | what the calendar says at a moment |

pub mod env;
pub mod template;
pub mod text;
pub mod time;
pub mod words;

use super::event::Seat;
use super::sweep::{Provenance, Sweep};
use super::work::{Origin, Publish, Start};
use super::{Attempt, Moment, cells};

/// What rank `rank` of `attempt` is, on `seats[rank]`. `now` is the moment of the assignment: it names the folder of the results, and
/// an assignment that is told a second time has to tell the same. `local`: the host sees `results_root`, the store's own folder.
#[allow(clippy::too_many_arguments)] // The seam between planner and line: each of them is known to the caller alone.
pub fn start(
    sweep: &Sweep,
    attempt: &Attempt,
    seats: &[Seat],
    rank: u32,
    after: Option<Attempt>,
    local: bool,
    results_root: &str,
    now: Moment,
) -> Result<Start, String> {
    let run = &attempt.run;
    let config = cells::config(sweep, run.cell).ok_or_else(|| {
        format!("the sweep {} has no configuration {}; was another sweep of its name submitted?", sweep.name, run.cell)
    })?;
    let seat = usize::try_from(rank).ok().and_then(|rank| seats.get(rank));
    let seat = seat.ok_or_else(|| format!("rank {rank} of {attempt} has no seat"))?;
    let command = &sweep.command;
    let person = words::Person { sweep, attempt, config: &config };
    let param2val = || ("param2val.yaml".to_string(), text::param2val(&config));
    let files = match command.pass.file {
        true => vec![param2val(), ("params.json".into(), text::params_json(&config))],
        false => Vec::new(),
    };
    let result = result(attempt, rank, now);
    let mut env = env::env(&person, seats, rank, seat);
    env.push(("SHOAL_RESULT".into(), result.clone()));
    Ok(Start {
        attempt: attempt.clone(),
        argv: words::argv(&person)?,
        env,
        setup: command.setup.clone(),
        virtualenv: command.virtualenv.clone(),
        requirements: command.requirements.clone(),
        trees: command.trees.clone(),
        folder: command.folder.clone(),
        after,
        rank,
        hosts: seats.iter().map(|seat| seat.host.clone()).collect(),
        files,
        beside: vec![param2val()],
        devices: seat.devices.clone(),
        memory_bytes: sweep.wants.memory_bytes,
        time_limit_seconds: sweep.rules.time_limit_seconds,
        grace_seconds: sweep.rules.grace_seconds,
        publish: publish(sweep, result, local, results_root),
        results_mark: sweep.rules.results_mark.clone().filter(|_| sweep.rules.results.is_some()),
        // What further ranks of a gang leave is no result of its own.
        always: sweep.rules.results.is_some() && rank == 0,
        guarded: false,
        origin: origin(&sweep.provenance),
    })
}

fn origin(of: &Provenance) -> Option<Origin> {
    let commit = of.commit.clone()?;
    Some(Origin { commit, dirty: of.dirty, diff: of.diff.clone(), folder: of.folder.clone(), host: of.host.clone() })
}

/// LudwigCluster's layout: `runs/param_NNN/<time>_num<rep>`. What further ranks of a gang leave lies in `ranks/`, where nobody counts
/// it as another copy.
fn result(attempt: &Attempt, rank: u32, now: Moment) -> String {
    let run = &attempt.run;
    let (kind, suffix) = if rank == 0 { ("runs", String::new()) } else { ("ranks", format!("_rank{rank}")) };
    let stamp = time::ludwig(now);
    format!("{}/{kind}/param_{:03}/{stamp}_num{}{suffix}", run.sweep, run.cell, run.rep)
}

fn publish(sweep: &Sweep, name: String, local: bool, results_root: &str) -> Publish {
    let root = sweep.rules.results.as_deref().or(local.then_some(results_root));
    match root {
        Some(root) => Publish::Folder(format!("{}/{name}", root.trim_end_matches('/'))),
        None => Publish::Send(name),
    }
}

#[cfg(test)]
mod tests;
