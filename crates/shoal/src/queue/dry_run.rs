//! What would be submitted? For people the first configurations as a table, for programs all of them.

use super::table::{self, right};
use super::trees::Planned;
use crate::launch::screen::size;
use serde_json::{Value as Json, json};
use shoal_core::queue::event::Seat;
use shoal_core::queue::sweep::{Config, Sweep, Value};
use shoal_core::queue::work::RUN_DIR_MARK;
use shoal_core::queue::{Attempt, RunId, cells, render};
use shoal_core::quote::join;

/// More are counted, unless they are asked for.
const FIRST: u64 = 20;

pub fn text(sweep: &Sweep, trees: &[Planned], all: bool, width: usize) -> String {
    let total = cells::total(sweep);
    let mut out = format!("{}: {}, {}\n", sweep.name, count(total, "configuration"), times(sweep, total));
    if let Some(words) = command_of(sweep) {
        out.push_str(&format!("the first runs as: {words}\n"));
    }
    if let Some(folder) = &sweep.command.folder {
        out.push_str(&format!("in {folder}, as it is then\n"));
    }
    for tree in trees {
        let at = if tree.at.is_empty() { String::new() } else { format!(" at {}", tree.at) };
        let files = count(tree.listing.files() as u64, "file");
        out.push_str(&format!("{}{at}: {files}, {}\n", tree.what, small_size(tree.listing.bytes())));
    }
    let differing = cells::differing(sweep);
    let shared = shared(sweep, &differing);
    if !shared.is_empty() {
        let words: Vec<String> = shared.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
        out.push_str(&format!("in all of them: {}\n", words.join(" ")));
    }
    out.push('\n');
    out.push_str(&table(sweep, &differing, if all { total } else { total.min(FIRST) }, width));
    if !all && total > FIRST {
        out.push_str(&format!("... and {} more; --all shows them\n", total - FIRST));
    }
    out
}

fn table(sweep: &Sweep, differing: &[String], most: u64, width: usize) -> String {
    let columns: Vec<_> =
        std::iter::once(right("CELL", 0)).chain(differing.iter().map(|name| table::named(name))).collect();
    let mut rows = Vec::new();
    for cell in 0..u32::try_from(most).unwrap_or(u32::MAX) {
        let Some(config) = cells::config(sweep, cell) else { break };
        let values = differing.iter().map(|name| config.get(name).map_or_else(|| "-".into(), shown));
        rows.push(std::iter::once(cell.to_string()).chain(values).collect());
    }
    table::render(&columns, &rows, width)
}

pub fn json(sweep: &Sweep, trees: &[Planned]) -> Json {
    let total = u32::try_from(cells::total(sweep)).unwrap_or(u32::MAX);
    let configs = (0..total).filter_map(|cell| {
        let config = cells::config(sweep, cell)?;
        Some(json!({ "cell": cell, "id": cells::config_id(&config), "config": config }))
    });
    let trees = trees.iter().map(|tree| {
        json!({ "what": tree.what, "at": tree.at, "files": tree.listing.files(), "bytes": tree.listing.bytes() })
    });
    json!({
        "sweep": sweep.name, "reps": sweep.reps, "command": sweep.command.argv, "trees": trees.collect::<Vec<_>>(),
        "cells": configs.collect::<Vec<_>>(),
    })
}

/// The first configuration's command, as a host would be told it.
fn command_of(sweep: &Sweep) -> Option<String> {
    let attempt = Attempt { run: RunId { sweep: sweep.name.clone(), cell: 0, rep: 0 }, number: 1 };
    let seats = vec![Seat { host: "a".into(), devices: Vec::new(), meet: None }; sweep.wants.ranks.max(1) as usize];
    let start = render::start(sweep, &attempt, &seats, 0, None, true, "/", 0).ok()?;
    // Only the host knows the folder.
    let argv: Vec<String> = start.argv.iter().map(|word| word.replace(RUN_DIR_MARK, "{run_dir}")).collect();
    Some(table::cut(&table::flat(&join(&argv)), 200))
}

fn shared(sweep: &Sweep, differing: &[String]) -> Config {
    let mut config = cells::config(sweep, 0).unwrap_or_default();
    config.retain(|name, _| !differing.contains(name));
    config
}

/// A value in one cell of a table.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => render::text::word(other),
    }
}

fn times(sweep: &Sweep, total: u64) -> String {
    let runs = total.saturating_mul(sweep.reps.into());
    match sweep.reps {
        1 => "once each".into(),
        reps => format!("{reps} times each: {runs} runs"),
    }
}

pub fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn small_size(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{} kB", bytes.div_ceil(1024)) } else { size(bytes) }
}
