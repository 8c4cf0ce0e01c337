//! Makes a sweep look nearly done: `queue_seed STORE SWEEP HOST N` writes into the journal of a store without a daemon that the first N
//! configurations of the sweep ran on the host and ended well. For benchmarks; nothing runs.

use shoal_core::queue::event::{Event, Seat};
use shoal_core::queue::work::{Ended, Ending};
use shoal_core::queue::{Attempt, RunId};
use shoal_daemon::queue::journal::Journal;
use shoal_daemon::queue::places::Store;
use std::path::Path;
use std::process::ExitCode;

/// Runs in one transaction.
const AT_ONCE: u32 = 5_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, sweep, host, count] = args.as_slice() else {
        eprintln!("usage: queue_seed STORE SWEEP HOST N");
        return ExitCode::from(2);
    };
    let Ok(count) = count.parse::<u32>() else {
        eprintln!("queue_seed: `{count}` is no number of runs");
        return ExitCode::from(2);
    };
    match seed(&Store::at(Path::new(store)), sweep, host, count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("queue_seed: {why}");
            ExitCode::FAILURE
        }
    }
}

fn seed(store: &Store, sweep: &str, host: &str, count: u32) -> Result<(), String> {
    let mut journal = Journal::open(&store.journal()).map_err(|e| e.to_string())?;
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
    for first in (0..count).step_by(AT_ONCE as usize) {
        let cells = first..count.min(first + AT_ONCE);
        let events: Vec<Event> = cells.flat_map(|cell| life(sweep, host, cell, now)).collect();
        journal.append(&events).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn life(sweep: &str, host: &str, cell: u32, at: u64) -> [Event; 2] {
    let attempt = Attempt { run: RunId { sweep: sweep.into(), cell, rep: 0 }, number: 1 };
    let places = vec![Seat { host: host.into(), devices: Vec::new(), meet: None }];
    let assigned = Event::Assigned { at, attempt: attempt.clone(), places, after: None };
    let ended = Ended {
        attempt,
        rank: 0,
        ending: Ending::Exited(0),
        began: at,
        ended: at,
        cpu_ms: 1,
        peak_memory_bytes: 1 << 20,
        peak_gpu_bytes: 0,
        output_bytes: 0,
        metrics: Vec::new(),
        tail: String::new(),
        results: None,
    };
    [assigned, Event::Ended { at, host: host.into(), ended: Box::new(ended) }]
}
