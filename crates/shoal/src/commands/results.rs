//! Shows what came out of a sweep.

use super::run::NotBegun;
use crate::args::results::Args;
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::dry_run::count;
use crate::queue::snapshot::plainly;
use crate::queue::wait::counts;
use crate::queue::{table, target, times};
use serde_json::{Map, Value as Json, json};
use shoal_core::queue::request::{Answer, Request, ResultRow, SweepRow};
use shoal_core::queue::results::{Choice, plot};
use shoal_core::queue::{Moment, Target};
use std::process::ExitCode;

/// Runs in one answer.
const PAGE: u32 = 1000;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let target = target::find(&mut queue, &args.sweep)?;
    let sweep = target::name_of(&target).to_string();
    let (names, mut rows) = all(&mut queue, &sweep)?;
    let row = queue.sweep(&sweep)?;
    rows.retain(|row| match &target {
        Target::Sweep(_) => true,
        Target::Cell(_, cell) => row.run.cell == *cell,
        Target::Run(run) => row.run == *run,
    });
    if args.json {
        let objects: Vec<Json> = rows.iter().map(object).collect();
        let wanted = u64::from(row.cells) * u64::from(row.reps);
        crate::say::line(json!({
            "sweep": sweep, "names": names, "total": rows.len(), "wanted": wanted, "done_at": row.done_at, "rows": objects,
        }));
        return Ok(Exit::Success.into());
    }
    if rows.is_empty() && args.svg.is_none() && !args.csv {
        eprintln!("shoal results: no run of {target} has finished yet; `shoal ps {sweep}` shows how far it is");
        return Ok(Exit::Success.into());
    }
    rows.iter_mut().for_each(counters_last);
    if let Some(file) = &args.svg {
        let choice = plot::Choice { metric: args.metric.clone(), over: args.over.clone() };
        let picture = plot::plot(&rows, &choice).map_err(NotBegun::Wrong)?;
        let written = std::fs::write(file, picture);
        written.map_err(|e| NotBegun::Here(format!("{}: {}", file.display(), plainly(&e))))?;
        eprintln!("shoal results: {} of {sweep} in {}", count(rows.len() as u64, "run"), file.display());
        return Ok(Exit::Success.into());
    }
    let runs = args.runs || args.csv;
    let choice = Choice { runs, all_parameters: args.csv, columns: args.columns.clone(), sort: args.sort.clone() };
    let shown = shoal_core::queue::results::table(&rows, &choice).map_err(NotBegun::Wrong)?;
    crate::say::out(if args.csv { shown.csv() } else { shown.text(table::width()) });
    if let (Some(rest), Target::Sweep(_)) = (missing(&row, times::now()), &target) {
        eprintln!("shoal results: {rest}");
    }
    Ok(Exit::Success.into())
}

/// Means of half a sweep look like those of all of it.
fn missing(row: &SweepRow, now: Moment) -> Option<String> {
    if row.finished >= u64::from(row.cells) * u64::from(row.reps) {
        return None;
    }
    let left = times::left(row.done_at, now);
    let left = if left.is_empty() { left } else { format!("; about {left} left") };
    Some(format!("{} is not complete: {}{left}", row.name, counts(row)))
}

/// A run as programs read it: names and values, and numbers where metrics are numbers.
fn object(row: &ResultRow) -> Json {
    let metric = |text: &str| match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => serde_json::from_str(text.trim()).unwrap_or_else(|_| json!(number)),
        // JSON has no word for what is no number.
        _ => json!(text),
    };
    let config: Map<String, Json> = row.config.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let metrics: Map<String, Json> = row.metrics.iter().map(|(name, text)| (name.clone(), metric(text))).collect();
    json!({
        "id": row.run.to_string(), "run": row.run, "config": config, "metrics": metrics, "seconds": row.seconds, "host": row.host,
        "folder": row.folder,
    })
}

/// How far a run got comes after what it measured: nobody compares runs by their last step, nor draws it.
fn counters_last(row: &mut ResultRow) {
    const COUNTERS: [&str; 6] = ["step", "steps", "epoch", "epochs", "progress", "time"];
    row.metrics.sort_by_key(|(name, _)| COUNTERS.contains(&name.as_str()));
}

fn all(queue: &mut Queue, sweep: &str) -> Result<(Vec<String>, Vec<ResultRow>), NotBegun> {
    let mut all: Vec<ResultRow> = Vec::new();
    loop {
        let request = Request::Results { sweep: sweep.into(), from: all.len() as u32, limit: PAGE };
        match queue.ask(&request)? {
            Answer::Results { names, rows, total } => {
                let is_last = rows.is_empty() || (all.len() + rows.len()) as u64 >= total;
                all.extend(rows);
                if is_last {
                    return Ok((names, all));
                }
            }
            other => return Err(queue.odd(&request, &other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::queue::RunId;

    #[test]
    fn how_far_a_run_got_is_not_what_is_drawn_first() {
        let metric = |name: &str| (name.to_string(), "1".to_string());
        let mut row = ResultRow {
            run: RunId { sweep: "s".into(), cell: 0, rep: 0 },
            config: Vec::new(),
            seconds: 1.0,
            host: "a".into(),
            metrics: ["step", "steps", "loss", "epochs", "accuracy"].map(metric).into(),
            folder: None,
        };
        counters_last(&mut row);
        let names: Vec<&str> = row.metrics.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["loss", "accuracy", "step", "steps", "epochs"]);
    }
}
