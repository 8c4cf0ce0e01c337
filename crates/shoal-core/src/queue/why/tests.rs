use super::*;
use crate::queue::event::{Event, Pausable};
use crate::queue::sweep::Sweep;
use crate::queue::testing::{BAD, Bench, OK, desk, facts, policy, sweep};
use crate::queue::work::Ending;

fn ask(bench: &Bench, target: &str) -> WhyRow {
    why(&bench.queue, &target.parse().unwrap(), bench.now).swap_remove(0)
}

fn wanting(name: &str, change: impl FnOnce(&mut Sweep)) -> Sweep {
    let mut it = sweep(name, "ann", 4, 1);
    change(&mut it);
    it
}

/// What a sweep of four is told on these hosts.
fn told(bench: &mut Bench, change: impl FnOnce(&mut Sweep)) -> (String, String) {
    bench.submit(wanting("s", change));
    bench.go();
    let row = ask(bench, "s");
    (row.code, row.reason)
}

#[test]
fn every_cause_has_its_word() {
    let (code, _) = told(&mut Bench::new(), |_| {});
    assert_eq!(code, "no_hosts");
    let (code, text) = told(&mut Bench::with(&[("a", 1)]), |it| it.wants.on = vec!["gpu".into()]);
    assert_eq!((code.as_str(), text.contains("gpu")), ("no_hosts", true));
    type Case = (&'static str, fn(&mut Sweep));
    let too_large: [Case; 5] = [
        ("3 CPUs, the most is 2", |it| it.wants.cpus_milli = 3000),
        ("100.0 GiB of memory, the most is 64.0 GiB", |it| it.wants.memory_bytes = Some(100 << 30)),
        ("1.5 GPUs, the most is 1", |it| it.wants.gpus_milli = 1500),
        ("20.0 GiB of GPU memory", |it| (it.wants.gpus_milli, it.wants.gpu_memory_bytes) = (100, Some(20 << 30))),
        ("2 of its 7 processes", |it| it.wants.ranks = 7),
    ];
    for (words, change) in too_large {
        let mut bench = Bench::new();
        bench.host(policy("a"), facts(2, 1));
        let (code, text) = told(&mut bench, change);
        assert_eq!(code, "no_host_fits", "{text}");
        assert!(text.contains(words), "{text}");
        assert!(ask(&bench, "s").forever, "{text}");
        // Somebody who was not heard of yet may have it.
        bench.apply(Event::HostAdded { at: 0, policy: policy("b") });
        assert!(!ask(&bench, "s").forever, "{text}");
    }
}

#[test]
fn who_can_never_start_is_before_nobody() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(wanting("large", |it| it.wants.cpus_milli = 9000));
    bench.submit(wanting("s", |_| {}));
    bench.go();
    let row = ask(&bench, "s:2.0");
    assert_eq!(row.code, "hosts_busy", "{}", row.reason);
}

#[test]
fn who_has_all_of_their_quota_is_before_nobody() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.apply(Event::QuotaSet { at: 0, user: "bob".into(), slots: Some(1) });
    bench.submit(sweep("first", "bob", 4, 1));
    bench.submit(sweep("s", "ann", 4, 1));
    bench.go();
    let of = |name: &str| bench.queue.sweep_row(name, bench.now).expect("a row").running;
    assert_eq!((of("first"), of("s")), (1, 1));
    let row = ask(&bench, "s:2.0");
    assert_eq!(row.code, "hosts_busy", "{}", row.reason);
}

/// What only people can change is told from what passes by itself.
#[test]
fn a_sweep_after_one_that_failed_waits_for_ever() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(sweep("first", "ann", 2, 1));
    bench.submit(wanting("s", |it| it.after = vec!["first".into()]));
    bench.go();
    bench.end("first:0.0#1", "a", BAD);
    let row = ask(&bench, "s");
    assert_eq!((row.code.as_str(), row.forever), ("waits_for_sweep", false), "the other run of it may still start");
    bench.go();
    assert!(!ask(&bench, "s").forever);
    bench.end("first:1.0#1", "a", OK);
    assert!(ask(&bench, "s").forever);
    bench.apply(Event::Retried { at: 1, by: "ann".into(), target: "first".parse().unwrap() });
    assert!(!ask(&bench, "s").forever);
}

#[test]
fn a_sweep_behind_one_that_can_never_start_waits_for_ever() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(wanting("large", |it| it.wants.cpus_milli = 9000));
    bench.submit(wanting("second", |it| it.after = vec!["large".into()]));
    bench.submit(wanting("third", |it| it.after = vec!["second".into()]));
    bench.go();
    for name in ["large", "second", "third"] {
        assert!(ask(&bench, name).forever, "{name}");
    }
    let row = ask(&bench, "third");
    assert_eq!(row.code, "waits_for_sweep");
    assert!(
        row.reason.contains("`second`") && row.reason.contains("`large`") && row.reason.contains("9 CPUs"),
        "{}",
        row.reason
    );
    // Somebody who was not heard of yet may take the first.
    bench.apply(Event::HostAdded { at: 0, policy: policy("b") });
    assert!(!ask(&bench, "third").forever);
}

