//! GRAD-2 to GRAD-5 and GANG-2 over a memory network: random gangs, random tensors, random orders, random deaths.
//!
//! `SHOAL_SIM_SEED=n` repeats one round, `SHOAL_SIM_ROUNDS=n` sets how many there are.

mod sim;

use sim::plan::Plan;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

/// GRAD-2, GRAD-3, GRAD-4, GRAD-5, GANG-2: see the checks in `sim::gang` and `sim::reference`.
#[test]
fn random_gangs_end_with_the_right_bytes_or_a_named_death() {
    let (first, rounds) = match number("SHOAL_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SHOAL_SIM_ROUNDS").unwrap_or(300)),
    };
    for seed in first..first + rounds {
        let repeat = format!("SHOAL_SIM_SEED={seed} cargo test -p shoal-sync --test simulator random_gangs");
        sim::told(&repeat, || sim::run(&Plan::random(seed), seed));
    }
}
