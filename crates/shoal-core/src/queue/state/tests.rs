use super::*;
use crate::queue::Target;
use crate::queue::event::{Action, Pausable, Seat};
use crate::queue::host::HostFacts;
use crate::queue::plan::silent;
use crate::queue::request::{Filter, RunState};
use crate::queue::testing::{BAD, Bench, OK, attempt_of, axis, desk, facts, grid, policy, sweep};
use crate::queue::work::Ending;
use std::time::Duration;

fn row(bench: &Bench, name: &str) -> (u64, u64, u64, u64, u64) {
    let row = bench.queue.sweep_row(name, bench.now).unwrap();
    (row.waiting, row.running, row.finished, row.failed, row.stopped)
}

fn target(text: &str) -> Target {
    text.parse().unwrap()
}

#[test]
fn an_end_is_taken_in_once_and_only_from_the_host_that_had_it() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.submit(sweep("s", "ann", 3, 1));
    assert_eq!(bench.started(), [("s:0.0#1".into(), "a".into()), ("s:1.0#1".into(), "b".into())]);
    let before = bench.queue.clone();
    bench.end("s:0.0#1", "b", OK);
    bench.end("s:0.0#2", "a", OK);
    bench.end("s:2.0#1", "a", OK);
    bench.end("t:0.0#1", "a", OK);
    bench.end_rank("s:0.0#1", "a", 1, OK, 0);
    assert_eq!(bench.queue, before, "nonsense changes nothing");
    bench.end("s:0.0#1", "a", OK);
    let once = bench.queue.clone();
    bench.end("s:0.0#1", "a", BAD);
    assert_eq!(bench.queue, once);
    assert_eq!(row(&bench, "s"), (1, 1, 1, 0, 0));
}

#[test]
fn only_what_the_program_did_costs_a_retry() {
    for (ending, costs) in [
        (BAD, true),
        (Ending::Signaled(11), true),
        (Ending::OutOfMemory, true),
        (Ending::TimeLimit, true),
        (Ending::NotStarted { why: "no such file".into() }, true),
        (Ending::Stopped, false),
        (Ending::lost("gone"), false),
    ] {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.submit(sweep("s", "ann", 1, 1));
        bench.go();
        bench.end("s:0.0#1", "a", ending.clone());
        let expected = if costs { (0, 0, 0, 1, 0) } else { (1, 0, 0, 0, 0) };
        assert_eq!(row(&bench, "s"), expected, "{ending}");
    }
}

#[test]
fn retries_are_counted_and_a_fatal_code_ends_them() {
    let mut bench = Bench::with(&[("a", 1)]);
    let mut it = sweep("s", "ann", 2, 1);
    it.rules.retries = 2;
    it.rules.fatal_codes = vec![3];
    bench.submit(it);
    for number in 1..=3 {
        assert_eq!(bench.started()[0].0, format!("s:0.0#{number}"));
        assert_eq!(row(&bench, "s"), (1, 1, 0, 0, 0));
        bench.end(&format!("s:0.0#{number}"), "a", BAD);
    }
    assert_eq!(bench.started()[0].0, "s:1.0#1");
    bench.end("s:1.0#1", "a", Ending::Exited(3));
    assert_eq!(row(&bench, "s"), (0, 0, 0, 2, 0));
    bench.apply(Event::Retried { at: 1, by: "ann".into(), target: target("s:0") });
    assert_eq!(bench.started(), [("s:0.0#4".into(), "a".into())], "numbers of attempts go on");
    bench.end("s:0.0#4", "a", BAD);
    assert_eq!(row(&bench, "s"), (1, 0, 0, 1, 0), "and retries begin again");
}

#[test]
fn what_is_nobodys_fault_is_free_but_not_for_ever() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(sweep("s", "ann", 1, 1));
    for number in 1..=21 {
        assert_eq!(row(&bench, "s"), (1, 0, 0, 0, 0));
        bench.go();
        bench.end(&format!("s:0.0#{number}"), "a", Ending::lost("gone"));
    }
    assert_eq!(row(&bench, "s"), (0, 0, 0, 1, 0));
}

