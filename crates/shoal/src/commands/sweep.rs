//! Submits a sweep: from a command line to configurations, from folders to trees, from both to an acknowledgement (QUEUE-1).

use super::fleet_file;
use super::run::NotBegun;
use crate::args::sweep::Args;
use crate::exit::Exit;
use crate::launch::screen;
use crate::queue::connect::{Queue, Start};
use crate::queue::draft::{self, Asked};
use crate::queue::dry_run::{self, count};
use crate::queue::{inherit, length, pool, provenance, table, trees, wait};
use serde_json::json;
use shoal_core::fleet::pool::Pool;
use shoal_core::queue::cells;
use shoal_core::queue::read::{Draft, Submission};
use shoal_core::queue::request::{Answer, Request};
use shoal_core::queue::schema::sweep_json_schema;
use shoal_core::queue::sweep::{Provenance, Sweep};
use shoal_core::queue::work::DIFF_FILE;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if args.schema {
        crate::say::line(serde_json::to_string_pretty(&sweep_json_schema()).unwrap_or_default());
        return Ok(Exit::Success.into());
    }
    let Asked { draft, base, name } = draft::asked(args)?;
    let requirements = requirements(&draft, &base)?;
    let planned = trees::plan(&draft, &base)?;
    if args.dry_run {
        let add = Submission {
            name,
            owner: String::new(),
            trees: Vec::new(),
            requirements,
            provenance: Provenance::default(),
        };
        let sweep = draft.into_sweep(add);
        if let Some(file) = &args.pool {
            crate::say::out(on_pools(&sweep, file)?);
            return Ok(Exit::Success.into());
        }
        match args.json {
            true => crate::say::line(dry_run::json(&sweep, &planned)),
            false => crate::say::out(dry_run::text(&sweep, &planned, args.all, table::width())),
        }
        return Ok(Exit::Success.into());
    }
    length::fits(&draft, requirements.as_deref())?;
    let mut queue = Queue::open(Start::IfNeeded)?;
    let trees = trees::send(&mut queue, &planned, args.json)?;
    let (mut provenance, diff) = provenance::of(&base, draft.virtualenv.as_deref());
    if let Some(diff) = diff {
        provenance.diff = Some(trees::send_text(&mut queue, DIFF_FILE, &diff)?);
    }
    let owner = queue.user().to_string();
    let mut sweep = draft.into_sweep(Submission { name, owner, trees, requirements, provenance });
    inherit::from_here(&mut queue, &mut sweep.command)?;
    if let Some(folder) = sweep.rules.results.as_deref().filter(|_| queue.is_local()) {
        look_at_results("shoal sweep", folder)?;
    }
    let name = sweep.name.clone();
    say(args, &submit(&mut queue, sweep)?);
    drop(queue);
    if args.wait { wait::wait(&name, args.json) } else { Ok(Exit::Success.into()) }
}

/// As Jobs, on all pools that it may run on.
fn on_pools(sweep: &Sweep, file: &Path) -> Result<String, NotBegun> {
    let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
    let on = &sweep.wants.on;
    let is_meant =
        |pool: &&Pool| on.is_empty() || on.iter().any(|name| pool.name == *name || pool.groups.contains(name));
    let pools: Vec<&Pool> = fleet.pools.iter().filter(is_meant).collect();
    if pools.is_empty() {
        let why = if fleet.pools.is_empty() { "no pools" } else { "no pool that the sweep may run on" };
        return Err(NotBegun::Wrong(format!("{} has {why}", file.display())));
    }
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let texts = pools.iter().map(|pool| pool::dry_run::yaml(sweep, pool, user, group));
    texts.collect::<Result<String, String>>().map_err(NotBegun::Wrong)
}

