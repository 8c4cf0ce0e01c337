//! Ends a run on all its hosts at once.

use super::run::NotBegun;
use crate::args::stop::Args;
use crate::exit::Exit;
use crate::later::ask::{Answers, Asker, StopAnswer};
use crate::later::places::{self, Place};
use crate::later::{check_id, say_unreached, unknown};
use crate::queue::dry_run::count;
use crate::queue::target;
use crate::queue::whose::{Whose, whose};
use shoal_core::outcome::LOST;
use shoal_core::queue::request::Request;
use std::process::ExitCode;
use std::time::Duration;

/// Of a detached run, in seconds.
const GRACE: u32 = 5;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let detached_only = args.fleet.is_some() || args.rank.is_some();
    let (mut queued, mut detached) = (Vec::new(), Vec::new());
    let mut queue = None;
    // All are looked up before any is stopped: a slip in the last must not leave half of it done.
    for word in &args.targets {
        if args.rank.is_some() && word.contains(':') {
            return Err(NotBegun::Wrong(format!(
                "a gang of the queue ends as a whole\n  hint: `shoal stop {word}`, without --rank"
            )));
        }
        match if detached_only { Whose::Detached } else { whose(word)? } {
            Whose::Detached => detached.push(word.as_str()),
            Whose::Queued(found) => {
                let queue = queue.get_or_insert(found);
                queued.push(target::find(queue, word)?);
            }
        }
    }
    let mut stopped = 0;
    if let Some(queue) = &mut queue {
        for target in queued {
            let runs =
                queue.counted(&Request::Stop { target: target.clone(), now: args.now, grace_seconds: args.grace })?;
            stopped += runs;
            if !args.json {
                eprintln!("shoal stop: {target}: {} stopped", count(runs, "run"));
            }
        }
    }
    if args.json && detached.is_empty() {
        crate::say::line(serde_json::json!({ "runs": stopped }));
    }
    let mut worst = ExitCode::SUCCESS;
    for run in detached {
        let code = stop_detached(args, run)?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    Ok(worst)
}

/// A run of `shoal run --detach`.
fn stop_detached(args: &Args, run: &str) -> Result<ExitCode, NotBegun> {
    check_id(run)?;
    let places = places::of_run(run, args.fleet.as_deref())?;
    let asked: Vec<String> = places.iter().map(|p| p.host.name.clone()).collect();
    let rank = args.rank.map(|rank| rank.to_string());
    let grace = Duration::from_secs(if args.now { 0 } else { u64::from(args.grace.unwrap_or(GRACE)) });
    let answers = Asker::new(&places)?.stop(places, run, rank.as_deref(), grace);
    say_unreached("shoal stop", &answers.unreached);
    if answers.heard.iter().all(|(_, answer)| !answer.known) {
        if !answers.unreached.is_empty() {
            return Ok(ExitCode::from(LOST));
        }
        let ids: Vec<String> = answers.heard.into_iter().flat_map(|(_, a)| a.ids).collect();
        return Err(match rank.filter(|_| ids.iter().any(|id| id == run)) {
            Some(rank) => NotBegun::Wrong(format!("run {run} has no {rank} on {}", asked.join(", "))),
            None => unknown(run, &asked, &ids, args.fleet.is_some()),
        });
    }
    let (count, stuck) = say("shoal stop", &answers);
    if count == 0 && !stuck {
        eprintln!("shoal stop: nothing of run {run} was alive");
    }
    Ok(match (stuck, answers.unreached.is_empty()) {
        (true, _) => Exit::RunFailed.into(),
        (false, false) => ExitCode::from(LOST),
        (false, true) => Exit::Success.into(),
    })
}

/// What was stopped where; how many ranks that are, and whether something is stuck.
fn say(program: &str, answers: &Answers<StopAnswer>) -> (usize, bool) {
    let mut stuck = false;
    let mut count = 0;
    for (place, answer) in answers.heard.iter().filter(|(_, a)| a.known) {
        let alive: Vec<String> = answer.stopped.iter().filter(|s| s.was_alive).map(|s| s.rank.to_string()).collect();
        count += alive.len();
        if !alive.is_empty() {
            eprintln!("{program}: {}: {} stopped", place.host.name, alive.join(", "));
        }
        if let Some(problem) = &answer.problem {
            stuck = true;
            eprintln!("{program}: {}: {problem}", place.host.name);
        }
    }
    (count, stuck)
}

/// Ends what is left of a run that could not be detached as a whole.
pub fn astray(places: Vec<Place>, run: &str, grace_ms: u64) -> Result<(), NotBegun> {
    let answers = Asker::new(&places)?.stop(places, run, None, Duration::from_millis(grace_ms));
    say_unreached("shoal run", &answers.unreached);
    say("shoal run", &answers);
    Ok(())
}
