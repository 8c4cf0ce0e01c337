//! Who stands between a run that may have killed a keeper and the next one?
//!
//! Only a parent hears how a process ends, so a keeper is the parent of its runs, and a run that kills its parent takes its neighbours with it.
//! Whoever was alive when a keeper was killed is started again below a guard: a process that waits for it, ends as it does, and does nothing
//! else. If the run kills its parent again, it is the guard that is gone, and the keeper knows whose it was. All others do without: a process
//! more for each run would cost short ones half their rate.

use super::run::Live;
use crate::ending::How;
use std::ffi::OsString;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};

/// Our own file, also if somebody has removed it.
pub(super) const GUARD_PROGRAM: &str = "/proc/self/exe";
/// Before the program's path, its name and its arguments.
pub(super) const GUARD_WORDS: [&str; 4] = ["shoal", "host", "guard", "--"];

/// The hidden subcommand `shoal host guard -- PROGRAM NAME ARGUMENTS...`.
pub fn main(words: Vec<OsString>) -> ExitCode {
    let [program, name, arguments @ ..] = words.as_slice() else {
        eprintln!("shoal: host guard -- PROGRAM NAME ARGUMENTS...");
        return ExitCode::from(2);
    };
    // What is meant for the group reaches the run itself, and it decides. Nothing but SIGKILL ends us before it.
    mask(true);
    // The keeper may be spared on a full machine; its runs are not.
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    let unmask = || {
        mask(false);
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(unmask) };
    let ended = command.spawn().and_then(|mut child| child.wait());
    match ended {
        Err(e) => {
            eprintln!("shoal: {} could not be executed: {e}", program.display());
            ExitCode::from(127)
        }
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ExitCode::from(code as u8),
            (None, signal) => end_by(signal.unwrap_or(libc::SIGKILL)),
        },
    }
}

/// As the run did.
fn end_by(signal: i32) -> ExitCode {
    // SAFETY: plain system calls with valid numbers; the default handler is set before the signal is let through.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    mask(false);
    // Not reached, unless the signal ends nobody.
    ExitCode::from(128u8.wrapping_add(signal as u8))
}

fn mask(all: bool) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialised by one of the first two calls.
    unsafe {
        match all {
            true => libc::sigfillset(set.as_mut_ptr()),
            false => libc::sigemptyset(set.as_mut_ptr()),
        };
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// For whoever reads the run's output: `signal 9` alone would say that somebody killed the program.
pub(super) fn say_if_killed(live: &Live) {
    let killed = live.leader.is_some_and(|leader| matches!(How::of_wait_status(leader.status), How::Signaled(_)));
    // What it left behind is the run itself, then.
    if !(live.guarded && killed && live.stop.is_none() && live.sweep.is_some()) {
        return;
    }
    let text = "shoal: this run, or something that it started, killed its parent process. Its parent keeps it; an earlier one was killed, too, \
                and all other runs of the host with it.\n";
    if let Some(log) = &live.log {
        let _ = (&log.file).write_all(text.as_bytes());
    }
}
