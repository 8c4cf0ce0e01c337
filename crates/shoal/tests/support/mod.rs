//! The bad days' harness: real `ps_master`, `ps_server` and worker processes on loopback, and what they said.
//!
//! A worker process is the test binary itself, run again with [`worker::WORK`] set: [`worker_process`] then does what the variable
//! says instead of being a test. Every process is killed and reaped when its owner is dropped, so nothing outlives a test.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod clouds;
pub mod clusters;
pub mod desk;
pub mod dice;
pub mod gang;
pub mod images;
pub mod interpreter;
pub mod laptop;
pub mod launching;
pub mod on_nodes;
pub mod pools;
pub mod process;
pub mod quoting;
pub mod snapshot;
pub mod worker;

#[allow(unused_imports, reason = "as above")]
pub use gang::Gang;
pub use process::Process;
use std::time::{Duration, Instant};

pub const TOKEN: &str = "a-token-that-must-never-be-seen-7f3a";
/// The issue says two seconds; the machines that run this are small and busy. What was measured is printed.
pub const SOON: Duration = Duration::from_secs(5);
/// For what has no bound of its own: starting up, a scheduled death.
pub const LONG: Duration = Duration::from_secs(90);

/// Whether workers of one host meet in memory. The tests that depend on it run once for each.
pub fn memory_modes() -> Vec<bool> {
    match std::env::var("SHOAL_TEST_SHARED_MEMORY").as_deref() {
        Ok("1") => vec![true],
        Ok("0") => vec![false],
        _ => vec![false, true],
    }
}

/// This host's name, as errors give it.
pub fn host() -> String {
    shoal_sync::host::name()
}

/// Calls `probe` until it gives a value; panics with `what` after `bound`.
pub fn until<T>(bound: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + bound;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited {bound:?} for {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Not a test: the life of a worker process.
#[test]
fn worker_process() {
    if let Ok(work) = std::env::var(worker::WORK) {
        std::process::exit(worker::live(&work));
    }
}
