//! The life of one use of a key, in four words of shared memory and no lock, so that a rank that is
//! stopped or killed at any instruction leaves nothing held.
//!
//! `state = tag:30 | aborted:1 | closed:1 | arrived:32`. The tag is the number of the use.
//!  * *arrive*: a rank writes its cell, then sets its bit by compare-and-swap. The first of a
//!    use also changes the tag, after having seen that all who arrived for the previous use of this
//!    half have left it.
//!  * *close*: whoever sees that everyone expected has arrived sets `closed`; only one can, and that
//!    one opens the work: `pending` and `next` get `tag:32 | chunks:32`.
//!  * *claim*: `next` is counted down by compare-and-swap, tag and all, so a helper who slept through
//!    the end of one use cannot take a chunk of the following one by mistake.
//!  * *done*: `pending` is counted down when a chunk's last byte is written; `tag | 0` is the end.
//!  * *abort*: sets `aborted`; a use that is not closed can then never close.
//!
//! **Why two halves are enough.** A rank submits use n+1 only after it left use n (`Busy` otherwise). To
//! start use n+2 it must have seen n+1 done, so everyone had arrived at n+1, so everyone had left n,
//! and the half that n used is free.
//!
//! **Why finishing loses no operation.** An arrival sets its bit, then reads the `finished` mask; a
//! finishing rank sets its bit in `finished`, then reads every state. All four are sequentially consistent,
//! so at least one of the two sees the other's write and tries to close; if both do, one wins.
//!
//! **Why nobody writes to a rank that has withdrawn.** A worker raises `working` in its own cell, then
//! claims, then reads the state, and touches memory only if it is not aborted; it lowers `working`
//! after its last access. A withdrawing rank sets `aborted`, then reads everyone's `working`.
//! If it reads 0, a worker that raises it later reads the state later still, and sees the abort.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::layout::{HalfHead, OpCell};

const TAG_BITS: u32 = 30;
const TAG_MASK: u32 = (1 << TAG_BITS) - 1;
const CLOSED: u64 = 1 << 32;
const ABORTED: u64 = 1 << 33;

/// The tag of the n-th use of a slot (from 0). Never the 0 of fresh memory for the first uses.
pub(super) fn tag_of(use_number: u32) -> u32 {
    use_number.wrapping_add(1) & TAG_MASK
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub u64);

impl State {
    pub fn new(tag: u32, mask: u32) -> State {
        State(u64::from(tag) << 34 | u64::from(mask))
    }
    pub fn tag(self) -> u32 {
        (self.0 >> 34) as u32
    }
    pub fn mask(self) -> u32 {
        self.0 as u32
    }
    pub fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }
    pub fn aborted(self) -> bool {
        self.0 & ABORTED != 0
    }
    /// Whether this use is a later one than `tag`.
    pub fn is_after(self, tag: u32) -> bool {
        let ahead = self.tag().wrapping_sub(tag) & TAG_MASK;
        ahead != 0 && ahead < 1 << (TAG_BITS - 1)
    }
}

pub(super) fn load(head: &HalfHead) -> State {
    State(head.state.load(SeqCst))
}

/// How an arrival ended that did not end well.
pub(super) enum NotArrived<E> {
    /// The use was aborted before.
    Aborted,
    /// It was closed without this rank: the others think it has finished.
    Closed,
    Refused(E),
}

/// Sets `bit`. `meets(mask)` compares with those who are there, `follows(old)` checks that the half is free.
pub(super) fn arrive<E>(
    head: &HalfHead,
    tag: u32,
    bit: u32,
    meets: impl Fn(u32) -> Result<(), E>,
    follows: impl Fn(State) -> Result<(), E>,
) -> Result<(), NotArrived<E>> {
    let mut seen = load(head);
    loop {
        let new = if seen.tag() == tag {
            if seen.aborted() {
                return Err(NotArrived::Aborted);
            }
            if seen.closed() {
                return Err(NotArrived::Closed);
            }
            meets(seen.mask()).map_err(NotArrived::Refused)?;
            State(seen.0 | u64::from(bit))
        } else {
            follows(seen).map_err(NotArrived::Refused)?;
            State::new(tag, bit)
        };
        match head.state.compare_exchange_weak(seen.0, new.0, SeqCst, SeqCst) {
            Ok(_) => return Ok(()),
            Err(now) => seen = State(now),
        }
    }
}

/// Closes the use if everyone in `expected()` has arrived. `Some` for exactly one caller, who must open it.
pub(super) fn close(head: &HalfHead, expected: impl Fn() -> u32) -> Option<State> {
    let mut seen = load(head);
    loop {
        let open = !seen.closed() && !seen.aborted() && seen.mask() != 0;
        if !open || expected() & !seen.mask() != 0 {
            return None;
        }
        let new = State(seen.0 | CLOSED);
        match head.state.compare_exchange_weak(seen.0, new.0, SeqCst, SeqCst) {
            Ok(_) => return Some(new),
            Err(now) => seen = State(now),
        }
    }
}

