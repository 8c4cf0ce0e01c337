//! How do results that hosts send become folders of the store? Complete or absent: a tar in pieces, unpacked beside its place, synced,
//! made visible by rename. The same results again are known by their place.

use super::line::Outbox;
use super::message::{Message, PublishTo};
use super::shared::Shared;
use crate::queue::drive::{is_for_ever, is_full};
use crate::queue::places::{sync_folder, write_by_way_of, write_durable};
use crate::queue::trees::Trees;
use shoal_core::queue::Attempt;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::work::DIFF_FILE;
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Results that a host may send at the same time.
const MOST_AT_ONCE: usize = 256;
/// And so many more are told to come later.
const MOST_PUT_OFF: usize = 4096;
/// Results put in place together: one sync for all of them.
const BATCH: usize = 64;
/// A larger difference to a commit was never sent.
const MOST_DIFF: u64 = 32 << 20;
/// Until the loop has answered where something belongs.
const ANSWER: Duration = Duration::from_secs(60);

/// Results of one attempt, or of one process of a gang, that are here as a tar.
pub struct Job {
    host: String,
    attempt: Attempt,
    rank: u32,
    tar: Part,
    outbox: Arc<Outbox>,
}

impl Job {
    fn answers(&self, problem: Option<String>, later: bool) {
        self.outbox.tell(&ToHost::Published { attempt: self.attempt.clone(), problem, later, rank: self.rank });
    }
}

/// A file on its way; removed with this.
struct Part {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What comes on one line.
#[derive(Default)]
pub struct Inbound {
    parts: HashMap<(Attempt, u32), Part>,
    /// Told to come later; what was on its way by then is passed over.
    later: HashSet<(Attempt, u32)>,
}

/// Why a piece is not taken.
pub enum NotTaken {
    /// The store is full: that concerns all who send something.
    Full(io::Error),
    /// These alone have no place now.
    Later(String),
    /// The host does not keep to the rules; the line is its own.
    Odd(String),
}

impl From<io::Error> for NotTaken {
    fn from(e: io::Error) -> NotTaken {
        if is_full(&e) { NotTaken::Full(e) } else { NotTaken::Later(format!("they cannot be received: {e}")) }
    }
}

impl Inbound {
    #[allow(clippy::too_many_arguments)] // A message of the line, and whose it is.
    pub fn piece(
        &mut self,
        shared: &Shared,
        host: &str,
        outbox: &Arc<Outbox>,
        whose: (Attempt, u32),
        at: u64,
        last: bool,
        bytes: &[u8],
    ) -> Result<(), NotTaken> {
        if at == 0 {
            self.parts.remove(&whose);
            self.later.remove(&whose);
            let begun = match self.parts.len() < MOST_AT_ONCE {
                true => Part::new(shared).map_err(NotTaken::from),
                false => Err(NotTaken::Later(format!("{host} sends those of more than {MOST_AT_ONCE} runs at once"))),
            };
            match begun {
                Ok(part) => drop(self.parts.insert(whose.clone(), part)),
                Err(why) => return Err(self.put_off(whose, last, why)),
            }
        }
        if self.later.contains(&whose) {
            if last {
                self.later.remove(&whose);
            }
            return Ok(());
        }
        let Some(part) = self.parts.get_mut(&whose).filter(|part| part.length == at) else {
            return Err(NotTaken::Odd(format!("a piece of the results of {} came out of order", whose.0)));
        };
        if let Err(e) = part.file.write_all(bytes) {
            return Err(self.put_off(whose, last, e.into()));
        }
        part.length += bytes.len() as u64;
        if last && let Some(tar) = self.parts.remove(&whose) {
            // Waits when many are due: the host then waits with sending.
            let (attempt, rank) = whose;
            let job = Job { host: host.into(), attempt, rank, tar, outbox: outbox.clone() };
            let _ = shared.publish.send(job);
        }
        Ok(())
    }

