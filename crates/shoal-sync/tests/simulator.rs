//! GRAD-2 to GRAD-5 and GANG-2 over a memory network: random gangs, random tensors, random orders, random deaths.
//!
//! `SHOAL_SIM_SEED=n` repeats one round, `SHOAL_SIM_ROUNDS=n` sets how many there are.

mod sim;

use shoal_sync::dtype::DType;
use shoal_sync::node::{SMALL, SMALL_WINDOW};
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::Combine;
use sim::plan::{Key, Plan, What};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

/// GRAD-2, GRAD-3, GRAD-4, GRAD-5, GANG-2: see the checks in `sim::gang` and `sim::reference`.
#[test]
fn random_gangs_end_with_the_right_bytes_or_a_named_death() {
    let (first, rounds) = match number("SHOAL_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SHOAL_SIM_ROUNDS").unwrap_or(250)),
    };
    for seed in first..first + rounds {
        let repeat = format!("SHOAL_SIM_SEED={seed} cargo test -p shoal-sync --test simulator random_gangs");
        sim::told(&repeat, || sim::run(&Plan::random(seed), seed));
    }
}

fn reduce(name: &str, combine: Combine, elements: usize, steps: Vec<u64>) -> Key {
    Key::new(name, What::Reduce(combine), DType::F32, elements, steps)
}

/// Runs one plan under several schedules.
fn all_end(plan: &Plan, schedules: u64) {
    for schedule in 0..schedules {
        sim::told(&format!("schedule {schedule} of {plan:?}"), || sim::run(plan, schedule));
    }
}

/// GRAD-3: `deterministic` gives the same bits whatever the order of arrival, also with shards elsewhere.
#[test]
fn deterministic_sums_do_not_depend_on_the_schedule_or_the_servers() {
    let keys = || {
        DType::ALL.map(|dtype| {
            let name = format!("of {dtype}");
            Key::new(&name, What::Reduce(Combine::WeightedMean), dtype, 50_000, vec![2; 4])
        })
    };
    let mut first = None;
    for (servers, block_size) in [(0, 1 << 20), (0, 16 << 10), (1, 1 << 20), (3, 100_000)] {
        for schedule in 0..4 {
            let mut plan = Plan::plain(4, servers, keys().to_vec());
            plan.deterministic = true;
            plan.block_size = block_size;
            let results = sim::run(&plan, schedule).results;
            assert_eq!(
                first.get_or_insert_with(|| results.clone()),
                &results,
                "{servers} servers, schedule {schedule}"
            );
        }
    }
}

/// GRAD-4: with announced tensors alone, memory follows the push window and not the tensors.
#[test]
fn memory_follows_the_window_not_the_tensors() {
    for servers in [0, 1] {
        let elements = 4 * SMALL; // 8 MiB each, above SMALL for every shard
        let keys = (0..3).map(|i| reduce(&format!("k{i}"), Combine::Mean, elements, vec![1; 3])).collect();
        let mut plan = Plan::plain(3, servers, keys);
        (plan.block_size, plan.push, plan.pull) = (32 << 10, 1, 1);
        let peak = sim::run(&plan, 5).peak;
        assert!(peak <= 3 * 4 * (64 << 10), "{peak} bytes held for windows of 32 KiB");
    }
}

/// GRAD-5: many small keys in different orders use up the window of what is sent at once, so that the same key
/// is sent at once by one worker and announced by another.
#[test]
fn small_keys_beyond_their_window_end_in_any_order() {
    let count = SMALL_WINDOW / (SMALL / 4) + 8;
    for (workers, servers) in [(2, 0), (3, 0), (2, 1), (3, 2)] {
        let shards = if servers == 0 { workers } else { servers } as usize;
        // One block each, so that all of a key lies on one shard.
        let keys =
            (0..count * shards).map(|i| reduce(&format!("k{i}"), Combine::Sum, SMALL / 16, vec![1; workers as usize]));
        let mut plan = Plan::plain(workers, servers, keys.collect());
        plan.pieces = false;
        plan.capacity = 1;
        all_end(&plan, 2);
        // The others announce what the straggler, beside its own shard, gives at once when it comes.
        plan.straggler = Some(0);
        all_end(&plan, 2);
    }
}

/// GRAD-5: large keys in different orders, with the smallest windows there are.
#[test]
fn large_keys_in_different_orders_end_with_any_window() {
    for (push, pull, servers) in [(1, 1, 0), (1, 64, 0), (64, 1, 1), (1, 1, 2)] {
        let keys = (0..4).map(|i| {
            let mut key = reduce(&format!("k{i}"), Combine::Mean, SMALL / 4 * 3 + 17, vec![2; 3]);
            key.priority = i % 2;
            key
        });
        let mut plan = Plan::plain(3, servers, keys.collect());
        (plan.block_size, plan.push, plan.pull) = (32 << 10, push, pull);
        plan.pieces = false;
        plan.capacity = 1;
        all_end(&plan, 3);
    }
}