#[test]
fn what_people_take_away_may_be_taken_away_for_ever() {
    let mut bench = Bench::new();
    let at_desk = |idle| HostFacts { idle_seconds: Some(idle), ..facts(1, 0) };
    bench.host(desk("d", "bob"), at_desk(10_000));
    bench.submit(sweep("s", "ann", 1, 1));
    for number in 1..=50 {
        assert_eq!(bench.go().len(), 1, "{number}");
        bench.seen("d", at_desk(0));
        assert!(matches!(&bench.go()[..], [Action::Stop { checkpoint_first: true, .. }]), "{number}");
        bench.end(&format!("s:0.0#{number}"), "d", Ending::Signaled(15));
        bench.seen("d", at_desk(10_000));
    }
    for _ in 0..50 {
        assert_eq!(bench.go().len(), 1);
        bench.apply(Event::HostRemoved { at: bench.now, name: "d".into() });
        bench.host(desk("d", "bob"), at_desk(10_000));
    }
    assert_eq!(row(&bench, "s"), (1, 0, 0, 0, 0));
}

#[test]
fn results_that_find_no_place_hold_the_sweep_for_a_while() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 6, 1));
    bench.go();
    let full = || Ending::NotPublished { why: "no space left".into() };
    bench.end("s:0.0#1", "a", full());
    bench.end("s:1.0#1", "a", full());
    assert_eq!(bench.started(), []);
    assert_eq!(bench.queue.wake_at(), Some(bench.now + 5_000), "two at once are one refusal");
    assert!(bench.queue.sweep_rows(bench.now)[0].stuck.as_ref().is_some_and(|why| why.contains("no space left")));
    bench.now += 5_000;
    assert_eq!(bench.started().len(), 2);
    bench.end("s:2.0#1", "a", full());
    assert_eq!(bench.queue.wake_at(), Some(bench.now + 10_000));
    bench.end("s:3.0#1", "a", OK);
    assert_eq!(row(&bench, "s"), (2, 0, 1, 3, 0), "what ran is not run again by itself");
    bench.apply(Event::Retried { at: 1, by: "ann".into(), target: target("s") });
    assert_eq!(row(&bench, "s"), (5, 0, 1, 0, 0), "but if somebody says so");
}

#[test]
fn a_stop_is_for_good_and_a_retry_takes_it_back() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 4, 1));
    bench.go();
    bench.end("s:0.0#1", "a", OK);
    bench.apply(Event::StopAsked { at: 1, by: "ann".into(), target: target("s") });
    assert_eq!(row(&bench, "s"), (0, 1, 1, 0, 2));
    let actions = bench.go();
    assert!(matches!(&actions[..], [Action::Stop { attempt, checkpoint_first: false, .. }] if attempt.run.cell == 1));
    assert_eq!(bench.go(), [], "told once");
    assert_eq!(bench.queue.stopping_on("a"), [(attempt_of("s:1.0#1"), false)], "and again when the host comes back");
    bench.end("s:1.0#1", "a", Ending::Exited(143));
    assert_eq!(row(&bench, "s"), (0, 0, 1, 0, 3));
    bench.apply(Event::Retried { at: 1, by: "ann".into(), target: target("s:1") });
    assert_eq!(bench.started(), [("s:1.0#2".into(), "a".into())]);
}

#[test]
fn a_run_that_succeeds_while_it_is_stopped_has_finished() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(sweep("s", "ann", 1, 1));
    bench.go();
    bench.apply(Event::StopAsked { at: 1, by: "ann".into(), target: target("s") });
    bench.go();
    bench.end("s:0.0#1", "a", OK);
    assert_eq!(row(&bench, "s"), (0, 0, 1, 0, 0));
}

