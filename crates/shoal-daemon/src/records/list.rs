//! Which runs does this host know, and which of them live?

use super::{RankRecord, is_safe_name};
use crate::ending::Ending;
use serde::{Deserialize, Serialize};
use shoal_core::job::HostJob;
use shoal_core::rank::Rank;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Alive,
    Ended(Ending),
    /// It was never recorded to have ended, and its keeper is gone: killed, or the machine was.
    Lost,
    /// It belongs to another machine that shares this home; only that one can tell.
    Elsewhere,
}

/// A run, as far as one host knows it.
#[derive(Debug, Clone)]
pub struct RunRecord {
    pub run: String,
    pub host: String,
    pub folder: PathBuf,
    /// Without the values of the environment.
    pub job: Option<HostJob>,
    pub ranks: Vec<RankRecord>,
}

impl RunRecord {
    pub fn is_alive(&self) -> bool {
        self.ranks.iter().any(|r| r.state() == State::Alive)
    }
}

/// The readable records in a folder; what cannot be read is left out, not an error: one bad file must not hide the rest.
pub(crate) fn ranks(folder: &Path) -> Vec<RankRecord> {
    let mut ranks: Vec<RankRecord> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json") && !p.ends_with("run.json"))
        .filter_map(|p| serde_json::from_slice(&fs::read(p).ok()?).ok())
        .collect();
    ranks.sort_by_key(|r| r.rank);
    ranks
}

/// The record of one rank.
pub(crate) fn rank(folder: &Path, rank: Rank) -> Option<RankRecord> {
    serde_json::from_slice(&fs::read(folder.join(format!("{rank}.json"))).ok()?).ok()
}

fn read(folder: PathBuf) -> Option<RunRecord> {
    let job: Option<HostJob> = fs::read(folder.join("run.json")).ok().and_then(|b| serde_json::from_slice(&b).ok());
    let ranks = ranks(&folder);
    let run = folder.parent()?.file_name()?.to_str()?.to_string();
    let host = job.as_ref().map(|j| j.host.clone()).or_else(|| ranks.first().map(|r| r.host.clone()))?;
    Some(RunRecord { run, host, folder, job, ranks })
}

/// All runs below `root` (see [`super::root`]), oldest first.
pub fn list(root: &Path) -> Vec<RunRecord> {
    let folders = |p: &Path| fs::read_dir(p).into_iter().flatten().flatten().map(|e| e.path());
    let mut runs: Vec<RunRecord> =
        folders(root).flat_map(|run| folders(&run).collect::<Vec<_>>()).filter_map(read).collect();
    runs.sort_by_key(|r| (r.ranks.iter().map(|k| k.started_ms).min(), r.run.clone()));
    runs
}

/// What is known of one run; one record for each host name it has here.
pub fn run(root: &Path, run: &str) -> Vec<RunRecord> {
    // Asked often, by whoever follows a log: only its own folder is read.
    let folders = is_safe_name(run).then(|| fs::read_dir(root.join(run)).ok()).flatten();
    let mut records: Vec<RunRecord> = folders.into_iter().flatten().flatten().filter_map(|e| read(e.path())).collect();
    records.sort_by(|a, b| a.host.cmp(&b.host));
    records
}
