//! Summing one chunk from many places into many places, a block at a time that stays in L1; and copying.

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
            unsafe { copy(out.as_ptr(), other.add(at), n) };
        }
    }
}

/// Whether the processor's block copy (`rep movsb`, which the kernel and the C library use for all but short
/// copies) is slow for this pair: on AMD's Zen 3 it is ten times slower when the target's place in its page is 1 to
/// 31 bytes above the source's. Ordinary enough: the C library's large blocks begin at 16, ours at 0.
pub(super) fn slow_pair(from: usize, to: usize) -> bool {
    (1..32).contains(&(to.wrapping_sub(from) & 4095))
}

/// Copies with vector loads and stores, which are equally fast for every pair of addresses.
///
/// # Safety
/// Both must be valid for `len` bytes and not overlap.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= 512 && is_x86_feature_detected!("avx2") {
        // SAFETY: passed on; the feature was just detected.
        return unsafe { copy_avx2(from, to, len) };
    }
    // SAFETY: passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

/// # Safety
/// As for [`copy`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_avx2(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_storeu_si256};
    const STRIDE: usize = 128;
    let whole = len / STRIDE * STRIDE;
    for at in (0..whole).step_by(STRIDE) {
        // SAFETY: at + 128 <= len.
        unsafe {
            let (from, to) = (from.add(at), to.add(at));
            let a = _mm256_loadu_si256(from.cast());
            let b = _mm256_loadu_si256(from.add(32).cast());
            let c = _mm256_loadu_si256(from.add(64).cast());
            let d = _mm256_loadu_si256(from.add(96).cast());
            _mm256_storeu_si256(to.cast(), a);
            _mm256_storeu_si256(to.add(32).cast(), b);
            _mm256_storeu_si256(to.add(64).cast(), c);
            _mm256_storeu_si256(to.add(96).cast(), d);
        }
    }
    // SAFETY: the rest, below 128 bytes.
    unsafe { std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len - whole) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_every_length_and_alignment() {
        let from: Vec<u8> = (0..3000u32).map(|i| (i * 7) as u8).collect();
        for (len, s, t) in [(0, 0, 0), (1, 3, 5), (511, 1, 0), (512, 0, 16), (700, 5, 3), (2900, 16, 1)] {
            let mut to = vec![0u8; 3000];
            // SAFETY: both have room, by the table above.
            unsafe { copy(from.as_ptr().add(s), to.as_mut_ptr().add(t), len) };
            assert!(to[t..t + len] == from[s..s + len] && to[t + len..].iter().all(|&x| x == 0), "{len} {s} {t}");
        }
    }

    #[test]
    fn slow_pairs_are_those_just_above() {
        assert!(slow_pair(0, 16) && slow_pair(4096, 8193) && slow_pair(16, 4096 + 47));
        assert!(!slow_pair(0, 0) && !slow_pair(0, 32) && !slow_pair(16, 0) && !slow_pair(0, 64));
    }
}
