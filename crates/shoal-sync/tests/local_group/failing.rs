//! What the ranks are told when one of them is wrong, dead, stopped or misused.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use shoal_sync::dtype::DType;
use shoal_sync::local::*;

use super::harness::*;
use super::scenario;

#[test]
fn a_mismatch_names_both_ranks_to_all() {
    run(scenario("mismatch"), 3);
}
pub fn mismatch(r: &Rank) {
    let odd = r.rank == 1;
    let mut data = vec![1f32; 600_000];
    let mut try_with = |slot: u32, step: u64, n: usize, fingerprint: u64, dtype: DType| {
        let action = reduce(dtype, Scale::Sum, &mut data[..n]);
        let wait = |ticket| r.group.wait(&ticket, Some(LONG));
        // SAFETY: `data` outlives the wait.
        match unsafe { r.group.submit(slot, step, LocalOp { fingerprint, action }) }.and_then(wait) {
            Err(LocalError::Mismatch { slot: at, rank, other, what, .. }) => {
                assert!(at == slot && rank != other && (rank == 1 || other == 1), "{rank} {other}");
                what
            }
            other => panic!("rank {}: {other:?}", r.rank),
        }
    };
    assert_eq!(try_with(0, 0, 8, odd.into(), DType::F32), Difference::Fingerprint);
    assert_eq!(try_with(1, 0, if odd { 8 } else { 600_000 }, 0, DType::F32), Difference::Bytes);
    assert_eq!(try_with(2, 0, 8, 0, if odd { DType::F64 } else { DType::F32 }), Difference::Operation);
    assert_eq!(try_with(3, odd.into(), 8, 0, DType::F32), Difference::Step);
    r.barrier(9, 0);
    // The slot itself is not broken by it.
    assert_eq!(r.sum(0, 1, &mut data[..8]).unwrap().len(), 3);
}

#[test]
fn a_killed_rank_ends_every_wait_with_its_name() {
    for _ in 0..5 {
        run(scenario("killed"), 4);
    }
}
pub fn killed(r: &Rank) {
    let mut big = vec![1f32; 2 << 20];
    let steps = AtomicU64::new(0);
    let (error, took) = std::thread::scope(|s| {
        if r.rank == 0 {
            // In the middle of some step, whichever it is then.
            s.spawn(|| {
                wait_for(|| (steps.load(Relaxed) >= 3).then_some(()));
                kill_process(Pid::from_raw(r.others[1].id() as i32).unwrap(), Signal::KILL).unwrap();
                r.group.poison(2);
            });
        }
        loop {
            let began = Instant::now();
            match r.sum(0, steps.load(Relaxed), &mut big) {
                Ok(_) => steps.fetch_add(1, Relaxed),
                Err(e) => break (e, began.elapsed()),
            };
        }
    });
    assert!(matches!(error, LocalError::Dead { rank: 2 }), "rank {}: {error:?}", r.rank);
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(matches!(r.sum(5, 0, &mut big), Err(LocalError::Dead { rank: 2 })), "and every later one");
}

#[test]
fn a_death_nobody_told_is_found() {
    run(scenario("killed_unsaid"), 3);
}
pub fn killed_unsaid(r: &Rank) {
    r.barrier(0, 0);
    if r.rank == 2 {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    assert!(matches!(r.sum(1, 0, &mut [1.0; 8]), Err(LocalError::Dead { rank: 2 })));
}

#[test]
fn after_an_error_nobody_writes_to_the_tensor_any_more() {
    for _ in 0..5 {
        run(scenario("withdrawn"), 4);
    }
}
pub fn withdrawn(r: &Rank) {
    let mut big = vec![1f32; 2 << 20];
    for step in 0.. {
        // Rank 2 is declared dead while it lives and works: the worst case for the others' memory.
        let poison = || r.group.poison(2);
        let error = std::thread::scope(|s| {
            if r.rank == 1 && step == 2 {
                s.spawn(poison);
            }
            r.sum(0, step, &mut big).err()
        });
        if let Some(error) = error {
            assert!(matches!(error, LocalError::Dead { rank: 2 }), "rank {}: {error:?}", r.rank);
            break;
        }
    }
    big.fill(7.0);
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        assert!(big.iter().all(|&x| x == 7.0), "rank {}: somebody wrote after the end", r.rank);
    }
}

