//! How does a sweep go on, as long as somebody looks at it?

use super::connect::{Queue, Start};
use super::dry_run::count;
use super::still::{Still, reason};
use super::times;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::launch::screen;
use crate::signals;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use shoal_core::queue::Target;
use shoal_core::queue::request::{Answer, Filter, Request, RunRow, RunState, SweepRow};
use shoal_core::queue::results::progress;
use shoal_core::queue::work::Ending;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often somebody's Ctrl-C is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Between two lines in a file.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long a daemon may be away while we wait for it.
const AWAY: Duration = Duration::from_secs(120);
/// So many failures are named.
const NAMED: u32 = 5;
/// Nothing runs, and nothing can start until somebody does something about it.
const IN_VAIN: u8 = 4;
/// As shells know it.
const INTERRUPTED: u8 = 130;

enum News {
    Row(Box<SweepRow>),
    Over,
    Broken(String),
}

/// Until nothing of it waits or runs. The exit code of `shoal sweep --wait`.
pub fn wait(sweep: &str, as_json: bool) -> Result<ExitCode, NotBegun> {
    let asked = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let mut screen = Screen::new(as_json);
    let mut away_since: Option<Instant> = None;
    let mut still = Still::default();
    loop {
        let news = follow(sweep);
        loop {
            match news.recv_timeout(LOOK) {
                _ if asked() > 0 => {
                    screen.close();
                    eprintln!(
                        "shoal sweep: {sweep} goes on; `shoal ps {sweep}` shows it, `shoal sweep ... --wait` waits again, `shoal stop {sweep}` ends it"
                    );
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                Ok(News::Row(row)) => {
                    away_since = None;
                    screen.show(&row);
                    still.saw(&row);
                }
                Ok(News::Over) => return conclude(sweep, screen),
                Err(RecvTimeoutError::Timeout) => {
                    let why = still.is_due().then(|| reason(sweep)).flatten();
                    if let Some(why) = why {
                        // Said once, and believed at the second look: a host may just have come.
                        match still.is_news(&why.text) {
                            true => screen.say(&why.text),
                            false if why.forever => return Ok(in_vain(sweep, screen, &why.text)),
                            false => {}
                        }
                    }
                }
                Ok(News::Broken(why)) => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > AWAY {
                        screen.close();
                        return Err(NotBegun::CannotStart(format!(
                            "the queue does not answer any more: {why}\n  hint: runs go on without it; `shoal ps {sweep}` when it is back"
                        )));
                    }
                    std::thread::sleep(Duration::from_millis(500));
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
}

/// What the daemon says of the sweep, in a thread of its own: whoever waits for it can still be interrupted.
fn follow(sweep: &str) -> Receiver<News> {
    let (send, receive) = sync_channel(64);
    let name = sweep.to_string();
    std::thread::spawn(move || {
        let listen = || -> Result<(), NotBegun> {
            let mut queue = Queue::open(Start::IfStore)?;
            queue.stream(&Request::Wait { sweep: name }, |answer, _| {
                if let Answer::Sweeps { sweeps } = answer {
                    for row in sweeps {
                        if send.send(News::Row(Box::new(row))).is_err() {
                            return ControlFlow::Break(());
                        }
                    }
                }
                ControlFlow::Continue(())
            })
        };
        let last = match listen() {
            Ok(()) => News::Over,
            Err(not_begun) => News::Broken(not_begun.why()),
        };
        drop(send.send(last));
    });
    receive
}

/// What is left can never start as things are. It stays in the queue: somebody may add a host, or mend what it waits for.
fn in_vain(sweep: &str, mut screen: Screen, why: &str) -> ExitCode {
    screen.close();
    if screen.as_json {
        crate::say::line(json!({ "event": "in_vain", "sweep": sweep, "why": why }));
    }
    let text = format!("shoal sweep: {sweep}: nothing of it runs, and what waits cannot start as things are: {why}");
    eprintln!("{}", screen::fold(&text, "  ", screen::width()));
    eprintln!("  hint: it stays in the queue; `shoal hosts` shows what there is, `shoal stop {sweep}` gives it up");
    ExitCode::from(IN_VAIN)
}

/// What came of it.
fn conclude(sweep: &str, mut screen: Screen) -> Result<ExitCode, NotBegun> {
    screen.close();
    let mut queue = Queue::open(Start::IfStore)?;
    let row = queue.sweep(sweep)?;
    let wanted = u64::from(row.cells) * u64::from(row.reps);
    let complete = row.finished >= wanted;
    if screen.as_json {
        crate::say::line(event("over", &row, Some(complete)));
        return Ok(if complete { Exit::Success } else { Exit::RunFailed }.into());
    }
    if complete {
        eprintln!("shoal sweep: {sweep}: {} finished; `shoal results {sweep}`", count(row.finished, "run"));
        return Ok(Exit::Success.into());
    }
    eprintln!("shoal sweep: {sweep}: {}", counts(&row));
    if let Some(why) = &row.stuck {
        eprintln!("  {why}");
    }
    let filter =
        Filter { target: Some(Target::Sweep(sweep.into())), states: vec![RunState::Failed], ..Filter::default() };
    let (runs, total) = queue.runs(&filter, 0, NAMED)?;
    for failure in failures(&runs) {
        eprintln!("  {failure}");
    }
    if total > u64::from(NAMED) {
        eprintln!("  and {} more: `shoal ps {sweep} --state failed`", total - u64::from(NAMED));
    }
    let ran = |run: &&RunRow| !matches!(run.ending, Some(Ending::NotStarted { .. }));
    let logs = runs.iter().find(ran).map(|run| format!("`shoal logs {}` shows what it wrote; ", run.run));
    eprintln!("  hint: {}`shoal retry {sweep}` runs again what failed or was stopped", logs.unwrap_or_default());
    Ok(Exit::RunFailed.into())
}

/// Each failure once, with the runs that it befell.
fn failures(runs: &[RunRow]) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for run in runs {
        let ending = run.ending.as_ref().map_or_else(|| "failed".into(), ToString::to_string);
        let host = run.hosts.first().map_or_else(String::new, |host| format!(" on {host}"));
        let what = format!("{host}: {ending}");
        match told.iter_mut().find(|(known, _)| *known == what) {
            Some((_, runs)) => runs.push(run.run.to_string()),
            None => told.push((what, vec![run.run.to_string()])),
        }
    }
    told.into_iter().map(|(what, runs)| format!("{}{what}", runs.join(", "))).collect()
}

/// `10 finished, 2 failed`, without what there is none of.
pub fn counts(row: &SweepRow) -> String {
    let all = [
        (row.finished, "finished"),
        (row.running, "running"),
        (row.waiting, "waiting"),
        (row.failed, "failed"),
        (row.stopped, "stopped"),
    ];
    let words: Vec<String> = all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if words.is_empty() { "nothing to run".into() } else { words.join(", ") }
}

fn event(kind: &str, row: &SweepRow, complete: Option<bool>) -> serde_json::Value {
    let mut event = json!({
        "event": kind, "sweep": row.name, "waiting": row.waiting, "running": row.running, "finished": row.finished,
        "failed": row.failed, "stopped": row.stopped, "done_at": row.done_at, "stuck": row.stuck,
    });
    if let (Some(complete), Some(map)) = (complete, event.as_object_mut()) {
        map.insert("complete".into(), json!(complete));
    }
    event
}

/// A bar on a terminal, lines elsewhere, events for programs.
struct Screen {
    as_json: bool,
    bar: Option<ProgressBar>,
    last: Option<(Instant, String)>,
}

impl Screen {
    fn new(as_json: bool) -> Screen {
        let live = !as_json && std::io::stderr().is_terminal();
        let style = || ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        Screen { as_json, bar: live.then(|| ProgressBar::new_spinner().with_style(style())), last: None }
    }

    fn show(&mut self, row: &SweepRow) {
        if self.as_json {
            crate::say::line(event("progress", row, None));
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_message(progress(row, times::now(), screen::width()));
            bar.tick();
            return;
        }
        let left = times::left(row.done_at, times::now());
        let left = if left.is_empty() { left } else { format!("; about {left} left") };
        let stuck = row.stuck.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        let text = format!("{}: {}{left}{stuck}", row.name, counts(row));
        let due = self.last.as_ref().is_none_or(|(at, last)| at.elapsed() >= LINE_EVERY && *last != text);
        if due {
            eprintln!("{text}");
            self.last = Some((Instant::now(), text));
        }
    }

    /// A line of its own; programs have `shoal why --json`.
    fn say(&self, text: &str) {
        let text = screen::fold(&format!("shoal sweep: {text}"), "  ", screen::width());
        match &self.bar {
            _ if self.as_json => {}
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    fn close(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.abandon();
        }
    }
}