#[test]
fn what_fails_everywhere_stops_after_a_few() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    let mut it = sweep("s", "ann", 10_000, 1);
    it.rules.stop_after_failures = 5;
    bench.submit(it);
    let mut failed = 0;
    for _ in 0..100 {
        for (attempt, host) in bench.started() {
            bench.end(&attempt, &host, BAD);
            failed += 1;
        }
    }
    assert!((5..=8).contains(&failed), "{failed}");
    let stuck = bench.queue.sweep_rows(0)[0].stuck.clone().unwrap();
    assert!(stuck.contains("none succeeded") && stuck.contains("exit code 1"), "{stuck}");
    assert!(bench.queue.is_over("s") && !bench.queue.is_complete("s"));
    bench.apply(Event::Retried { at: 1, by: "ann".into(), target: target("s") });
    assert_eq!(bench.started().len(), 4);
}

#[test]
fn a_host_that_fails_at_once_does_not_take_the_sweep_with_it() {
    // The bad one is quick; the good one has not finished anything when the bad one has failed five times.
    let mut bench = Bench::with(&[("bad", 2), ("good", 1)]);
    bench.submit(sweep("s", "ann", 100, 1));
    let mut failed = 0;
    let mut good = Vec::new();
    for _ in 0..50 {
        for (attempt, host) in bench.started() {
            if host == "bad" {
                bench.end(&attempt, &host, BAD);
                failed += 1;
            } else {
                good.push(attempt);
            }
        }
    }
    assert!(failed <= 6, "{failed}");
    assert_eq!(bench.queue.sweep_rows(0)[0].stuck, None);
    for _ in 0..100 {
        for attempt in std::mem::take(&mut good) {
            bench.end(&attempt, "good", OK);
        }
        let actions = bench.go();
        good.extend(crate::queue::testing::starts(&actions).into_iter().map(|(attempt, host)| {
            assert_eq!(host, "good");
            attempt
        }));
    }
    let row = row(&bench, "s");
    assert_eq!((row.0, row.2 + row.3), (0, 100));
    assert!(bench.queue.host_rows().iter().any(|host| host.name == "bad" && host.drained.is_some()));
}

#[test]
fn topping_up_adds_exactly_what_is_missing() {
    let mut bench = Bench::with(&[("a", 4)]);
    bench.submit(sweep("s", "ann", 3, 1));
    for (attempt, host) in bench.started() {
        bench.end(&attempt, &host, OK);
    }
    bench.submit(sweep("s", "ann", 3, 1));
    assert_eq!(row(&bench, "s"), (0, 0, 3, 0, 0), "nothing is missing");
    let mut more = sweep("s", "ann", 5, 2);
    more.rules.priority = 7;
    bench.submit(more.clone());
    assert_eq!(row(&bench, "s"), (2 + 5, 0, 3, 0, 0));
    assert_eq!(bench.queue.sweep("s").map(|sweep| (sweep.parts.len(), sweep.rules.priority)), Some((2, 7)));
    // Other axes, same configurations.
    more.parts = vec![grid(vec![axis("x", [4, 3, 9])])];
    bench.submit(more);
    assert_eq!(row(&bench, "s").0, 7 + 2);
    let other = top_up(&bench.queue, &sweep("s", "bob", 1, 1), 0);
    assert!(other.is_err_and(|no| no.why.contains("ann")));
}

#[test]
fn submissions_that_cannot_be_are_refused_with_a_reason() {
    let bench = Bench::new();
    type Change = fn(&mut crate::queue::sweep::Sweep);
    let cases: [(&str, Change); 9] = [
        ("cannot be the name", |it| it.name = "a b".into()),
        ("at least one", |it| it.reps = 0),
        ("no configurations", |it| it.parts.clear()),
        ("are the same", |it| it.parts = vec![grid(vec![axis("x", [1, 2, 1])])]),
        ("too many", |it| it.reps = 3_000_000),
        ("too many", |it| it.parts = vec![grid(vec![axis("x", 0..2001), axis("y", 0..2000)])]),
        ("no such sweep", |it| it.after = vec!["other".into()]),
        ("no command", |it| it.command.argv.clear()),
        ("version", |it| it.version = 99),
    ];
    for (word, change) in cases {
        let mut it = sweep("s", "ann", 2, 1);
        change(&mut it);
        let no = top_up(&bench.queue, &it, 0).expect_err(word);
        assert!(no.why.contains(word) || no.why.contains("more than"), "{word}: {}", no.why);
    }
}

