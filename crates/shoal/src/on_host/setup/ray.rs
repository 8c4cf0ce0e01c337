//! Is anything of Ray here, and whose is it?
//!
//! `ray stop` is a second of Python's imports that ends in a look at all processes. That look is quick from here, and where it finds
//! nothing, or nothing but what is ours to end anyway, the second is saved on every node.

use shoal_core::cluster::steps::stop::may_be_ray;
use shoal_daemon::proc::{self, Process};
use std::path::PathBuf;

/// Whether `ray stop` might find something to do.
pub fn is_there() -> bool {
    // What a cluster leaves that did not end well, and `ray stop` removes.
    let tmp = std::env::var_os("RAY_TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    tmp.join("ray/ray_current_cluster").exists() || !processes().is_empty()
}

/// Processes that might be of Ray. Those that cannot be looked into `ray stop` cannot see either.
pub fn processes() -> Vec<Process> {
    let me = std::process::id();
    let all = proc::scan().into_iter().filter(|stat| !stat.is_zombie()).map(|stat| stat.process);
    all.filter(|process| process.pid != me && may_be_ray(&command_line(*process))).collect()
}

pub fn command_line(process: Process) -> String {
    let words = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
}
