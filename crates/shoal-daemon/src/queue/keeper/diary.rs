//! What is written down for people who wonder later? On stderr, which is a log file, or the daemon's.

use std::fmt::Display;
use std::io::Write;

/// A disk that is full, or a line that is cut, must not end whoever says so: unlike `eprintln!`, this never panics.
pub fn note(who: &str, what: impl Display) {
    let line = format!("shoal {who}: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
