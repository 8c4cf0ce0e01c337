//! Newcomers at step boundaries, over a memory network with the real table for a master: any order of events, a death at
//! any of them (GRAD-2, GRAD-3, GRAD-5, GANG-2).
//!
//! `SHOAL_SIM_SEED=n` repeats one round of the random test, `SHOAL_SIM_ROUNDS=n` sets how many there are.

mod admission {
    pub mod process;
    pub mod world;
}
#[path = "sim/dice.rs"]
#[allow(dead_code)]
mod dice;

use admission::world::{Plan, run};
use dice::Dice;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

fn told<T>(repeat: &str, run: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
        Ok(value) => value,
        Err(cause) => {
            eprintln!("repeat with: {repeat}");
            std::panic::resume_unwind(cause)
        }
    }
}

/// Without further deaths the newcomer is let in, unless the others were done before it came, and then it is told.
#[test]
fn a_newcomer_comes_in() {
    let mut joined = 0;
    for seed in 0..100 {
        let plan = Plan { workers: 3, servers: 2, steps: 12, newcomers: 1, deaths: vec![(2, 30)], elements: 40, seed };
        let outcome = told(&format!("{plan:?}"), || run(&plan));
        assert_eq!(outcome.errors, 0, "seed {seed}");
        joined += outcome.joined;
    }
    assert!(joined > 50, "only {joined} of 100 were let in");
}

/// GRAD-5: whoever dies at whatever event before, during and after the admission, nobody waits for ever.
#[test]
fn a_death_at_every_event() {
    for seed in 0..3 {
        let quiet = Plan { workers: 3, servers: 2, steps: 5, newcomers: 1, deaths: vec![(2, 12)], elements: 10, seed };
        let events = told(&format!("{quiet:?}"), || run(&quiet)).events;
        // Processes in the order in which they start: workers, servers, newcomers.
        for victim in [0, 1, 3, 5] {
            for at in 12..events {
                let mut plan = quiet.clone();
                plan.deaths.push((victim, at));
                // Whoever takes the place of a dead newcomer, or of the second dead.
                plan.newcomers = 1 + (at % 2) as usize;
                told(&format!("{plan:?}"), || run(&plan));
            }
        }
    }
}

/// Larger tensors, more of everything, several deaths, also of newcomers and of those who came in.
#[test]
fn random_gangs() {
    let (first, rounds) = match number("SHOAL_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SHOAL_SIM_ROUNDS").unwrap_or(300)),
    };
    let mut joined = 0;
    for seed in first..first + rounds {
        let mut d = Dice::new(seed);
        let (workers, servers) = (d.between(2, 4), d.between(1, 3));
        let deaths = (0..d.between(1, 4)).map(|i| {
            let among = if i > 0 && d.one_in(6) { workers + servers } else { workers };
            let process = if d.one_in(3) { workers + servers + d.below(3) } else { d.below(among) };
            (process, d.below(d.clone().of(&[40, 200, 800])) as u64)
        });
        let plan = Plan {
            deaths: deaths.collect(),
            workers: workers as u32,
            servers: servers as u32,
            steps: d.between(2, 8) as u64,
            newcomers: d.between(1, 4),
            // Small ones go at once, large ones are announced.
            elements: d.of(&[1, 100, 5_000, 400_000]),
            seed,
        };
        let repeat = format!("SHOAL_SIM_SEED={seed} cargo test -p shoal-sync --test admission random_gangs\n{plan:?}");
        joined += told(&repeat, || run(&plan)).joined;
    }
    assert!(rounds == 1 || joined > rounds as usize / 10, "only {joined} were let in in {rounds} rounds");
}
