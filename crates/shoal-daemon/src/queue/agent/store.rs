//! When is it looked at how much trees, environments and folders of runs that did not succeed take, and what becomes of those that nobody needs?
//!
//! Whatever is used gets the present time, at most once a minute. A thread measures; the loop decides, since only it knows what lives.

use super::prune::{self, Bounds, Item};
use super::session::{Known, Session};
use super::{Event, envs, trees};
use crate::queue::keeper::diary::note;
use shoal_core::queue::work::Start;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

const GIB: u64 = 1 << 30;
const TREES: u64 = 20 * GIB;
const ENVS: u64 = 40 * GIB;
/// Folders of runs that did not succeed: so many bytes of them, and so many.
const ATTEMPTS: u64 = 20 * GIB;
const MOST_ATTEMPTS: usize = 200;
const DAYS_30: u64 = 30 * 24 * 3600;
const FRESH: u64 = 600;
const EVERY: Duration = Duration::from_secs(3600);
/// When another run has failed: so that ten thousand failures are not ten thousand looks.
const ASIDE_AGAIN: Duration = Duration::from_secs(10);
const TOUCH_EVERY: Duration = Duration::from_secs(60);

/// Each kind, with what they are.
#[derive(Debug, Default)]
pub struct Found {
    trees: Vec<Item>,
    envs: Vec<Item>,
    attempts: Vec<Item>,
}

#[derive(Default)]
pub struct Storeroom {
    due: Option<Instant>,
    measuring: bool,
    /// They never change.
    bytes: HashMap<String, u64>,
    touched: HashMap<String, Instant>,
}

impl Session {
    pub fn measure_soon(&mut self) {
        self.store.due = Some(Instant::now());
    }

    /// A run has left a folder that is no result.
    pub fn one_more_aside(&mut self) {
        let soon = Instant::now() + ASIDE_AGAIN;
        self.store.due = Some(self.store.due.map_or(soon, |due| due.min(soon)));
    }

    pub fn measure_if_due(&mut self, now: Instant) {
        if self.store.measuring || self.store.due.is_none_or(|due| now < due) {
            return;
        }
        self.store.due = Some(now + EVERY);
        let (trees, envs, attempts) = (self.folder.trees(), self.folder.envs(), self.folder.attempts());
        let (known, events) = (self.store.bytes.clone(), self.events.clone());
        let measure = move || {
            let found = Found {
                trees: measure(&trees, trees::is_digest, &known),
                envs: measure(&envs, |name| trees::is_hex(name, envs::DIGITS), &known),
                attempts: measure(&attempts, |_| true, &known),
            };
            let _ = events.send(Event::Measured(Box::new(found)));
        };
        self.store.measuring = std::thread::Builder::new().name("measure".into()).spawn(measure).is_ok();
    }

    pub fn measured(&mut self, found: &Found) {
        self.store.measuring = false;
        let all = found.trees.iter().chain(&found.envs).chain(&found.attempts);
        self.store.bytes = all.map(|item| (item.name.clone(), item.bytes)).collect();
        let in_use = self.in_use();
        let shared = |bytes| Bounds { bytes, count: usize::MAX, idle_seconds: DAYS_30, fresh_seconds: FRESH };
        for (kind, folder, items, variable, bounds) in [
            ("trees", self.folder.trees(), &found.trees, "SHOAL_TREES_BOUND", shared(TREES)),
            ("environments", self.folder.envs(), &found.envs, "SHOAL_ENVS_BOUND", shared(ENVS)),
        ] {
            in_use.iter().for_each(|name| touch(&folder.join(name)));
            let gone = prune::which(items, &in_use, &bounded_by(variable, bounds));
            for name in &gone {
                self.trash(&folder.join(name));
                for ending in ["lock", "log", "txt"] {
                    let _ = fs::remove_file(folder.join(format!("{name}.{ending}")));
                }
            }
            if !gone.is_empty() {
                note("agent", format!("removed {} {kind} that nobody has used for a while", gone.len()));
            }
        }
        let known: HashSet<String> = self.runs.keys().cloned().collect();
        let bounds = Bounds { bytes: ATTEMPTS, count: MOST_ATTEMPTS, idle_seconds: u64::MAX, fresh_seconds: 0 };
        for name in prune::which(&found.attempts, &known, &bounded_by("SHOAL_ATTEMPTS_BOUND", bounds)) {
            self.trash(&self.folder.attempts().join(name));
        }
    }

    /// Of runs that are not over, and of what is being made.
    fn in_use(&self) -> HashSet<String> {
        let of_start = |known: &Known| match known {
            Known::Pending(start) | Known::Handed(Some(start)) => names(start),
            _ => Vec::new(),
        };
        let mut names: HashSet<String> = self.runs.values().flat_map(of_start).collect();
        names.extend(self.adopted.values().flatten().cloned());
        names.extend(self.making.keys().chain(self.asked.keys()).cloned());
        names
    }

    /// A run gets it now.
    pub fn used(&mut self, start: &Start) {
        for name in names(start) {
            if self.store.touched.get(&name).is_none_or(|at| at.elapsed() >= TOUCH_EVERY) {
                touch(&self.folder.trees().join(&name));
                touch(&self.folder.envs().join(&name));
                self.store.touched.insert(name, Instant::now());
            }
        }
    }
}

/// In bytes, by a variable of the agent.
fn bounded_by(variable: &str, bounds: Bounds) -> Bounds {
    let bytes = std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(bounds.bytes);
    Bounds { bytes, ..bounds }
}

fn names(start: &Start) -> Vec<String> {
    let trees = start.trees.iter().map(|tree| tree.digest.clone());
    let env = start.requirements.as_ref().map(|text| envs::digest(text, start.virtualenv.as_deref()));
    trees.chain(env).collect()
}

pub fn touch(path: &Path) {
    let _ = File::open(path).and_then(|folder| folder.set_times(FileTimes::new().set_modified(SystemTime::now())));
}

fn measure(folder: &Path, is_name: impl Fn(&str) -> bool, known: &HashMap<String, u64>) -> Vec<Item> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let item = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| is_name(name))?;
        let meta = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
        let idle = meta.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        let bytes = known.get(&name).copied().unwrap_or_else(|| size(&entry.path()));
        Some(Item { name, bytes, idle_seconds: idle.as_secs() })
    };
    entries.filter_map(item).collect()
}

/// What it takes on the drive; links are not followed.
fn size(folder: &Path) -> u64 {
    let (mut open, mut bytes) = (vec![folder.to_path_buf()], 0u64);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(meta.blocks() * 512);
            if meta.is_dir() {
                open.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_what_there_is() {
        let base = tempfile::tempdir().unwrap();
        let name = "a".repeat(64);
        fs::create_dir_all(base.path().join(&name).join("deep")).unwrap();
        fs::write(base.path().join(&name).join("deep/file"), vec![1; 100_000]).unwrap();
        fs::write(base.path().join("b".repeat(64)), "no folder").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(5000);
        let folder = File::open(base.path().join(&name)).unwrap();
        folder.set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        let found = measure(base.path(), trees::is_digest, &HashMap::new());
        assert_eq!(found.len(), 1);
        assert!(found[0].bytes >= 100_000 && found[0].idle_seconds >= 5000, "{found:?}");
        touch(&base.path().join(&name));
        let found = measure(base.path(), trees::is_digest, &HashMap::from([(name, 7)]));
        assert!(found[0].bytes == 7 && found[0].idle_seconds < 5000, "{found:?}");
    }
}
