//! What follows from failures of runs and of hosts?

use super::{hosts_of, wanting};
use crate::queue::event::Action;
use crate::queue::testing::{BAD, Bench, OK, starts, sweep};
use crate::queue::work::Ending;

#[test]
fn a_failed_run_is_tried_elsewhere() {
    let mut bench = Bench::with(&[("a", 4), ("b", 1)]);
    bench.submit(wanting("s", "ann", 1, |it| it.rules.retries = 1));
    assert_eq!(hosts_of(&bench.go()), ["a"], "the emptiest");
    bench.end("s:0.0#1", "a", BAD);
    assert_eq!(hosts_of(&bench.go()), ["b"]);
}

#[test]
fn common_failures_drain_nobody() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    bench.submit(sweep("s", "ann", 2_000, 1));
    // Whole regions of a grid fail, wherever they run.
    for _ in 0..600 {
        let actions = bench.go();
        assert!(!actions.iter().any(|action| matches!(action, Action::Drain { .. })));
        for (attempt, host) in starts(&actions) {
            let cell: u32 = attempt[2..].split('.').next().unwrap().parse().unwrap();
            bench.end(&attempt, &host, if (cell / 40).is_multiple_of(2) { OK } else { BAD });
            bench.now += 60_000;
        }
    }
    assert_eq!(bench.queue.sweep_row("s", 0).unwrap().finished, 1_000);
}

#[test]
fn a_host_that_starts_no_program_is_drained() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    let gone = || Ending::NotStarted { why: "no such file".into() };
    for name in ["s", "t", "u"] {
        bench.submit(wanting(name, "ann", 2, |it| it.rules.retries = 1));
    }
    let mut drained = None;
    for _ in 0..20 {
        let actions = bench.go();
        drained = drained.or(actions.iter().find_map(|action| match action {
            Action::Drain { host, why } => Some((host.clone(), why.clone())),
            _ => None,
        }));
        for (attempt, host) in starts(&actions) {
            bench.now += 1_000;
            bench.end(&attempt, &host, if host == "a" { gone() } else { OK });
        }
    }
    assert_eq!(drained.map(|(host, _)| host), Some("a".into()));
}
