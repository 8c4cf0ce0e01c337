//! Tiny gangs, tried out completely: every death at every moment, and every order of a smallest exchange.
//! Holds GRAD-2 to GRAD-5 and GANG-2 (the checks are the simulator's).

mod sim;

use shoal_sync::dtype::DType;
use shoal_sync::node::SMALL;
use shoal_sync::settings::OnDeath;
use shoal_sync::wire::Combine;
use sim::chooser::{Chooser, next_script};
use sim::gang::Gang;
use sim::plan::{Key, Plan, What};

/// Workers and servers.
const GANGS: [(u32, u32); 4] = [(2, 0), (2, 1), (3, 0), (3, 1)];

/// One tensor that is sent at once and one that is announced.
fn small_and_large(workers: u32, servers: u32) -> Vec<Key> {
    let shards = if servers == 0 { workers } else { servers } as usize;
    let steps = vec![1; workers as usize];
    let large = (SMALL + 4096) / 8 * shards;
    vec![
        Key::new("small", What::Reduce(Combine::Mean), DType::Bf16, 1000, vec![2; workers as usize]),
        Key::new("large", What::Reduce(Combine::WeightedMean), DType::F64, large, steps),
    ]
}

/// Kills each node before each move of a fixed schedule, under both policies.
fn kill_everyone_everywhere(keys: impl Fn(u32, u32) -> Vec<Key>, gangs: &[(u32, u32)], schedules: u64) {
    for &(workers, servers) in gangs {
        let mut plan = Plan::plain(workers, servers, keys(workers, servers));
        for schedule in 0..schedules {
            plan.deaths.clear();
            let moves = sim::run(&plan, schedule).events;
            // Beside a shard every death ends the run, whatever the policy.
            let policies = [OnDeath::Fail, OnDeath::Continue];
            for &policy in if servers == 0 { &policies[..1] } else { &policies } {
                plan.on_death = policy;
                for (node, at) in (0..workers + servers).flat_map(|n| (0..moves).map(move |at| (n, at))) {
                    plan.deaths = vec![(node, at)];
                    let what =
                        format!("{workers}+{servers}, {policy:?}, schedule {schedule}: node {node} dies at {at}");
                    sim::told(&what, || sim::run(&plan, schedule));
                }
            }
        }
    }
}

#[test]
fn any_death_at_any_moment_of_a_sum() {
    kill_everyone_everywhere(small_and_large, &GANGS[..3], 1);
}

#[test]
fn any_death_at_any_moment_of_small_sums() {
    let keys = |workers, _| {
        let steps = vec![2; workers as usize];
        vec![
            Key::new("a", What::Reduce(Combine::Sum), DType::F32, 3, steps.clone()),
            Key::new("b", What::Reduce(Combine::Mean), DType::F64, 700, steps),
        ]
    };
    kill_everyone_everywhere(keys, &GANGS, 3);
}

#[test]
fn any_death_at_any_moment_of_a_copy() {
    let keys = |workers, _| {
        let steps = vec![2; workers as usize];
        vec![
            Key::new("weights", What::Broadcast { root: 1 }, DType::F32, 40_000, steps.clone()),
            Key::new("parts", What::Gather, DType::F16, 300, steps),
        ]
    };
    kill_everyone_everywhere(keys, &GANGS, 2);
}

#[test]
fn any_death_at_any_moment_of_a_partial_gather() {
    let keys = |workers, _| {
        let mut steps = vec![2; workers as usize];
        let large = Key::new("large", What::PartialGather, DType::F32, 40_000, vec![1; workers as usize]);
        steps[0] = 1;
        vec![large, Key::new("parts", What::PartialGather, DType::F16, 300, steps)]
    };
    kill_everyone_everywhere(keys, &GANGS[1..], 1);
}

/// Also of those who have nothing to do with it: then it goes on, where the run does.
#[test]
fn any_death_at_any_moment_of_groups() {
    let keys = |_, _| {
        vec![
            Key::new("two", What::Reduce(Combine::Mean), DType::F32, 700, vec![2; 3]).among(&[0, 1]),
            Key::new("two others", What::Reduce(Combine::Sum), DType::F32, 40_000, vec![1; 3]).among(&[1, 2]),
            Key::new("from 0 to 2", What::Broadcast { root: 0 }, DType::F16, 300, vec![1; 3]).among(&[0, 2]),
            Key::new("rows", What::PartialGather, DType::F16, 300, vec![1; 3]).among(&[0, 1]),
        ]
    };
    kill_everyone_everywhere(keys, &GANGS[2..], 1);
}

/// So many orders of a plan are tried before it is called too large for this.
const MOST: usize = 300_000;

/// Every order in which the moves of a plan can happen; `most` guards against a plan that has too many.
fn every_order(plan: &Plan, most: usize) -> usize {
    let (mut script, mut orders) = (Vec::new(), 0);
    loop {
        let what = format!("{plan:?} in the order {script:?}");
        let chooser = Chooser::scripted(script.clone());
        let (_, chooser) = sim::told(&what, || Gang::new(plan.clone(), chooser).run());
        orders += 1;
        assert!(orders <= most, "more than {most} orders");
        let Chooser::Scripted { widths, .. } = chooser else { unreachable!("it was scripted") };
        match next_script(script, &widths) {
            Some(next) => script = next,
            None => return orders,
        }
    }
}

fn smallest(workers: u32, servers: u32, what: What, leave: bool) -> Plan {
    let mut plan = Plan::plain(workers, servers, vec![Key::new("k", what, DType::F32, 4, vec![1; workers as usize])]);
    plan.pieces = false;
    plan.leave = leave;
    plan
}

#[test]
fn every_order_of_a_small_sum_of_two_ends() {
    let colocated = every_order(&smallest(2, 0, What::Reduce(Combine::Mean), true), MOST);
    let in_pieces = every_order(&Plan { pieces: true, ..smallest(2, 0, What::Reduce(Combine::Mean), false) }, MOST);
    let served = every_order(&smallest(2, 1, What::Reduce(Combine::Mean), false), MOST);
    println!("{colocated} orders beside the workers, {in_pieces} in pieces, {served} at a server");
}

#[test]
fn every_order_of_a_copy_between_two_ends() {
    let colocated = every_order(&smallest(2, 0, What::Broadcast { root: 0 }, true), MOST);
    let served = every_order(&smallest(2, 1, What::Broadcast { root: 0 }, false), MOST);
    println!("{colocated} orders beside the workers, {served} at a server");
}

/// One worker finishes before, while and after the others gather.
#[test]
fn every_order_of_a_partial_gather_of_two_ends() {
    for (steps, servers) in [([0, 1], &[0, 1][..]), ([1, 0], &[0])] {
        for &servers in servers {
            let mut plan = smallest(2, servers, What::PartialGather, true);
            plan.keys[0].steps = steps.to_vec();
            println!("{steps:?}, {servers} servers: {} orders", every_order(&plan, MOST));
        }
    }
}
