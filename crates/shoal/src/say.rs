//! Data on stdout. A reader that went away (`| head`) is no reason to panic, nor to end a run.

use std::io::Write;

pub fn out(text: impl std::fmt::Display) {
    let _ = write!(std::io::stdout().lock(), "{text}");
}

pub fn line(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
