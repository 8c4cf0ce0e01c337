//! Lists what runs: the queue's sweeps or their runs, and detached runs from as many hosts as answer.

use super::run::NotBegun;
use crate::args::ps::Args;
use crate::exit::Exit;
use crate::later::ask::{Asker, Unreached};
use crate::later::view::{self, RunView, Standing};
use crate::later::{launched, places, say_unreached};
use crate::queue::ps as queued;
use crate::queue::table::{self, left};
use serde_json::json;
use shoal_core::outcome::{LOST, duration};
use std::process::ExitCode;

/// Runs that ended longer ago are shown with --all.
pub const RECENT_MS: u64 = 24 * 3600 * 1000;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if queued::is_meant(args) {
        return queued::runs(args);
    }
    let sweeps = queued::sweeps(args);
    let places = match args.sweeps {
        true => Vec::new(),
        false => places::of_all(args.fleet.as_deref(), args.all)?,
    };
    let answers = Asker::new(&places)?.list(places, None);
    let mut runs = view::runs(answers.heard.into_iter().map(|(_, listing)| listing));
    remember_ends(&runs);
    runs.retain(|run| args.all || run.over_ms.is_none_or(|ms| ms < RECENT_MS));
    let rows = &sweeps.rows;
    if args.json {
        crate::say::line(as_json(&runs, &answers.unreached, &sweeps));
    } else {
        if !rows.is_empty() {
            crate::say::out(queued::table(rows));
        }
        if !runs.is_empty() || (rows.is_empty() && sweeps.is_known()) {
            let between = if rows.is_empty() { "" } else { "\n" };
            crate::say::out(format!("{between}{}", table(&runs, table::width())));
        }
    }
    say_unreached("shoal ps", &answers.unreached);
    if let Some(why) = &sweeps.why {
        eprintln!("shoal ps: {why}");
    }
    Ok(match (sweeps.is_known(), answers.unreached.is_empty()) {
        (_, false) => ExitCode::from(LOST),
        (false, true) => Exit::CannotStart.into(),
        (true, true) => Exit::Success.into(),
    })
}

/// Hosts need not be asked again for what is over. Only what all its hosts agree on is.
fn remember_ends(runs: &[RunView]) {
    let over = |run: &&RunView| {
        matches!(run.state, Standing::Finished | Standing::Stopped | Standing::Failed)
            && run.ranks.iter().all(|r| r.state.is_some())
    };
    for run in runs.iter().filter(over) {
        if let Some(mut launched) = launched::read(&run.run).filter(|l| !l.over) {
            launched.over = true;
            // Next time they are asked once more.
            let _ = launched.save();
        }
    }
}

fn as_json(runs: &[RunView], unreached: &[Unreached], sweeps: &queued::Sweeps) -> serde_json::Value {
    let unreached: Vec<_> =
        unreached.iter().map(|u| json!({ "host": u.host, "why": u.what, "hint": u.hint })).collect();
    let (sweeps, queue) = sweeps.json();
    json!({ "runs": runs, "unreached": unreached, "sweeps": sweeps, "queue": queue })
}

fn table(runs: &[RunView], width: usize) -> String {
    // One long cell would push all others off the screen; `--json` has it in full.
    let columns = [
        left("RUN", 0, 64),
        left("STATE", 0, 90),
        left("AGE", 3, 20),
        left("RANKS", 4, 20),
        left("HOSTS", 2, 60),
        left("COMMAND", 5, 80),
    ];
    let row = |run: &RunView| {
        let state = match (&run.why, run.state) {
            (Some(why), Standing::Running) => format!("stopping: {why}"),
            (Some(why), state) => format!("{}: {why}", state.word()),
            (None, state) => state.word().to_string(),
        };
        let hosts: Vec<&str> = run.hosts.iter().map(String::as_str).collect();
        let ranks = format!("{}/{}", run.alive, run.total);
        vec![run.run.clone(), state, duration(run.age_ms), ranks, short(&hosts), run.command.clone()]
    };
    table::render(&columns, &runs.iter().map(row).collect::<Vec<_>>(), width)
}

/// The first few of many hosts.
fn short(hosts: &[&str]) -> String {
    match hosts {
        [first, second, third, rest @ ..] if rest.len() > 1 => {
            format!("{first},{second},{third} and {} more", rest.len())
        }
        few => few.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_run_with_the_first_failure() {
        let run = RunView {
            run: "r1".into(),
            state: Standing::Failed,
            why: Some("worker1 on b: exited with code 3".into()),
            detached: true,
            age_ms: 65_000,
            over_ms: Some(1),
            alive: 0,
            total: 3,
            hosts: ["a", "b", "c", "d", "e"].map(String::from).into(),
            command: "sh -c 'a\nb'".into(),
            ranks: Vec::new(),
        };
        let text = table(std::slice::from_ref(&run), 200);
        let last = text.lines().last().expect("a line");
        assert_eq!(
            last,
            "r1   failed: worker1 on b: exited with code 3  1 min 5 s  0/3    a,b,c and 2 more  sh -c 'a b'"
        );
        let narrow = table(&[run], 40);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 40) && narrow.contains("r1   failed: worker1"),
            "{narrow}"
        );
    }
}
