//! Doing one chunk of one operation: fetch the parts, sum them in rank order, give everyone the result.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Mutex, PoisonError};

use super::area::Half;
use super::bell;
use super::cause::{self, Cause};
use super::group::LocalGroup;
use super::kernel::{self, Source};
use super::layout::{HalfHead, MAX_MEMBERS, OpCell};
use super::op::{How, Kind};
use super::state::{self, Claim};
use super::vm::Errno;

/// Where a stretch of a rank's tensor can be found from here.
#[derive(Clone, Copy)]
enum Place {
    Here(*mut u8),
    There(u64),
}

/// A member whose memory could not be reached.
struct Fault {
    member: usize,
    errno: Errno,
}

/// Buffers for the parts of other ranks, kept warm between chunks: one a thread that works at the same time.
#[derive(Default)]
pub(super) struct ScratchPool(Mutex<Vec<Scratch>>);

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Block(#[expect(dead_code, reason = "only its address and size are used")] [u8; 64]);
type Scratch = Vec<Block>;

impl ScratchPool {
    fn with<R>(&self, bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
        let mut scratch = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let blocks = bytes.div_ceil(64);
        if scratch.len() < blocks {
            scratch = vec![Block([0; 64]); blocks];
        }
        let result = f(scratch.as_mut_ptr().cast());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        result
    }
}

pub(super) fn members(mask: u32) -> impl Iterator<Item = usize> {
    (0..MAX_MEMBERS).filter(move |m| mask >> m & 1 == 1)
}

impl LocalGroup {
    /// Does one chunk of the operation in this half, if there is one to do.
    pub(super) fn work(&self, half: Half) -> bool {
        let head = self.area.half(half);
        let Some(claim) = state::claim(head, self.area.cell(half, self.me)) else { return false };
        if claim.last {
            // Before the chunk is done, hence before the half can be used again and the bit be set anew.
            self.set_open(half, false);
        }
        let (bit, tag) = (bell::slot_bit(half.slot() as u32), claim.state.tag());
        let ended = match self.chunk(half, head, &claim) {
            Ok(()) => claim.finish(),
            Err(Fault { member, errno }) => {
                let why = Cause::Memory { by: self.me as u32, member: member as u32, errno };
                cause::record(&head.cause, tag, why);
                state::abort(head, tag);
                drop(claim);
                true
            }
        };
        // A rank that withdraws sleeps until the last worker has let go.
        if ended || state::load(head).aborted() {
            bell::ring(self.area.header(), bit, u32::MAX);
        }
        true
    }

    pub(super) fn set_open(&self, half: Half, open: bool) {
        let word = &self.area.header().open[half.0 as usize / 64];
        match open {
            true => word.fetch_or(1 << (half.0 % 64), SeqCst),
            false => word.fetch_and(!(1 << (half.0 % 64)), SeqCst),
        };
    }

    fn chunk(&self, half: Half, head: &HalfHead, claim: &Claim<'_>) -> Result<(), Fault> {
        let mask = claim.state.mask();
        let first = mask.trailing_zeros() as usize;
        let lead = self.area.cell(half, first);
        let bytes = lead.bytes.load(Relaxed) as usize;
        let chunk = (head.chunk_bytes.load(Relaxed) as usize).max(1);
        let pieces = bytes.div_ceil(chunk);
        let at = (claim.index as usize % pieces.max(1)) * chunk;
        let len = chunk.min(bytes - at);
        match Kind::parse(lead.code.load(Relaxed)) {
            Some((kind @ (Kind::Reduce(dtype, how) | Kind::Collect(dtype, how)), _)) => {
                let to = if matches!(kind, Kind::Reduce(..)) { mask } else { 1 << first };
                self.reduce(half, mask, to, at, len, |parts, to| {
                    let total: f64 = match how {
                        How::Sum | How::WeightedSum => 1.0,
                        How::Mean => f64::from(mask.count_ones()),
                        How::WeightedMean => members(mask).map(|m| self.weight(half, m)).sum(),
                    };
                    // No weight at all: there is no mean, and zero is the least harmful gradient.
                    let scale = if total == 0.0 { 0.0 } else { 1.0 / total };
                    // SAFETY: `reduce` hands over places of `len` bytes that this claim alone may use.
                    unsafe { kernel::sum(dtype, parts, scale, to, len) }
                })
            }
            Some((Kind::Broadcast { root }, _)) => self.copy(half, mask, root.into(), at, at, len),
            Some((Kind::AllGather, _)) => {
                let from = members(mask).nth(claim.index as usize / pieces.max(1)).unwrap_or(first);
                self.copy(half, mask, from, at, from * bytes + at, len)
            }
            Some((Kind::Barrier, _)) | None => Err(Fault { member: first, errno: libc::EINVAL }),
        }
    }

    pub(super) fn weight(&self, half: Half, member: usize) -> f64 {
        f64::from_bits(self.area.cell(half, member).weight.load(Relaxed))
    }

    fn place(&self, cell: &OpCell, member: usize, target: bool, at: usize, len: usize) -> Result<Place, Fault> {
        let (addr, bit) = if target { (&cell.target, 2) } else { (&cell.source, 1) };
        let addr = addr.load(Relaxed).wrapping_add(at as u64);
        if cell.shared.load(Relaxed) & bit != 0 {
            let here = self.area.data(addr as usize, len).ok_or(Fault { member, errno: libc::EFAULT })?;
            return Ok(Place::Here(here));
        }
        Ok(if member == self.me { Place::Here(addr as *mut u8) } else { Place::There(addr) })
    }

    fn reduce(
        &self,
        half: Half,
        mask: u32,
        receivers: u32,
        at: usize,
        len: usize,
        sum: impl FnOnce(&[Source], &[*mut u8]),
    ) -> Result<(), Fault> {
        let stride = len.next_multiple_of(64) + 64;
        let count_all = mask.count_ones() as usize;
        self.scratch.with(stride * (count_all + 2), |scratch| {
            let mut parts = [Source { at: std::ptr::null(), weight: 1.0 }; MAX_MEMBERS];
            for (i, m) in members(mask).enumerate() {
                let cell = self.area.cell(half, m);
                parts[i].weight = self.weight(half, m);
                parts[i].at = match self.place(cell, m, false, at, len)? {
                    Place::Here(p) => p,
                    Place::There(addr) => {
                        // Equally far into a cache line as the source: never a slow pair.
                        let to = scratch.wrapping_add(stride * i + addr as usize % 64);
                        // SAFETY: the i-th stretch of the scratch, which is this call's alone.
                        unsafe { self.peers[m].read(addr, to, len) }.map_err(|errno| Fault { member: m, errno })?;
                        to
                    }
                };
            }
            let mut near = [std::ptr::null_mut(); MAX_MEMBERS + 1];
            let mut count = 0;
            let mut far = [(0usize, 0u64); MAX_MEMBERS];
            let mut far_count = 0;
            for m in members(receivers) {
                match self.place(self.area.cell(half, m), m, true, at, len)? {
                    // Small tensors have one result that all fetch for themselves.
                    Place::Here(p) if near[..count].contains(&p) => {}
                    Place::Here(p) => {
                        near[count] = p;
                        count += 1;
                    }
                    Place::There(addr) => {
                        far[far_count] = (m, addr);
                        far_count += 1;
                    }
                }
            }
            if count == 0 {
                // A rank that has finished may still help: it has no tensor of its own to sum into.
                near[0] = scratch.wrapping_add(stride * count_all);
                count = 1;
            }
            sum(&parts[..count_all], &near[..count]);
            self.give(&far[..far_count], near[0], len, scratch.wrapping_add(stride * (count_all + 1)))
        })
    }

    /// Moves bytes of one rank's source to every other rank's target.
    fn copy(
        &self,
        half: Half,
        mask: u32,
        from: usize,
        source_at: usize,
        target_at: usize,
        len: usize,
    ) -> Result<(), Fault> {
        let stride = len.next_multiple_of(64) + 64;
        self.scratch.with(2 * stride, |scratch| {
            let bounce = scratch.wrapping_add(stride);
            let source = self.place(self.area.cell(half, from), from, false, source_at, len)?;
            let own = match mask >> self.me & 1 == 1 {
                true => self.place(self.area.cell(half, self.me), self.me, true, target_at, len)?,
                false => Place::Here(scratch),
            };
            let data = match (source, own) {
                (Place::Here(p), _) => p,
                (Place::There(addr), Place::Here(own)) => {
                    let slow = kernel::slow_pair(addr as usize, own as usize);
                    let to = if slow { bounce.wrapping_add(addr as usize % 64) } else { own };
                    // SAFETY: our own target (or scratch), which this claim alone may use.
                    unsafe { self.peers[from].read(addr, to, len) }.map_err(|errno| Fault { member: from, errno })?;
                    if slow {
                        // SAFETY: both were valid for the read; the bounce buffer is no part of the target.
                        unsafe { kernel::copy(to, own, len) };
                    }
                    own
                }
                (_, Place::There(_)) => return Err(Fault { member: self.me, errno: libc::EFAULT }),
            };
            let mut far = [(0usize, 0u64); MAX_MEMBERS];
            let mut far_count = 0;
            for m in members(mask) {
                match self.place(self.area.cell(half, m), m, true, target_at, len)? {
                    // SAFETY: both are valid for `len` bytes, and either the same place or apart.
                    Place::Here(to) if to != data => unsafe { kernel::copy(data, to, len) },
                    Place::Here(_) => {}
                    Place::There(addr) if m == from && Place::There(addr).same(source) => {}
                    Place::There(addr) => {
                        far[far_count] = (m, addr);
                        far_count += 1;
                    }
                }
            }
            self.give(&far[..far_count], data, len, bounce)
        })
    }

    /// Writes a finished stretch into the memory of those it cannot be stored to directly. `bounce` has room for it and a line.
    fn give(&self, to: &[(usize, u64)], data: *const u8, len: usize, bounce: *mut u8) -> Result<(), Fault> {
        for &(member, addr) in to {
            let mut from = data;
            if kernel::slow_pair(data as usize, addr as usize) {
                let aside = bounce.wrapping_add(addr as usize % 64);
                // SAFETY: the bounce buffer has room and is this call's alone.
                unsafe { kernel::copy(data, aside, len) };
                from = aside;
            }
            // SAFETY: `from` was just written for `len` bytes; the member offered the address when it arrived and
            // cannot have left while this claim is held.
            unsafe { self.peers[member].write(addr, from, len) }.map_err(|errno| Fault { member, errno })?;
        }
        Ok(())
    }
}

impl Place {
    fn same(self, other: Place) -> bool {
        match (self, other) {
            (Place::Here(a), Place::Here(b)) => a == b,
            (Place::There(a), Place::There(b)) => a == b,
            _ => false,
        }
    }
}
