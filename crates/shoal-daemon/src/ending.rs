//! How did a rank end?

use serde::{Deserialize, Serialize};
use std::fmt;

/// The status of a process that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Exited(i32),
    Signaled(i32),
}

/// Everything that can become of a rank. With host, rank and command beside it, it is all a user needs (GANG-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that nobody here sent.
    Signaled(i32),
    /// By the kernel, for want of memory.
    OutOfMemory,
    /// The program was never executed: a missing command, folder or virtualenv, or a setup line that failed.
    NotStarted { why: String, hint: Option<String> },
    /// We asked it to end.
    Stopped(How),
    /// What became of it cannot be known; nothing of it is left.
    Lost { why: String },
}

impl How {
    pub fn of_wait_status(status: i32) -> How {
        if libc::WIFSIGNALED(status) {
            How::Signaled(libc::WTERMSIG(status))
        } else {
            How::Exited(libc::WEXITSTATUS(status))
        }
    }

    fn code(self) -> i32 {
        match self {
            How::Exited(code) => code,
            How::Signaled(signal) => 128 + signal,
        }
    }
}

impl Ending {
    pub fn success(&self) -> bool {
        *self == Ending::Exited(0)
    }

    /// The code a shell would give for it.
    pub fn exit_code(&self) -> i32 {
        match self {
            Ending::Exited(code) => *code,
            Ending::Signaled(signal) => 128 + signal,
            Ending::OutOfMemory => 128 + libc::SIGKILL,
            Ending::NotStarted { .. } => 127,
            Ending::Stopped(how) => how.code(),
            Ending::Lost { .. } => 255,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exited(code) => write!(f, "exited with code {code}"),
            How::Signaled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by signal {signal} ({name})"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(code) => How::Exited(*code).fmt(f),
            Ending::Signaled(libc::SIGKILL) => write!(f, "{}, possibly out of memory", How::Signaled(libc::SIGKILL)),
            Ending::Signaled(signal) => How::Signaled(*signal).fmt(f),
            Ending::OutOfMemory => f.write_str("killed by the kernel: the host or its memory limit had no memory left"),
            Ending::NotStarted { why, .. } => write!(f, "not started: {why}"),
            Ending::Stopped(how) => write!(f, "stopped ({how})"),
            Ending::Lost { why } => write!(f, "lost: {why}"),
        }
    }
}

/// The same, as decisions see it: how a rank ended after we asked it to says nothing about the run.
impl From<Ending> for shoal_core::outcome::Ending {
    fn from(ending: Ending) -> shoal_core::outcome::Ending {
        use shoal_core::outcome::Ending as Seen;
        match ending {
            Ending::Exited(code) => Seen::Exited(code),
            Ending::Signaled(signal) => Seen::Signaled(signal),
            Ending::OutOfMemory => Seen::OutOfMemory,
            Ending::NotStarted { why, .. } => Seen::NotStarted { why },
            Ending::Stopped(_) => Seen::Stopped,
            Ending::Lost { why } => Seen::Lost { why },
        }
    }
}

/// The usual name of a signal.
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_happened_and_gives_the_shells_code() {
        let table = [
            (Ending::Exited(3), "exited with code 3", 3),
            (Ending::Signaled(11), "killed by signal 11 (SIGSEGV)", 139),
            (Ending::Signaled(9), "killed by signal 9 (SIGKILL), possibly out of memory", 137),
            (Ending::Stopped(How::Signaled(15)), "stopped (killed by signal 15 (SIGTERM))", 143),
            (Ending::NotStarted { why: "no `x`".into(), hint: None }, "not started: no `x`", 127),
        ];
        for (ending, text, code) in table {
            assert_eq!((ending.to_string().as_str(), ending.exit_code()), (text, code));
        }
    }
}
