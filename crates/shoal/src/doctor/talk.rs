//! Speaking with our program on a host, line by line, with a bound on every answer.

use shoal_hosts::process::{End, Exit};
use shoal_hosts::{Process, lines};
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// No answer of ours is longer; what is was not ours.
const LONGEST_LINE: u64 = 1 << 20;
const MOST_COMPLAINTS: u64 = 64 << 10;

pub struct Talk {
    to: Option<PipeWriter>,
    lines: Receiver<String>,
    complaints: Receiver<String>,
    end: Box<dyn End>,
}

/// Why there was no answer.
#[derive(Debug)]
pub enum Silence {
    TooLong(Duration),
    /// The program ended: how, and its last words.
    Over(Option<Exit>, String),
    Odd(String),
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Silence::TooLong(limit) => write!(f, "no answer within {} s", limit.as_secs()),
            Silence::Over(exit, words) => {
                match exit {
                    Some(Exit::Code(code)) => write!(f, "it ended with code {code}")?,
                    Some(Exit::Cut) | None => write!(f, "the connection broke")?,
                }
                if words.is_empty() { Ok(()) } else { write!(f, ": {words}") }
            }
            Silence::Odd(what) => f.write_str(what),
        }
    }
}

impl Talk {
    pub fn with(process: Process) -> Talk {
        let Process { to, from, errors, end } = process;
        let lines = lines::lines(from, LONGEST_LINE, |line| Some(String::from_utf8_lossy(line).into_owned()));
        let complaints = lines::complaints(errors, MOST_COMPLAINTS);
        Talk { to: Some(to), lines, complaints, end }
    }

    /// A program that no longer reads will be found when its answer is missing. Lines are short: a pipe holds them without waiting.
    pub fn say(&mut self, line: &str) {
        if let Some(to) = &mut self.to {
            let _ = to.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// The first line that `read` makes something of.
    pub fn hear<T>(&mut self, limit: Duration, read: impl Fn(&str) -> Option<Result<T, String>>) -> Result<T, Silence> {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match read(&line) {
                    Some(Ok(answer)) => return Ok(answer),
                    Some(Err(what)) => return Err(Silence::Odd(what)),
                    None => {}
                },
                Err(RecvTimeoutError::Timeout) => return Err(Silence::TooLong(limit)),
                Err(RecvTimeoutError::Disconnected) => {
                    let exit = self.end.wait(Duration::from_secs(2));
                    let said = self.complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
                    let words = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
                    return Err(Silence::Over(exit, words.into()));
                }
            }
        }
    }

    /// The end of its input is the end of the program; waits a little for it.
    pub fn finish(mut self, limit: Duration) {
        self.to = None;
        let _ = self.end.wait(limit);
    }
}
