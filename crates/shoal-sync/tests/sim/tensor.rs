//! A user's tensor with known contents, and guards on both sides of it that nobody may touch.

use half::{bf16, f16};
use shoal_sync::dtype::DType;

const GUARD: u64 = 0xfeed_face_dead_beef;
const GUARD_WORDS: usize = 8;

/// Made of words, so that every element type is aligned.
#[derive(Clone)]
pub struct Tensor {
    words: Vec<u64>,
    len: usize,
}

impl Tensor {
    pub fn new(len: usize) -> Tensor {
        Tensor { words: vec![GUARD; len.div_ceil(8) + 2 * GUARD_WORDS], len }
    }

    pub fn at(&mut self) -> *mut u8 {
        self.words[GUARD_WORDS..].as_mut_ptr().cast()
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes lie between the guards.
        unsafe { std::slice::from_raw_parts(self.words[GUARD_WORDS..].as_ptr().cast(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        // SAFETY: as above, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at(), len) }
    }

    pub fn guards_hold(&self) -> bool {
        let (head, rest) = self.words.split_at(GUARD_WORDS);
        let tail = &rest[rest.len() - GUARD_WORDS..];
        let spare = self.len.div_ceil(8) * 8 - self.len;
        let last = rest[..rest.len() - GUARD_WORDS].last().map_or([0; 8], |w| w.to_ne_bytes());
        head.iter().chain(tail).all(|w| *w == GUARD) && last[8 - spare..] == GUARD.to_ne_bytes()[8 - spare..]
    }

    /// Elements `from..to` become those of `source`.
    pub fn fill(&mut self, dtype: DType, source: u64, from: usize, to: usize) {
        let size = dtype.size();
        for (i, at) in self.bytes_mut()[from * size..to * size].chunks_exact_mut(size).enumerate() {
            let x = raw(source, from + i);
            match dtype {
                DType::F32 => at.copy_from_slice(&x.to_ne_bytes()),
                DType::F64 => at.copy_from_slice(&f64::from(x).to_ne_bytes()),
                DType::Bf16 => at.copy_from_slice(&bf16::from_f32(x).to_ne_bytes()),
                DType::F16 => at.copy_from_slice(&f16::from_f32(x).to_ne_bytes()),
            }
        }
    }

    pub fn get(&self, dtype: DType, index: usize) -> f64 {
        read(dtype, &self.bytes()[index * dtype.size()..])
    }

    /// Whether elements `from..to` are as they were before anyone wrote.
    pub fn is_untouched(&self, dtype: DType, from: usize, to: usize) -> bool {
        let (from, to) = (from * dtype.size(), to * dtype.size());
        (from..to).all(|i| self.bytes()[i] == GUARD.to_ne_bytes()[i % 8])
    }

    pub fn fingerprint(&self) -> u64 {
        self.words.iter().fold(self.len as u64, |h, w| (h.rotate_left(5) ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

fn read(dtype: DType, at: &[u8]) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::from_ne_bytes([at[0], at[1], at[2], at[3]])),
        DType::F64 => f64::from_ne_bytes(std::array::from_fn(|i| at[i])),
        DType::Bf16 => bf16::from_ne_bytes([at[0], at[1]]).to_f64(),
        DType::F16 => f16::from_ne_bytes([at[0], at[1]]).to_f64(),
    }
}

/// Between -1 and 1, with all its bits in use: sums of these depend on their order.
fn raw(source: u64, index: usize) -> f32 {
    let bits = (source ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((bits >> 40) as i32 - (1 << 23)) as f32 / (1 << 23) as f32
}

/// Element `index` of `source`, as it is after rounding to `dtype`.
pub fn value(dtype: DType, source: u64, index: usize) -> f64 {
    let x = raw(source, index);
    match dtype {
        DType::F32 | DType::F64 => f64::from(x),
        DType::Bf16 => bf16::from_f32(x).to_f64(),
        DType::F16 => f16::from_f32(x).to_f64(),
    }
}
