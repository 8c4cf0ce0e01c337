//! What does a host know of its runs, when launcher and warden are long gone?
//!
//! A folder per run and host below `$XDG_STATE_HOME` (or `~/.local/state`) `/shoal/runs/<run>/<host>/`: `run.json`, the
//! job without the values of its environment (SEC-2), `<rank>.json` per rank, and `warden.pid`. Complete or absent: written beside and
//! renamed. Kept after the end; the last 200 runs.

mod elsewhere;
mod files;
mod frames;
mod list;
mod listing;
mod marked;
mod stop;
mod tail;

pub use elsewhere::Elsewhere;
pub use files::{PruneKeep, is_safe_name, root, save_rank, unix_ms};
pub(crate) use files::{ask_grace, asked_grace, prune, save_run, save_warden, warden};
pub use frames::send_logs;
pub use list::{RunRecord, State, list, run};
pub use listing::{LISTING_VERSION, ListedRank, ListedRun, Listing, listing};
pub use stop::{StopError, Stopped, stop};
pub use tail::{TailError, tail};

use crate::ending::Ending;
use crate::proc::{self, Machine, Process};
use serde::{Deserialize, Serialize};
use shoal_core::rank::Rank;
use std::path::PathBuf;

/// Changes whenever the meaning of a field does (WIRE-1).
pub const RECORD_VERSION: u32 = 1;

/// One rank on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRecord {
    pub version: u32,
    pub run: String,
    pub host: String,
    pub rank: Rank,
    pub machine: Machine,
    pub keeper: Process,
    pub child: Option<Process>,
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    pub ending: Option<Ending>,
    pub log: PathBuf,
    /// Where this run begins in the log file.
    pub log_start: u64,
    /// What the rank wrote, once it is over.
    pub log_bytes: u64,
    /// What of it is not in the log file.
    pub log_missing: u64,
    /// Why it was stopped, if its gang was: the first failure (GANG-2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl RankRecord {
    /// Of the rank that the calling process keeps.
    pub(crate) fn new(run: &str, host: &str, rank: Rank, log: PathBuf) -> RankRecord {
        let pid = std::process::id();
        RankRecord {
            version: RECORD_VERSION,
            run: run.into(),
            host: host.into(),
            rank,
            machine: proc::machine(),
            keeper: proc::process(pid).unwrap_or(Process { pid, start: 0 }),
            child: None,
            started_ms: unix_ms(),
            ended_ms: None,
            ending: None,
            log,
            log_start: 0,
            log_bytes: 0,
            log_missing: 0,
            why: None,
        }
    }

    pub(crate) fn end(&mut self, ending: Ending, bytes: u64, missing: u64) {
        self.ended_ms = Some(unix_ms());
        self.ending = Some(ending);
        self.log_bytes = bytes;
        self.log_missing = missing;
    }

    /// Pure but for the look at `/proc`.
    pub fn state(&self) -> State {
        let here = proc::machine();
        match &self.ending {
            Some(ending) => State::Ended(ending.clone()),
            None if self.machine.node != here.node => State::Elsewhere,
            None if self.machine == here && proc::is_alive(self.keeper) => State::Alive,
            None => State::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: records of this shape are on people's disks.
    const SAMPLE: &str = r#"{"version":1,"run":"r1","host":"h1","rank":"worker0","machine":{"node":"n","boot":"b"},"keeper":{"pid":7,"start":8},"child":{"pid":9,"start":10},"started_ms":11,"ended_ms":12,"ending":{"exited":3},"log":"/l","log_start":0,"log_bytes":13,"log_missing":0}"#;

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let record: RankRecord = serde_json::from_str(SAMPLE).unwrap();
        assert_eq!(record.version, RECORD_VERSION);
        assert_eq!(record.ending, Some(Ending::Exited(3)));
        assert_eq!(serde_json::to_string(&record).unwrap(), SAMPLE);
    }

    #[test]
    fn alive_is_pid_and_start_time_and_machine() {
        let mut record = RankRecord::new("r", "h", Rank::Master, "/l".into());
        assert_eq!(record.state(), State::Alive);
        record.keeper.start += 1;
        assert_eq!(record.state(), State::Lost, "a recycled pid is somebody else");
        record.keeper.start -= 1;
        record.machine.boot = "before".into();
        assert_eq!(record.state(), State::Lost, "rebooted");
        record.machine.node = "another".into();
        assert_eq!(record.state(), State::Elsewhere);
        record.end(Ending::Exited(0), 1, 0);
        assert_eq!(record.state(), State::Ended(Ending::Exited(0)));
    }
}
