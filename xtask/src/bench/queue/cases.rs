//! What is measured, and of whom? Everybody in turns, so that what else the machine does hits all alike.

use super::hyperqueue::HyperQueue;
use super::ours::Ours;
use super::table::{Peer, Row, Unit};
use super::{SLOTS, Sizes, Tools, child, lines};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

pub type Case = fn(&Tools, &Sizes) -> Result<Vec<Row>>;

const CASES: [(&str, Case); 5] =
    [("true-10k", short), ("submit-100k", submit), ("memory-1m", memory), ("ps-100k", list), ("top-up-100k", top_up)];

/// Of a sweep that is topped up, the hundredth part is missing.
const MISSING: usize = 100;
const TRUE: [&str; 1] = ["/bin/true"];

pub fn chosen(only: &[String]) -> Result<Vec<Case>> {
    if let Some(wrong) = only.iter().find(|name| !CASES.iter().any(|(case, _)| case == name)) {
        let all: Vec<&str> = CASES.iter().map(|(case, _)| *case).collect();
        bail!("no case `{wrong}`\nhint: there are {}", all.join(", "));
    }
    let is_meant = |case: &str| only.is_empty() || only.iter().any(|name| name == case);
    Ok(CASES.iter().filter(|(name, _)| is_meant(name)).map(|(_, case)| *case).collect())
}

/// Many runs that do nothing, and how many files their output takes.
fn short(tools: &Tools, sizes: &Sizes) -> Result<Vec<Row>> {
    let ours = Ours::new(tools, "true")?;
    let mut hyperqueue = HyperQueue::new(tools, "true")?;
    hyperqueue.add_worker(SLOTS)?;
    let (mut times, mut theirs) = (Vec::new(), [const { Vec::new() }; 3]);
    for round in 0..=sizes.rounds {
        // A tenth is enough to warm up.
        let runs = if round == 0 { sizes.runs / 10 } else { sizes.runs };
        let (_, took) = ours.sweep(&format!("true{round}"), &[runs], true, &TRUE)?;
        hyperqueue.make(runs)?;
        let of_hyperqueue = hyperqueue.submit()? + hyperqueue.wait()?;
        let (_, of_parallel) = child::timed(lines::parallel(runs).env("HOME", ours.folder()))?;
        let (_, of_xargs) = child::timed(&mut lines::xargs(runs))?;
        if round > 0 {
            times.push(took);
            theirs.iter_mut().zip([of_hyperqueue, of_parallel, of_xargs]).for_each(|(all, took)| all.push(took));
        }
    }
    let row = |peer| Row {
        case: "true-10k",
        size: format!("{} runs", sizes.runs),
        unit: Unit::Ms,
        ours: times.clone(),
        peer: Some(peer),
        things: Some(sizes.runs),
        note: "",
    };
    let names = ["hyperqueue", "parallel", "xargs"];
    let mut rows: Vec<Row> = names.into_iter().zip(theirs).map(|(name, all)| row(Peer { name, all })).collect();
    let runs = sizes.runs * sizes.rounds + sizes.runs / 10;
    rows.push(Row {
        case: "files",
        size: format!("{runs} runs"),
        unit: Unit::Files,
        ours: vec![ours.log_files() as f64],
        peer: None,
        things: None,
        note: "with output of runs, on the host",
    });
    Ok(rows)
}

