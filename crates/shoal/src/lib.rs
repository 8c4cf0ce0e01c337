//! What the programs share. One verb, one file: `args/<verb>.rs` says what may be asked, `commands/<verb>.rs` does it.

/// A closed pipe must not panic: the standard macros do, so these take their names in all of the crate. See `say.rs`.
macro_rules! println { ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) } }
macro_rules! eprintln { ($($text:tt)*) => { $crate::say::note(format_args!($($text)*)) } }
macro_rules! eprint { ($($text:tt)*) => { $crate::say::note_part(format_args!($($text)*)) } }

pub mod args;
pub mod cluster;
pub mod commands;
mod doctor;
pub mod exit;
mod image;
pub mod k8s;
pub mod later;
pub mod launch;
pub mod logging;
pub mod metrics;
mod on_host;
pub mod pools;
pub mod predict;
pub mod programs;
pub mod queue;
pub mod say;
pub mod signals;