#[test]
fn sweeps_do_not_wait_for_each_other_in_a_circle() {
    let mut bench = Bench::with(&[("a", 1)]);
    bench.submit(sweep("first", "ann", 1, 1));
    let mut second = sweep("second", "ann", 1, 1);
    second.after = vec!["first".into()];
    bench.submit(second);
    let mut first = sweep("first", "ann", 1, 1);
    first.after = vec!["second".into()];
    assert!(top_up(&bench.queue, &first, 0).is_err_and(|no| no.why.contains("waits for it")));
    assert_eq!(bench.started(), [("first:0.0#1".into(), "a".into())]);
    bench.end("first:0.0#1", "a", BAD);
    assert_eq!(bench.started(), []);
    bench.apply(Event::Retried { at: 0, by: "ann".into(), target: target("first") });
    bench.go();
    bench.end("first:0.0#2", "a", OK);
    bench.apply(Event::Forgotten { at: 0, name: "first".into() });
    assert_eq!(bench.queue.sweep("first"), None);
    assert_eq!(bench.started(), [("second:0.0#1".into(), "a".into())]);
    bench.apply(Event::Forgotten { at: 0, name: "second".into() });
    assert!(bench.queue.sweep("second").is_some(), "what lives is not forgotten");
}

#[test]
fn a_lost_host_gives_back_what_it_ran_and_its_late_word_counts_for_nothing() {
    let mut bench = Bench::with(&[("a", 2), ("b", 1)]);
    bench.apply(Event::Paused { at: 0, by: "ann".into(), what: Pausable::Host("b".into()) });
    bench.submit(sweep("s", "ann", 2, 1));
    bench.go();
    bench.apply(Event::HostSilent { at: bench.now, name: "a".into() });
    let late = |bench: &Bench, seconds: u64| silent::lost(&bench.queue, bench.now, |_| Duration::from_secs(seconds));
    assert_eq!(late(&bench, 60), []);
    // Whatever the clock on the wall says.
    bench.now += 24 * 3600 * 1000;
    assert_eq!(late(&bench, 5), []);
    let lost = late(&bench, 61);
    assert_eq!(lost.len(), 1);
    lost.into_iter().for_each(|event| bench.apply(event));
    assert_eq!(late(&bench, 61), [], "said once");
    assert_eq!(row(&bench, "s"), (2, 0, 0, 0, 0));
    bench.apply(Event::Resumed { at: 0, by: "ann".into(), what: Pausable::Host("b".into()) });
    assert_eq!(bench.started(), [("s:0.0#2".into(), "b".into())]);
    bench.end("s:0.0#1", "a", OK);
    assert_eq!(row(&bench, "s"), (1, 1, 0, 0, 0));
    assert!(!bench.queue.is_live_on(&attempt_of("s:0.0#1"), "a") && bench.queue.is_known(&attempt_of("s:0.0#1")));
}

#[test]
fn a_removed_host_takes_nothing_along() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 2, 1));
    bench.go();
    bench.apply(Event::HostRemoved { at: 0, name: "a".into() });
    assert_eq!(row(&bench, "s"), (2, 0, 0, 0, 0));
    assert!(bench.queue.live.is_empty() && bench.queue.host_rows().is_empty());
    bench.host(policy("a"), crate::queue::testing::facts(1, 0));
    assert_eq!(bench.started(), [("s:0.0#2".into(), "a".into())]);
}

