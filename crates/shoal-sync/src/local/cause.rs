//! Why a use of a key was aborted, in one word, so that every rank gives the same reason.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::error::Difference;

/// Members are named by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Mismatch { member: u32, other: u32, what: Difference },
    Memory { by: u32, member: u32, errno: i32 },
    RootFinished { root: u32 },
}

const DIFFERENCES: [Difference; 4] =
    [Difference::Fingerprint, Difference::Bytes, Difference::Operation, Difference::Step];

/// `tag:30 | kind:4 | a:5 | b:5 | detail:20`
fn pack(tag: u32, cause: Cause) -> u64 {
    let (kind, a, b, detail) = match cause {
        Cause::Mismatch { member, other, what } => (1, member, other, what as u32),
        Cause::Memory { by, member, errno } => (2, by, member, errno as u32),
        Cause::RootFinished { root } => (3, root, 0, 0),
    };
    u64::from(tag) << 34 | kind << 30 | u64::from(a & 31) << 25 | u64::from(b & 31) << 20 | u64::from(detail & 0xf_ffff)
}

/// Records the first cause of a use; later ones are consequences.
pub(super) fn record(word: &AtomicU64, tag: u32, cause: Cause) {
    let new = pack(tag, cause);
    let _ = word.fetch_update(SeqCst, SeqCst, |old| ((old >> 34) as u32 != tag || old == 0).then_some(new));
}

pub(super) fn read(word: &AtomicU64, tag: u32) -> Option<Cause> {
    let word = word.load(SeqCst);
    if (word >> 34) as u32 != tag {
        return None;
    }
    let (a, b, detail) = ((word >> 25) as u32 & 31, (word >> 20) as u32 & 31, word as u32 & 0xf_ffff);
    match word >> 30 & 15 {
        1 => Some(Cause::Mismatch { member: a, other: b, what: *DIFFERENCES.get(detail as usize)? }),
        2 => Some(Cause::Memory { by: a, member: b, errno: detail as i32 }),
        3 => Some(Cause::RootFinished { root: a }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_of_a_use_stays() {
        let word = AtomicU64::new(0);
        let first = Cause::Mismatch { member: 31, other: 2, what: Difference::Step };
        record(&word, 7, first);
        record(&word, 7, Cause::RootFinished { root: 1 });
        assert_eq!((read(&word, 7), read(&word, 5)), (Some(first), None));
        let second = Cause::Memory { by: 0, member: 3, errno: libc::ESRCH };
        record(&word, 9, second);
        assert_eq!(read(&word, 9), Some(second));
    }
}
