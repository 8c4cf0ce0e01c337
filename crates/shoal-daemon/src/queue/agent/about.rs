//! What is told of a run beside its results, and under which name? `run.json`: what has to be known to do it again, and whose they are.

use super::note::Note;
use super::packages;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shoal_core::queue::Attempt;
use shoal_core::queue::host::{Gpu, Held};
use shoal_core::queue::work::Ended;
use std::fs;
use std::path::{Path, PathBuf};

const FILE: &str = "run.json";
/// Where the program left a file of that name: what it left is its result, and stays as it is.
const FILE_BESIDE: &str = "run.shoal.json";

/// What ours is called among the results of this run. What came with its source is no result.
pub fn name(room: &Path, note: &Note) -> &'static str {
    let theirs = fs::symlink_metadata(room.join(FILE)).is_ok() && !note.ours.iter().any(|own| own == FILE);
    if theirs { FILE_BESIDE } else { FILE }
}

/// What is the same for all runs of this host.
#[derive(Debug, Clone, Default)]
pub struct Here {
    pub host: String,
    /// Which queue's this is.
    pub store: String,
    pub gpus: Vec<Gpu>,
    pub trees: PathBuf,
    pub packages: PathBuf,
    pub marks: PathBuf,
}

/// What `run.json` says first: whose results these are.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Whose {
    attempt: Attempt,
    #[serde(default)]
    rank: u32,
}

/// The content of `run.json`: what has to be known to do it again. `diff`: the file that has the difference to the commit, seen from there.
pub fn run_json(note: &Note, ended: &Ended, here: &Here, diff: Option<String>) -> String {
    let answer = note.packages.as_ref().and_then(|key| packages::answer(&packages::file(&here.packages, key)));
    let (python, packages) = answer.map(|answer| (answer.python, answer.packages)).unzip();
    let source = note.origin.as_ref().map(|origin| {
        json!({
            "commit": origin.commit, "dirty": origin.dirty, "diff": diff, "folder": origin.folder, "host": origin.host,
        })
    });
    let device = |held: &Held| {
        let model = here.gpus.iter().find(|gpu| gpu.uuid == held.uuid).map(|gpu| &gpu.model);
        json!({"uuid": held.uuid, "milli": held.milli, "model": model})
    };
    let value = json!({
        "version": 1,
        "run": note.attempt.run.to_string(),
        "attempt": note.attempt,
        "rank": note.rank,
        "host": here.host,
        "seed": note.seed.as_deref().and_then(|seed| seed.parse::<u64>().ok()),
        "command": note.argv,
        "devices": note.devices.iter().map(device).collect::<Vec<_>>(),
        "source": source,
        "trees": note.trees,
        "python": python,
        "packages": packages,
        "requirements": note.requirements,
        "ending": ended.ending,
        "began": ended.began,
        "ended": ended.ended,
        "cpu_ms": ended.cpu_ms,
        "peak_memory_bytes": ended.peak_memory_bytes,
        "peak_gpu_bytes": ended.peak_gpu_bytes,
        "metrics": ended.metrics.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
        "shoal": env!("CARGO_PKG_VERSION"),
    });
    format!("{value:#}\n")
}

/// Whether the results of this very attempt have been put there.
pub fn is_there(to: &Path, note: &Note) -> bool {
    let of = |name: &str| fs::read(to.join(name)).ok().and_then(|bytes| serde_json::from_slice::<Whose>(&bytes).ok());
    let whose = Whose { attempt: note.attempt.clone(), rank: note.rank };
    [FILE, FILE_BESIDE].iter().any(|name| of(name).as_ref() == Some(&whose))
}
