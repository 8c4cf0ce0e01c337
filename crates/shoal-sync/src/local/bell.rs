//! Sleeping until something happens, and waking those it matters to.
//!
//! One futex word serves the whole group. A sleeper names the slot it waits for in the futex's
//! bitset (31 bits, so slots 31 apart share one and at worst wake for nothing) and adds `HELP` if
//! it may also be woken to work on any other operation.
//!
//! No wake-up is lost: an event changes shared state, bumps the word, then looks for sleepers; a
//! sleeper counts itself, reads the word, looks at the state, and sleeps only if the word is still
//! the same (the kernel compares). If the event saw no sleeper, the sleeper's count came after
//! the bump in the one order of sequentially consistent operations, so the kernel sees the bumped
//! word and refuses to sleep.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::layout::Header;

/// The longest anybody sleeps before looking around, whatever happened.
pub(super) const NAP: Duration = Duration::from_millis(100);
pub(super) const HELP: u32 = 1 << 31;
pub(super) const ALL: u32 = u32::MAX;

pub(super) fn slot_bit(slot: u32) -> u32 {
    1 << (slot % 31)
}

/// Wakes up to `count` of those who sleep for one of `bits`.
pub(super) fn ring(header: &Header, bits: u32, count: u32) {
    header.bell.0.fetch_add(1, SeqCst);
    if header.sleepers.0.load(SeqCst) > 0 && count > 0 {
        wake(&header.bell.0, bits, count);
    }
}

/// Sleeps until the bell rings for one of `bits` or `at_most` (never more than [`NAP`]) has passed,
/// unless `ready` says there is no need. False if it slept the whole time.
pub(super) fn sleep(header: &Header, bits: u32, at_most: Duration, ready: impl FnOnce() -> bool) -> bool {
    header.sleepers.0.fetch_add(1, SeqCst);
    let seen = header.bell.0.load(SeqCst);
    let woken = ready() || wait(&header.bell.0, seen, bits, at_most.min(NAP));
    header.sleepers.0.fetch_sub(1, SeqCst);
    woken
}

fn wait(word: &AtomicU32, seen: u32, bits: u32, at_most: Duration) -> bool {
    let mut until = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    until.tv_nsec += i64::from(at_most.subsec_nanos());
    until.tv_sec += at_most.as_secs() as i64 + until.tv_nsec / 1_000_000_000;
    until.tv_nsec %= 1_000_000_000;
    let until = libc::timespec { tv_sec: until.tv_sec, tv_nsec: until.tv_nsec };
    // SAFETY: the word is mapped and aligned, the timespec lives across the call. Not FUTEX_PRIVATE:
    // other processes ring.
    let r = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            seen,
            &raw const until,
            std::ptr::null::<u32>(),
            bits,
        )
    };
    r == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

fn wake(word: &AtomicU32, bits: u32, count: u32) {
    let none = std::ptr::null::<u32>();
    let count = count.min(i32::MAX as u32);
    // SAFETY: the word is mapped and aligned. A failure has no remedy and costs a NAP at most.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE_BITSET, count, none, none, bits) };
}
