//! Chunk-sized memory that is used again and again, so that it stays in the cache.

use crate::layout::CHUNK;

/// Aligned like the widest vector register, so that every element type may be seen in it.
#[derive(Clone)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A piece of memory for one chunk, or for its sum (which is twice as wide for half precision).
pub struct Buffer {
    lines: Box<[Line]>,
}

impl Buffer {
    fn with_capacity(bytes: usize) -> Buffer {
        Buffer { lines: vec![Line([0; 64]); bytes / 64].into_boxed_slice() }
    }

    pub fn capacity(&self) -> usize {
        self.lines.len() * 64
    }

    pub fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.capacity());
        // SAFETY: the lines are plain bytes, `len` lies within them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), len) }
    }

    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.capacity());
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({})", self.capacity())
    }
}

/// Free buffers by size class; the last one returned is the next one taken, because it is still warm.
#[derive(Debug, Default)]
pub struct Pool {
    classes: [Vec<Buffer>; CLASSES],
    /// Bytes handed out and not yet returned.
    pub in_use: usize,
    pub peak: usize,
}

const SMALLEST: usize = 1024;
const CLASSES: usize = (2 * CHUNK / SMALLEST).ilog2() as usize + 1;
/// Bytes kept for later in each size class; more is given back to the system.
const KEEP: usize = 4 << 20;

/// What a chunk of `len` bytes counts in windows: never less than the memory it takes, or a crowd of
/// tiny or empty tensors would need no window and all the memory there is (GRAD-4).
pub fn charge(len: usize) -> usize {
    len.max(SMALLEST)
}

impl Pool {
    fn class(len: usize) -> usize {
        len.div_ceil(SMALLEST).max(1).next_power_of_two().ilog2() as usize
    }

    /// A buffer of at least `len` bytes (at most twice a chunk), with whatever was in it before.
    pub fn take(&mut self, len: usize) -> Buffer {
        let class = Pool::class(len);
        let buffer = self.classes[class].pop().unwrap_or_else(|| Buffer::with_capacity(SMALLEST << class));
        self.in_use += buffer.capacity();
        self.peak = self.peak.max(self.in_use);
        buffer
    }

    pub fn put(&mut self, buffer: Buffer) {
        self.in_use = self.in_use.saturating_sub(buffer.capacity());
        let class = Pool::class(buffer.capacity());
        if self.classes[class].len() * buffer.capacity() < KEEP {
            self.classes[class].push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_and_comes_back_warm() {
        let mut pool = Pool::default();
        for len in [0, 1, 1024, 1025, 4096, CHUNK, CHUNK + 1, 2 * CHUNK] {
            let buffer = pool.take(len);
            assert!(buffer.capacity() >= len && buffer.capacity() <= (2 * len).max(SMALLEST));
            let at = buffer.bytes(0).as_ptr();
            pool.put(buffer);
            let again = pool.take(len);
            assert_eq!(again.bytes(0).as_ptr(), at);
            pool.put(again);
        }
        assert_eq!(pool.in_use, 0);
    }
}