#[test]
fn a_stopped_rank_is_waited_for_by_name() {
    run(scenario("stopped"), 3);
}
pub fn stopped(r: &Rank) {
    let signal = |s| {
        let pid = Pid::from_raw(r.others[1].id() as i32).unwrap();
        kill_process(pid, s).unwrap();
    };
    let (mut small, mut big) = (vec![1f32; 8], vec![1f32; 1 << 20]);
    for step in 0..2 {
        r.barrier(0, step);
        if r.rank == 0 {
            signal(Signal::STOP);
            let op = |data: &mut [f32]| LocalOp { fingerprint: 0, action: reduce(DType::F32, Scale::Sum, data) };
            // SAFETY: both outlive the waits.
            let ticket = unsafe { r.group.submit(1, step, op(&mut small)) }.unwrap();
            // SAFETY: as above.
            let other = unsafe { r.group.submit(2, step, op(&mut big)) }.unwrap();
            // The signal takes a moment; a rank that was quick enough may have come before it.
            if !r.group.wait(&ticket, Some(Duration::from_millis(200))).unwrap() {
                wait_for(|| (r.group.missing(&ticket) == [2]).then_some(()));
            }
            signal(Signal::CONT);
            assert!(r.group.wait(&ticket, Some(LONG)).unwrap());
            assert!(r.group.wait(&other, Some(LONG)).unwrap());
        } else {
            for (slot, data) in [(1, &mut small), (2, &mut big)] {
                // SAFETY: the data outlives the wait.
                let ticket = unsafe {
                    r.group.submit(slot, step, LocalOp { fingerprint: 0, action: reduce(DType::F32, Scale::Sum, data) })
                }
                .unwrap();
                assert!(r.group.wait(&ticket, Some(LONG)).unwrap());
            }
        }
        assert!(small.iter().chain(&big).all(|&x| x == 3f32.powi(step as i32 + 1)));
    }
}

#[test]
fn misuse_is_refused_in_words() {
    run(scenario("misuse"), 2);
}
pub fn misuse(r: &Rank) {
    r.barrier(0, 0);
    let mut data = [1f32; 8];
    let action = reduce(DType::F32, Scale::Sum, &mut data);
    // SAFETY: the data outlives the waits.
    let submit = |slot, step, action| unsafe { r.group.submit(slot, step, LocalOp { fingerprint: 0, action }) };
    let root = Action::Broadcast { root: 7, addr: data.as_mut_ptr().cast(), bytes: 32 };
    assert!(matches!(submit(0, 1, root), Err(LocalError::BadOperation { .. })));
    let odd = Action::Reduce { dtype: DType::F32, scale: Scale::Sum, addr: data.as_mut_ptr().cast(), bytes: 31 };
    assert!(matches!(submit(0, 1, odd), Err(LocalError::BadOperation { .. })));
    assert!(matches!(submit(SLOTS as u32, 1, action), Err(LocalError::BadOperation { .. })));
    if r.rank == 0 {
        let ticket = submit(1, 0, action).unwrap();
        assert!(matches!(submit(1, 1, action), Err(LocalError::Busy { slot: 1, step: 1 })));
        assert!(matches!(r.group.finish(), Err(LocalError::InFlight { tickets: 1 })));
        assert_eq!(r.group.missing(&ticket), [1]);
        assert!(!r.group.wait(&ticket, Some(Duration::from_millis(10))).unwrap());
        r.barrier(0, 1);
        assert!(r.group.wait(&ticket, Some(LONG)).unwrap() && r.group.wait(&ticket, None).unwrap());
        // Rank 1 may finish while this waits for its root.
        let error = r.now(2, 0, Action::Broadcast { root: 1, addr: data.as_mut_ptr().cast(), bytes: 32 }).unwrap_err();
        assert!(matches!(error, LocalError::RootFinished { root: 1, .. }), "{error:?}");
    } else {
        r.barrier(0, 1);
        assert!(r.group.wait(&submit(1, 0, action).unwrap(), Some(LONG)).unwrap());
        r.group.finish().unwrap();
    }
}

#[test]
fn memory_that_is_not_there_is_an_error_that_names_its_rank() {
    run(scenario("bad_memory"), 3);
}
pub fn bad_memory(r: &Rank) {
    let mut data = vec![1f32; 1 << 20];
    let mut action = reduce(DType::F32, Scale::Sum, &mut data);
    if let (1, Action::Reduce { addr, .. }) = (r.rank, &mut action) {
        *addr = std::ptr::without_provenance_mut(4096);
    }
    // SAFETY: on rank 1 it is not, which is the point: that rank never works on it (it only asks `is_done`).
    let ticket = unsafe { r.group.submit(0, 0, LocalOp { fingerprint: 0, action }) }.unwrap();
    let error = match r.rank {
        1 => wait_for(|| r.group.is_done(&ticket).err()),
        _ => r.group.wait(&ticket, Some(LONG)).unwrap_err(),
    };
    assert!(matches!(error, LocalError::Memory { rank: 1, errno: libc::EFAULT, .. }), "{error:?}");
    r.barrier(1, 0);
}
