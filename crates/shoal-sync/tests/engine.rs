//! The engine over real sockets: results, shapes of gangs, odd sizes and settings.

mod common;

use common::{Gang, combine};
use shoal_sync::{DType, Engine, Op, TensorSpec};

/// Values that differ by rank and place, exactly representable so that any order of summation gives the same.
fn values(rank: u32, len: usize) -> Vec<f32> {
    (0..len).map(|i| (i % 97) as f32 + 100.0 * rank as f32).collect()
}

fn sum_of(workers: u32, len: usize) -> Vec<f32> {
    (0..len).map(|i| (0..workers).map(|r| (i % 97) as f32 + 100.0 * r as f32).sum()).collect()
}

fn check_sizes(engine: &Engine) {
    let workers = engine.size();
    for len in [0usize, 1, 1000, 300_000, 2_500_001] {
        for step in 0..3 {
            let mut x = values(engine.rank(), len);
            combine(engine, &format!("t{len}"), &mut x, Op::Sum).expect("sum");
            assert_eq!(x, sum_of(workers, len), "{len} elements, step {step}");
        }
    }
}

#[test]
fn any_numbers_of_workers_and_servers() {
    for (workers, servers) in [(1, 0), (2, 0), (3, 0), (1, 1), (3, 2), (2, 5)] {
        for shared in [false, true] {
            Gang::start(workers, servers).work(workers, |s| s.shared_memory = shared, check_sizes);
        }
    }
}

#[test]
fn any_settings_make_progress() {
    for (push, pull, block) in [(1, 1, 1024), (64, 64, 1024), (1, 64, 1 << 20), (64, 1, 64 << 20)] {
        let change = move |s: &mut shoal_sync::Settings| {
            (s.num_push_threads, s.num_pull_threads, s.block_size) = (push, pull, block);
        };
        Gang::start(3, 0).work(3, change, |engine| {
            for len in [10usize, 300_000] {
                let mut x = values(engine.rank(), len);
                combine(engine, &format!("t{len}"), &mut x, Op::Sum).expect("sum");
                assert_eq!(x, sum_of(3, len));
            }
        });
    }
}

#[test]
fn means_weights_and_element_types() {
    for shared in [false, true] {
        Gang::start(2, 0).work(2, |s| s.shared_memory = shared, check_operations);
    }
}

fn check_operations(engine: &Engine) {
    let rank = engine.rank() as f32;
    let mut x = vec![rank; 5000];
    combine(engine, "mean", &mut x, Op::Mean).expect("mean");
    assert_eq!(x, vec![0.5; 5000]);
    // Rank 0 has 30 samples, rank 1 has 10.
    let mut x = vec![rank * 4.0; 5000];
    let weight = if engine.rank() == 0 { 30.0 } else { 10.0 };
    combine(engine, "weighted", &mut x, Op::WeightedMean(weight)).expect("weighted");
    assert_eq!(x, vec![1.0; 5000]);

    let mut wide = vec![1e-12f64 * f64::from(engine.rank() + 1); 200_000];
    let key = TensorSpec { dtype: DType::F64, shape: vec![wide.len()], priority: 0 };
    let key = engine.register("f64", key).expect("register");
    // SAFETY: `wide` lives until the wait has ended.
    unsafe { engine.push_pull(&key, wide.as_mut_ptr().cast(), Op::Sum) }.expect("submit").wait().expect("sum");
    assert!(wide.iter().all(|x| (x - 3e-12).abs() < 1e-24));

    for dtype in [DType::Bf16, DType::F16] {
        let one = |x: f32| match dtype {
            DType::Bf16 => half::bf16::from_f32(x).to_bits(),
            _ => half::f16::from_f32(x).to_bits(),
        };
        let mut x = vec![one(rank + 1.0); 400_000];
        let key = TensorSpec { dtype, shape: vec![x.len()], priority: 0 };
        let key = engine.register(dtype.name(), key).expect("register");
        // SAFETY: `x` lives until the wait has ended.
        unsafe { engine.push_pull(&key, x.as_mut_ptr().cast(), Op::Mean) }.expect("submit").wait().expect("mean");
        assert!(x.iter().all(|b| *b == one(1.5)), "{dtype}");
    }
}

#[test]
fn broadcast_and_all_gather() {
    for (servers, shared) in [(0, false), (2, false), (0, true)] {
        Gang::start(3, servers).work(
            3,
            |s| s.shared_memory = shared,
            |engine| {
                for len in [0usize, 7, 600_000] {
                    for root in 0..3 {
                        let mut x = values(engine.rank(), len);
                        let spec = TensorSpec { dtype: DType::F32, shape: vec![len], priority: 0 };
                        let key = engine.register(&format!("b{len} {root}"), spec).expect("register");
                        // SAFETY: `x` lives until the wait has ended.
                        let pending = unsafe { engine.broadcast(&key, x.as_mut_ptr().cast(), root) }.expect("submit");
                        pending.wait().expect("broadcast");
                        assert_eq!(x, values(root, len));
                    }
                    let mut all = vec![0.0f32; 3 * len];
                    let mine = engine.rank() as usize;
                    all[mine * len..(mine + 1) * len].copy_from_slice(&values(engine.rank(), len));
                    let spec = TensorSpec { dtype: DType::F32, shape: vec![3, len], priority: 0 };
                    let key = engine.register(&format!("g{len}"), spec).expect("register");
                    // SAFETY: `all` lives until the wait has ended.
                    unsafe { engine.all_gather(&key, all.as_mut_ptr().cast()) }
                        .expect("submit")
                        .wait()
                        .expect("gather");
                    let expected: Vec<f32> = (0..3).flat_map(|r| values(r, len)).collect();
                    assert_eq!(all, expected);
                }
                engine.barrier().expect("barrier");
            },
        );
    }
}

