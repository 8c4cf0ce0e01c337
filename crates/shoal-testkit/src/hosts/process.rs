//! Processes by identity: a number alone may meanwhile belong to someone else, a number with its start time may not.

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In clock ticks since boot, as `/proc/PID/stat` has it. Records live in `/run`, so they never meet another boot.
    pub start: u64,
}

/// What `/proc/PID/stat` says.
struct Stat {
    state: char,
    parent: i32,
    start: u64,
}

impl Process {
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, start: stat.start })
    }

    pub fn me() -> Option<Self> {
        Self::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// A zombie is gone: its parent may never fetch it, and it holds nothing any more.
    pub fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && !matches!(stat.state, 'Z' | 'X'))
    }

    /// SIGKILL. That it has gone meanwhile is success; whether it goes is for the caller to wait for.
    pub fn kill(self) {
        if self.is_alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The first child of `parent`, if it has one.
pub fn child_of(parent: i32) -> Option<Process> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = stat(pid)?;
        (stat.parent == parent).then_some(Process { pid, start: stat.start })
    })
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name in parentheses and may hold anything, so counting starts behind the last one.
fn parse(line: &str) -> Option<Stat> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "42 (a ) Z 1 (b) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
        let stat = parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start), ('S', 7, 98765));
    }

    #[test]
    fn identity_is_number_and_start() {
        let me = Process::me().unwrap();
        assert!(me.is_alive());
        assert!(!Process { start: me.start + 1, ..me }.is_alive());
    }
}