/// Empty tensors of half precision: their sum is as wide as they are, namely not at all.
#[test]
fn empty_tensors_of_every_type_end() {
    for (workers, servers) in [(1, 0), (2, 0), (2, 1)] {
        let all = [What::Reduce(Combine::Mean), What::Broadcast { root: 0 }, What::Gather, What::PartialGather];
        let keys = DType::ALL.into_iter().flat_map(|dtype| {
            all.map(|what| Key::new(&format!("{what:?} {dtype}"), what, dtype, 0, vec![2; workers as usize]))
        });
        all_end(&Plan::plain(workers, servers, keys.collect()), 4);
    }
}

/// A worker that has finished has no place for a copy and must not be sent one.
#[test]
fn copies_go_on_without_those_who_have_finished() {
    for servers in [0, 1] {
        let what = What::Broadcast { root: 1 };
        let plan = Plan::plain(3, servers, vec![Key::new("weights", what, DType::F32, 100, vec![1, 4, 4])]);
        all_end(&plan, 8);
    }
}

/// GRAD-5: a part of a gather that can no longer come ends it, whoever it was that died.
#[test]
fn a_gather_ends_when_any_of_its_givers_dies() {
    for dead in 0..3 {
        for at in 0..60 {
            let mut plan = Plan::plain(3, 1, vec![Key::new("parts", What::Gather, DType::F32, 70_000, vec![2; 3])]);
            plan.on_death = OnDeath::Continue;
            plan.deaths = vec![(dead, at)];
            all_end(&plan, 1);
        }
    }
}

/// GRAD-5: a partial gather goes on without those who have finished or died, and all know without whom.
#[test]
fn a_partial_gather_goes_on_without_those_who_are_gone() {
    for servers in [0, 1, 3] {
        let keys = vec![
            Key::new("small", What::PartialGather, DType::F32, 100, vec![1, 2, 4, 0]),
            Key::new("large", What::PartialGather, DType::F64, 70_000, vec![1, 2, 4, 0]),
        ];
        all_end(&Plan::plain(4, servers, keys), 8);
    }
    for (dead, at) in (0..3).flat_map(|n| (0..60).map(move |at| (n, at))) {
        let mut plan = Plan::plain(3, 2, vec![Key::new("parts", What::PartialGather, DType::F32, 70_000, vec![2; 3])]);
        plan.on_death = OnDeath::Continue;
        plan.deaths = vec![(dead, at)];
        all_end(&plan, 1);
    }
}

/// GRAD-2, GRAD-5: operations of a few of the workers wait for those alone, in any order, whatever the others do or have done.
#[test]
fn groups_wait_for_their_own_alone() {
    for servers in [0, 2] {
        let steps = || vec![3; 4];
        let large = SMALL / 2;
        let mut keys = vec![
            reduce("of all", Combine::Sum, 1000, steps()),
            reduce("large, of two", Combine::Mean, large, steps()).among(&[0, 2]),
            reduce("large, of others", Combine::Mean, large, steps()).among(&[1, 2, 3]),
            reduce("of one", Combine::WeightedMean, 10, steps()).among(&[3]),
            Key::new("rows", What::Gather, DType::F16, 700, steps()).among(&[1, 3]),
            Key::new("rows with holes", What::PartialGather, DType::F32, 700, steps()).among(&[0, 1, 3]),
        ];
        for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 0)] {
            let name = format!("from {from} to {to}");
            let both = [from.min(to), from.max(to)];
            keys.push(Key::new(&name, What::Broadcast { root: from }, DType::F32, 50_000, steps()).among(&both));
        }
        let mut plan = Plan::plain(4, servers, keys);
        (plan.block_size, plan.push, plan.pull, plan.barrier) = (64 << 10, 1, 1, false);
        all_end(&plan, 6);
    }
}

/// A world of one copies to nobody: in a loop, not by calling itself once a chunk.
#[test]
fn a_large_copy_alone_needs_no_deep_stack() {
    let mut plan =
        Plan::plain(1, 0, vec![Key::new("weights", What::Broadcast { root: 0 }, DType::F32, 8 << 20, vec![1])]);
    plan.block_size = 1024;
    sim::run(&plan, 0);
}

/// GRAD-5: who has finished and only waits for the others to finish does not wait for the dead.
#[test]
fn a_finished_worker_does_not_wait_for_the_farewell_of_the_dead() {
    for at in 0..40 {
        let mut plan = Plan::plain(2, 0, vec![reduce("k", Combine::Sum, 100, vec![0, 3])]);
        plan.deaths = vec![(1, at)];
        all_end(&plan, 2);
    }
}
