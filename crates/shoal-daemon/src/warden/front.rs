//! How can ssh return while the warden of a detached run stays?
//!
//! sshd ends a session when the process it started ends, and cuts our stdin at the same time. So that process stays in
//! front, doing nothing but waiting: for the warden's end, or its word that it goes on alone.

use std::fs::File;
use std::io::{Read, Write};

/// Told by the warden when it goes on alone.
pub struct Front(Option<File>);

/// Splits in two, before there is any thread. The warden returns; the front ends in here.
pub fn split() -> std::io::Result<Front> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let front = std::process::id() as i32;
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            drop(from);
            // SAFETY: constants. If the front is killed, we are told as if we had been.
            unsafe {
                libc::setsid();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                if libc::getppid() != front {
                    libc::_exit(1);
                }
            }
            Ok(Front(Some(File::from(to))))
        }
        warden => {
            drop(to);
            std::process::exit(wait(File::from(from), warden));
        }
    }
}

fn wait(mut from: File, warden: i32) -> i32 {
    // SIGTERM and the like end us; the warden is told by its death signal.
    let mut word = [0u8];
    if matches!(from.read(&mut word), Ok(1)) {
        return 0;
    }
    let mut status = 0;
    // SAFETY: a place for the status of our only child, which has closed its end: it is over or about to be.
    unsafe { libc::waitpid(warden, &mut status, 0) };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 }
}

impl Front {
    pub fn none() -> Front {
        Front(None)
    }

    /// Lets the front end. From the thread that made the split: the death signal is its.
    pub fn leave(&mut self) {
        if let Some(mut front) = self.0.take() {
            // SAFETY: a constant.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
            let _ = front.write_all(&[1]);
        }
    }
}
