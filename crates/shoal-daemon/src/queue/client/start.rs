//! Where none runs, a daemon is started: in the background, for this user and this machine. Nothing has to be configured.

use super::{Client, ClientError, Where};
use crate::proc;
use crate::queue::places::Store;
use crate::queue::serve;
use crate::signals;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Until a daemon that was started lets us in; a long journal takes its time.
const START: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);
/// Lines of its log in an error.
const LINES: usize = 10;

/// The queue at `place`; if it is this machine's and nobody serves it, `program serve --auto --store FOLDER` does from now on.
pub fn connect_or_start(place: &Where, program: &Path) -> Result<Client, ClientError> {
    let Where::Here(store) = place else { return Client::connect(place) };
    let end = Instant::now() + START;
    // A daemon that is just leaving may still take a connection, and close it.
    match Client::connect(place) {
        Err(ClientError::NotRunning(_) | ClientError::Ended) => {}
        other => return other,
    }
    if let Some(holder) = serve::holder(store).filter(|holder| holder.host != proc::node_name()) {
        let why =
            format!("the queue in {} is served on {} (process {})", store.root.display(), holder.host, holder.pid);
        return Err(ClientError::Wrong(format!(
            "{why}; set SHOAL_QUEUE to reach it from here, or use another SHOAL_STORE"
        )));
    }
    let unmade = |e: io::Error| ClientError::Wrong(format!("{} cannot be made: {e}", store.root.display()));
    store.make().map_err(unmade)?;
    // Now that it is there, its path may be another one.
    let store = &Store::at(&store.root);
    let place = &Where::Here(store.clone());
    // One of many clients starts it; the others wait for its socket.
    let mut starting = None;
    let mut started = None;
    loop {
        match Client::connect(place) {
            Err(ClientError::NotRunning(_) | ClientError::Ended) => {}
            other => return other,
        }
        if starting.is_none() {
            starting = lock(store).map_err(unmade)?;
        }
        if starting.is_some() && started.is_none() {
            // Looked at again under the lock, or two would follow each other.
            started = Some((start(store, program)?, log_length(store)));
            continue;
        }
        let ended = started.as_mut().and_then(|(child, _)| child.try_wait().ok().flatten());
        // Another one may have been faster; then ours ended for that, and the socket is there soon.
        let failed = ended.is_some() && serve::holder(store).is_none();
        if failed || Instant::now() > end {
            let from = started.as_ref().map_or(0, |(_, from)| *from);
            return Err(ClientError::NotStarted { seconds: START.as_secs(), log: last_lines(store, from) });
        }
        std::thread::sleep(LOOK);
    }
}

fn lock(store: &Store) -> io::Result<Option<File>> {
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(store.starting());
    let file = open?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn log_length(store: &Store) -> u64 {
    std::fs::metadata(store.log()).map_or(0, |meta| meta.len())
}

fn start(store: &Store, program: &Path) -> Result<std::process::Child, ClientError> {
    let wrong = |e: io::Error| ClientError::Wrong(format!("{} cannot be started: {e}", program.display()));
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(store.log()).map_err(wrong)?;
    let mut command = Command::new(program);
    command.args(["serve", "--auto", "--store"]).arg(&store.root).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let detach = || {
        // Neither Ctrl-C nor the end of this terminal is meant for it.
        rustix::process::setsid()?;
        signals::reset_in_child();
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(detach) };
    command.spawn().map_err(wrong)
}

/// What it said since it was started.
fn last_lines(store: &Store, from: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(store.log())?;
        file.seek(SeekFrom::Start(from))?;
        let mut text = String::new();
        file.take(64 << 10).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
