//! How does the first rank of a host start sooner?
//!
//! A process that is forked while the warden has one thread is ready in a fraction of the time that a new program takes to be loaded and
//! linked. It waits for a job and is then a keeper like any other; without a job it ends with the warden.

use std::fs::File;
use std::os::fd::OwnedFd;

pub struct Spare {
    pub pid: u32,
    pub stdin: File,
    pub stdout: File,
}

/// Must be called before there is any thread. Without a spare, keepers are started in the usual way.
pub fn fork() -> Option<Spare> {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok();
    let ((its_stdin, stdin), (stdout, its_stdout)) = (pipe()?, pipe()?);
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => None,
        0 => {
            drop((stdin, stdout));
            keep(&its_stdin, &its_stdout)
        }
        pid => Some(Spare { pid: pid as u32, stdin: stdin.into(), stdout: stdout.into() }),
    }
}

fn keep(stdin: &OwnedFd, stdout: &OwnedFd) -> ! {
    // Its own group: what ends the launcher's terminal must reach it through the warden, in order.
    let _ = rustix::process::setsid();
    let ready = rustix::stdio::dup2_stdin(stdin).is_ok() && rustix::stdio::dup2_stdout(stdout).is_ok();
    // The originals close when the rank is executed; until then nobody else holds them.
    let code = if ready { crate::keeper::spare() } else { 1 };
    std::process::exit(code)
}
