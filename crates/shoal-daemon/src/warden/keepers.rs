//! How does a warden start a keeper and hear from it?

use super::Event;
use super::outbox::Outbox;
use super::spare::Spare;
use crate::inner::{self, FromKeeper, KeeperJob, ToKeeper};
use crate::proc::{self, Process};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

pub struct Keeper {
    pub process: Process,
    /// Only we hold it: when we are gone, the keeper reads the end of it (GANG-1).
    stdin: Option<File>,
}

impl Keeper {
    /// `words`: the subcommand of this executable that is a keeper; a spare one needs none.
    pub fn start(
        words: &[String],
        spare: Option<Spare>,
        job: KeeperJob,
        index: usize,
        outbox: &Arc<Outbox>,
        events: &SyncSender<Event>,
    ) -> io::Result<Keeper> {
        let Spare { pid, mut stdin, stdout } = match spare {
            Some(spare) => spare,
            None => execute(words, job.detached)?,
        };
        let process = proc::process(pid).unwrap_or(Process { pid, start: 0 });
        let (outbox, events) = (outbox.clone(), events.clone());
        std::thread::spawn(move || hear(stdout, index, &outbox, &events));
        // By pipe, never in argv: environments hold the run's token (SEC-2).
        inner::send_to_keeper(&mut stdin, &ToKeeper::Start(Box::new(job)))?;
        Ok(Keeper { process, stdin: Some(stdin) })
    }

    pub fn stop(&mut self, grace_ms: u64, why: Option<String>) {
        if let Some(stdin) = &mut self.stdin
            && inner::send_to_keeper(stdin, &ToKeeper::Stop { grace_ms, why }).is_err()
        {
            self.stdin = None;
        }
    }
}

fn execute(words: &[String], detached: bool) -> io::Result<Spare> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("shoal").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    // A detached one must not hold the connection open.
    command.stderr(if detached { Stdio::null() } else { Stdio::inherit() });
    // Its own group: what ends the launcher's terminal must reach it through us, in order.
    command.process_group(0);
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("a keeper without pipes"));
    };
    let file = |fd: std::os::fd::OwnedFd| File::from(fd);
    Ok(Spare { pid: child.id(), stdin: file(stdin.into()), stdout: file(stdout.into()) })
}

/// Output goes straight to the outbox, the rest to the warden's loop.
fn hear(mut stdout: File, index: usize, outbox: &Outbox, events: &SyncSender<Event>) {
    let mut body = Vec::new();
    while let Ok(Some(message)) = inner::read_from_keeper(&mut stdout, &mut body) {
        match message {
            FromKeeper::Filed { offset, at, len } => outbox.filed(index, offset, at, len),
            FromKeeper::Bytes { offset, bytes } => outbox.bytes(index, offset, bytes),
            FromKeeper::Log { path, start } => {
                // Gone already? Then reading it back fails, which is said; without any file nothing would ever be sent.
                if let Ok(file) = File::open(&path).or_else(|_| File::open("/dev/null")) {
                    outbox.set_log(index, file, start);
                }
            }
            other => {
                if events.send(Event::Keeper(index, other)).is_err() {
                    return;
                }
            }
        }
    }
    let _ = events.send(Event::KeeperGone(index));
}