/// Publishes the work of a closed use.
pub(super) fn open(head: &HalfHead, tag: u32, chunks: u32, chunk_bytes: u32) {
    head.chunks.store(chunks, Relaxed);
    head.chunk_bytes.store(chunk_bytes, Relaxed);
    head.pending.store(counter(tag, chunks), Release);
    head.next.0.store(counter(tag, chunks), Release);
}

/// Ends the use for everyone. Harmless if it is done or aborted already, or has made place for another.
pub(super) fn abort(head: &HalfHead, tag: u32) {
    let mut seen = load(head);
    while seen.tag() == tag && !seen.aborted() {
        match head.state.compare_exchange_weak(seen.0, seen.0 | ABORTED, SeqCst, SeqCst) {
            Ok(_) => return,
            Err(now) => seen = State(now),
        }
    }
}

fn counter(tag: u32, left: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(left)
}

pub(super) fn is_done(head: &HalfHead, tag: u32) -> bool {
    head.pending.load(Acquire) == counter(tag, 0)
}

/// Whether there was a chunk to claim a moment ago.
pub(super) fn has_work(head: &HalfHead, tag: u32) -> bool {
    let next = head.next.0.load(Acquire);
    (next >> 32) as u32 == tag && next as u32 > 0
}

/// A chunk this thread has taken upon itself. Its memory may be touched until it is dropped.
pub(super) struct Claim<'a> {
    head: &'a HalfHead,
    mine: &'a OpCell,
    pub state: State,
    pub index: u32,
    /// Nothing is left to claim after this one.
    pub last: bool,
}

/// Claims a chunk of whatever use of this half has one.
pub(super) fn claim<'a>(head: &'a HalfHead, mine: &'a OpCell) -> Option<Claim<'a>> {
    let mut next = head.next.0.load(Acquire);
    if next as u32 == 0 {
        return None;
    }
    mine.working.fetch_add(1, SeqCst);
    let left = loop {
        let left = next as u32;
        if left == 0 {
            mine.working.fetch_sub(1, SeqCst);
            return None;
        }
        match head.next.0.compare_exchange_weak(next, next - 1, SeqCst, SeqCst) {
            Ok(_) => break left,
            Err(now) => next = now,
        }
    };
    let state = load(head);
    let index = head.chunks.load(Relaxed).wrapping_sub(left);
    let claim = Claim { head, mine, state, index, last: left == 1 };
    let alive = state.tag() == (next >> 32) as u32 && state.closed() && !state.aborted();
    alive.then_some(claim)
}

impl Claim<'_> {
    /// The chunk's last byte is written. True for the last chunk of all.
    pub fn finish(self) -> bool {
        self.head.pending.fetch_sub(1, AcqRel) as u32 == 1
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.mine.working.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_pack_and_tags_wrap() {
        let s = State::new(TAG_MASK, u32::MAX);
        assert_eq!((s.tag(), s.mask(), s.closed(), s.aborted()), (TAG_MASK, u32::MAX, false, false));
        assert!(State::new(3, 0).is_after(2) && !State::new(2, 0).is_after(3) && !State::new(2, 0).is_after(2));
        assert!(State::new(tag_of(TAG_MASK), 0).is_after(TAG_MASK));
    }

    #[test]
    fn a_use_closes_once_and_its_chunks_are_claimed_once_each() {
        // SAFETY: zeros are valid atomics, as in the fresh area.
        let (head, cell): (HalfHead, OpCell) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let ok = |_: u32| Ok::<(), ()>(());
        let free = |_: State| Ok::<(), ()>(());
        for tag in [1, 3, 5] {
            assert!(arrive(&head, tag, 1, ok, free).is_ok());
            assert!(close(&head, || 3).is_none());
            assert!(!is_done(&head, tag) && claim(&head, &cell).is_none());
            assert!(arrive(&head, tag, 2, ok, free).is_ok());
            assert_eq!(close(&head, || 3).map(|s| s.mask()), Some(3));
            assert!(close(&head, || 3).is_none(), "only one closes");
            open(&head, tag, 3, 64);
            let mut seen = vec![];
            while let Some(c) = claim(&head, &cell) {
                seen.push(c.index);
                assert_eq!(c.finish(), seen.len() == 3);
            }
            assert_eq!((seen, is_done(&head, tag), cell.working.load(SeqCst)), (vec![0, 1, 2], true, 0));
        }
    }

    #[test]
    fn an_aborted_use_neither_closes_nor_gives_out_chunks() {
        // SAFETY: zeros are valid atomics, as in the fresh area.
        let (head, cell): (HalfHead, OpCell) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let ok = |_: u32| Ok::<(), ()>(());
        let free = |_: State| Ok::<(), ()>(());
        assert!(arrive(&head, 1, 1, ok, free).is_ok());
        abort(&head, 1);
        assert!(close(&head, || 1).is_none());
        assert!(matches!(arrive(&head, 1, 2, ok, free), Err(NotArrived::Aborted)));
        assert!(arrive(&head, 3, 1, ok, free).is_ok());
        assert!(close(&head, || 1).is_some());
        open(&head, 3, 2, 64);
        abort(&head, 3);
        assert!(claim(&head, &cell).is_none(), "aborted after closing");
        assert_eq!(cell.working.load(SeqCst), 0);
    }
}
