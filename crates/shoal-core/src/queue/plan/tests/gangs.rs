//! Does a gang start whole, in time, and who may go ahead of it?

use super::{hosts_of, wanting};
use crate::queue::testing::{Bench, OK, sweep};

#[test]
fn a_gang_starts_whole_or_not_at_all() {
    let mut bench = Bench::with(&[("a", 2), ("b", 3)]);
    bench.submit(wanting("busy", "ann", 1, |it| it.wants.on = vec!["a".into()]));
    bench.go();
    bench.submit(wanting("gang", "ann", 1, |it| it.wants.ranks = 5));
    assert_eq!(bench.go(), []);
    bench.end("busy:0.0#1", "a", OK);
    assert_eq!(bench.started(), [("gang:0.0#1".into(), "b b b a a".into())]);
}

/// Runs of `small` for as long as the gang waits; says after how many of them it started.
fn waits(takes_ms: u64, limit: Option<u64>) -> Option<u64> {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    let mut small = sweep("small", "bob", 5_000, 1);
    small.rules.time_limit_seconds = limit;
    bench.submit(small);
    let mut live: Vec<(u64, String, String)> = Vec::new();
    let mut ended = 0;
    let mut submitted = false;
    for _ in 0..2_000 {
        for (attempt, host) in bench.started() {
            if attempt.starts_with("gang") {
                return Some(ended);
            }
            // No two take equally long.
            live.push((bench.now + takes_ms + ended % 7 * takes_ms / 3, attempt, host));
        }
        live.sort();
        let (end, attempt, host) = live.remove(0);
        bench.now = bench.now.max(end);
        bench.end(&attempt, &host, OK);
        ended += 1;
        if ended == 20 && !submitted {
            submitted = true;
            bench.submit(wanting("gang", "ann", 1, |it| it.wants.ranks = 4));
        }
    }
    None
}

#[test]
fn small_ones_do_not_starve_a_gang() {
    for (takes, limit) in [(10_000, None), (10_000, Some(3_600)), (60_000, Some(1))] {
        let after = waits(takes, limit).expect("it starts at last");
        assert!(after < 20 + 40, "after {after} small ones");
    }
}

#[test]
fn small_ones_go_ahead_where_they_do_no_harm() {
    let mut bench = Bench::with(&[("a", 2), ("b", 1)]);
    // The long one holds a half of a for an hour.
    bench.submit(wanting("long", "ann", 1, |it| {
        it.rules.time_limit_seconds = Some(3_600);
        it.wants.on = vec!["a".into()];
    }));
    bench.go();
    bench.submit(wanting("pair", "ann", 1, |it| {
        it.wants.cpus_milli = 2_000;
        it.rules.priority = 1;
    }));
    assert_eq!(bench.go(), []);
    let with = |name: &str, seconds: Option<u64>| wanting(name, "bob", 1, |it| it.rules.time_limit_seconds = seconds);
    bench.submit(with("unknown", None));
    assert_eq!(hosts_of(&bench.go()), ["b"], "where the pair will not go");
    bench.submit(with("late", Some(7_200)));
    assert_eq!(bench.go(), []);
    bench.submit(with("quick", Some(600)));
    assert_eq!(bench.started(), [("quick:0.0#1".into(), "a".into())], "over before the long one");
}
