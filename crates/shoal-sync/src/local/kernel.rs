//! Summing one chunk from many places into many places, a block at a time that stays in L1.

use crate::dtype::DType;
use crate::reduce;

/// Elements of a block: its sum (at most 8 KiB) and a block of each source fit the L1 cache together.
const BLOCK: usize = 1024;

/// A block's running sum.
#[repr(align(64))]
struct Sum([u8; BLOCK * 8]);

/// A rank's part and its weight.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub at: *const u8,
    pub weight: f64,
}

/// `targets = round(scale * sum of weight * source)`, in the order of the sources.
///
/// # Safety
/// All places must be valid for `len` bytes, aligned to the element, and used by nobody else meanwhile. A
/// target may be the same place as a source, but not overlap it by half.
pub(super) unsafe fn sum(dtype: DType, sources: &[Source], scale: f64, targets: &[*mut u8], len: usize) {
    let mut acc = Sum([0; BLOCK * 8]);
    let block = BLOCK * dtype.size();
    for at in (0..len).step_by(block) {
        let n = block.min(len - at);
        let acc = &mut acc.0[..n / dtype.size() * dtype.accumulator_size()];
        for (i, source) in sources.iter().enumerate() {
            // SAFETY: inside the source; targets of this block are only made after this borrow ends.
            let x = unsafe { std::slice::from_raw_parts(source.at.add(at), n) };
            match i {
                0 => reduce::load(dtype, x, source.weight, acc),
                _ => reduce::add(dtype, x, source.weight, acc),
            }
        }
        let Some((first, others)) = targets.split_first() else { return };
        // SAFETY: inside the target; no other reference to it is alive.
        let out = unsafe { std::slice::from_raw_parts_mut(first.add(at), n) };
        reduce::store(dtype, acc, scale, out);
        for other in others {
            // SAFETY: distinct targets do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(out.as_ptr(), other.add(at), n) };
        }
    }
}
