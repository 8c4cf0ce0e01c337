//! Who serves this store? One daemon at a time, from whatever machine.
//!
//! A file lock, gone with the process however it ends; the kernel carries it over NFS too. The file says who has it.

use crate::proc;
use crate::queue::places::Store;
use crate::records::unix_ms;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

const TRIES: u32 = 10;
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    /// Milliseconds since 1970.
    pub since: u64,
    /// A client started it, because none was there: it gives way to one that somebody starts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
    /// Where people elsewhere reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listens: Vec<String>,
    /// It has ended as it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// How a daemon left a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Something still ran, or waited.
    pub work: bool,
}

/// Held until it is dropped.
pub struct Lock {
    file: File,
    holder: Holder,
}

impl Lock {
    pub fn says(&mut self, listens: &[String]) {
        self.holder.listens = listens.to_vec();
        let _ = write(&mut self.file, &self.holder);
    }

    /// So that whoever finds nobody here knows that nobody was killed.
    pub fn leave(mut self, work: bool) {
        self.holder.ended = Some(Ended { work });
        let _ = write(&mut self.file, &self.holder);
    }
}

fn write(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&serde_json::to_vec(holder)?)
}

pub enum NoLock {
    Held(Option<Holder>),
    Broken(io::Error),
}

pub fn take(store: &Store, auto: bool) -> Result<Lock, NoLock> {
    let path = store.lock();
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = open.map_err(NoLock::Broken)?;
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            // Whoever looks for a holder holds it for a moment, too.
            Err(TryLockError::WouldBlock) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(LOOK);
            }
            Err(TryLockError::WouldBlock) => return Err(NoLock::Held(read(&mut file))),
            Err(TryLockError::Error(e)) => return Err(NoLock::Broken(e)),
        }
    }
    let (pid, host, since) = (std::process::id(), proc::node_name(), unix_ms());
    let holder = Holder { pid, host, since, auto, listens: Vec::new(), ended: None };
    // A full disk must not keep the daemon of its owner away: the lock itself needs no room.
    let _ = write(&mut file, &holder);
    Ok(Lock { file, holder })
}

/// Who serves it, if anybody does.
pub fn holder(store: &Store) -> Option<Holder> {
    let mut file = File::open(store.lock()).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(&mut file),
        _ => None,
    }
}

/// Who served it last, whether it still does or not.
pub fn last_holder(store: &Store) -> Option<Holder> {
    read(&mut File::open(store.lock()).ok()?)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

impl NoLock {
    pub fn text(&self, store: &Store) -> String {
        let root = store.root.display();
        match self {
            NoLock::Held(Some(Holder { pid, host, since, .. })) => {
                let for_how_long = shoal_core::outcome::duration(unix_ms().saturating_sub(*since));
                format!("the queue in {root} is served by process {pid} on {host}, for {for_how_long} already")
            }
            NoLock::Held(None) => format!("the queue in {root} is served by another process"),
            NoLock::Broken(e) => format!("{} cannot be locked: {e}", store.lock().display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        assert_eq!(holder(&store), None);
        let first = take(&store, false).ok().expect("free");
        let refused = take(&store, false).err().expect("held").text(&store);
        assert!(refused.contains(&format!("process {} on {}", std::process::id(), proc::node_name())), "{refused}");
        assert_eq!(holder(&store).unwrap().pid, std::process::id());
        drop(first);
        assert_eq!(holder(&store), None);
        assert_eq!(last_holder(&store).unwrap().ended, None, "gone without a word, as one that is killed");
        take(&store, false).ok().expect("free").leave(true);
        assert_eq!((holder(&store), last_holder(&store).unwrap().ended), (None, Some(Ended { work: true })));
        assert!(take(&store, false).is_ok());
    }
}
