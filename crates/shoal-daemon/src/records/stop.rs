//! How is a run stopped by somebody who did not start it?
//!
//! The grace is left in the run's folder. If all ranks are meant, the warden is sent SIGTERM: it tells its keepers, and the other
//! hosts of a detached run. For one rank, or when there is no warden any more or it does not react, the keepers themselves are;
//! and last whoever bears the run's mark, should a keeper have been killed. A pid that now belongs to somebody else is never
//! signalled: the start time must match.

use super::{State, ask_grace, list, marked};
use crate::proc;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use shoal_core::rank::Rank;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What a keeper may take beyond the grace.
const MARGIN: Duration = Duration::from_secs(15);
/// What a warden has to tell its keepers.
const REACTION: Duration = Duration::from_secs(2);

#[derive(Debug, Error)]
pub enum StopError {
    #[error("this host knows no run {0}")]
    UnknownRun(String),
    #[error("this host knows no {rank} of run {run}")]
    UnknownRank { run: String, rank: Rank },
    #[error("{ranks:?} of run {run} did not end within {after:?}")]
    Late { run: String, ranks: Vec<String>, after: Duration },
    #[error("processes {pids:?} of run {run} do not end, not even by SIGKILL; a device or network drive holds them")]
    Stuck { run: String, pids: Vec<u32> },
}

/// What became of each rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    let mut keepers = Vec::new();
    for record in &records {
        for one in record.ranks.iter().filter(|r| rank.is_none_or(|wanted| r.rank == wanted)) {
            let alive = one.state() == State::Alive;
            if alive {
                // Without it the job's own grace is used.
                let _ = ask_grace(&record.folder, one.rank, grace.as_millis() as u64);
                keepers.push(one.keeper);
            }
            asked.push((one.rank, alive));
        }
    }
    let wardens = records.iter().filter(|_| rank.is_none()).filter_map(|r| super::warden(&r.folder));
    // First and alone: a warden whose ranks were gone before it heard of this would leave without telling the other hosts.
    let told: Vec<_> = wardens.filter(|warden| proc::signal(*warden, Signal::TERM)).collect();
    // Of a run that is followed from here the launcher is both: a second word would be taken for impatience.
    keepers.retain(|keeper| !told.contains(keeper));
    keepers.dedup();
    let told = !told.is_empty();
    let mut directly = Instant::now() + if told { REACTION } else { Duration::ZERO };
    if let Some(rank) = rank.filter(|_| asked.is_empty()) {
        return Err(StopError::UnknownRank { run: run.into(), rank });
    }
    let end = Instant::now() + grace + MARGIN;
    loop {
        let now = Instant::now();
        let late = now >= end;
        if now >= directly {
            directly = end;
            keepers.iter().for_each(|keeper| _ = proc::signal(*keeper, Signal::TERM));
        }
        let known: Vec<_> = list::run(root, run).into_iter().flat_map(|r| r.ranks).collect();
        let state = |rank| known.iter().find(|r| r.rank == rank).map_or(State::Lost, |r| r.state());
        let stopped: Vec<Stopped> = asked
            .iter()
            .map(|(rank, was_alive)| Stopped { rank: *rank, was_alive: *was_alive, state: state(*rank) })
            .collect();
        let left: Vec<String> =
            stopped.iter().filter(|s| s.state == State::Alive).map(|s| s.rank.to_string()).collect();
        if left.is_empty() {
            if rank.is_none() && stopped.iter().all(|s| s.state != State::Elsewhere) {
                marked::end(run, grace).map_err(|pids| StopError::Stuck { run: run.into(), pids })?;
            }
            return Ok(stopped);
        }
        if late {
            return Err(StopError::Late { run: run.into(), ranks: left, after: grace + MARGIN });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
