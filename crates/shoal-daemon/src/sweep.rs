//! How is everything ended that a process left behind? (GANG-1)
//!
//! Asked first (SIGTERM), ended after the grace (SIGKILL), again and again until a look at `/proc` finds nobody: a
//! process may fork while we look. Stepped by its owner, so that nobody has to wait in here.

use crate::proc::{self, Process, Stat};
use rustix::process::Signal;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How often to step.
pub const STEP: Duration = Duration::from_millis(10);
/// After this long of SIGKILL, what is left is in the kernel's hands (a dead network drive) and is reported.
pub const GIVE_UP: Duration = Duration::from_secs(10);

pub struct Sweep {
    ask_at: Instant,
    kill_at: Instant,
    asked: HashSet<Process>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Swept {
    Going,
    Clean,
    /// These do not end.
    Stuck(Vec<u32>),
}

impl Sweep {
    /// `linger`: how long they may end by themselves before they are asked to.
    pub fn new(now: Instant, linger: Duration, grace: Duration) -> Sweep {
        Sweep { ask_at: now + linger, kill_at: now + linger + grace, asked: HashSet::new() }
    }

    /// No later than this from now on.
    pub fn hurry(&mut self, now: Instant, grace: Duration) {
        self.ask_at = self.ask_at.min(now);
        self.kill_at = self.kill_at.min(now + grace);
    }

    /// `left`: all who should be gone. Zombies are gone: their parents have only to notice.
    pub fn step(&mut self, now: Instant, left: &[Stat]) -> Swept {
        let left: Vec<Process> = left.iter().filter(|s| !s.is_zombie()).map(|s| s.process).collect();
        if left.is_empty() {
            return Swept::Clean;
        }
        if now >= self.kill_at + GIVE_UP {
            return Swept::Stuck(left.iter().map(|p| p.pid).collect());
        }
        for process in left {
            if now >= self.kill_at {
                proc::signal(process, Signal::KILL);
            } else if now >= self.ask_at && self.asked.insert(process) {
                proc::signal(process, Signal::TERM);
                // One that was stopped (SIGSTOP, a terminal) would not hear it.
                proc::signal(process, Signal::CONT);
            }
        }
        Swept::Going
    }
}

/// Reaps every child that is over and is not in `keep`, so that it is no zombie for the rest of our life.
pub fn reap_except(keep: &HashSet<u32>) -> Vec<(u32, i32)> {
    let others = proc::children(std::process::id()).into_iter().filter(|pid| !keep.contains(pid));
    others.filter_map(|pid| Some((pid, reap(pid)?))).collect()
}

/// Reaps every child that is over.
pub fn reap_all() -> Vec<(u32, i32)> {
    let one = || {
        let mut status = 0;
        // SAFETY: a place for the status; WNOHANG, so this returns at once.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        (pid > 0).then_some((pid as u32, status))
    };
    std::iter::from_fn(one).collect()
}

/// Whether this process has no child, not even one that is over. Who has no child has nobody below: a proof that takes no look at
/// `/proc`.
pub fn is_childless() -> bool {
    let peek = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: no place for what is found is needed; this returns at once, and nothing is reaped.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, std::ptr::null_mut(), peek) };
    found == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
}

/// The wait status of this child if it is over; it is gone then.
pub fn reap(pid: u32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: a place for the status; WNOHANG, so this returns at once.
    (unsafe { libc::waitpid(pid as i32, &mut status, libc::WNOHANG) } == pid as i32).then_some(status)
}

/// Whether this child is over. It stays a zombie, so that its pid and its group stay its own.
///
/// The kernel is asked, not `/proc`: there a process is a zombie as soon as its first thread has ended, while the others (a
/// framework's pool on a busy machine takes seconds) are still to end, and it cannot be reaped yet.
pub fn is_over(pid: u32) -> bool {
    // SAFETY: zeros are a valid siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: a place for what is found; WNOHANG, so this returns at once, and WNOWAIT, so nothing is reaped.
    let found = unsafe { libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) };
    match found {
        // SAFETY: filled in by a wait that succeeded; 0 if nothing has changed.
        0 => (unsafe { info.si_pid() }) == pid as i32,
        // No child of ours: what can be seen of it must do.
        _ => proc::stat(pid).is_none_or(|s| s.is_zombie()),
    }
}