#[test]
fn hosts_that_take_nothing_say_why() {
    type Case = (&'static str, fn(&mut Bench));
    let cases: [Case; 7] = [
        ("host_silent", |bench| bench.apply(Event::HostSilent { at: 0, name: "a".into() })),
        ("drained", |bench| bench.apply(Event::HostDrained { at: 0, name: "a".into(), why: "repair".into() })),
        ("host_paused", |bench| bench.apply(Event::Paused { at: 0, by: "x".into(), what: Pausable::Host("a".into()) })),
        ("disk_full", |bench| bench.seen("a", crate::queue::host::HostFacts { free_disk_bytes: 0, ..facts(2, 1) })),
        ("quota", |bench| bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: Some(0) })),
        ("gpu_foreign", |bench| {
            let mut it = facts(2, 1);
            it.gpus[0].foreign_processes = 1;
            bench.seen("a", it);
        }),
        ("owner_at_desk", |bench| {
            bench.apply(Event::HostAdded { at: 0, policy: desk("a", "bob") });
            bench.seen("a", crate::queue::host::HostFacts { idle_seconds: Some(1), ..facts(2, 1) });
        }),
    ];
    for (expected, change) in cases {
        let mut bench = Bench::new();
        bench.host(policy("a"), facts(2, 1));
        change(&mut bench);
        let (code, text) = told(&mut bench, |it| it.wants.gpus_milli = 500);
        assert_eq!(code, expected, "{text}");
    }
    let mut bench = Bench::new();
    bench.apply(Event::HostAdded { at: 0, policy: policy("a") });
    assert_eq!(told(&mut bench, |_| {}).0, "host_silent");
}

/// Nobody has those processes: it is no line that one stands in.
#[test]
fn a_quota_that_one_run_exceeds_is_for_ever() {
    let mut bench = Bench::with(&[("a", 8)]);
    for (slots, ranks, words, forever) in [
        (0, 1, "ann may have no processes here", true),
        (2, 4, "may have 2 processes at once, and one run of it has 4", true),
        (2, 2, "may have 2 processes at once, and has them", false),
    ] {
        bench.apply(Event::QuotaSet { at: 0, user: "ann".into(), slots: Some(slots) });
        let name = format!("s{slots}{ranks}");
        bench.submit(wanting(&name, |it| it.wants.ranks = ranks));
        bench.go();
        let row = ask(&bench, &name);
        assert_eq!((row.code.as_str(), row.forever), ("quota", forever), "{}", row.reason);
        assert!(row.reason.contains(words), "{}", row.reason);
    }
}

#[test]
fn sweeps_that_do_not_start_say_why() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(wanting("first", |_| {}));
    bench.submit(wanting("second", |it| it.after = vec!["first".into()]));
    bench.go();
    let row = ask(&bench, "second");
    assert_eq!((row.code.as_str(), row.reason.contains("`first`")), ("waits_for_sweep", true));
    bench.end("first:0.0#1", "a", BAD);
    assert!(ask(&bench, "second").reason.contains("1 of its runs failed"));
    assert_eq!(ask(&bench, "first:0.0").code, "failed");
    assert!(ask(&bench, "first:0.0").reason.contains("exit code 1"));
    bench.apply(Event::Paused { at: 0, by: "x".into(), what: Pausable::Sweep("first".into()) });
    assert_eq!(ask(&bench, "first:1").code, "paused");
    bench.apply(Event::Resumed { at: 0, by: "x".into(), what: Pausable::Sweep("first".into()) });
    bench.go();
    assert_eq!(ask(&bench, "first:1").code, "running");
    bench.end("first:1.0#1", "a", Ending::NotPublished { why: "full".into() });
    assert!(ask(&bench, "first:1").reason.contains("full"), "and not again by itself");
    let row = ask(&bench, "first:2");
    assert_eq!((row.code.as_str(), row.starts_at), ("results_held", Some(bench.now + 5_000)));
    bench.now += 5_000;
    bench.go();
    bench.apply(Event::StopAsked { at: 0, by: "x".into(), target: "first".parse().unwrap() });
    assert_eq!(ask(&bench, "first:2").code, "stopping");
    assert_eq!(ask(&bench, "first:3").code, "stopped");
    assert_eq!(why(&bench.queue, &"other".parse().unwrap(), 0), []);
}

#[test]
fn a_stuck_sweep_says_so() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(wanting("s", |it| it.rules.stop_after_failures = 2));
    for _ in 0..2 {
        for (attempt, host) in bench.started() {
            bench.end(&attempt, &host, BAD);
        }
    }
    assert_eq!(ask(&bench, "s").code, "sweep_stuck");
}

#[test]
fn who_waits_learns_until_when() {
    let mut bench = Bench::with(&[("a", 2)]);
    let mut it = sweep("s", "ann", 8, 1);
    it.rules.time_limit_seconds = Some(3_600);
    bench.submit(it);
    let began = bench.now;
    bench.go();
    let row = ask(&bench, "s:2.0");
    assert_eq!((row.code.as_str(), row.starts_at), ("hosts_busy", Some(began + 3_600_000)), "by the limit");
    bench.now += 60_000;
    for (attempt, host) in [("s:0.0#1", "a"), ("s:1.0#1", "a")] {
        bench.end(attempt, host, OK);
    }
    bench.go();
    let row = ask(&bench, "s:6.0");
    assert_eq!(row.starts_at, Some(bench.now + 120_000), "two are before it, on two seats");
    assert!(row.reason.contains("2 runs of its sweep"), "{}", row.reason);
    assert_eq!(bench.queue.sweep_row("s", bench.now).unwrap().done_at, Some(bench.now + 180_000));
    bench.submit(sweep("other", "bob", 5, 1));
    let row = ask(&bench, "s:6.0");
    assert_eq!(row.code, "behind_others");
    assert!(row.reason.contains("5 of bob's `other`"), "{}", row.reason);
    assert_eq!(row.starts_at, None, "nobody knows what those take");
}