    fn put_off(&mut self, whose: (Attempt, u32), last: bool, why: NotTaken) -> NotTaken {
        self.parts.remove(&whose);
        if self.later.len() >= MOST_PUT_OFF {
            return NotTaken::Odd(format!("it sends those of more than {MOST_PUT_OFF} runs at once"));
        }
        if !last {
            self.later.insert(whose);
        }
        why
    }
}

impl Part {
    fn new(shared: &Shared) -> io::Result<Part> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = shared.store.incoming().join(format!("results-{}-{count}", std::process::id()));
        let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        // The store's own folders are made again if somebody removes them.
        let file = match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => shared.store.make().and_then(|()| open())?,
            done => done?,
        };
        Ok(Part { path, file, length: 0 })
    }
}

/// Puts results in place until the daemon ends.
pub fn work(shared: Arc<Shared>, jobs: Receiver<Job>) -> io::Result<()> {
    let run = move || {
        while let Ok(first) = jobs.recv() {
            let more = jobs.try_iter().take(BATCH - 1);
            place(&shared, std::iter::once(first).chain(more).collect());
        }
    };
    std::thread::Builder::new().name("results".into()).spawn(run)?;
    Ok(())
}

enum Stage {
    /// Staged here, to be renamed to there.
    Staged {
        from: PathBuf,
        to: PathBuf,
    },
    There,
}

fn place(shared: &Shared, jobs: Vec<Job>) {
    let (mut staged, mut busy) = (Vec::new(), false);
    for job in jobs {
        let (reply, answer) = sync_channel(1);
        let (host, attempt) = (job.host.clone(), job.attempt.clone());
        if !shared.post(Message::PublishTo { host, attempt, rank: job.rank, reply }) {
            return;
        }
        // One that waited in vain has waited for all.
        let within = if busy { Duration::ZERO } else { ANSWER };
        let outcome = match answer.recv_timeout(within) {
            Ok(Some(to)) => stage(&shared.store.results(), &to, &job.tar.path, &shared.trees).map_err(Failure::Io),
            Ok(None) => Err(Failure::Unwanted),
            Err(_) => {
                busy = true;
                Err(Failure::Busy)
            }
        };
        staged.push((job, outcome));
    }
    // One for all: syncing every file of every run by itself would take as long as the runs.
    let synced = sync_all(&shared.store.results());
    for (job, outcome) in staged {
        let outcome = outcome.and_then(|stage| match (&synced, stage) {
            (_, Stage::There) => Ok(()),
            (Ok(()), Stage::Staged { from, to }) => show(&from, &to).map_err(Failure::Io),
            (Err(e), _) => Err(Failure::Io(io::Error::new(e.kind(), e.to_string()))),
        });
        match outcome {
            Ok(()) => job.answers(None, false),
            // Room may come back: the host keeps them, and sends them again on another line.
            Err(Failure::Io(e)) if is_full(&e) => {
                let why = format!("the results of {} cannot be kept: {e}", job.attempt);
                job.outbox.close(&why);
                shared.post(Message::Full { why });
            }
            Err(failure) => {
                let problem = failure.text(&shared.store.results());
                shared.log.say(format!("{} of {}: {problem}", job.attempt, job.host));
                job.answers(Some(problem), failure.may_pass());
            }
        }
    }
}

enum Failure {
    /// The run is not that host's any more.
    Unwanted,
    /// Nobody could say in time where they belong.
    Busy,
    Io(io::Error),
}

impl Failure {
    /// The host keeps them, and sends them again.
    fn may_pass(&self) -> bool {
        match self {
            Failure::Unwanted => false,
            Failure::Busy => true,
            Failure::Io(e) => !is_for_ever(e),
        }
    }

    fn text(&self, results: &Path) -> String {
        match self {
            Failure::Unwanted => "the queue does not expect them from this host any more".into(),
            Failure::Busy => "the queue has too much to do at the moment".into(),
            Failure::Io(e) => format!("they could not be put into {}: {e}", results.display()),
        }
    }
}

