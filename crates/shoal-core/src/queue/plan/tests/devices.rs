//! Which devices does a run get?

use super::wanting;
use crate::fleet::pool::ANY_MEMORY;
use crate::queue::event::Action;
use crate::queue::host::Gpu;
use crate::queue::sweep::Sweep;
use crate::queue::testing::{BAD, Bench, OK, facts, policy};

pub(super) fn gpus(name: &str, cells: u32, milli: u32, memory_gib: Option<u64>) -> Sweep {
    wanting(name, "ann", cells, |it| {
        it.wants.gpus_milli = milli;
        it.wants.gpu_memory_bytes = memory_gib.map(|gib| gib << 30);
    })
}

fn devices(actions: &[Action]) -> Vec<String> {
    let one = |action: &Action| match action {
        Action::Start { places, .. } => {
            let held = places.iter().flat_map(|seat| &seat.devices);
            Some(held.map(|held| format!("{}={}", held.uuid, held.milli)).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    actions.iter().filter_map(one).collect()
}

#[test]
fn parts_of_a_device_are_packed_and_whole_ones_stay_whole() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 3));
    bench.submit(gpus("s", 5, 300, Some(1)));
    let got = devices(&bench.go());
    assert_eq!(got, ["GPU-0=300", "GPU-0=300", "GPU-0=300", "GPU-1=300", "GPU-1=300"]);
    bench.submit(gpus("t", 2, 1000, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-2=1000"]);
    bench.submit(gpus("u", 1, 400, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-1=400"], "beside the one that waits for a whole device");
}

#[test]
fn more_than_one_device_is_whole_devices() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 4));
    bench.submit(gpus("s", 3, 1500, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-0=1000 GPU-1=1000", "GPU-2=1000 GPU-3=1000"]);
}

/// A process is on one machine, and a pool has many.
#[test]
fn more_than_one_device_of_a_pool_is_of_one_node() {
    let mut bench = Bench::new();
    let mut it = facts(32, 0);
    let names = [("n1", 4), ("n2", 3), ("n3", 3)];
    let gpu = |uuid: String| Gpu { uuid, memory_bytes: ANY_MEMORY, ..facts(1, 1).gpus.remove(0) };
    it.gpus = names.iter().flat_map(|(node, count)| (0..*count).map(move |n| gpu(format!("{node}/{n}")))).collect();
    bench.host(policy("a"), it);
    bench.submit(gpus("one", 1, 1000, None));
    assert_eq!(devices(&bench.go()), ["n1/0=1000"]);
    bench.submit(gpus("two", 4, 2000, None));
    let got = devices(&bench.go());
    assert_eq!(got, ["n1/1=1000 n1/2=1000", "n2/0=1000 n2/1=1000", "n3/0=1000 n3/1=1000"], "one of each is left");
}

#[test]
fn devices_that_others_use_are_not_free() {
    let mut bench = Bench::new();
    let mut it = facts(32, 3);
    it.gpus[0].foreign_processes = 1;
    it.gpus[1].foreign_bytes = 2 << 30;
    bench.host(policy("a"), it.clone());
    bench.submit(gpus("s", 9, 500, Some(1)));
    assert_eq!(devices(&bench.go()), ["GPU-2=500", "GPU-2=500"]);
    it.gpus[0].foreign_processes = 0;
    bench.seen("a", it);
    assert_eq!(devices(&bench.go()), ["GPU-0=500", "GPU-0=500"]);
}

#[test]
fn declared_memory_bounds_what_shares_a_device() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 1));
    bench.submit(gpus("s", 9, 100, Some(6)));
    assert_eq!(bench.go().len(), 2, "16 GiB hold two of 6");
    bench.submit(gpus("t", 1, 100, Some(20)));
    assert_eq!(bench.go().len(), 0);
}

#[test]
fn memory_is_learned_from_the_first_that_finishes() {
    let mut bench = Bench::new();
    bench.host(policy("a"), facts(32, 2));
    bench.submit(gpus("s", 20, 100, None));
    assert_eq!(devices(&bench.go()), ["GPU-0=100", "GPU-1=100"], "each alone");
    bench.submit(gpus("t", 1, 100, Some(1)));
    assert_eq!(bench.go(), [], "nobody beside them");
    bench.end_rank("s:0.0#1", "a", 0, OK, 4 << 30);
    // 4 GiB and headroom: three on a device, and one is there already; then there is room for the other as well.
    assert_eq!(devices(&bench.go()).len(), 3 + 2 + 1);
}

#[test]
fn what_nobody_saw_of_its_memory_keeps_a_run_alone() {
    for (ending, seen, packed) in [(OK, 0, false), (BAD, 4 << 30, false), (OK, 4 << 30, true)] {
        let mut bench = Bench::new();
        bench.host(policy("a"), facts(32, 1));
        let mut it = gpus("s", 9, 100, None);
        it.rules.retries = 1;
        bench.submit(it);
        assert_eq!(bench.go().len(), 1);
        bench.end_rank("s:0.0#1", "a", 0, ending.clone(), seen);
        assert_eq!(bench.go().len() > 1, packed, "{ending} {seen}");
    }
}
