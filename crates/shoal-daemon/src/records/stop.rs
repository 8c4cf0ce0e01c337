//! How is a run stopped by somebody who did not start it?
//!
//! Its keepers are sent SIGTERM, after the grace was left for them in the run's folder. A pid that now belongs to
//! somebody else is never signalled: the start time must match.

use super::{State, ask_grace, list};
use crate::proc;
use rustix::process::Signal;
use shoal_core::rank::Rank;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What a keeper may take beyond the grace.
const MARGIN: Duration = Duration::from_secs(15);

#[derive(Debug, Error)]
pub enum StopError {
    #[error("this host knows no run {0}")]
    UnknownRun(String),
    #[error("this host knows no {rank} of run {run}")]
    UnknownRank { run: String, rank: Rank },
    #[error("{ranks:?} of run {run} did not end within {after:?}")]
    Late { run: String, ranks: Vec<String>, after: Duration },
}

/// What became of each rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    pub rank: Rank,
    /// It lived when we came.
    pub was_alive: bool,
    pub state: State,
}

/// Stops one rank or all, and waits until they are over.
pub fn stop(root: &Path, run: &str, rank: Option<Rank>, grace: Duration) -> Result<Vec<Stopped>, StopError> {
    let records = list::run(root, run);
    if records.is_empty() {
        return Err(StopError::UnknownRun(run.into()));
    }
    let mut asked = Vec::new();
    for record in &records {
        for one in record.ranks.iter().filter(|r| rank.is_none_or(|wanted| r.rank == wanted)) {
            let alive = one.state() == State::Alive;
            if alive {
                // Without it the job's own grace is used.
                let _ = ask_grace(&record.folder, one.rank, grace.as_millis() as u64);
                proc::signal(one.keeper, Signal::TERM);
            }
            asked.push((one.rank, alive));
        }
    }
    if let Some(rank) = rank.filter(|_| asked.is_empty()) {
        return Err(StopError::UnknownRank { run: run.into(), rank });
    }
    let end = Instant::now() + grace + MARGIN;
    loop {
        let late = Instant::now() >= end;
        let now: Vec<_> = list::run(root, run).into_iter().flat_map(|r| r.ranks).collect();
        let state = |rank| now.iter().find(|r| r.rank == rank).map_or(State::Lost, |r| r.state());
        let stopped: Vec<Stopped> = asked
            .iter()
            .map(|(rank, was_alive)| Stopped { rank: *rank, was_alive: *was_alive, state: state(*rank) })
            .collect();
        let left: Vec<String> =
            stopped.iter().filter(|s| s.state == State::Alive).map(|s| s.rank.to_string()).collect();
        if left.is_empty() {
            return Ok(stopped);
        }
        if late {
            return Err(StopError::Late { run: run.into(), ranks: left, after: grace + MARGIN });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