/// Names come from the plan; still, nothing is ever written outside.
fn below(root: &Path, name: &str) -> io::Result<PathBuf> {
    let name = Path::new(name);
    let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
    if plain && name.components().count() > 1 { Ok(root.join(name)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn stage(root: &Path, to: &PublishTo, tar: &Path, trees: &Trees) -> io::Result<Stage> {
    let place = below(root, &to.name)?;
    if place.exists() {
        // Renamed before, and the word of it did not arrive. The name holds the moment of the assignment, so it is this one's.
        return Ok(Stage::There);
    }
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    for (other, content) in &to.beside {
        let path = parent.join(other);
        if below(root, &format!("x/{other}")).is_err() {
            continue;
        }
        // By whose results it comes: what a daemon left half that was killed is found when they come again.
        let beside = parent.join(format!(".{other}.{}.part", name.to_string_lossy()));
        match fs::read(&path) {
            // Results of the two would be mixed.
            Ok(there) if there != content.as_bytes() => {
                return Err(io::Error::other(format!("{} is of another configuration", path.display())));
            }
            Ok(_) => drop(fs::remove_file(&beside)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                write_by_way_of(&beside, &path, content.as_bytes(), 0o600)?;
            }
            Err(e) => return Err(e),
        }
    }
    put_diff(parent, to, trees)?;
    let staged = parent.join(format!(".{}.part", name.to_string_lossy()));
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    DirBuilder::new().mode(0o700).create(&staged)?;
    unpack(tar, &staged).inspect_err(|_| {
        let _ = fs::remove_dir_all(&staged);
    })?;
    Ok(Stage::Staged { from: staged, to: place })
}

/// Once for all configurations.
fn put_diff(parent: &Path, to: &PublishTo, trees: &Trees) -> io::Result<()> {
    let Some(origin) = &to.origin else { return Ok(()) };
    let (Some(name), Some(digest), Some(runs)) = (origin.diff_name(), &origin.diff, parent.parent()) else {
        return Ok(());
    };
    let path = runs.join(name);
    if path.exists() || !trees.has(digest) {
        return Ok(());
    }
    match trees.file(digest, DIFF_FILE, MOST_DIFF)? {
        Some(content) => write_durable(&path, &content, 0o600),
        None => Ok(()),
    }
}

/// Files, folders and links, and nothing that leads out of the folder.
fn unpack(tar: &Path, to: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(io::BufReader::with_capacity(256 << 10, File::open(tar)?));
    archive.set_preserve_mtime(true);
    archive.set_overwrite(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_dir() || kind.is_symlink() || kind.is_contiguous() {
            entry.unpack_in(to)?;
        }
    }
    Ok(())
}

/// All of the drive that the folder is on.
fn sync_all(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    Ok(rustix::fs::syncfs(&folder)?)
}

fn show(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    to.parent().map_or(Ok(()), sync_folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::places::Store;

    fn tar(folder: &Path, entries: &[(&str, &str)]) -> PathBuf {
        let path = folder.join("r.tar");
        let mut builder = tar::Builder::new(File::create(&path).unwrap());
        for (name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o4755);
            // As an enemy would write it: the crate's own setter refuses.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.finish().unwrap();
        path
    }

    #[test]
    fn results_are_complete_or_absent_and_stay_inside() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        fs::create_dir(&results).unwrap();
        let name = "mlp/runs/param_003/2026-01-01-00:00:00_num0".to_string();
        let to =
            PublishTo { name: name.clone(), beside: vec![("param2val.yaml".into(), "lr: 1\n".into())], origin: None };
        let store = Store::at(folder.path());
        let trees = Trees::of(&store);
        let tar = tar(folder.path(), &[("a/loss.csv", "1,2"), ("../../../evil", "x")]);
        let Ok(Stage::Staged { from, to: place }) = stage(&results, &to, &tar, &trees) else { panic!() };
        assert!(!place.exists());
        sync_all(&results).unwrap();
        show(&from, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("a/loss.csv")).unwrap(), "1,2");
        assert_eq!(fs::read_to_string(place.parent().unwrap().join("param2val.yaml")).unwrap(), "lr: 1\n");
        assert!(!folder.path().join("evil").exists() && !results.join("evil").exists());
        assert!(matches!(stage(&results, &to, &tar, &trees), Ok(Stage::There)));
        let beside = vec![("param2val.yaml".into(), "lr: 2\n".into())];
        let other = PublishTo { name: name.replace("num0", "num1"), beside, origin: None };
        assert!(stage(&results, &other, &tar, &trees).is_err_and(|e| e.to_string().contains("another configuration")));
        for name in ["../x/y", "/etc/x", "x", "", "a/../../b"] {
            assert!(below(&results, name).is_err(), "{name}");
        }
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(place.join("a/loss.csv")).unwrap().mode() & 0o7000, 0);
    }
}
