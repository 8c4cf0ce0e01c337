//! Who is the one agent of a store on this host? The newest: whoever was before it is asked to leave.

use crate::proc::{self, Process};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const ASK_FOR: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// Held as long as it is open.
pub struct Lock(#[allow(dead_code)] File);

pub fn take(path: &Path) -> Result<Lock, String> {
    let said = |e: io::Error| format!("{}: {e}", path.display());
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(said)?;
    let end = Instant::now() + ASK_FOR;
    let mut asked: Option<Process> = None;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(e) => return Err(said(e.into())),
        }
        let holder = holder(&mut file);
        if Instant::now() > end {
            let who = holder.map_or_else(|| "another process".into(), |p| format!("process {}", p.pid));
            return Err(format!(
                "{who} is the agent of this queue on this host, and does not leave; end it, then try again"
            ));
        }
        if let Some(holder) = holder.filter(|holder| asked != Some(*holder)) {
            // It holds nothing that is not on disk.
            proc::signal(holder, Signal::TERM);
            asked = Some(holder);
        }
        std::thread::sleep(LOOK);
    }
    let me = proc::process(std::process::id()).unwrap_or(Process { pid: std::process::id(), start: 0 });
    let write = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{} {}", me.pid, me.start));
    write.map_err(said)?;
    Ok(Lock(file))
}

fn holder(file: &mut File) -> Option<Process> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    let (pid, start) = text.trim().split_once(' ')?;
    let process = Process { pid: pid.parse().ok()?, start: start.parse().ok()? };
    (process.pid != std::process::id()).then_some(process)
}
