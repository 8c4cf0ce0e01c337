//! How did the run end? What became of each rank, which failure came first, and what exit code that makes (GANG-2).
//!
//! | code | the run |
//! |---|---|
//! | 0 | all ranks finished |
//! | 1 to 255 | the first failure's own exit code |
//! | 126 | a rank could not be started |
//! | 128 + n | a rank was ended by signal n |
//! | 130 | it was stopped on request |
//! | 137 | a rank was killed because memory ran out |
//! | 255 | a host could not be reached or was lost, as ssh itself says it |

use crate::rank::Rank;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;

pub const NOT_STARTED: u8 = 126;
pub const STOPPED: u8 = 130;
pub const OUT_OF_MEMORY: u8 = 137;
pub const LOST: u8 = 255;

/// Failures after the first that a summary names one by one.
const MOST_NAMED: usize = 5;
/// Characters of a command that are shown.
const LONGEST_COMMAND: usize = 2_000;

/// How one rank ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Exited(i32),
    Signaled(i32),
    /// The kernel killed it for memory.
    OutOfMemory,
    NotStarted {
        why: String,
    },
    /// Its host could not be reached, so it was never started.
    Unreachable {
        why: String,
    },
    /// Its host is gone, so nobody knows.
    Lost {
        why: String,
    },
    /// We ended it: its gang was over, or somebody asked.
    Stopped,
}

impl Ending {
    pub fn is_failure(&self) -> bool {
        !matches!(self, Ending::Exited(0) | Ending::Stopped)
    }

    /// Whether it says more about the host than about the rank.
    fn is_of_the_host(&self) -> bool {
        matches!(self, Ending::Unreachable { .. } | Ending::Lost { .. })
    }

    /// What the run's exit code is if this decides it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Ending::Exited(code) => u8::try_from(*code).unwrap_or(1),
            Ending::Signaled(signal) => 128u8.saturating_add(u8::try_from(*signal).unwrap_or(0)),
            Ending::OutOfMemory => OUT_OF_MEMORY,
            Ending::NotStarted { .. } => NOT_STARTED,
            Ending::Unreachable { .. } | Ending::Lost { .. } => LOST,
            Ending::Stopped => STOPPED,
        }
    }
}

/// The end of one rank, with what a person needs to go and look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankEnd {
    pub rank: Rank,
    pub host: String,
    /// Its command, as one shell line without secrets.
    pub command: String,
    pub log: String,
    pub ending: Ending,
    /// Milliseconds from the start of the gang to this end, on the launcher's clock.
    pub ended_ms: u64,
    /// Milliseconds it ran.
    pub ran_ms: u64,
}

/// One line: `worker2 on node03: exited with code 3 after 12 s`.
impl fmt::Display for RankEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: ", self.rank, self.host)?;
        let after = format!("after {}", duration(self.ran_ms));
        match &self.ending {
            Ending::Exited(0) => write!(f, "finished {after}"),
            Ending::Exited(code) => write!(f, "exited with code {code} {after}"),
            Ending::Signaled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "ended by signal {signal} ({name}) {after}"),
                None => write!(f, "ended by signal {signal} {after}"),
            },
            Ending::OutOfMemory => write!(f, "killed {after}: the host ran out of memory"),
            Ending::NotStarted { why } => write!(f, "not started: {why}"),
            Ending::Unreachable { why } => write!(f, "not started: {why}"),
            Ending::Lost { why } => write!(f, "lost {after}: {why}"),
            Ending::Stopped => write!(f, "stopped {after}"),
        }
    }
}

/// The failure that brought the gang down: the earliest. Of two at the same instant a worker's says more than a
/// server's or the master's, which fail because a worker did.
pub fn first_failure(ends: &[RankEnd]) -> Option<&RankEnd> {
    let role = |rank: Rank| match rank {
        Rank::Master => 0,
        Rank::Server(_) => 1,
        Rank::Worker(_) => 2,
    };
    let failures = || ends.iter().filter(|end| end.ending.is_failure());
    let first = failures().min_by_key(|end| (end.ended_ms, Reverse(role(end.rank)), end.rank))?;
    if role(first.rank) == 2 || first.ending.is_of_the_host() {
        return Some(first);
    }
    // A worker that fails says so before its process is over: master and servers may be gone sooner.
    let soon = |end: &&RankEnd| role(end.rank) == 2 && end.ended_ms <= first.ended_ms + crate::follow::CULPRIT_MS;
    failures().filter(soon).min_by_key(|end| (end.ended_ms, end.rank)).or(Some(first))
}

/// The exit code of the whole run.
///
/// A worker that was stopped without any failure was stopped on request. The master and the servers are stopped
/// at the end of every run, which says nothing.
pub fn exit_code(ends: &[RankEnd]) -> u8 {
    let stopped = |end: &RankEnd| end.ending == Ending::Stopped && matches!(end.rank, Rank::Worker(_));
    match first_failure(ends) {
        Some(end) => end.ending.exit_code(),
        None if ends.iter().any(stopped) => STOPPED,
        None => 0,
    }
}

