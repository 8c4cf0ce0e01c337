//! Data on stdout, words on stderr. A reader that went away (`| head`) is no reason to panic, nor to end a run.
//!
//! `println!` and `eprintln!` panic there. In this crate they mean these functions instead (see `lib.rs`).

use std::io::Write;

pub fn out(text: impl std::fmt::Display) {
    let _ = write!(std::io::stdout().lock(), "{text}");
}

pub fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// On stderr.
pub fn note(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// On stderr, the line not yet ended.
pub fn note_part(text: impl std::fmt::Display) {
    let _ = write!(std::io::stderr().lock(), "{text}");
}
