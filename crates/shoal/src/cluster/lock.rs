//! Who works on a cluster from this machine? One `up` or `down` at a time; and a `down` may end an `up`.

use super::provider::Trouble;
use crate::commands::run::NotBegun;
use rustix::process::Signal;
use shoal_core::cluster::steps::wire::Holder;
use shoal_daemon::proc;
use shoal_daemon::records::unix_ms;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long an `up` that was told to stop may take: it ends what runs on its nodes first.
const STOPPING: Duration = Duration::from_secs(40);

/// The file that is locked, in the cluster's folder.
pub const NAME: &str = "lock";
/// How often the file may be removed between opening and locking it.
const ATTEMPTS: usize = 10;

/// Held until it is dropped, or this program ends in whatever way.
pub struct Lock {
    _file: File,
    pub folder: PathBuf,
    pub holder: Holder,
}

/// What this machine keeps of a cluster. `None`: nobody says where this user's files are; a place in /tmp could be somebody else's.
pub fn folder(cluster: &str) -> Option<PathBuf> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")))?;
    Some(state.join("shoal/clusters").join(cluster))
}

/// As `folder`, for those who cannot do without.
pub fn place(cluster: &str) -> Result<PathBuf, Trouble> {
    folder(cluster).ok_or_else(|| Trouble {
        what: format!("there is no place for what this machine keeps of cluster `{cluster}`: neither XDG_STATE_HOME nor HOME is set"),
        hint: "set HOME".into(),
    })
}

fn me(verb: &str) -> Holder {
    let (pid, since_ms) = (std::process::id(), unix_ms());
    let who = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let who = who.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    Holder { id: format!("{pid}-{since_ms}"), who, verb: verb.into(), pid, machine: proc::node_name(), since_ms }
}

/// Why there is no lock.
pub enum NoLock {
    Held(Option<Holder>),
    Broken(PathBuf, std::io::Error),
    NoPlace(Trouble),
}

impl NoLock {
    pub fn not_begun(&self, cluster: &str) -> NotBegun {
        match self {
            NoLock::Held(holder) => NotBegun::CannotStart(held(cluster, holder.as_ref())),
            NoLock::Broken(folder, e) => {
                let why = e.to_string();
                let why = why.split(" (os error").next().unwrap_or_default();
                let hint = "is it your folder, and is there space? XDG_STATE_HOME, else HOME, says where it is";
                NotBegun::Here(format!("{} cannot be used: {why}\n  hint: {hint}", folder.display()))
            }
            NoLock::NoPlace(trouble) => NotBegun::Here(trouble.to_string()),
        }
    }
}

/// In the words of a message.
pub fn held(cluster: &str, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else {
        return format!("cluster `{cluster}` is being worked on by somebody else");
    };
    let since = shoal_core::outcome::duration(unix_ms().saturating_sub(holder.since_ms));
    format!("cluster `{cluster}` is being worked on by {holder} for {since}")
}

pub fn take(cluster: &str, verb: &str) -> Result<Lock, NoLock> {
    let folder = place(cluster).map_err(NoLock::NoPlace)?;
    take_in(folder, verb)
}

fn take_in(folder: PathBuf, verb: &str) -> Result<Lock, NoLock> {
    let broken = |e: std::io::Error| NoLock::Broken(folder.clone(), e);
    let mut file = None;
    for _ in 0..ATTEMPTS {
        let opened = open(&folder).map_err(broken)?;
        if let Some(locked) = lock(&folder, opened)? {
            file = Some(locked);
            break;
        }
    }
    let mut file = file.ok_or(NoLock::Held(None))?;
    let holder = me(verb);
    let mut write = || {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(&holder)?)
    };
    write().map_err(broken)?;
    Ok(Lock { _file: file, folder, holder })
}

fn open(folder: &Path) -> std::io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(folder.join(NAME))
}

/// `None`: a `down` has removed the file since it was opened, and whoever comes next locks another one.
fn lock(folder: &Path, mut file: File) -> Result<Option<File>, NoLock> {
    let broken = |e: std::io::Error| NoLock::Broken(folder.to_path_buf(), e);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(NoLock::Held(serde_json::from_str(&text).ok()));
        }
        Err(TryLockError::Error(e)) => return Err(broken(e)),
    }
    let ours = file.metadata().map_err(broken)?;
    let there = std::fs::metadata(folder.join(NAME));
    let is_it = there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
    Ok(is_it.then_some(file))
}

/// As `take`; an `up` of this machine that has it is told to stop, and waited for.
pub fn take_from_up(cluster: &str, tell: &dyn Fn(&str)) -> Result<Lock, NoLock> {
    let holder = match take(cluster, "down") {
        Err(NoLock::Held(Some(holder))) if holder.verb == "up" && holder.machine == proc::node_name() => holder,
        other => return other,
    };
    tell(&format!("{holder} is told to stop"));
    let asked = proc::process(holder.pid).is_some_and(|process| proc::signal(process, Signal::TERM));
    if !asked {
        return take(cluster, "down");
    }
    let deadline = Instant::now() + STOPPING;
    loop {
        match take(cluster, "down") {
            Err(NoLock::Held(_)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever opened the file just before a `down` removed it has nothing in its hands.
    #[test]
    fn a_file_that_was_removed_is_no_lock() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("c");
        let down = take_in(folder.clone(), "down").unwrap_or_else(|_| panic!("it is free"));
        let early = open(&folder).expect("the same file");
        std::fs::remove_file(folder.join(NAME)).expect("it was there");
        drop(down);
        let next = take_in(folder.clone(), "up").unwrap_or_else(|_| panic!("it is free"));
        assert!(matches!(lock(&folder, early), Ok(None)));
        assert!(matches!(take_in(folder.clone(), "up"), Err(NoLock::Held(Some(holder))) if holder == next.holder));
        drop(next);
        // Whoever comes in between makes the folder anew.
        std::fs::remove_dir_all(&folder).expect("it was there");
        assert!(take_in(folder, "up").is_ok());
    }
}
