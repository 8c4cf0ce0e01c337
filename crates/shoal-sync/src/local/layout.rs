//! What lies where in the memory that all ranks of a host map: header, ranks, slots, arena, heaps.
//!
//! Every field is an atomic: two processes look at it at once and neither trusts the compiler's
//! idea of who owns it. The order that matters is made by `state.rs`; plain data is stored relaxed
//! before the word that publishes it.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// Bits of one `u32` mask name the ranks of a host by their position in the member list.
pub const MAX_MEMBERS: usize = 32;
/// Keys a group can hold.
pub const SLOTS: usize = 4096;
/// Room for tensors small enough to be copied into the area instead of being fetched by a system
/// call. Only touched pages cost memory.
pub(super) const ARENA_BYTES: usize = 48 << 20;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"shoalLG1");

/// One line of cache, so that words hot for different ranks do not share one.
#[repr(C, align(64))]
pub(super) struct Line<T>(pub T);

#[repr(C)]
pub(super) struct Header {
    pub magic: AtomicU64,
    pub members: AtomicU32,
    pub cpus: AtomicU32,
    pub heap_bytes: AtomicU64,
    /// Whether large tensors get huge pages (0 or 1).
    pub huge_pages: AtomicU32,
    /// Rung at every event somebody may sleep for; see `bell.rs`.
    pub bell: Line<AtomicU32>,
    pub sleepers: Line<AtomicU32>,
    pub joined: Line<AtomicU32>,
    pub probed: AtomicU32,
    pub finished: Line<AtomicU32>,
    pub poisoned: AtomicU32,
    /// Slots below this have been used: where `finish` has to look.
    pub slots_used: AtomicU32,
    pub arena_next: AtomicU64,
    /// One bit a staging place that is borrowed; see `arena.rs`.
    pub places: AtomicU64,
    pub ranks: [RankCell; MAX_MEMBERS],
    /// One bit a half-slot that has chunks to claim: a hint for helpers, never the truth.
    pub open: [AtomicU64; SLOTS * 2 / 64],
}

/// What a rank tells the others when it joins.
#[repr(C, align(64))]
pub(super) struct RankCell {
    pub rank: AtomicU32,
    pub pid: AtomicI32,
    pub nonce: AtomicU64,
    pub nonce_addr: AtomicU64,
    pub landing_addr: AtomicU64,
    /// What its probe of the others found: 0, or `(call + 1) << 40 | peer << 32 | errno`.
    pub probe: AtomicU64,
}

/// One key. Its two halves take turns, so that a fast rank may start the next use of a key while
/// a slow one has not yet looked at the end of the last.
#[repr(C, align(64))]
pub(super) struct SlotHead {
    /// Place in the arena: `offset / 64 << 32 | capacity / 64`; 0 before the first use, `NO_ARENA` if there was no room.
    pub arena: AtomicU64,
    /// The key this slot belongs to, 0 while it is free; see `keys.rs`.
    pub key: AtomicU64,
}
pub(super) const NO_ARENA: u64 = u64::MAX;

/// One use of a key. The words are explained in `state.rs`.
#[repr(C, align(64))]
pub(super) struct HalfHead {
    pub state: AtomicU64,
    pub next: Line<AtomicU64>,
    pub pending: AtomicU64,
    pub chunks: AtomicU32,
    pub chunk_bytes: AtomicU32,
    pub cause: AtomicU64,
    /// `tag:32 | staging place + 1`, and `tag:32 | ranks that need it no more`.
    pub place: AtomicU64,
    pub leavers: AtomicU64,
}

/// What one rank brings to one use of a key.
#[repr(C, align(128))]
pub(super) struct OpCell {
    pub fingerprint: AtomicU64,
    pub step: AtomicU64,
    pub bytes: AtomicU64,
    /// Operation, dtype, scaling and root; see `op.rs`.
    pub code: AtomicU64,
    pub source: AtomicU64,
    pub target: AtomicU64,
    /// Whether source and target are offsets in this area (bit 0, bit 1) and not addresses in the rank.
    pub shared: AtomicU64,
    pub weight: AtomicU64,
    /// Threads of the rank that hold or are about to claim a chunk.
    pub working: AtomicU32,
    /// The tag of the last use the rank has left.
    pub left: AtomicU32,
}

/// Where things lie, given how many ranks there are and how much heap each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub members: usize,
    pub heap_bytes: usize,
}

const PAGE: usize = 4096;
const fn pages(bytes: usize) -> usize {
    bytes.div_ceil(PAGE) * PAGE
}

impl Shape {
    const fn half_bytes(self) -> usize {
        size_of::<HalfHead>().next_multiple_of(128) + self.members * size_of::<OpCell>()
    }
    const fn slot_bytes(self) -> usize {
        128 + 2 * self.half_bytes()
    }
    const fn slots_at(self) -> usize {
        pages(size_of::<Header>())
    }
    pub const fn slot(self, slot: usize) -> usize {
        self.slots_at() + slot * self.slot_bytes()
    }
    pub const fn half(self, slot: usize, half: usize) -> usize {
        self.slot(slot) + 128 + half * self.half_bytes()
    }
    pub const fn cell(self, slot: usize, half: usize, member: usize) -> usize {
        self.half(slot, half) + size_of::<HalfHead>().next_multiple_of(128) + member * size_of::<OpCell>()
    }
    pub const fn arena_at(self) -> usize {
        pages(self.slot(SLOTS))
    }
    pub const fn heap_at(self, member: usize) -> usize {
        self.arena_at() + ARENA_BYTES + member * self.heap_bytes
    }
    pub const fn total(self) -> usize {
        self.heap_at(self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_everything_is_aligned() {
        for members in [1, 2, 4, 7, MAX_MEMBERS] {
            let shape = Shape { members, heap_bytes: 1 << 30 };
            assert!(size_of::<SlotHead>() <= 128);
            assert_eq!(shape.half(0, 0) % 128, 0);
            assert_eq!(shape.cell(3, 1, members - 1) % align_of::<OpCell>(), 0);
            assert_eq!(shape.cell(3, 0, members - 1) + size_of::<OpCell>(), shape.half(3, 1));
            assert_eq!(shape.cell(3, 1, members - 1) + size_of::<OpCell>(), shape.slot(4));
            assert!(shape.cell(SLOTS - 1, 1, members - 1) + size_of::<OpCell>() <= shape.arena_at());
            assert_eq!(shape.heap_at(0) % PAGE, 0);
            assert_eq!(shape.total(), shape.heap_at(members));
        }
    }
}
