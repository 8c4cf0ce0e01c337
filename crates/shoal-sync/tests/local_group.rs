//! The ranks of one host, as real processes: right sums, and named errors when something is wrong.

#[path = "local_group/failing.rs"]
mod failing;
#[path = "local_group/harness.rs"]
mod harness;
#[path = "local_group/joining.rs"]
mod joining;

use std::time::Instant;

use half::{bf16, f16};
use harness::*;
use shoal_sync::dtype::DType;
use shoal_sync::local::*;

const SCENARIOS: &[Scenario] = &[
    ("sums", sums),
    ("many_keys", many_keys),
    ("means", means),
    ("copies", copies),
    ("finishing", finishing),
    ("mismatch", failing::mismatch),
    ("killed", failing::killed),
    ("killed_unsaid", failing::killed_unsaid),
    ("withdrawn", failing::withdrawn),
    ("stopped", failing::stopped),
    ("deterministic", deterministic),
    ("shared", shared),
    ("misuse", failing::misuse),
    ("bad_memory", failing::bad_memory),
];

fn scenario(name: &str) -> Scenario {
    *SCENARIOS.iter().find(|s| s.0 == name).unwrap()
}

/// Not a test: what the other ranks run.
#[test]
fn child() {
    let Some((name, socket, rank, ranks)) = as_child() else { return };
    if name == "forbidden" {
        return joining::forbidden(&socket, rank);
    }
    let members: Vec<u32> = (0..ranks).collect();
    let group = LocalGroup::connect(&socket, &members, rank, &SECRET, Instant::now() + LONG).unwrap();
    scenario(&name).1(&Rank { group, rank, ranks, others: vec![] });
}

#[test]
fn sums_of_every_type_and_size_are_right() {
    run(scenario("sums"), 4);
    run(scenario("sums"), 1);
    run(scenario("sums"), 3);
}
fn sums(r: &Rank) {
    fn check<T: Copy>(r: &Rank, dtype: DType, step: u64, make: fn(f32) -> T, read: fn(T) -> f32) {
        for (slot, n) in [0, 1, 1024, 5000, 262_145].into_iter().enumerate() {
            let mut data: Vec<T> = (0..n).map(|i| make(number(r.rank, i))).collect();
            let came = r.now(slot as u32, step, reduce(dtype, Scale::Sum, &mut data)).unwrap();
            assert_eq!(came.len(), r.ranks as usize);
            let wrong = (0..n).find(|&i| read(data[i]) != expected_sum(r.ranks, i));
            assert_eq!(wrong, None, "{dtype} x {n}");
        }
    }
    for round in 0..3 {
        check(r, DType::F32, round * 4, |x| x, |x| x);
        check(r, DType::F64, round * 4 + 1, f64::from, |x| x as f32);
        check(r, DType::Bf16, round * 4 + 2, bf16::from_f32, bf16::to_f32);
        check(r, DType::F16, round * 4 + 3, f16::from_f32, f16::to_f32);
    }
}

#[test]
fn many_keys_in_flight_from_two_threads_in_any_order() {
    run(scenario("many_keys"), 4);
}
fn many_keys(r: &Rank) {
    let lengths = [3, 700, 5000, 20_000, 100_000];
    let (group, rank, ranks) = (&r.group, r.rank, r.ranks);
    std::thread::scope(|s| {
        for thread in 0..2u32 {
            s.spawn(move || {
                for step in 0..5u64 {
                    let keys: Vec<u32> = (0..40).map(|k| k * 2 + thread).collect();
                    let mut data: Vec<Vec<f32>> = keys
                        .iter()
                        .map(|&k| (0..lengths[k as usize % 5]).map(|i| number(rank + k, i)).collect())
                        .collect();
                    // Each rank and step in another order: 7 and 40 have no common factor.
                    let order = |i: usize| (i * 7 + rank as usize * 11 + step as usize) % 40;
                    let tickets: Vec<(usize, Ticket)> = (0..40)
                        .map(order)
                        .map(|k| {
                            let action = reduce(DType::F32, Scale::Sum, &mut data[k]);
                            // SAFETY: `data` outlives the waits below.
                            (k, unsafe { group.submit(keys[k], step, LocalOp { fingerprint: 0, action }) }.unwrap())
                        })
                        .collect();
                    for (_, ticket) in tickets.iter().rev() {
                        assert!(group.wait(ticket, Some(LONG)).unwrap(), "missing {:?}", group.missing(ticket));
                    }
                    for (&k, data) in keys.iter().zip(&data) {
                        let want = |i| (0..ranks).map(|q| number(q + k, i)).sum::<f32>();
                        assert!(data.iter().enumerate().all(|(i, &x)| x == want(i)), "key {k}, step {step}");
                    }
                }
            });
        }
    });
}

#[test]
fn means_divide_by_ranks_or_by_weights() {
    run(scenario("means"), 4);
}
fn means(r: &Rank) {
    for (slot, n) in [5usize, 300_000].into_iter().enumerate() {
        let mut mean = vec![r.rank as f32; n];
        r.now(slot as u32, 0, reduce(DType::F32, Scale::Mean, &mut mean)).unwrap();
        assert!(mean.iter().all(|&x| x == 1.5));
        let mut weighted = vec![f64::from(r.rank); n];
        let scale = Scale::WeightedMean { weight: f64::from(r.rank * 10) };
        r.now(slot as u32, 1, reduce(DType::F64, scale, &mut weighted)).unwrap();
        let want = f64::from(10 + 2 * 20 + 3 * 30) / 60.0;
        assert!(weighted.iter().all(|&x| (x - want).abs() < 1e-12), "{} is not {want}", weighted[0]);
    }
}