/// The run in a few lines: the first failure with its command and log, then how many others ended how.
pub fn summary(ends: &[RankEnd]) -> String {
    let workers = ends.iter().filter(|end| matches!(end.rank, Rank::Worker(_))).count();
    let plural = if workers == 1 { "worker" } else { "workers" };
    match first_failure(ends) {
        Some(first) => {
            let mut others: Vec<&RankEnd> =
                ends.iter().filter(|end| end.ending.is_failure() && *end != first).collect();
            others.sort_by_key(|end| (end.ended_ms, end.rank));
            let mut before = first;
            let mut named = String::new();
            for end in others.iter().take(MOST_NAMED) {
                let same = end.host == before.host && end.ending == before.ending && end.ending.is_of_the_host();
                let text = if same { format!("{} on {}: likewise", end.rank, end.host) } else { end.to_string() };
                named.push_str(&format!("\n  then {text}"));
                before = end;
            }
            let others = match others.len().saturating_sub(MOST_NAMED) {
                0 => named,
                1 => format!("{named}\n  and 1 other rank"),
                n => format!("{named}\n  and {n} other ranks"),
            };
            let log = match first.ending {
                Ending::NotStarted { .. } | Ending::Unreachable { .. } => String::new(),
                _ => format!("\n  log: {}", first.log),
            };
            format!("{first}\n  command: {}{log}{others}", shortened(&first.command))
        }
        None if exit_code(ends) == STOPPED => format!("stopped: {workers} {plural}"),
        None => {
            let longest = ends.iter().map(|end| end.ended_ms).max().unwrap_or(0);
            format!("finished: {workers} {plural} in {}", duration(longest))
        }
    }
}

/// A command with a whole file in an argument would push everything else off the screen.
fn shortened(command: &str) -> String {
    let length = command.chars().count();
    if length <= LONGEST_COMMAND {
        return command.into();
    }
    let head: String = command.chars().take(LONGEST_COMMAND * 3 / 4).collect();
    let tail: String = command.chars().skip(length - LONGEST_COMMAND / 8).collect();
    format!("{head} [... {length} characters ...] {tail}")
}

/// Milliseconds for people: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The signals that are the same number on every Linux.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(rank: Rank, ending: Ending, ended_ms: u64) -> RankEnd {
        let (command, log) = ("python train.py".into(), "/logs/x.log".into());
        RankEnd { rank, host: "node03".into(), command, log, ending, ended_ms, ran_ms: ended_ms }
    }

    #[test]
    fn each_ending_has_its_line_and_its_code() {
        let why = || "no such file: /opt/venv".to_string();
        for (ending, line, code) in [
            (Ending::Exited(0), "worker2 on node03: finished after 12 s", 0),
            (Ending::Exited(3), "worker2 on node03: exited with code 3 after 12 s", 3),
            (Ending::Exited(-1), "worker2 on node03: exited with code -1 after 12 s", 1),
            (Ending::Signaled(11), "worker2 on node03: ended by signal 11 (SIGSEGV) after 12 s", 139),
            (Ending::Signaled(40), "worker2 on node03: ended by signal 40 after 12 s", 168),
            (Ending::OutOfMemory, "worker2 on node03: killed after 12 s: the host ran out of memory", 137),
            (Ending::NotStarted { why: why() }, "worker2 on node03: not started: no such file: /opt/venv", 126),
            (Ending::Unreachable { why: "no route".into() }, "worker2 on node03: not started: no route", 255),
            (Ending::Lost { why: "no route".into() }, "worker2 on node03: lost after 12 s: no route", 255),
            (Ending::Stopped, "worker2 on node03: stopped after 12 s", 130),
        ] {
            let end = end(Rank::Worker(2), ending, 12_345);
            assert_eq!(end.to_string(), line);
            assert_eq!(exit_code(&[end]), code, "{line}");
        }
    }

    #[test]
    fn the_first_failure_decides_and_stopped_ranks_are_none() {
        let ends = [
            end(Rank::Master, Ending::Exited(1), 500),
            end(Rank::Worker(0), Ending::Stopped, 100),
            end(Rank::Worker(1), Ending::Signaled(9), 500),
            end(Rank::Worker(2), Ending::Exited(7), 600),
        ];
        assert_eq!(first_failure(&ends).map(|e| e.rank), Some(Rank::Worker(1)));
        assert_eq!(exit_code(&ends), 137);
        let text = summary(&ends);
        assert!(
            text.contains("command: python train.py") && text.contains("\n  then master on node03: exited"),
            "{text}"
        );
    }

    #[test]
    fn helpers_stopped_at_the_end_leave_a_run_successful() {
        let ends = [end(Rank::Master, Ending::Stopped, 9), end(Rank::Worker(0), Ending::Exited(0), 8)];
        assert_eq!(exit_code(&ends), 0);
        assert_eq!(summary(&ends), "finished: 1 worker in 0.0 s");
        assert_eq!(exit_code(&[]), 0);
        assert_eq!(summary(&[end(Rank::Worker(0), Ending::Stopped, 8)]), "stopped: 1 worker");
    }

    #[test]
    fn durations_are_for_people() {
        for (ms, text) in
            [(0, "0.0 s"), (1_250, "1.2 s"), (59_999, "59 s"), (185_000, "3 min 5 s"), (7_800_000, "2 h 10 min")]
        {
            assert_eq!(duration(ms), text);
        }
    }
}