/// A folder that only the hosts have is fine; one that nobody has keeps results waiting, which is better said now.
pub fn look_at_results(program: &str, folder: &str) -> Result<(), NotBegun> {
    if !folder.starts_with('/') {
        return Ok(());
    }
    match std::fs::metadata(folder) {
        Ok(about) if !about.is_dir() => Err(no_folder(folder)),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(no_folder(folder)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!(
                "{program}: {folder} is not there on this machine; where a host does not have it, results wait there until it does"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn no_folder(folder: &str) -> NotBegun {
    NotBegun::Wrong(format!("results: {folder} is no folder\n  hint: name one that hosts can write to"))
}

struct Taken {
    sweep: String,
    cells: u32,
    new_cells: u32,
    waiting: u64,
    already_done: u64,
    failed: u64,
    stopped: u64,
    changed: Vec<String>,
    reps: u32,
    /// What this command asked for.
    wanted: u32,
}

fn submit(queue: &mut Queue, sweep: Sweep) -> Result<Taken, NotBegun> {
    debug_assert!(cells::total(&sweep) > 0);
    let wanted = sweep.reps;
    let request = Request::Submit { sweep: Box::new(sweep) };
    match queue.ask(&request)? {
        Answer::Submitted { sweep, cells, new_cells, waiting, already_done, failed, stopped, changed, reps } => {
            Ok(Taken { sweep, cells, new_cells, waiting, already_done, failed, stopped, changed, reps, wanted })
        }
        other => Err(queue.odd(&request, &other)),
    }
}

fn say(args: &Args, taken: &Taken) {
    if args.json {
        crate::say::line(json!({
            "event": "submitted", "sweep": taken.sweep, "cells": taken.cells, "new_cells": taken.new_cells,
            "waiting": taken.waiting, "already_done": taken.already_done, "failed": taken.failed, "stopped": taken.stopped,
            "changed": taken.changed, "reps": taken.reps,
        }));
        return;
    }
    let Taken { sweep, cells, new_cells, waiting, already_done, .. } = taken;
    let mut text = format!("shoal sweep: {sweep}: {}", count(u64::from(*cells), "configuration"));
    if *already_done > 0 || new_cells != cells {
        text.push_str(&format!(", {new_cells} of them new; {} already done", count(*already_done, "run")));
    }
    match *waiting {
        0 => text.push_str("; nothing is left to run"),
        waiting => text.push_str(&format!("; {} to do", count(waiting, "run"))),
    }
    eprintln!("{text}");
    for note in notes(taken) {
        eprintln!("{}", screen::fold(&format!("  {note}"), "    ", screen::width()));
    }
    if !args.wait && *waiting > 0 {
        eprintln!(
            "  `shoal ps {sweep}` shows it, `shoal logs -f {sweep}:0.0` follows its first run, `shoal stop {sweep}` ends it"
        );
    }
}

/// What a top-up does not do, and people may think that it does.
fn notes(taken: &Taken) -> Vec<String> {
    let Taken { sweep, already_done, failed, stopped, changed, reps, wanted, .. } = taken;
    let mut notes = Vec::new();
    if !changed.is_empty() {
        let what = changed.join(", ");
        notes.push(format!("note: changed since {sweep} was submitted before: {what}. What is done or runs stays as it is; what starts from now on is new"));
        if *already_done > 0 {
            let done = count(*already_done, "run");
            notes.push(format!("hint: {done} of it finished with the old; --name OTHER is a sweep of its own, `shoal forget {sweep}` first does all of it anew"));
        }
    }
    if failed + stopped > 0 {
        let so_far = [(failed, "failed"), (stopped, "stopped")];
        let so_far: Vec<String> =
            so_far.iter().filter(|(n, _)| **n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        notes.push(format!("note: {} before and start again", so_far.join(" and ")));
    }
    if *wanted < *reps {
        notes.push(format!(
            "note: {sweep} has {reps} copies of each configuration already; asking for {wanted} takes none back"
        ));
    }
    notes
}

/// The text of the lock file.
fn requirements(draft: &Draft, base: &Path) -> Result<Option<String>, NotBegun> {
    const MOST: u64 = 1 << 20;
    let Some(path) = &draft.requirements else { return Ok(None) };
    let path = base.join(path);
    let cannot = |why: String| NotBegun::Wrong(format!("requirements: {}: {why}", path.display()));
    let about = std::fs::metadata(&path).map_err(|e| cannot(crate::queue::snapshot::plainly(&e)))?;
    if !about.is_file() || about.len() > MOST {
        return Err(cannot("it is no lock file: a text of at most 1 MiB was expected".into()));
    }
    std::fs::read_to_string(&path).map(Some).map_err(|e| cannot(crate::queue::snapshot::plainly(&e)))
}
