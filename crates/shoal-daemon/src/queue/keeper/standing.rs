//! Can a keeper be found whose whole folder somebody removed? It also listens under a name that is no file, which nothing removes but its own
//! end. So the next agent finds it there and starts nothing twice, and a second keeper finds the name taken and goes (QUEUE-2).

use super::daemon;
use super::diary::note;
use super::folder::{self, Folder};
use super::keep::Keeper;
use super::run::Live;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Between two looks whether the folder is there.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who has the name.
pub enum Name {
    Ours(UnixListener),
    /// A keeper of this user lives.
    Taken,
    /// Somebody else's process has it, or there are no such names here. The folder's own lock and socket have to do.
    Unusable(String),
}

/// By user, drive and path: the same after the folder was made again; another in a container with drives of its own.
fn address(folder: &Folder) -> io::Result<SocketAddr> {
    let drive = std::fs::metadata(folder.root())?.dev();
    let uid = rustix::process::geteuid().as_raw();
    let mut hash = Sha256::new();
    hash.update(format!("{uid} {drive} "));
    hash.update(folder.root().as_os_str().as_encoded_bytes());
    let digest: String = hash.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
    SocketAddr::from_abstract_name(format!("shoal-queue-keeper-{digest}"))
}

pub fn take(folder: &Folder) -> Name {
    let taken = address(folder).and_then(|address| UnixListener::bind_addr(&address));
    match taken.and_then(|listener| listener.set_nonblocking(true).map(|()| listener)) {
        Ok(listener) => Name::Ours(listener),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && connect(folder).is_ok() => Name::Taken,
        Err(e) => Name::Unusable(e.to_string()),
    }
}

/// Anybody can take a name that is no file: only a keeper of our own user is spoken with (SEC-1).
pub fn connect(folder: &Folder) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(folder)?)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody else's process answers in its place"));
    }
    Ok(stream)
}

/// Whether the file at the lock's path is the one that we hold.
fn holds(folder: &Folder, lock: &File) -> bool {
    let there = std::fs::metadata(folder.keeper_lock());
    let ours = lock.metadata();
    there.is_ok_and(|there| ours.is_ok_and(|ours| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
}

impl Keeper {
    /// Makes again what somebody removed: folders, lock, socket, and the records of all that lives or is not acknowledged.
    pub(super) fn stand(&mut self, now: Instant) {
        if now < self.look_at || self.leaving.is_some() {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        if holds(&self.folder, &self.lock) {
            return;
        }
        match self.make_again() {
            Ok(true) => note(
                "queue-keeper",
                format!("{} was removed and is made again; runs go on", self.folder.root().display()),
            ),
            // Somebody newer has the lock, finds our name taken, and goes.
            Ok(false) => {}
            Err(e) => note("queue-keeper", format!("{} cannot be made again: {e}", self.folder.root().display())),
        }
    }

    fn make_again(&mut self) -> io::Result<bool> {
        for path in self.folder.all() {
            folder::make(&path)?;
        }
        let Some(lock) = daemon::lock(&self.folder)? else { return Ok(false) };
        let open: Vec<_> = self.live.values().flat_map(Live::lines).collect();
        self.records.compact(&open, self.over.values())?;
        (self.asked_to_sync, self.synced) = (self.added, self.added);
        self.listener = daemon::listen(&self.folder)?;
        self.lock = lock;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_folder_and_outlives_it() {
        let base = tempfile::tempdir().unwrap();
        let open = |store: &str| Folder::below(base.path(), store).unwrap();
        let (one, other) = (open("one"), open("other"));
        let Name::Ours(held) = take(&one) else { panic!("nobody has it") };
        assert!(matches!(take(&one), Name::Taken) && matches!(take(&other), Name::Ours(_)));
        std::fs::remove_dir_all(one.root()).unwrap();
        let again = open("one");
        assert!(connect(&again).is_ok() && matches!(take(&again), Name::Taken));
        drop(held);
        assert!(connect(&again).is_err() && matches!(take(&again), Name::Ours(_)));
    }
}