#[test]
fn a_gang_is_over_when_all_of_it_is_and_ends_when_one_fails() {
    let mut bench = Bench::with(&[("a", 2), ("b", 2)]);
    let mut it = sweep("s", "ann", 1, 1);
    it.wants.ranks = 3;
    it.rules.retries = 1;
    bench.submit(it);
    assert_eq!(bench.started(), [("s:0.0#1".into(), "a a b".into())]);
    assert_eq!(bench.queue.assigned_on("a"), [(attempt_of("s:0.0#1"), 0), (attempt_of("s:0.0#1"), 1)]);
    bench.end_rank("s:0.0#1", "a", 0, OK, 0);
    assert_eq!(bench.go(), []);
    bench.end_rank("s:0.0#1", "b", 2, BAD, 0);
    let actions = bench.go();
    assert!(matches!(&actions[..], [Action::Stop { checkpoint_first: false, why, .. }] if why.contains("exit code 1")));
    assert_eq!(row(&bench, "s"), (0, 1, 0, 0, 0));
    bench.end_rank("s:0.0#1", "a", 1, Ending::Stopped, 0);
    assert_eq!(row(&bench, "s"), (1, 0, 0, 0, 0));
    bench.go();
    for (rank, host) in [(0, "a"), (1, "a"), (2, "b")] {
        bench.end_rank("s:0.0#2", host, rank, OK, 0);
    }
    assert_eq!(row(&bench, "s"), (0, 0, 1, 0, 0));
}

#[test]
fn rows_are_by_configuration_and_copy_and_counted() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 3, 2));
    bench.submit(sweep("t", "bob", 1, 1));
    bench.go();
    let all = |filter: Filter, from, limit| {
        let (rows, total) = bench.queue.run_rows(&filter, from, limit);
        (rows.into_iter().map(|row| row.run.to_string()).collect::<Vec<_>>(), total)
    };
    assert_eq!(all(Filter::default(), 1, 3), (vec!["s:0.1".into(), "s:1.0".into(), "s:1.1".into()], 7));
    let running = Filter { states: vec![RunState::Running], ..Filter::default() };
    assert_eq!(all(running, 0, 9), (vec!["s:0.0".into(), "t:0.0".into()], 2), "both users have one");
    let on = Filter { host: Some("a".into()), owner: Some("bob".into()), ..Filter::default() };
    assert_eq!(all(on, 0, 9), (vec!["t:0.0".into()], 1));
    let cell = Filter { target: Some(target("s:2")), ..Filter::default() };
    assert_eq!(all(cell, 0, 9), (vec!["s:2.0".into(), "s:2.1".into()], 2));
    let none = Filter { target: Some(target("s:7.0")), ..Filter::default() };
    assert_eq!(all(none, 0, 9), (vec![], 0));
    let unknown = Filter { host: Some("x".into()), ..Filter::default() };
    assert_eq!(all(unknown, 0, 9), (vec![], 0));
    let (rows, _) = bench.queue.run_rows(&Filter { target: Some(target("s:2.0")), ..Filter::default() }, 0, 1);
    assert_eq!(rows[0].differs, [("x".to_string(), crate::queue::sweep::Value::Int(2))]);
    assert_eq!(bench.queue.count(&target("s"), &[RunState::Waiting, RunState::Running]), 6);
}

#[test]
fn nonsense_assignments_change_nothing() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 2, 1));
    let seat = |host: &str| vec![Seat { host: host.into(), devices: Vec::new(), meet: None }];
    let before = bench.queue.clone();
    for (attempt, places) in
        [("s:0.0#2", seat("a")), ("s:9.0#1", seat("a")), ("s:0.0#1", seat("x")), ("s:0.0#1", vec![])]
    {
        bench.apply(Event::Assigned { at: 0, attempt: attempt_of(attempt), places, after: None });
        assert_eq!(bench.queue, before, "{attempt}");
    }
}

#[test]
fn a_million_runs_are_small_and_a_top_up_of_many_is_quick() {
    let mut bench = Bench::with(&[("a", 2)]);
    let mut it = sweep("s", "ann", 1, 1);
    it.parts = vec![grid(vec![axis("x", 0..1000), axis("y", 0..1000)])];
    bench.submit(it.clone());
    assert_eq!(bench.queue.waiting_total(), 1_000_000);
    assert!(bench.queue.approx_bytes() < 16 * 1_000_000, "{}", bench.queue.approx_bytes());
    it.parts = vec![grid(vec![axis("x", 0..1000), axis("y", 0..1001)])];
    bench.submit(it);
    assert_eq!(bench.queue.waiting_total(), 1_001_000);
    assert!(bench.queue.approx_bytes() < 16 * 1_001_000, "{}", bench.queue.approx_bytes());
}
