//! Who stands in line for a seat?

use super::wanting;
use crate::queue::Target;
use crate::queue::event::{Action, Event};
use crate::queue::testing::{Bench, OK, sweep};
use crate::queue::work::Ending;

fn measured(bench: &mut Bench, runs: u32, ms: u64) {
    for _ in 0..runs {
        let started = bench.started();
        bench.now += ms;
        for (attempt, host) in started {
            bench.end(&attempt, &host, OK);
        }
    }
}

#[test]
fn short_runs_stand_in_line_behind_each_other() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 1_000, 1));
    measured(&mut bench, 2, 50);
    let actions = bench.go();
    assert_eq!(actions.len(), 2 + 2 * 10, "half a second of 50 ms each");
    assert_eq!(bench.go(), []);
    let row = bench.queue.sweep_row("s", bench.now).unwrap();
    assert_eq!((row.running, row.finished, row.waiting), (2, 4, 994));
    assert_eq!(bench.queue.host_rows()[0].running, 2, "those in line hold nothing");
    let (first, after) = match (&actions[0], &actions[2]) {
        (Action::Start { attempt, after: None, .. }, Action::Start { after: Some(after), .. }) => (attempt, after),
        other => panic!("{other:?}"),
    };
    assert_eq!(first, after);
    let line = bench.queue.assigned_on("a");
    assert_eq!(line.len(), 22);
    for (attempt, _) in &line {
        let live = bench.queue.live(attempt).unwrap();
        let place = |one: &crate::queue::Attempt| line.iter().position(|(other, _)| other == one);
        assert!(live.after.is_none_or(|after| place(&after) < place(attempt)));
    }
    // One in the middle is stopped: the one behind it moves up, and nobody holds a seat too many.
    let Action::Start { attempt: second, .. } = &actions[2] else { panic!() };
    bench.apply(Event::StopAsked { at: 0, by: "ann".into(), target: Target::Run(second.run.clone()) });
    bench.go();
    bench.end(&second.to_string(), "a", Ending::Stopped);
    assert_eq!(bench.queue.host_rows()[0].running, 2);
    let Action::Start { attempt: third, .. } = &actions[3] else { panic!() };
    assert_eq!(bench.queue.live(third).and_then(|live| live.after), Some(first.clone()));
    bench.end(&first.to_string(), "a", OK);
    assert_eq!(bench.queue.live(third).and_then(|live| live.after), None);
    assert_eq!(bench.queue.host_rows()[0].running, 2);
}

#[test]
fn nobody_stands_in_line_where_others_wait() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 1_000, 1));
    measured(&mut bench, 2, 50);
    bench.submit(wanting("t", "bob", 10, |it| it.rules.priority = 1));
    let all = bench.started();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|(attempt, _)| attempt.starts_with("t:")));
}

#[test]
fn the_last_ones_are_shared_out() {
    let mut bench = Bench::with(&[("a", 2)]);
    bench.submit(sweep("s", "ann", 16, 1));
    measured(&mut bench, 2, 1);
    assert_eq!(bench.go().len(), 12);
    let depths: Vec<u32> =
        bench.queue.live.values().map(|live| live.line.behind).filter(|behind| *behind > 0).collect();
    assert_eq!(depths, [5, 5]);
}

#[test]
fn a_line_behind_a_long_run_is_taken_back() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.submit(sweep("s", "ann", 100, 1));
    measured(&mut bench, 2, 100);
    bench.go();
    bench.now += 2_000;
    let actions = bench.go();
    assert_eq!(actions.len(), 10, "{actions:?}");
    for action in &actions {
        let Action::Stop { attempt, .. } = action else { panic!("{action:?}") };
        let host = bench.queue.live(attempt).unwrap().places[0].host.clone();
        bench.end(&attempt.to_string(), &host, Ending::Stopped);
    }
    let row = bench.queue.sweep_row("s", bench.now).unwrap();
    assert_eq!((row.running, row.waiting, row.failed + row.stopped), (2, 94, 0));
}

#[test]
fn nobody_stands_behind_a_run_that_turned_out_to_be_long() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1)]);
    bench.submit(sweep("s", "ann", 100, 1));
    measured(&mut bench, 2, 100);
    bench.go();
    bench.now += 2_000;
    for action in bench.go() {
        let Action::Stop { attempt, .. } = action else { panic!("{action:?}") };
        let host = bench.queue.live(&attempt).unwrap().places[0].host.clone();
        bench.end(&attempt.to_string(), &host, Ending::Stopped);
    }
    assert_eq!(bench.go(), [], "else they would be taken back again and again");
    assert_eq!(bench.queue.wake_at(), None);
}

/// Whose runs were short once gets no more than others when they are long.
#[test]
fn two_people_share_although_one_had_short_runs() {
    let mut bench = Bench::with(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    bench.submit(sweep("short", "ann", 6, 1));
    measured(&mut bench, 2, 300);
    bench.submit(sweep("long", "carol", 4, 1));
    let long = bench.started();
    assert_eq!(long.len(), 4);
    bench.submit(sweep("short", "ann", 10, 1));
    bench.submit(sweep("t", "bob", 4, 1));
    let (first, rest) = long.split_at(1);
    for part in [first, rest] {
        for (attempt, host) in part {
            let target = Target::Run(crate::queue::testing::attempt_of(attempt).run);
            bench.apply(Event::StopAsked { at: bench.now, by: "carol".into(), target });
            bench.end(attempt, host, Ending::Stopped);
        }
        bench.go();
        bench.now += 50;
    }
    for _ in 0..4 {
        let rows = ["short", "t"].map(|name| bench.queue.sweep_row(name, bench.now).unwrap());
        assert_eq!(rows.map(|row| (row.running, row.waiting)), [(2, 2), (2, 2)]);
        bench.now += 1_000;
        bench.go();
    }
}
