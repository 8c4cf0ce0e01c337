//! What the programs share. One verb, one file: `args/<verb>.rs` says what may be asked, `commands/<verb>.rs` does it.

pub mod args;
pub mod cluster;
pub mod commands;
mod doctor;
pub mod exit;
pub mod later;
pub mod launch;
pub mod logging;
pub mod metrics;
mod on_host;
pub mod predict;
pub mod programs;
pub mod queue;
pub mod say;
pub mod signals;