/// Rank 0 finishes before the gather, rank 1 after two; who is left keeps what was in their rows, and knows whose (GRAD-5).
#[test]
fn a_partial_gather_leaves_the_rows_of_the_finished_alone() {
    for (servers, shared) in [(0, false), (2, false), (0, true), (1, true)] {
        Gang::start(3, servers).work(3, |s| s.shared_memory = shared, finishing_one_by_one);
    }
}

fn finishing_one_by_one(engine: &Engine) {
    let rank = engine.rank();
    for step in 0..2 * rank {
        for len in [1usize, 1000, 400_000] {
            let spec = TensorSpec { dtype: DType::F32, shape: vec![3, len], priority: 0 };
            let key = engine.register(&format!("p{len}"), spec).expect("register");
            let mut all = vec![-1.0f32; 3 * len];
            all[rank as usize * len..][..len].copy_from_slice(&values(rank, len));
            // SAFETY: `all` lives until the wait has ended.
            let mut pending = unsafe { engine.all_gather_partial(&key, all.as_mut_ptr().cast()) }.expect("submit");
            while pending.wait_timeout(std::time::Duration::from_secs(1)).is_none() {}
            let absent: Vec<u32> = (0..3).filter(|r| step >= 2 * r).collect();
            assert_eq!(pending.absent(), absent, "rank {rank}, step {step}, {len} elements");
            let row = |r: u32| if absent.contains(&r) { vec![-1.0; len] } else { values(r, len) };
            assert_eq!(all, (0..3).flat_map(row).collect::<Vec<f32>>());
        }
    }
    engine.finish().expect("finish");
}

#[test]
fn unequal_numbers_of_steps() {
    for shared in [false, true] {
        Gang::start(3, 0).work(3, |s| s.shared_memory = shared, uneven_steps);
    }
}

fn uneven_steps(engine: &Engine) {
    let rank = engine.rank();
    for step in 0..(2 + rank) {
        let mut x = vec![1.0f32; 200_000];
        combine(engine, "x", &mut x, Op::Sum).expect("sum");
        let taking_part = (0..3).filter(|r| step < 2 + r).count() as f32;
        assert_eq!(x[0], taking_part, "rank {rank} step {step}");
    }
    engine.finish().expect("finish");
}

#[test]
fn many_keys_in_flight_from_many_threads_in_any_order() {
    for shared in [false, true] {
        Gang::start(3, 0).work(3, |s| s.shared_memory = shared, many_threads);
    }
}

fn many_threads(engine: &Engine) {
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let engine = engine.clone();
            scope.spawn(move || {
                let mut order: Vec<usize> = (0..12).collect();
                order.rotate_left((engine.rank() as usize * 5 + thread) % 12);
                let mut data: Vec<Vec<f32>> =
                    (0..12).map(|i| values(engine.rank(), 1 + i * 40_000 * (1 + thread % 2))).collect();
                let lens: Vec<usize> = data.iter().map(Vec::len).collect();
                let mut pending = Vec::new();
                for &i in &order {
                    let spec = TensorSpec { dtype: DType::F32, shape: vec![lens[i]], priority: i as u16 };
                    let key = engine.register(&format!("{thread}/{i}"), spec).expect("register");
                    let at = data[i].as_mut_ptr().cast();
                    // SAFETY: `data` lives until all waits have ended.
                    pending.push(unsafe { engine.push_pull(&key, at, Op::Sum) }.expect("submit"));
                }
                for p in pending {
                    p.wait().expect("sum");
                }
                for (i, x) in data.iter().enumerate() {
                    assert_eq!(*x, sum_of(3, lens[i]));
                }
            });
        }
    });
}

#[test]
fn deterministic_sums_are_the_same_every_time() {
    let runs: Vec<Vec<Vec<f32>>> = [false, false, false, true, true]
        .into_iter()
        .map(|shared| {
            let change = move |s: &mut shoal_sync::Settings| (s.deterministic, s.shared_memory) = (true, shared);
            Gang::start(3, 0).work(3, change, |engine| {
                let mut x: Vec<f32> = (0..500_000u32)
                    .map(|i| ((i * 7919 + engine.rank() * 104_729) % 1000) as f32 * 1.000_1e-3)
                    .collect();
                combine(engine, "x", &mut x, Op::Mean).expect("mean");
                x
            })
        })
        .collect();
    for run in &runs {
        for x in run {
            assert!(x.iter().zip(&runs[0][0]).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
