//! Does it all hold, whatever happens? Fleets that are played at random.

use super::devices::gpus;
use super::wanting;
use crate::queue::Target;
use crate::queue::event::Pausable;
use crate::queue::host::HostPolicy;
use crate::queue::plan::plan;
use crate::queue::plan::simulator::Simulator;
use crate::queue::state::Queue;
use crate::queue::testing::{axis, desk, facts, grid, policy};
use proptest::prelude::*;

fn play(seed: u64, steps: u32) -> Simulator {
    let mut sim = Simulator::new(seed);
    sim.add(policy("a"), facts(2, 0));
    sim.add(HostPolicy { slots: Some(3), ..policy("b") }, facts(4, 2));
    sim.add(HostPolicy { lost_after_seconds: 5, ..desk("c", "bob") }, facts(3, 1));
    sim.takes = [("short", (4, 0)), ("flaky", (800, 20)), ("gpu", (500, 3)), ("gang", (900, 5))]
        .map(|(name, takes)| (name.to_string(), takes))
        .into();
    let size = |sim: &mut Simulator| 1 + sim.dice.below(12) as u32;
    let mut all = vec![
        wanting("short", "ann", 150, |_| {}),
        wanting("flaky", "bob", 12, |it| it.rules.retries = 2),
        gpus("gpu", 8, 300, None),
        wanting("gang", "bob", 3, |it| it.wants.ranks = 3),
    ];
    for it in &mut all {
        it.rules.stop_after_failures = 0;
        it.reps = 1 + sim.dice.below(3) as u32;
        sim.submit(it);
    }
    for _ in 0..steps {
        let host = ["a", "b", "c"][sim.dice.below(3) as usize];
        let which = sim.dice.below(all.len() as u64) as usize;
        let name = all[which].name.clone();
        match sim.dice.below(24) {
            0 => sim.vanish(host),
            1 | 2 => {
                let booted = sim.dice.one_in(3);
                sim.come_back(host, booted);
            }
            3 => {
                let idle = sim.dice.below(2) * 1_000;
                sim.change_facts("c", |facts| facts.idle_seconds = Some(idle));
            }
            4 => {
                let foreign = sim.dice.below(2) as u32;
                sim.change_facts("b", |facts| facts.gpus[0].foreign_processes = foreign);
            }
            5 => {
                let cell = sim.dice.below(10) as u32;
                let stop = sim.dice.one_in(2);
                sim.ask(Target::Cell(name, cell), stop);
            }
            6 => {
                let pause = sim.dice.one_in(2);
                let what = if sim.dice.one_in(2) { Pausable::Sweep(name) } else { Pausable::Host(host.into()) };
                sim.pause(what, pause);
            }
            7 => {
                all[which].reps = (all[which].reps + 1).min(4);
                let more = size(&mut sim);
                all[which].parts = vec![grid(vec![axis("x", 5..5 + i64::from(more))])];
                all[which].rules.priority = sim.dice.below(3) as i32;
                sim.submit(&all[which].clone());
            }
            8 => {
                let slots = [None, Some(0), Some(1), Some(4)][sim.dice.below(4) as usize];
                sim.quota("bob", slots);
            }
            _ => {
                let ms = [1, 3, 20, 100, 700, 6_000][sim.dice.below(6) as usize];
                sim.pass(ms);
            }
        }
    }
    // Then all is well again, and everything that can end does.
    for name in ["a", "b", "c"] {
        sim.come_back(name, false);
        sim.pause(Pausable::Host(name.into()), false);
    }
    sim.change_facts("b", |facts| facts.gpus[0].foreign_processes = 0);
    sim.change_facts("c", |facts| facts.idle_seconds = None);
    sim.quota("bob", None);
    for it in &all {
        sim.pause(Pausable::Sweep(it.name.clone()), false);
    }
    for _ in 0..20_000 {
        if sim.is_quiet() && sim.queue.waiting_total() == 0 {
            break;
        }
        let ms = 1 + sim.dice.below(400);
        sim.pass(ms);
    }
    sim
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_run_is_recorded_once_and_nothing_is_overfull(seed in any::<u64>(), steps in 0u32..250) {
        let sim = play(seed, steps);
        for row in sim.queue.sweep_rows(sim.now) {
            prop_assert_eq!((row.waiting, row.running), (0, 0), "{} is not over: {:?}", row.name, row);
            let runs = u64::from(row.cells) * u64::from(row.reps);
            prop_assert_eq!(row.finished + row.failed + row.stopped, runs);
            let recorded = sim.finished.keys().filter(|run| run.sweep == row.name).count() as u64;
            prop_assert_eq!(recorded, row.finished, "{}", row.name);
        }
        prop_assert!(sim.finished.values().all(|times| *times == 1), "a run is recorded once (QUEUE-2)");
        for host in sim.queue.host_rows() {
            prop_assert_eq!(host.running, 0);
        }
        // The same events, the same state; also when they come out of a journal (CORE-2).
        let mut again = Queue::new();
        for event in &sim.journal {
            let text = serde_json::to_string(event).unwrap();
            again.apply(&serde_json::from_str(&text).unwrap());
        }
        prop_assert_eq!(&again, &sim.queue);
    }

    #[test]
    fn no_order_of_events_is_too_odd(seed in any::<u64>()) {
        let sim = play(seed, 40);
        let mut dice = Simulator::new(seed).dice;
        let mut queue = Queue::new();
        let mut events = sim.journal.clone();
        for _ in 0..events.len() * 2 {
            let at = dice.below(events.len() as u64) as usize;
            let other = dice.below(events.len() as u64) as usize;
            events.swap(at, other);
        }
        for event in &events {
            queue.apply(event);
        }
        plan(&queue, sim.now);
    }
}

#[test]
fn lines_are_used_in_play() {
    let most = (0..8).map(|seed| play(seed, 100).most_in_line).max();
    assert!(most > Some(8), "{most:?}");
}
