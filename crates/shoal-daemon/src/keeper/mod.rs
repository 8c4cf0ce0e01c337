//! What does a keeper do? It starts one rank, owns everything that comes of it, and sees it to its end.
//!
//! The main thread waits and ends; one thread moves the output (a log on a network drive that hangs must not keep us
//! from ending the rank), one hears the warden, one the signals.

pub(crate) mod command;
mod log;
pub(crate) mod lookup;
pub(crate) mod memory;
pub mod prepare;
pub(crate) mod spawn;
mod status;

pub(crate) use command::expand;

use crate::ending::{Ending, How};
use crate::inner::{self, FromKeeper, KeeperJob, ToKeeper};
use crate::records::{self, RankRecord};
use crate::sweep::{self, STEP, Sweep, Swept};
use crate::{proc, signals};
use command::{Cannot, Env};
use log::{Log, LogEnd};
use status::Status;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// What a rank's helpers (a `tee`, Python's trackers) have to end by themselves after it, before they are asked to.
const LINGER: Duration = Duration::from_millis(500);
/// When nobody of the rank is left, its output must be at its end; if somebody else holds it, we do not wait longer.
const DRAIN: Duration = Duration::from_secs(2);

enum Event {
    Stop { grace_ms: u64, why: Option<String> },
    WardenGone,
    Signal(i32),
}

/// The hidden subcommand: the job comes by stdin, events go to stdout.
pub fn main() -> ExitCode {
    keep(|| {
        eprintln!("shoal keeper: started without a job; this is `shoal run`'s own program");
        2
    })
    .map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}

/// For a process that was forked in case there is a job; its exit code.
pub fn spare() -> i32 {
    keep(|| 0).map_or_else(i32::from, |()| 0)
}

fn keep(without_a_job: impl FnOnce() -> u8) -> Result<(), u8> {
    signals::block();
    let nine = spawn::reserve_progress_fd();
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
    // Only root may; the rank sets its own.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-500");
    let (Ok(mut stdin), Ok(stdout), Ok(nine)) = (
        std::io::stdin().as_fd().try_clone_to_owned().map(File::from),
        std::io::stdout().as_fd().try_clone_to_owned().map(File::from),
        nine,
    ) else {
        return Err(1);
    };
    let Ok(Some(ToKeeper::Start(job))) = inner::read_to_keeper(&mut stdin, &mut Vec::new()) else {
        return Err(without_a_job());
    };
    let (events, inbox) = sync_channel(64);
    if signals::listen({
        let events = events.clone();
        move |signal| events.send(Event::Signal(signal)).is_ok()
    })
    .is_err()
    {
        return Err(1);
    }
    std::thread::spawn(move || hear_warden(stdin, events));
    Keeper::new(*job, stdout, inbox).keep(nine);
    Ok(())
}

fn hear_warden(mut stdin: File, events: SyncSender<Event>) {
    let mut body = Vec::new();
    while let Ok(Some(message)) = inner::read_to_keeper(&mut stdin, &mut body) {
        if let ToKeeper::Stop { grace_ms, why } = message {
            let _ = events.send(Event::Stop { grace_ms, why });
        }
    }
    let _ = events.send(Event::WardenGone);
}

struct Keeper {
    job: KeeperJob,
    status: Arc<Status>,
    inbox: Receiver<Event>,
    record: RankRecord,
    begun: Instant,
    /// Somebody wanted it to end before it did.
    stopped: bool,
}

impl Keeper {
    fn new(job: KeeperJob, stdout: File, inbox: Receiver<Event>) -> Keeper {
        let home = command::home(&login());
        let log = home.join(expand(&job.job.log, &home));
        let record = RankRecord::new(&job.run, &job.host, job.job.rank, log);
        Keeper { job, status: Arc::new(Status::new(stdout)), inbox, record, begun: Instant::now(), stopped: false }
    }

    fn keep(mut self, nine: rustix::fd::OwnedFd) {
        self.save();
        let (ending, end) = match self.start(nine) {
            Ok((child, thread, quit)) => self.see_to_its_end(child, thread, &quit),
            Err(Cannot { why, hint }) => (Ending::NotStarted { why, hint }, LogEnd::default()),
        };
        self.record.end(ending.clone(), end.bytes, end.missing);
        self.save();
        let after_ms = self.begun.elapsed().as_millis() as u64;
        self.status.send(&FromKeeper::Ended { ending, after_ms, log_bytes: end.bytes, tail: end.tail });
    }

    #[allow(clippy::type_complexity)]
    fn start(
        &mut self,
        nine: rustix::fd::OwnedFd,
    ) -> Result<(Started, std::thread::JoinHandle<LogEnd>, Arc<AtomicBool>), Cannot> {
        let own = own_folder();
        if self.job.lacks_cwd {
            return Err(command::no_cwd(&command::cwd(&self.job.job, &command::home(&login()))));
        }
        let command = command::command(&self.job.run, &self.job.job, login(), &own)?;
        let log = self.open_log()?;
        let kills = memory::Kills::watch();
        let child = spawn::spawn(&command, nine)?;
        self.record.child = Some(child.process);
        self.save();
        self.status.send(&FromKeeper::Started { pid: child.process.pid });
        let quit = Arc::new(AtomicBool::new(false));
        let thread = {
            let (status, quit, pipe) = (self.status.clone(), quit.clone(), child.output);
            std::thread::spawn(move || log::gather(pipe, log, &status, &quit))
        };
        let started = Started { process: child.process, progress: child.progress, command, kills };
        Ok((started, thread, quit))
    }

