//! Small tensors are copied through the shared memory: two short copies cost less than the system calls
//! that would spare them, and nobody touches another's memory.
//!
//! A staging place has a part for each rank and one for the result. Up to [`SMALL`] every half of a slot has its own, for
//! good. Up to [`MEDIUM`] a use borrows one of a few, always the lowest that is free, so that the same
//! memory is used again while the cache still holds it. All ranks of a use must decide alike, so the first to ask
//! decides for all by a compare-and-swap: which place, or none if there is no room.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use super::area::{Area, Half};
use super::layout::{ARENA_BYTES, NO_ARENA};

const SMALL: usize = 16 << 10;
/// Where copying twice stops being faster than fetching by system call (measured: 0.8 of its time at 64 KiB,
/// the same at 512 KiB, 1.2 at 2 MiB).
const MEDIUM: usize = 256 << 10;
/// The share of the arena that is given away for good.
const SMALL_BYTES: usize = 16 << 20;

/// Where one use of a slot is staged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staging {
    at: usize,
    /// Bytes from one part to the next.
    room: usize,
    /// The number of a borrowed place.
    borrowed: Option<u32>,
}

impl Staging {
    /// The offset of the n-th part in the area; the one after the last member's is the result.
    pub fn part(self, n: usize) -> usize {
        self.at + n * self.room
    }
}

/// Where to stage `bytes` of this use, if they are to be staged at all.
pub(super) fn stage(area: &Area, half: Half, tag: u32, bytes: usize) -> Option<Staging> {
    if bytes == 0 || bytes > MEDIUM {
        return None;
    }
    let own = (bytes <= SMALL).then(|| own(area, half, bytes)).flatten();
    own.or_else(|| borrow(area, half, tag, bytes))
}

fn own(area: &Area, half: Half, bytes: usize) -> Option<Staging> {
    let parts = area.shape().members + 1;
    let word = &area.slot(half.slot()).arena;
    let mut place = word.load(Acquire);
    if place == 0 {
        let room = bytes.next_multiple_of(64);
        let at = area.header().arena_next.fetch_add((2 * parts * room) as u64, Relaxed) as usize;
        let fits = at + 2 * parts * room <= SMALL_BYTES;
        let mine = if fits { (at as u64 / 64) << 32 | (room as u64 / 64) } else { NO_ARENA };
        place = word.compare_exchange(0, mine, AcqRel, Acquire).map_or_else(|theirs| theirs, |_| mine);
    }
    let (at, room) = ((place >> 32) as usize * 64, (place as u32) as usize * 64);
    let usable = place != NO_ARENA && bytes <= room;
    usable.then(|| Staging { at: area.shape().arena_at() + at + half.side() * parts * room, room, borrowed: None })
}

fn borrow(area: &Area, half: Half, tag: u32, bytes: usize) -> Option<Staging> {
    let parts = area.shape().members + 1;
    let size = parts * MEDIUM;
    let places = ((ARENA_BYTES - SMALL_BYTES) / size).min(64) as u32;
    let word = &area.half(half).place;
    let mut seen = word.load(Acquire);
    if (seen >> 32) as u32 != tag {
        let mine = take(area, places);
        let new = u64::from(tag) << 32 | mine.map_or(0, |n| u64::from(n) + 1);
        match word.compare_exchange(seen, new, AcqRel, Acquire) {
            Ok(_) => seen = new,
            Err(theirs) => {
                mine.into_iter().for_each(|n| give_back(area, n));
                seen = theirs;
            }
        }
    }
    let n = (seen as u32).checked_sub(1).filter(|&n| n < places)?;
    let at = area.shape().arena_at() + SMALL_BYTES + n as usize * size;
    Some(Staging { at, room: bytes.next_multiple_of(64), borrowed: Some(n) })
}

fn take(area: &Area, places: u32) -> Option<u32> {
    let word = &area.header().places;
    let free = |taken: u64| (taken.trailing_ones() < places).then(|| taken.trailing_ones());
    word.fetch_update(SeqCst, SeqCst, |taken| free(taken).map(|n| taken | 1 << n)).ok().and_then(free)
}

fn give_back(area: &Area, n: u32) {
    area.header().places.fetch_and(!(1 << n), SeqCst);
}

/// A rank has fetched the result of a use that is done; the last of the `contributors` gives the place back.
///
/// The place of a use that was aborted stays taken: a rank may be late and still copy its part in. An abort
/// ends most runs, and without a place an operation goes the other way.
pub(super) fn leave(area: &Area, half: Half, tag: u32, staging: Staging, contributors: u32) {
    let Some(n) = staging.borrowed else { return };
    let first = u64::from(tag) << 32 | 1;
    let count = |seen: u64| if (seen >> 32) as u32 == tag { seen + 1 } else { first };
    let before = area.half(half).leavers.fetch_update(AcqRel, Acquire, |seen| Some(count(seen)));
    if before.is_ok_and(|seen| count(seen) as u32 == contributors) {
        give_back(area, n);
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Shape;
    use super::*;

    #[test]
    fn every_rank_of_a_use_gets_the_same_place_and_the_last_gives_it_back() {
        let area = Area::create(Shape { members: 2, heap_bytes: 0 }, 1).unwrap();
        let (a, b) = (Half(0), Half(2));
        for tag in [1, 3, 5] {
            let first = stage(&area, a, tag, 100_000).unwrap();
            let second = stage(&area, a, tag, 100_000).unwrap();
            assert_eq!((first.part(2), second.part(2)), (second.part(2), first.part(2)));
            let other = stage(&area, b, tag, MEDIUM).unwrap();
            assert!(other.part(0) >= first.part(2) + 100_000 && area.data(other.part(2), MEDIUM).is_some());
            assert_eq!(area.header().places.load(SeqCst), 3);
            leave(&area, a, tag, first, 2);
            assert_eq!(area.header().places.load(SeqCst), 3);
            leave(&area, a, tag, second, 2);
            assert_eq!(area.header().places.load(SeqCst), 2);
            leave(&area, b, tag, other, 1);
        }
        assert_eq!(area.header().places.load(SeqCst), 0);
    }

    #[test]
    fn without_room_all_ranks_go_the_other_way() {
        let area = Area::create(Shape { members: 32, heap_bytes: 0 }, 1).unwrap();
        let staged: Vec<bool> = (0..10).map(|slot| stage(&area, Half(slot * 2), 1, MEDIUM).is_some()).collect();
        assert!(staged[0] && !staged[9], "{staged:?}");
        area.header().places.store(0, SeqCst);
        assert!(stage(&area, Half(18), 1, MEDIUM).is_none(), "decided for this use");
        assert!(stage(&area, Half(18), 3, MEDIUM).is_some());
    }

    #[test]
    fn small_ones_keep_their_place() {
        let area = Area::create(Shape { members: 3, heap_bytes: 0 }, 1).unwrap();
        let (even, odd) = (stage(&area, Half(0), 1, 100).unwrap(), stage(&area, Half(1), 2, 100).unwrap());
        assert!(odd.part(0) >= even.part(3) + 100 && even.borrowed.is_none());
        assert_eq!(stage(&area, Half(0), 3, 90).unwrap().part(1), even.part(1));
        assert!(stage(&area, Half(0), 5, 1000).unwrap().borrowed.is_some(), "grown past its place");
    }
}