/// Until a large sweep is acknowledged, while nothing can run.
fn submit(tools: &Tools, sizes: &Sizes) -> Result<Vec<Row>> {
    let ours = Ours::new(tools, "submit")?;
    ours.pause()?;
    let mut hyperqueue = HyperQueue::new(tools, "submit")?;
    let (mut times, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=sizes.rounds {
        let (said, took) = ours.sweep(&format!("submit{round}"), &[sizes.cells], false, &TRUE)?;
        number(&said, "waiting", sizes.cells)?;
        hyperqueue.make(sizes.cells)?;
        let of_hyperqueue = hyperqueue.submit()?;
        if round > 0 {
            times.push(took);
            theirs.push(of_hyperqueue);
        }
    }
    Ok(vec![Row {
        case: "submit-100k",
        size: format!("{} runs", sizes.cells),
        unit: Unit::Ms,
        ours: times,
        peer: Some(Peer { name: "hyperqueue", all: theirs }),
        things: None,
        note: "ours: the whole command; its: one call of a client that is there",
    }])
}

/// What a queued run costs the server: of a large grid, and of one axis with many values, which is all that a peer's job can be.
fn memory(tools: &Tools, sizes: &Sizes) -> Result<Vec<Row>> {
    let each = |before: u64, after: u64, runs: usize| after.saturating_sub(before) as f64 / runs as f64;
    let of_ours = |axes: &[usize]| {
        let ours = Ours::new(tools, "memory")?;
        ours.pause()?;
        // The first sweep brings what the daemon keeps in any case.
        ours.sweep("first", &[1], false, &TRUE)?;
        let before = ours.memory()?;
        let (said, _) = ours.sweep("memory", axes, false, &TRUE)?;
        let runs = axes.iter().product();
        number(&said, "waiting", runs)?;
        anyhow::Ok(each(before, ours.memory()?, runs))
    };
    let (large, flat) = (of_ours(&[1_000, sizes.queued / 1_000])?, of_ours(&[sizes.cells])?);
    let mut hyperqueue = HyperQueue::new(tools, "memory")?;
    hyperqueue.make(1)?;
    hyperqueue.submit()?;
    let before = hyperqueue.memory()?;
    hyperqueue.make(sizes.cells)?;
    hyperqueue.submit()?;
    let theirs = each(before, hyperqueue.memory()?, sizes.cells);
    let row = |case, runs: usize, ours, note| Row {
        case,
        size: format!("{runs} runs"),
        unit: Unit::Bytes,
        ours: vec![ours],
        peer: Some(Peer { name: "hyperqueue", all: vec![theirs] }),
        things: None,
        note,
    };
    Ok(vec![
        row("memory-1m", sizes.queued, large, "for each run; a grid of two axes; its with a tenth of the runs"),
        row("memory-100k", sizes.cells, flat, "for each run; one axis"),
    ])
}

/// The first page of a large sweep's runs.
fn list(tools: &Tools, sizes: &Sizes) -> Result<Vec<Row>> {
    let ours = Ours::new(tools, "list")?;
    ours.pause()?;
    ours.sweep("list", &[sizes.cells], false, &TRUE)?;
    let mut hyperqueue = HyperQueue::new(tools, "list")?;
    hyperqueue.make(sizes.cells)?;
    hyperqueue.submit()?;
    let (mut times, mut theirs) = (Vec::new(), Vec::new());
    // They are short.
    for round in 0..=sizes.rounds.max(7) {
        let (said, took) = child::timed(&mut ours.shoal(&["ps", "list"]))?;
        ensure!(said.lines().count() >= 100, "`shoal ps` lists less than a page:\n{said}");
        let of_hyperqueue = hyperqueue.failed()?;
        if round > 0 {
            times.push(took);
            theirs.push(of_hyperqueue);
        }
    }
    Ok(vec![Row {
        case: "ps-100k",
        size: format!("{} runs", sizes.cells),
        unit: Unit::Ms,
        ours: times,
        peer: Some(Peer { name: "hyperqueue", all: theirs }),
        things: None,
        note: "ours: the whole command; its: which tasks failed, as its interface has no list",
    }])
}

/// The same sweep again when the hundredth part of it is missing. HyperQueue knows no such thing.
fn top_up(tools: &Tools, sizes: &Sizes) -> Result<Vec<Row>> {
    let missing = sizes.cells / MISSING;
    let mut ours = Ours::new(tools, "top-up")?;
    let ledger = ours.folder().join("ledger");
    let line = format!("echo $SHOAL_RUN >> '{}'", ledger.display());
    let program = ["sh", "-c", &line];
    ours.pause()?;
    ours.sweep("top-up", &[sizes.cells], false, &program)?;
    ours.stop()?;
    ours.seed("top-up", sizes.cells - missing)?;
    ours.start()?;
    let mut times = Vec::new();
    for round in 0..=sizes.rounds {
        let (said, took) = ours.sweep("top-up", &[sizes.cells], false, &program)?;
        number(&said, "waiting", missing)?;
        number(&said, "already_done", sizes.cells - missing)?;
        if round > 0 {
            times.push(took);
        }
    }
    // What is said to be missing runs, and nothing else.
    ours.resume()?;
    let (said, _) = ours.sweep("top-up", &[sizes.cells], true, &program)?;
    number(&said, "finished", sizes.cells)?;
    let ran = std::fs::read_to_string(&ledger).context("the ledger of the runs")?;
    let mut runs: Vec<&str> = ran.lines().collect();
    runs.sort_unstable();
    runs.dedup();
    let (lines, runs) = (ran.lines().count(), runs.len());
    ensure!(lines == missing && runs == missing, "{lines} starts of {runs} runs, where {missing} were missing");
    Ok(vec![Row {
        case: "top-up-100k",
        size: format!("{} runs", sizes.cells),
        unit: Unit::Ms,
        ours: times,
        peer: None,
        things: None,
        note: "99 % done; exactly the rest was started",
    }])
}

fn number(said: &Value, key: &str, wanted: usize) -> Result<()> {
    ensure!(said[key].as_u64() == Some(wanted as u64), "`{key}` is not {wanted}: {said}");
    Ok(())
}
