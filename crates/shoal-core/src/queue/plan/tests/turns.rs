//! Whose turn is it?

use super::wanting;
use crate::queue::event::Event;
use crate::queue::testing::{Bench, OK, sweep};

#[test]
fn priority_goes_first_and_users_take_turns() {
    let mut bench = Bench::with(&[("a", 6)]);
    bench.submit(sweep("ann1", "ann", 9, 1));
    bench.submit(sweep("ann2", "ann", 9, 1));
    bench.submit(sweep("bob1", "bob", 2, 1));
    bench.submit(wanting("top", "bob", 1, |it| it.rules.priority = 1));
    let names: Vec<String> = bench.started().into_iter().map(|(attempt, _)| attempt).collect();
    let ours = |owner: &str| names.iter().filter(|name| name.starts_with(owner)).count();
    assert_eq!(names[0], "top:0.0#1");
    assert_eq!((ours("ann1"), ours("ann2"), ours("bob1")), (3, 0, 2));
}

#[test]
fn whoever_used_less_of_late_goes_first() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("ann", "ann", 100, 1));
    bench.go();
    bench.now += 3_600_000;
    bench.submit(sweep("bob", "bob", 100, 1));
    let mut bobs = 0;
    for _ in 0..10 {
        bench.end(&format!("ann:{}.0#1", bobs * 2), "a", OK);
        bench.end(&format!("ann:{}.0#1", bobs * 2 + 1), "a", OK);
        let started = bench.started();
        if !started.iter().all(|(attempt, _)| attempt.starts_with("bob")) {
            break;
        }
        bobs += 1;
        for (attempt, host) in started {
            bench.end(&attempt, &host, OK);
        }
    }
    assert!(bobs >= 1, "two slots for an hour against nothing");
}

#[test]
fn two_users_share_alike_whatever_their_runs_take() {
    let mut bench = Bench::with(&[("a", 4)]);
    bench.submit(sweep("ann", "ann", 10_000, 1));
    bench.submit(sweep("bob", "bob", 10_000, 1));
    let begin = bench.now;
    let mut live: Vec<(u64, String)> = Vec::new();
    let mut used = [0u64; 2];
    while bench.now < begin + 4 * 3_600_000 {
        let now = bench.now;
        live.extend(bench.started().into_iter().map(|(attempt, _)| {
            let takes = if attempt.starts_with("ann") { 10_000 } else { 130_000 };
            used[usize::from(attempt.starts_with("bob"))] += takes;
            (now + takes, attempt)
        }));
        assert_eq!(live.len(), 4, "no slot is idle");
        live.sort();
        let (end, attempt) = live.remove(0);
        bench.now = end;
        bench.end(&attempt, "a", OK);
    }
    let ratio = used[0] as f64 / used[1] as f64;
    assert!((0.85..1.15).contains(&ratio), "{used:?}");
}

#[test]
fn a_quota_is_a_bound() {
    let mut bench = Bench::with(&[("a", 6)]);
    bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: Some(2) });
    bench.submit(sweep("s", "ann", 9, 1));
    bench.submit(sweep("t", "bob", 1, 1));
    assert_eq!(bench.go().len(), 3);
    bench.end("s:0.0#1", "a", OK);
    assert_eq!(bench.started(), [("s:2.0#1".into(), "a".into())]);
    bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: None });
    assert_eq!(bench.go().len(), 3);
}
