//! Values that tests share.

use shoal_core::queue::work::{Ended, Ending, Publish, Start};
use shoal_core::queue::{Attempt, RunId};

pub fn start(sweep: &str, cell: u32) -> Start {
    Start {
        attempt: Attempt { run: RunId { sweep: sweep.into(), cell, rep: 0 }, number: 1 },
        argv: vec!["true".into()],
        env: Vec::new(),
        setup: Vec::new(),
        virtualenv: None,
        requirements: None,
        trees: Vec::new(),
        folder: None,
        after: None,
        rank: 0,
        hosts: vec!["h".into()],
        files: Vec::new(),
        beside: Vec::new(),
        devices: Vec::new(),
        memory_bytes: None,
        time_limit_seconds: None,
        grace_seconds: 1,
        publish: Publish::Folder("/nowhere/s/runs/param_000/t".into()),
        results_mark: None,
        always: false,
        guarded: false,
        origin: None,
    }
}

pub fn ended(attempt: &Attempt) -> Ended {
    Ended {
        attempt: attempt.clone(),
        rank: 0,
        ending: Ending::Exited(0),
        began: 1,
        ended: 2,
        cpu_ms: 3,
        peak_memory_bytes: 4,
        peak_gpu_bytes: 5,
        output_bytes: 6,
        metrics: vec![("loss".into(), "0.5".into())],
        tail: String::new(),
        results: None,
    }
}
