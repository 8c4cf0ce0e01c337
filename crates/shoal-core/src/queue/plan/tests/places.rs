//! Where does a run go, and what does a host take?

use super::{hosts_of, wanting};
use crate::queue::event::{Action, Event, Pausable};
use crate::queue::host::HostPolicy;
use crate::queue::testing::{Bench, axis, desk, facts, grid, policy, sweep};
use crate::queue::work::Ending;

#[test]
fn hosts_take_what_they_have_room_for() {
    let mut bench = Bench::with(&[("a", 2), ("b", 4)]);
    bench.host(HostPolicy { slots: Some(1), ..policy("c") }, facts(16, 0));
    bench.submit(wanting("s", "ann", 20, |it| it.wants.cpus_milli = 1500));
    let mut hosts = hosts_of(&bench.go());
    hosts.sort();
    assert_eq!(hosts, ["a", "b", "b", "c"]);
    assert_eq!(bench.go(), [], "what is assigned is not assigned again");
}

#[test]
fn memory_and_names_of_hosts_are_heeded() {
    let mut bench = Bench::with(&[("a", 8), ("b", 8)]);
    bench.host(HostPolicy { groups: vec!["gpu".into()], memory_bytes: Some(8 << 30), ..policy("c") }, facts(8, 0));
    bench.submit(wanting("s", "ann", 9, |it| {
        it.wants.memory_bytes = Some(3 << 30);
        it.wants.on = vec!["gpu".into()];
    }));
    bench.submit(wanting("t", "ann", 1, |it| it.wants.on = vec!["b".into()]));
    assert_eq!(hosts_of(&bench.go()), ["c", "c", "b"]);
}

#[test]
fn hosts_that_are_paused_drained_silent_or_full_get_nothing() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    bench.host(policy("e"), crate::queue::host::HostFacts { free_disk_bytes: 1 << 20, ..facts(1, 0) });
    bench.apply(Event::HostAdded { at: 0, policy: policy("never") });
    bench.apply(Event::Paused { at: 0, by: "x".into(), what: Pausable::Host("a".into()) });
    bench.apply(Event::HostDrained { at: 0, name: "b".into(), why: "repair".into() });
    bench.apply(Event::HostSilent { at: 0, name: "c".into() });
    bench.submit(sweep("s", "ann", 9, 1));
    assert_eq!(hosts_of(&bench.go()), ["d"]);
    bench.apply(Event::Resumed { at: 0, by: "x".into(), what: Pausable::Host("a".into()) });
    bench.apply(Event::Resumed { at: 0, by: "x".into(), what: Pausable::Host("b".into()) });
    bench.seen("c", facts(1, 0));
    assert_eq!(hosts_of(&bench.go()), ["a", "b", "c"]);
}

#[test]
fn somebodys_desk_is_used_when_they_are_away_and_left_when_they_come_back() {
    let mut bench = Bench::new();
    let mut at = facts(2, 0);
    at.idle_seconds = Some(899);
    bench.host(desk("a", "bob"), at.clone());
    bench.submit(sweep("s", "ann", 4, 1));
    bench.submit(sweep("own", "bob", 1, 1));
    assert_eq!(bench.started(), [("own:0.0#1".into(), "a".into())], "theirs may start any time");
    at.idle_seconds = Some(900);
    bench.seen("a", at.clone());
    assert_eq!(bench.started(), [("s:0.0#1".into(), "a".into())]);
    at.idle_seconds = Some(0);
    bench.seen("a", at.clone());
    let actions = bench.go();
    assert!(
        matches!(&actions[..], [Action::Stop { attempt, checkpoint_first: true, why }]
            if attempt.run.sweep == "s" && why.contains("bob is back")),
        "{actions:?}"
    );
    assert_eq!(bench.go(), []);
    bench.end("s:0.0#1", "a", Ending::Stopped);
    let row = bench.queue.sweep_row("s", 0).unwrap();
    assert_eq!((row.waiting, row.stopped, row.failed), (4, 0, 0), "it waits again");
    at.idle_seconds = None;
    bench.seen("a", at);
    assert_eq!(bench.started(), [("s:0.0#2".into(), "a".into())], "nobody is logged in");
}

#[test]
fn many_that_wait_cost_nothing_when_there_is_no_room() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2), ("c", 2), ("d", 2)]);
    let mut it = sweep("s", "ann", 1, 1);
    it.parts = vec![grid(vec![axis("x", 0..1000), axis("y", 0..1000)])];
    bench.submit(it);
    assert_eq!(bench.go().len(), 8);
    // As many as would take minutes if the runs that wait were looked at.
    for _ in 0..10_000 {
        assert_eq!(bench.plan(), []);
    }
}
