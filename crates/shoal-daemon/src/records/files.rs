//! Where are the records, and how are they written so that a reader never sees half of one?

use super::RankRecord;
use crate::proc::{Machine, Process};
use serde::Serialize;
use shoal_core::job::HostJob;
use shoal_core::rank::Rank;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many runs of this host are kept.
pub type PruneKeep = usize;

pub fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// The folder of all runs.
pub fn root() -> PathBuf {
    let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = var("XDG_STATE_HOME").filter(|p| p.is_absolute());
    let state = state.or_else(|| Some(var("HOME")?.join(".local/state"))).unwrap_or_else(|| "/tmp".into());
    state.join("shoal/runs")
}

/// A name that is a file name and nothing more. Pure.
pub fn is_safe_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.bytes().all(plain)
}

/// The folder of a run on a host. Hosts have names like `ann@box:2222`; runs must be safe as they are.
pub(crate) fn folder(root: &Path, run: &str, host: &str) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let host: String = host.chars().map(plain).collect();
    let host = if is_safe_name(&host) { host } else { format!("_{}", host.chars().take(100).collect::<String>()) };
    is_safe_name(run).then(|| root.join(run).join(host))
}

fn write_atomically(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(value)?;
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Makes the folder of this run, only for its owner, and writes `run.json`.
pub(crate) fn save_run(root: &Path, job: &HostJob) -> io::Result<PathBuf> {
    let folder = folder(root, &job.run, &job.host)
        .ok_or_else(|| io::Error::other(format!("`{}` is no name for a run", job.run)))?;
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let mut kept = job.clone();
    // The names say enough; the values hold the run's token and whatever else people put there (SEC-2).
    for rank in &mut kept.ranks {
        rank.env.values_mut().for_each(String::clear);
    }
    if let Some(line) = &mut kept.gang {
        line.token.clear();
    }
    write_atomically(&folder.join("run.json"), &kept)?;
    Ok(folder)
}

pub fn save_rank(folder: &Path, record: &RankRecord) -> io::Result<()> {
    write_atomically(&folder.join(format!("{}.json", record.rank)), record)
}

/// So that whoever stops the run can tell its warden.
pub(crate) fn save_warden(folder: &Path) -> io::Result<()> {
    let me = crate::proc::process(std::process::id());
    write_atomically(&folder.join("warden.pid"), &(crate::proc::machine(), me))
}

/// The warden of a run, if it is on this machine.
pub(crate) fn warden(folder: &Path) -> Option<Process> {
    let (machine, process): (Machine, Option<Process>) =
        serde_json::from_slice(&fs::read(folder.join("warden.pid")).ok()?).ok()?;
    process.filter(|p| machine == crate::proc::machine() && crate::proc::is_alive(*p))
}

/// Leaves word for a keeper of how long its rank may take; then it is sent SIGTERM.
pub(crate) fn ask_grace(folder: &Path, rank: Rank, grace_ms: u64) -> io::Result<()> {
    write_atomically(&folder.join(format!("{rank}.grace")), &grace_ms)
}

pub(crate) fn asked_grace(folder: &Path, rank: Rank) -> Option<u64> {
    serde_json::from_slice(&fs::read(folder.join(format!("{rank}.grace"))).ok()?).ok()
}

/// Removes the oldest runs of this machine beyond `keep` that have nobody alive.
pub(crate) fn prune(root: &Path, keep: PruneKeep) {
    let mut runs: Vec<(SystemTime, PathBuf)> = fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    runs.sort();
    let surplus = runs.len().saturating_sub(keep);
    for (_, run) in &runs[..surplus] {
        for host in fs::read_dir(run).into_iter().flatten().flatten().map(|e| e.path()) {
            let ranks = super::list::ranks(&host);
            // Not ours to judge when another host of a shared home wrote it.
            if ranks.iter().all(|r| r.machine.node == crate::proc::node_name() && r.state() != super::State::Alive) {
                let _ = fs::remove_dir_all(&host);
            }
        }
        let _ = fs::remove_dir(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_lead_out_of_the_folder() {
        let at = |run, host| folder(Path::new("/r"), run, host);
        assert_eq!(at("run-1", "h.lab.org").unwrap(), Path::new("/r/run-1/h.lab.org"));
        assert_eq!(at("run-1", "ann@h:22").unwrap(), Path::new("/r/run-1/ann_h_22"));
        assert_eq!(at("run-1", "..").unwrap(), Path::new("/r/run-1/_.."));
        assert_eq!(at("run-1", "../x").unwrap(), Path::new("/r/run-1/_.._x"));
        for run in ["", ".", "..", "a/b", ".x", "a b"] {
            assert_eq!(at(run, "h"), None, "{run}");
        }
    }

    #[test]
    fn old_runs_go_and_living_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        for k in 0..4 {
            let mut record = RankRecord::new(&format!("r{k}"), "h", Rank::Master, "/l".into());
            if k != 0 {
                record.end(crate::Ending::Exited(0), 0, 0);
            }
            let folder = folder(root.path(), &record.run, "h").unwrap();
            fs::create_dir_all(&folder).unwrap();
            save_rank(&folder, &record).unwrap();
            let old = fs::File::open(root.path().join(&record.run)).unwrap();
            old.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(k)).unwrap();
        }
        prune(root.path(), 2);
        let mut left: Vec<_> =
            fs::read_dir(root.path()).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["r0", "r2", "r3"]);
    }
}
