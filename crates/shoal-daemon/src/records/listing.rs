//! What does a host answer when somebody asks for its runs? (WIRE-1)

use super::{RunRecord, State, list, unix_ms};
use crate::proc;
use serde::{Deserialize, Serialize};
use shoal_core::rank::Rank;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Changes whenever the meaning of a field does (WIRE-1).
pub const LISTING_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub version: u32,
    /// What the machine calls itself.
    pub node: String,
    /// Its clock; the times below are by it.
    pub now_ms: u64,
    pub runs: Vec<ListedRun>,
    /// All runs it knows, for those who ask for one that it does not.
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRun {
    pub run: String,
    /// The name this host has in the run's fleet.
    pub host: String,
    pub detached: bool,
    /// What its workers run; without workers here, what its first rank runs.
    pub command: String,
    /// All ranks of the run and their hosts, as far as this host knows.
    pub gang: BTreeMap<Rank, String>,
    pub ranks: Vec<ListedRank>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRank {
    pub rank: Rank,
    pub state: State,
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    /// Why it was stopped, if its gang was.
    pub why: Option<String>,
    pub log: PathBuf,
}

/// Of one run, or of all.
pub fn listing(root: &Path, run: Option<&str>) -> Listing {
    let runs = run.map_or_else(|| list::list(root), |run| list::run(root, run));
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut ids: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    ids.sort();
    let runs = runs.into_iter().map(listed).collect();
    Listing { version: LISTING_VERSION, node: proc::node_name(), now_ms: unix_ms(), runs, ids }
}

fn listed(record: RunRecord) -> ListedRun {
    let job = record.job.as_ref();
    let worker = job.and_then(|j| j.ranks.iter().find(|r| matches!(r.rank, Rank::Worker(_))).or(j.ranks.first()));
    let here = || record.ranks.iter().map(|r| (r.rank, record.host.clone())).collect();
    let ranks = record.ranks.iter().map(|r| ListedRank {
        rank: r.rank,
        state: r.state(),
        started_ms: r.started_ms,
        ended_ms: r.ended_ms,
        why: r.why.clone(),
        log: r.log.clone(),
    });
    ListedRun {
        ranks: ranks.collect(),
        detached: job.is_some_and(|j| j.detached),
        command: worker.map_or_else(String::new, |r| r.program.to_string()),
        gang: job.and_then(|j| j.gang.as_ref()).map_or_else(here, |g| g.ranks.clone()),
        run: record.run,
        host: record.host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::Ending;

    #[test]
    fn the_kept_sample_reads_and_writes() {
        let sample = r#"{"version":1,"node":"n","now_ms":9,"runs":[{"run":"r1","host":"a","detached":true,"command":"python train.py","gang":{"worker0":"a","worker1":"b"},"ranks":[{"rank":"worker0","state":{"ended":{"exited":3}},"started_ms":1,"ended_ms":2,"why":null,"log":"/l"},{"rank":"worker2","state":"alive","started_ms":1,"ended_ms":null,"why":"w","log":"/l"}]}],"ids":["r0","r1"]}"#;
        let listing: Listing = serde_json::from_str(sample).unwrap();
        assert_eq!(listing.version, LISTING_VERSION);
        assert_eq!(listing.runs[0].ranks[0].state, State::Ended(Ending::Exited(3)));
        assert_eq!(serde_json::to_string(&listing).unwrap(), sample);
    }
}