    fn open_log(&mut self) -> Result<Log, Cannot> {
        match Log::open(&self.record.log) {
            Ok(log) => {
                self.record.log_start = log.at;
                if log.readable {
                    self.status.send(&FromKeeper::Log { path: self.record.log.clone(), start: log.at });
                }
                Ok(log)
            }
            Err(e) => {
                let what = format!("its log {} cannot be opened: {}", self.record.log.display(), lookup::plain(&e));
                if self.job.detached {
                    // Nobody would ever see what it prints.
                    return Err(Cannot { why: what, hint: None });
                }
                let hint = Some("the rank goes on, and its output comes only here".into());
                self.status.send(&FromKeeper::Trouble { what, hint });
                Ok(Log::nowhere())
            }
        }
    }

    fn see_to_its_end(
        &mut self,
        mut child: Started,
        thread: std::thread::JoinHandle<LogEnd>,
        quit: &AtomicBool,
    ) -> (Ending, LogEnd) {
        let how = self.wait_and_sweep(child.process.pid);
        let drained = Instant::now() + DRAIN;
        while !thread.is_finished() && Instant::now() < drained {
            std::thread::sleep(Duration::from_millis(1));
        }
        quit.store(true, Ordering::Release);
        let end = thread.join().unwrap_or_default();
        (self.ending(how, &mut child), end)
    }

    /// Until the rank and everything it started is gone (GANG-1).
    fn wait_and_sweep(&mut self, pid: u32) -> How {
        let mut sweep: Option<Sweep> = None;
        let keep = HashSet::from([pid]);
        loop {
            // Not reaped before all is over: until then its pid and group are nobody else's.
            let over = sweep::is_over(pid);
            let now = Instant::now();
            if over && sweep.is_none() {
                sweep = Some(Sweep::new(now, LINGER, Duration::from_millis(self.job.grace_ms)));
            }
            if let Some(sweep) = &mut sweep {
                sweep::reap_except(&keep);
                let left = proc::family(std::process::id(), &HashSet::new());
                match sweep.step(now, &left) {
                    Swept::Going => {}
                    Swept::Clean if over => break,
                    Swept::Clean => continue,
                    Swept::Stuck(pids) => {
                        let what = format!("processes {pids:?} do not end, not even by SIGKILL");
                        let hint =
                            Some("a device or network drive that hangs holds them; they end when it answers".into());
                        self.status.send(&FromKeeper::Trouble { what, hint });
                        break;
                    }
                }
            }
            // While it runs, only an event is of interest; the bound is for a SIGCHLD that came before we looked.
            let wait = if sweep.is_some() { STEP } else { Duration::from_secs(1) };
            match self.inbox.recv_timeout(wait) {
                Ok(event) => {
                    if let Some((grace, why)) = self.wants_end(event) {
                        if !self.stopped && !sweep::is_over(pid) {
                            self.stopped = true;
                            self.record.why = why;
                        }
                        let now = Instant::now();
                        sweep.get_or_insert_with(|| Sweep::new(now, Duration::ZERO, grace)).hurry(now, grace);
                    } else if sweep.is_none() {
                        sweep::reap_except(&keep);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
        sweep::reap(pid).map_or(How::Signaled(libc::SIGKILL), How::of_wait_status)
    }

    /// Whether this is a reason to end the rank, with which grace, and what the record says about it.
    fn wants_end(&self, event: Event) -> Option<(Duration, Option<String>)> {
        let mut reason = None;
        let grace = match event {
            Event::Stop { grace_ms, why } => {
                reason = why;
                grace_ms
            }
            // In a gang, somebody must hear when others fail: without a warden it cannot go on (GANG-1).
            Event::WardenGone if self.job.detached && self.job.is_all => return None,
            Event::Signal(libc::SIGHUP) if self.job.detached => return None,
            Event::Signal(libc::SIGCHLD) => return None,
            Event::Signal(_) => records::asked_grace(&self.job.folder, self.job.job.rank).unwrap_or(self.job.grace_ms),
            Event::WardenGone => {
                reason = Some(format!("host {} was lost: its warden is gone", self.job.host));
                self.job.grace_ms
            }
        };
        Some((Duration::from_millis(grace), reason))
    }

    fn ending(&self, how: How, child: &mut Started) -> Ending {
        if self.stopped {
            return Ending::Stopped(how);
        }
        if let (Some(steps), Some(progress)) = (&child.command.steps, &mut child.progress)
            && let Some(why) = prepare::failure(&spawn::said(progress), steps, &child.command.name, &how.to_string())
        {
            return Ending::NotStarted { why, hint: None };
        }
        // A shell in between turns the kernel's SIGKILL into 137.
        let killed = matches!(how, How::Signaled(libc::SIGKILL) | How::Exited(137));
        match how {
            _ if killed && child.kills.as_ref().is_some_and(memory::Kills::more) => Ending::OutOfMemory,
            How::Exited(code) => Ending::Exited(code),
            How::Signaled(signal) => Ending::Signaled(signal),
        }
    }

    fn save(&self) {
        if let Err(e) = records::save_rank(&self.job.folder, &self.record) {
            let what = format!("its record in {} cannot be written: {}", self.job.folder.display(), lookup::plain(&e));
            let hint = "`shoal ps` and `shoal stop` on this host will not know it".to_string();
            self.status.send(&FromKeeper::Trouble { what, hint: Some(hint) });
        }
    }
}

struct Started {
    process: proc::Process,
    progress: Option<File>,
    command: command::Command,
    kills: Option<memory::Kills>,
}

fn login() -> Env {
    std::env::vars_os().collect()
}

fn own_folder() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.parent().map_or_else(|| Path::new("/").into(), Path::to_path_buf)
}
