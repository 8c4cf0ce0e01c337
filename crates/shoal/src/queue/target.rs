//! Which sweep, configuration or run does a word mean? Words that mean none are answered with what comes close.

use super::connect::Queue;
use crate::commands::run::NotBegun;
use shoal_core::queue::request::SweepRow;
use shoal_core::queue::{RunId, Target};
use shoal_core::suggest::closest;

/// The word as the queue's. It has to name a sweep that is there, and in it what is there.
pub fn find(queue: &mut Queue, word: &str) -> Result<Target, NotBegun> {
    let target: Target = word.parse().map_err(NotBegun::Wrong)?;
    check(&queue.sweeps(true)?, &target).map_err(NotBegun::Wrong)?;
    Ok(target)
}

/// One run; of a configuration, its first copy.
pub fn find_run(queue: &mut Queue, word: &str) -> Result<RunId, NotBegun> {
    match find(queue, word)? {
        Target::Run(run) => Ok(run),
        Target::Cell(sweep, cell) => Ok(RunId { sweep, cell, rep: 0 }),
        Target::Sweep(sweep) => {
            let row = queue.sweep(&sweep)?;
            if u64::from(row.cells) * u64::from(row.reps) == 1 {
                return Ok(RunId { sweep, cell: 0, rep: 0 });
            }
            Err(NotBegun::Wrong(format!(
                "{sweep} is a sweep of many runs; say which: `{sweep}:0.0`, as `shoal ps {sweep}` lists them"
            )))
        }
    }
}

pub fn name_of(target: &Target) -> &str {
    match target {
        Target::Sweep(name) | Target::Cell(name, _) => name,
        Target::Run(run) => &run.sweep,
    }
}

/// (pure)
fn check(sweeps: &[SweepRow], target: &Target) -> Result<(), String> {
    let name = name_of(target);
    let Some(row) = sweeps.iter().find(|row| row.name == name) else {
        return Err(no_sweep(name, sweeps.iter().map(|row| row.name.as_str())));
    };
    let cells = |cell: u32| match cell < row.cells {
        true => Ok(()),
        false => Err(format!(
            "{name} has no configuration {cell}; they are numbered from 0 to {}",
            row.cells.saturating_sub(1)
        )),
    };
    match target {
        Target::Sweep(_) => Ok(()),
        Target::Cell(_, cell) => cells(*cell),
        Target::Run(run) => cells(run.cell).and_then(|()| match run.rep < row.reps {
            true => Ok(()),
            false => Err(format!(
                "{name}:{} has no copy {}; they are numbered from 0 to {}",
                run.cell,
                run.rep,
                row.reps.saturating_sub(1)
            )),
        }),
    }
}

pub fn no_sweep<'n>(name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let begins = |other: &&&str| name.len() >= 2 && other.starts_with(name);
    let near = closest(name, names.iter().copied()).or_else(|| names.iter().find(begins).copied());
    match near {
        Some(near) => format!("no sweep {name} in the queue; did you mean {near}?"),
        None => format!("no sweep {name} in the queue; `shoal ps --all` lists those there are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> SweepRow {
        SweepRow {
            name: name.into(),
            owner: "ann".into(),
            submitted: 0,
            cells: 3,
            reps: 2,
            waiting: 0,
            running: 0,
            finished: 0,
            failed: 0,
            stopped: 0,
            priority: 0,
            paused: false,
            done_at: None,
            stuck: None,
        }
    }

    #[test]
    fn what_is_not_there_is_said_with_what_is_near() {
        let sweeps = [row("mlp"), row("transformer")];
        for (word, said) in [
            ("mlp", Ok(())),
            ("mlp:2", Ok(())),
            ("mlp:2.1", Ok(())),
            ("mpl", Err("no sweep mpl in the queue; did you mean mlp?")),
            ("trans", Err("no sweep trans in the queue; did you mean transformer?")),
            ("cnn:1", Err("no sweep cnn in the queue; `shoal ps --all` lists those there are")),
            ("mlp:3", Err("mlp has no configuration 3; they are numbered from 0 to 2")),
            ("mlp:0.2", Err("mlp:0 has no copy 2; they are numbered from 0 to 1")),
        ] {
            let target: Target = word.parse().expect("a target");
            assert_eq!(check(&sweeps, &target), said.map_err(String::from), "{word}");
        }
    }
}
