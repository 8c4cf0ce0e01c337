//! Nothing has come to an end for a while: why?

use super::connect::{Queue, Start};
use shoal_core::queue::Target;
use shoal_core::queue::request::{Answer, Filter, Request, RunState, SweepRow};
use std::time::{Duration, Instant};

/// After so long, people want to know.
const STILL: Duration = Duration::from_secs(5);
/// Runs that are looked at.
const NAMED: u32 = 5;

/// How long nothing has come to an end, and what was said about it.
pub struct Still {
    over: u64,
    since: Instant,
    said: String,
}

impl Default for Still {
    fn default() -> Still {
        Still { over: 0, since: Instant::now(), said: String::new() }
    }
}

impl Still {
    pub fn saw(&mut self, row: &SweepRow) {
        let over = row.finished + row.failed + row.stopped;
        if over != self.over {
            (self.over, self.since) = (over, Instant::now());
        }
    }

    pub fn is_due(&mut self) -> bool {
        let due = self.since.elapsed() >= STILL;
        if due {
            self.since = Instant::now();
        }
        due
    }

    /// The same reason is said once.
    pub fn is_news(&mut self, why: &str) -> bool {
        let news = self.said != why;
        if news {
            self.said = why.into();
        }
        news
    }
}

pub struct Reason {
    pub text: String,
    /// Whoever waits for it to change would wait for ever.
    pub forever: bool,
}

/// What keeps runs of it from their end: results that wait; or, where none runs, what the first waits for. A daemon that does not answer
/// is somebody else's news.
pub fn reason(sweep: &str) -> Option<Reason> {
    let mut queue = Queue::open(Start::IfStore).ok()?;
    let of = |states: Vec<RunState>| Filter { target: Some(Target::Sweep(sweep.into())), states, ..Filter::default() };
    let (running, _) = queue.runs(&of(vec![RunState::Running]), 0, NAMED).ok()?;
    if let Some((run, trouble)) = running.iter().find_map(|row| Some((&row.run, row.trouble.as_ref()?))) {
        return Some(Reason { text: format!("{run}: {trouble}"), forever: false });
    }
    if !running.is_empty() {
        return None;
    }
    let (waiting, _) = queue.runs(&of(vec![RunState::Waiting]), 0, 1).ok()?;
    let target = Target::Run(waiting.first()?.run.clone());
    match queue.ask(&Request::Why { target }).ok()? {
        Answer::Why { reasons } => {
            reasons.first().map(|row| Reason { text: format!("{}: {}", row.run, row.reason), forever: row.forever })
        }
        _ => None,
    }
}
