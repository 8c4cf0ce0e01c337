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
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if dtype == DType::F32 && is_x86_feature_detected!("avx2") {
        done = len / STRIDE * STRIDE;
        // SAFETY: passed on; the feature was just detected.
        unsafe { sum_f32_avx2(sources, scale as f32, targets, done) };
    }
    let mut acc = Sum([0; BLOCK * 8]);
    let block = BLOCK * dtype.size();
    for at in (done..len).step_by(block) {
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

/// Bytes the vector loops take at a time.
#[cfg(target_arch = "x86_64")]
const STRIDE: usize = 128;

/// The common case in one pass: every source is read once, every target written once, the sum stays in registers.
/// The same products and additions in the same order as the general loop, hence the same bits.
///
/// # Safety
/// As for [`sum`], with AVX2; `len` must be a multiple of [`STRIDE`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn sum_f32_avx2(sources: &[Source], scale: f32, targets: &[*mut u8], len: usize) {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps};
    let Some((first, others)) = sources.split_first() else { return };
    let k = _mm256_set1_ps(scale);
    for at in (0..len).step_by(STRIDE) {
        let load = |source: &Source| {
            let w = _mm256_set1_ps(source.weight as f32);
            // SAFETY: at + 128 <= len.
            [0, 32, 64, 96].map(|o| unsafe { _mm256_mul_ps(_mm256_loadu_ps(source.at.add(at + o).cast()), w) })
        };
        let mut acc = load(first);
        for source in others {
            let x = load(source);
            for i in 0..4 {
                acc[i] = _mm256_add_ps(acc[i], x[i]);
            }
        }
        for target in targets {
            for (i, acc) in acc.iter().enumerate() {
                // SAFETY: at + 128 <= len.
                unsafe { _mm256_storeu_ps(target.add(at + 32 * i).cast(), _mm256_mul_ps(*acc, k)) };
            }
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
    fn one_pass_gives_the_same_bits_as_the_general_loop() {
        let n = 1003;
        let parts: Vec<Vec<f32>> =
            (0..5).map(|p| (0..n).map(|i| ((i * 37 + p * 101) as f32).sin() * 1e3).collect()).collect();
        let sources: Vec<Source> = parts
            .iter()
            .zip([1.0, 0.3, 1.0, 7.5, 0.1])
            .map(|(x, weight)| Source { at: x.as_ptr().cast(), weight })
            .collect();
        let (mut a, mut b) = (vec![0f32; n], vec![0f32; n]);
        let targets = [a.as_mut_ptr().cast(), b.as_mut_ptr().cast()];
        // SAFETY: all have n elements.
        unsafe { sum(DType::F32, &sources, 1.0 / 3.0, &targets, n * 4) };
        let scalar = |i: usize| {
            let product = |p: usize| parts[p][i] * sources[p].weight as f32;
            (1..5).fold(product(0), |sum, p| sum + product(p)) * (1.0f64 / 3.0) as f32
        };
        assert!((0..n).all(|i| a[i].to_bits() == scalar(i).to_bits()) && a == b);
    }

    #[test]
    fn slow_pairs_are_those_just_above() {
        assert!(slow_pair(0, 16) && slow_pair(4096, 8193) && slow_pair(16, 4096 + 47));
        assert!(!slow_pair(0, 0) && !slow_pair(0, 32) && !slow_pair(16, 0) && !slow_pair(0, 64));
    }
}
