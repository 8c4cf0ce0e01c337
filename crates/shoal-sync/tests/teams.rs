//! Workers of several hosts, where those of one host sum in its memory first and one sum leaves it. The hosts are pretended
//! (`crates/shoal/tests/across_hosts.rs` has real ones); sockets, memory and processes' ways are real.

mod common;

use common::{Gang, combine};
use shoal_sync::{DType, Engine, Op, Settings, SyncError, TensorSpec};

/// By worker: the host it pretends to be on.
fn on_hosts(hosts: &'static [&'static str]) -> impl Fn(&mut Settings) {
    move |s| {
        s.shared_memory = true;
        s.pretend_host = Some(hosts[s.client_id as usize].into());
    }
}

const GANGS: [&[&str]; 4] = [&["a", "a", "b", "b"], &["a", "b", "a"], &["a", "a", "a"], &["a", "b", "b", "b", "c"]];

fn values(rank: u32, len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 97) as f32 + 100.0 * rank as f32).collect()
}

fn sum_of(ranks: impl Iterator<Item = u32> + Clone, len: usize) -> Vec<f32> {
    (0..len).map(|i| ranks.clone().map(|r| (i % 97) as f32 + 100.0 * r as f32).sum()).collect()
}

#[test]
fn sums_of_all_sizes() {
    for hosts in GANGS {
        for servers in [0, 2] {
            let workers = hosts.len() as u32;
            Gang::start(workers, servers).work(workers, on_hosts(hosts), |engine| {
                for len in [0usize, 1000, 16_383, 16_384, 50_000, 300_000, 1_500_001] {
                    for step in 0..3 {
                        let mut x = values(engine.rank(), len);
                        combine(engine, &format!("t{len}"), &mut x, Op::Sum).expect("sum");
                        assert_eq!(x, sum_of(0..engine.size(), len), "{len} elements, step {step}");
                    }
                }
            });
        }
    }
}

#[test]
fn means_weights_and_element_types() {
    for hosts in GANGS {
        Gang::start(hosts.len() as u32, 1).work(hosts.len() as u32, on_hosts(hosts), |engine| {
            let (rank, size) = (engine.rank() as f32, engine.size() as f32);
            let mean = (size - 1.0) / 2.0;
            let mut x = vec![rank; 50_000];
            combine(engine, "mean", &mut x, Op::Mean).expect("mean");
            assert_eq!(x, vec![mean; 50_000]);

            // Weights 1, 2, 3, ...: of ranks 0, 1, 2, ... their weighted mean is sum r (r + 1) / sum (r + 1).
            let ranks = 0..engine.size();
            let above: f64 = ranks.clone().map(|r| f64::from(r * (r + 1))).sum();
            let below: f64 = ranks.map(|r| f64::from(r + 1)).sum();
            let mut x = vec![rank; 50_000];
            combine(engine, "weighted", &mut x, Op::WeightedMean(f64::from(rank) + 1.0)).expect("weighted");
            assert!(x.iter().all(|v| (f64::from(*v) - above / below).abs() < 1e-6), "{}", x[0]);

            // Nobody has a sample: there is no mean.
            let mut x = vec![rank; 50_000];
            combine(engine, "weightless", &mut x, Op::WeightedMean(0.0)).expect("weightless");
            assert_eq!(x, vec![0.0; 50_000]);

            for dtype in [DType::Bf16, DType::F16] {
                let narrow = |x: f32| match dtype {
                    DType::Bf16 => half::bf16::from_f32(x).to_bits(),
                    _ => half::f16::from_f32(x).to_bits(),
                };
                // The sum of the parts would overflow half precision; the mean must not.
                let mut x = vec![narrow(40_000.0); 100_000];
                let spec = TensorSpec { dtype, shape: vec![x.len()], priority: 0 };
                let key = engine.register(dtype.name(), spec).expect("register");
                // SAFETY: `x` lives until the wait has ended.
                unsafe { engine.push_pull(&key, x.as_mut_ptr().cast(), Op::Mean) }
                    .expect("submit")
                    .wait()
                    .expect("mean");
                assert!(x.iter().all(|b| *b == narrow(40_000.0)), "{dtype}: {:#x}", x[0]);
            }
        });
    }
}

