//! How does a run begin?

use super::keep::{Cause, Keeper, RETRY};
use super::launch::{Ends, Environment, Words};
use super::records::{Begins, Line};
use super::run::{Live, MemoryLimit, Progress};
use super::words::{Over, Run};
use crate::keeper::lookup::plain;
use crate::keeper::memory::Kills;
use crate::records::unix_ms;
use rustix::pipe::PipeFlags;
use shoal_core::queue::work::Ending;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How old a look at the kernel's counters may be.
const KILLS_FRESH: Duration = Duration::from_secs(1);
const MEMORY_EVERY: Duration = Duration::from_secs(1);

impl Keeper {
    /// False if nothing can begin for now; it is the next again then.
    pub(super) fn begin(&mut self, name: String, what: Box<(Run, Rc<Environment>)>) -> bool {
        let (run, environment) = &*what;
        let words = match (&run.refused, Words::new(run, &self.mark)) {
            (Some(why), _) => return self.not_started(run, why.clone()),
            (None, Err(_)) => {
                return self
                    .not_started(run, "a zero byte is in its words, its environment or its folder's name".into());
            }
            (None, Ok(words)) => words,
        };
        let log = match self.logs.take() {
            Ok(log) => log,
            Err(e) => {
                let live = self.folder.live();
                self.in_trouble(
                    Cause::Disk,
                    format!("no log can be made in {}: {e}; runs wait for it", live.display()),
                );
                self.retry_at = Some(Instant::now() + RETRY);
                self.book.unget(name, what);
                return false;
            }
        };
        let begins =
            Begins { name: run.name.clone(), note: run.note.clone(), at: unix_ms(), log: log.number, from: ticks() };
        // In the file before it is started: whatever may have begun is known (QUEUE-2).
        let mark = self.records.pending_len();
        self.records.add(&Line::Begins(begins.clone()));
        if !self.flush() {
            self.records.take_back(mark);
            self.logs.give_back_empty(log);
            self.book.unget(name, what);
            return false;
        }
        let (progress, other_end) =
            match run.prepared.is_some().then(|| rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)) {
                Some(Ok((ours, its))) => (Some(File::from(ours)), Some(its)),
                _ => (None, None),
            };
        let kills = self.kills();
        let started = Instant::now();
        let ends =
            Ends { stdin: self.null.as_fd(), output: log.file.as_fd(), progress: other_end.as_ref().map(AsFd::as_fd) };
        let launched = self.launcher.launch(&words, environment, &ends);
        let pid = match launched {
            Ok(pid) => pid,
            Err(e) => {
                self.logs.give_back_empty(log);
                return self.not_started(run, why_not(run, &e));
            }
        };
        if self.lowered_oom_score {
            let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "0");
        }
        let until = ticks();
        self.records.add(&Line::Is { name: name.clone(), pid, until });
        let live = Live {
            begins,
            pid,
            until,
            started,
            grace: Duration::from_millis(run.grace_ms),
            deadline: run.time_limit_ms.map(|ms| started + Duration::from_millis(ms)),
            memory: run.memory_bytes.map(|bytes| MemoryLimit { bytes, look_at: started + MEMORY_EVERY }),
            kills,
            progress: progress.zip(run.prepared.clone()).map(|(file, prepared)| Progress { prepared, file }),
            log: Some(log),
            guarded: run.guarded,
            told: false,
            stop: None,
            leader: None,
            sweep: None,
        };
        self.live.insert(pid, live);
        true
    }

    /// It never was executed; that is its end.
    fn not_started(&mut self, run: &Run, why: String) -> bool {
        let now = unix_ms();
        self.put_over(
            Over {
                name: run.name.clone(),
                note: run.note.clone(),
                ending: Ending::NotStarted { why },
                began: now,
                ended: now,
                cpu_ms: 0,
                peak_memory_bytes: 0,
                output: None,
            },
            false,
        );
        true
    }

    fn kills(&mut self) -> Option<Rc<Kills>> {
        let now = Instant::now();
        match &self.kills {
            Some((at, kills)) if now < *at + KILLS_FRESH => kills.clone(),
            _ => {
                let kills = Kills::watch().map(Rc::new);
                self.kills = Some((now, kills.clone()));
                kills
            }
        }
    }
}

fn why_not(run: &Run, e: &std::io::Error) -> String {
    if !Path::new(&run.cwd).is_dir() {
        return format!("the folder {} is not there", run.cwd);
    }
    let more = match e.raw_os_error() {
        Some(libc::E2BIG) => "; its arguments and environment together are too long",
        Some(libc::EAGAIN) => "; this user may have no more processes (ulimit -u)",
        _ => "",
    };
    format!("{} could not be executed: {}{more}", run.program, plain(e))
}

/// As `/proc/<pid>/stat` counts when a process was started.
pub(super) fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    now.tv_sec as u64 * per_second + now.tv_nsec as u64 * per_second / 1_000_000_000
}
