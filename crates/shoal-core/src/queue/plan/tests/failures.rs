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

/// A run that kills the keeper of its host takes its neighbours with it. They are told apart: from the second time on such runs go one at a time.
#[test]
fn whoever_fells_keepers_is_found_and_its_neighbours_are_not_blamed() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 3, 1));
    let felled = || Ending::Lost { why: "the keeper was killed".into(), felled: true };
    assert_eq!(starts(&bench.go()).len(), 2);
    let run = |cell| super::super::super::RunId { sweep: "s".into(), cell, rep: 0 };
    assert!(!bench.queue.was_felled(&run(0)));
    for number in 1..=2 {
        for cell in 0..2 {
            bench.end(&format!("s:{cell}.0#{number}"), "a", felled());
        }
        if number == 1 {
            assert!(bench.queue.was_felled(&run(0)) && !bench.queue.was_felled(&run(2)));
            assert_eq!(starts(&bench.go()).len(), 2, "both may go on: once is chance");
        }
    }
    // One of the two, and somebody who was never there.
    assert_eq!(bench.started(), [("s:0.0#3".into(), "a".into()), ("s:2.0#1".into(), "a".into())]);
    bench.end("s:0.0#3", "a", felled());
    bench.end("s:2.0#1", "a", felled());
    let counts = |bench: &Bench| bench.queue.sweep_row("s", 0).map(|row| (row.waiting, row.failed, row.finished));
    assert_eq!(counts(&bench), Some((2, 1, 0)), "the third time it was alone among them");
    assert_eq!(bench.started(), [("s:1.0#3".into(), "a".into()), ("s:2.0#2".into(), "a".into())]);
    bench.end("s:1.0#3", "a", OK);
    bench.end("s:2.0#2", "a", OK);
    assert_eq!(counts(&bench), Some((0, 1, 2)));
    let why = crate::queue::why::why(&bench.queue, &"s:0.0".parse().unwrap(), bench.now).swap_remove(0);
    assert!(why.reason.contains("3 times while this run was there"), "{}", why.reason);
}

/// Another end in between clears it: keepers are killed by others, too.
#[test]
fn an_end_of_its_own_clears_a_run() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(wanting("s", "ann", 1, |it| it.rules.retries = 9));
    for number in 1..=9 {
        bench.go();
        let ending = if number % 3 == 0 { BAD } else { Ending::Lost { why: "killed".into(), felled: true } };
        bench.end(&format!("s:0.0#{number}"), "a", ending);
    }
    assert_eq!(bench.started(), [("s:0.0#10".into(), "a".into())]);
}

/// Nobody waits for another host where there is none: retries are used up, and the run has failed.
#[test]
fn retries_end_on_the_only_host_there_is() {
    for hosts in [&[("a", 1)][..], &[("a", 1), ("b", 1)]] {
        let mut bench = Bench::with(hosts);
        bench.submit(wanting("s", "ann", 1, |it| it.rules.retries = 9));
        for number in 1..=10 {
            let started = bench.started();
            let [(attempt, host)] = started.as_slice() else { panic!("{hosts:?}: {number}: {started:?}") };
            assert_eq!(*attempt, format!("s:0.0#{number}"));
            bench.end(attempt, host, BAD);
        }
        assert_eq!(bench.queue.sweep_row("s", 0).map(|row| row.failed), Some(1));
    }
}
