//! Ends a run on all its hosts at once.

use super::run::NotBegun;
use crate::args::stop::Args;
use crate::exit::Exit;
use crate::later::ask::{Answers, Asker, StopAnswer};
use crate::later::places::{self, Place};
use crate::later::{check_id, say_unreached, unknown};
use shoal_core::outcome::LOST;
use std::process::ExitCode;
use std::time::Duration;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    check_id(&args.run)?;
    let places = places::of_run(&args.run, args.fleet.as_deref())?;
    let asked: Vec<String> = places.iter().map(|p| p.host.name.clone()).collect();
    let rank = args.rank.map(|rank| rank.to_string());
    let grace = Duration::from_secs(args.grace);
    let answers = Asker::new(&places)?.stop(places, &args.run, rank.as_deref(), grace);
    say_unreached("shoal stop", &answers.unreached);
    if answers.heard.iter().all(|(_, answer)| !answer.known) {
        if !answers.unreached.is_empty() {
            return Ok(ExitCode::from(LOST));
        }
        let ids: Vec<String> = answers.heard.into_iter().flat_map(|(_, a)| a.ids).collect();
        return Err(match rank.filter(|_| ids.contains(&args.run)) {
            Some(rank) => NotBegun::Wrong(format!("run {} has no {rank} on {}", args.run, asked.join(", "))),
            None => unknown(&args.run, &asked, &ids, args.fleet.is_some()),
        });
    }
    let (count, stuck) = say("shoal stop", &answers);
    if count == 0 && !stuck {
        eprintln!("shoal stop: nothing of run {} was alive", args.run);
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