/// The worker that spoke for its host finishes first, then the next one: nobody hands anything over.
#[test]
fn whoever_is_left_speaks() {
    for hosts in GANGS {
        for servers in [0, 1] {
            let workers = hosts.len() as u32;
            Gang::start(workers, servers).work(workers, on_hosts(hosts), |engine| {
                for step in 0..(2 + 2 * engine.rank()) {
                    for len in [100usize, 200_000] {
                        let mut x = values(engine.rank(), len);
                        combine(engine, &format!("x{len}"), &mut x, Op::Sum).expect("sum");
                        let there = (0..engine.size()).filter(|r| step < 2 + 2 * r);
                        assert_eq!(x, sum_of(there, len), "rank {} step {step}", engine.rank());
                    }
                }
                engine.finish().expect("finish");
            });
        }
    }
}

#[test]
fn many_keys_from_many_threads_in_any_order() {
    Gang::start(4, 0).work(4, on_hosts(GANGS[0]), |engine| {
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                scope.spawn(move || many_keys(engine, thread));
            }
        });
    });
}

fn many_keys(engine: &Engine, thread: usize) {
    let len = |key: usize| 1000 + key * 20_000;
    let mut order: Vec<usize> = (0..10).collect();
    order.rotate_left((engine.rank() as usize * 3 + thread) % 10);
    for step in 0..3 {
        let mut data: Vec<Vec<f32>> = (0..10).map(|key| values(engine.rank(), len(key))).collect();
        let mut pending = Vec::new();
        for key in &order {
            let spec = TensorSpec { dtype: DType::F32, shape: vec![len(*key)], priority: *key as u16 };
            let name = engine.register(&format!("k{thread} {key}"), spec).expect("register");
            // SAFETY: `data` outlives the waits below.
            pending.push(unsafe { engine.push_pull(&name, data[*key].as_mut_ptr().cast(), Op::Sum) }.expect("submit"));
        }
        pending.into_iter().for_each(|p| p.wait().expect("sum"));
        for (key, x) in data.iter().enumerate() {
            assert_eq!(*x, sum_of(0..4, len(key)), "thread {thread} key {key} step {step}");
        }
    }
}

#[test]
fn one_sum_leaves_the_host() {
    const BYTES: u64 = 4 << 20;
    let sent = Gang::start(4, 1).work(4, on_hosts(GANGS[0]), |engine| {
        engine.barrier().expect("all here");
        let before = engine.traffic().bytes_sent;
        let mut x = values(engine.rank(), BYTES as usize / 4);
        combine(engine, "big", &mut x, Op::Sum).expect("sum");
        engine.traffic().bytes_sent - before
    });
    let speaking = |n: u64| (BYTES..BYTES + BYTES / 16).contains(&n);
    assert!(speaking(sent[0]) && speaking(sent[2]), "{sent:?}");
    assert!(sent[1] < 4096 && sent[3] < 4096, "{sent:?}");
}

#[test]
fn misuse_is_told() {
    Gang::start(2, 1).work(2, on_hosts(&["a", "a"]), |engine| {
        let spec = TensorSpec { dtype: DType::F32, shape: vec![100_000], priority: 0 };
        let key = engine.register("k", spec).expect("register");
        let mut x = values(engine.rank(), 100_000);
        if engine.rank() == 1 {
            // The neighbour's operation cannot end before this worker comes, and it comes after the barrier.
            engine.barrier().expect("barrier");
        }
        // SAFETY: `x` lives until the wait has ended.
        let first = unsafe { engine.push_pull(&key, x.as_mut_ptr().cast(), Op::Sum) }.expect("submit");
        if engine.rank() == 0 {
            // SAFETY: it is refused, so nothing happens to `x`.
            let again = unsafe { engine.push_pull(&key, x.as_mut_ptr().cast(), Op::Sum) }.map(drop);
            assert!(
                matches!(&again, Err(SyncError::Usage { why, .. }) if why.contains("still under way")),
                "{again:?}"
            );
            let early = engine.finish();
            assert!(
                matches!(&early, Err(SyncError::Usage { why, .. }) if why.contains("still under way")),
                "{early:?}"
            );
            engine.barrier().expect("barrier");
        }
        first.wait().expect("sum");
        // SAFETY: as above.
        let odd = unsafe { engine.push_pull(&key, x.as_mut_ptr().cast(), Op::WeightedMean(f64::NAN)) };
        assert!(matches!(odd.map(drop), Err(SyncError::Usage { .. })));
    });
}