#[test]
fn broadcast_gather_and_barrier() {
    run(scenario("copies"), 4);
}
fn copies(r: &Rank) {
    for (slot, n) in [1usize, 1000, 100_001, 1_500_001].into_iter().enumerate() {
        for step in 0..8 {
            let root = step as u32 % r.ranks;
            // Each rank's begins elsewhere in its cache line.
            let mut data: Vec<u8> = (0..n + 15).map(|i| (i + r.rank as usize * 26) as u8).collect();
            let data = &mut data[r.rank as usize * 5..][..n];
            let sent = Action::Broadcast { root, addr: data.as_mut_ptr(), bytes: n };
            r.now(slot as u32, step, sent).unwrap();
            assert!(data.iter().enumerate().all(|(i, &x)| x == (i + root as usize * 31) as u8), "{n} from {root}");

            let part: Vec<u8> = (0..n).map(|i| (i * 3 + r.rank as usize) as u8).collect();
            let mut out = vec![0u8; n * r.ranks as usize];
            let mine = &mut out[n * r.rank as usize..][..n];
            // Every other time the part already lies in its place.
            let part = if step % 2 == 0 {
                part.as_ptr()
            } else {
                mine.copy_from_slice(&part);
                mine.as_ptr()
            };
            let gather = Action::AllGather { part, bytes: n, out: out.as_mut_ptr() };
            r.now(slot as u32 + 10, step, gather).unwrap();
            assert!((0..out.len()).all(|i| out[i] == (i % n * 3 + i / n) as u8), "{n}");
            r.barrier(20, slot as u64 * 8 + step);
        }
    }
}

#[test]
fn a_finished_rank_is_not_waited_for() {
    for _ in 0..5 {
        run(scenario("finishing"), 4);
    }
}
fn finishing(r: &Rank) {
    let steps = 3 + u64::from(r.rank) * 4;
    for step in 0..steps {
        for (slot, n) in [(0, 10), (1, 100_000)] {
            let mut data = vec![1.0 + r.rank as f32; n];
            let came = r.now(slot, step, reduce(DType::F32, Scale::Mean, &mut data)).unwrap();
            // Whoever has so many steps must be in; who has fewer cannot be.
            let want: Vec<u32> = (0..r.ranks).filter(|&q| step < 3 + u64::from(q) * 4).collect();
            let mean = want.iter().map(|&q| 1.0 + q as f32).sum::<f32>() / want.len() as f32;
            assert_eq!(came, want, "step {step}");
            assert!(data.iter().all(|&x| (x - mean).abs() < 1e-6), "{} is not {mean}", data[0]);
        }
    }
    r.group.finish().unwrap();
    assert!(matches!(r.sum(0, steps, &mut [0.0]), Err(LocalError::Finished)));
}

#[test]
fn all_ranks_get_the_same_bytes_every_time() {
    run(scenario("deterministic"), 4);
}
fn deterministic(r: &Rank) {
    for (slot, n) in [900usize, 700_003].into_iter().enumerate() {
        let mut first = None;
        for step in 0..8 {
            let mut room = vec![0f32; n + 8];
            // Not at the same place of a cache line on every rank.
            let data = &mut room[r.rank as usize * 2..][..n];
            data.iter_mut().enumerate().for_each(|(i, x)| *x = noise(r.rank.into(), i));
            r.sum(slot as u32, step, data).unwrap();
            let in_order = |i| (1..r.ranks).fold(noise(0, i), |sum, q| sum + noise(q.into(), i));
            assert!(data.iter().enumerate().all(|(i, x)| x.to_bits() == in_order(i).to_bits()), "rank order");
            let bits: Vec<u32> = data.iter().map(|x| x.to_bits()).collect();
            assert!(*first.get_or_insert_with(|| bits.clone()) == bits, "step {step}");
        }
    }
}

#[test]
fn tensors_in_shared_memory_mix_with_others() {
    run(scenario("shared"), 4);
}
fn shared(r: &Rank) {
    for (slot, bytes) in [4096usize, 128 << 10, 3 << 20].into_iter().enumerate() {
        let slot = slot as u32 * 2;
        let mut buffer = r.group.alloc(bytes).unwrap();
        let mut own = vec![0f32; bytes / 4];
        for step in 0..6 {
            // All in shared memory, then all but some.
            let here = step < 2 || (u64::from(r.rank) + step).is_multiple_of(3);
            let addr: *mut f32 = if here { buffer.as_mut_ptr().cast() } else { own.as_mut_ptr() };
            // SAFETY: both have that many floats, and nothing is in flight.
            let data = unsafe { std::slice::from_raw_parts_mut(addr, bytes / 4) };
            data.iter_mut().enumerate().for_each(|(i, x)| *x = number(r.rank, i));
            r.sum(slot, step, data).unwrap();
            assert!(data.iter().enumerate().all(|(i, &x)| x == expected_sum(r.ranks, i)), "{bytes}, step {step}");
            let root = step as u32 % r.ranks;
            data.fill(r.rank as f32);
            r.now(slot + 1, step, Action::Broadcast { root, addr: addr.cast(), bytes }).unwrap();
            assert!(data.iter().all(|&x| x == root as f32), "broadcast of {bytes}, step {step}");
        }
    }
    assert!(matches!(r.group.alloc(1 << 30), Err(LocalError::HeapFull { .. })));
}
