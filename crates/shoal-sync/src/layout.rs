//! How a tensor is cut and who sums which part (CORE-1: pure).
//!
//! A tensor is cut into blocks of at most `block_size`, and into at least one block per shard
//! once it is large enough to be worth it, so that every shard gets its share of *each* large tensor
//! and no order of registration can unbalance them. Blocks are cut again into chunks: the unit
//! that is received, added and passed on while it is still in the cache.

/// Largest number of payload bytes in one data frame. Three contributions and a sum of this size
/// stay within a 512 KiB second-level cache.
pub const CHUNK: usize = 128 * 1024;

/// Tensors smaller than this per shard are not split further: below it a frame's fixed cost
/// outweighs the balance gained.
const MIN_BLOCK: usize = 16 * 1024;

/// Blocks start at multiples of this, so that every chunk of every element type is aligned.
const ALIGN: usize = 64;

/// One block: a range of the tensor's bytes and the shard that sums it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub offset: usize,
    pub len: usize,
    /// Position in the list of shards, not a node's id.
    pub shard: usize,
    /// The only worker that contributes (broadcast, all-gather), or all of them.
    pub only: Option<u32>,
}

/// All blocks of one tensor, in order of their offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub blocks: Vec<Block>,
    pub total: usize,
    /// Bytes for each shard.
    pub per_shard: Vec<usize>,
}

/// One chunk of a block, as offsets within the whole tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    pub block: u32,
    /// Offset within the block.
    pub offset: u32,
    pub len: usize,
}

/// A key's number on the wire: its name's hash, so that no two ranks need to register in one order.
pub fn key_of(name: &str) -> u64 {
    // FNV-1a with a final mix: stable across builds and languages, which std's hasher does not promise.
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for b in name.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 29)
}

impl Layout {
    /// Every worker contributes to every byte.
    pub fn shared(key: u64, total: usize, block_size: usize, shards: usize) -> Layout {
        Layout::build(cut(total, block_size, shards), key, total, shards, |_| None)
    }

    /// The same among a few workers that carry shards themselves: nobody else has to do with it.
    pub fn shared_by(key: u64, total: usize, block_size: usize, shards: usize, homes: &[u32]) -> Layout {
        let mut layout = Layout::shared(key, total, block_size, homes.len().max(1));
        for block in &mut layout.blocks {
            block.shard = homes.get(block.shard).map_or(0, |w| *w as usize % shards);
        }
        layout.per_shard = vec![0; shards];
        layout.weigh();
        layout
    }

    /// One worker contributes everything. Where the contributor has a shard of its own, its blocks stay there:
    /// then the bytes cross the network once.
    pub fn from_root(key: u64, total: usize, block_size: usize, shards: usize, root: u32, colocated: bool) -> Layout {
        let mut layout = Layout::build(cut(total, block_size, shards), key, total, shards, |_| Some(root));
        layout.settle(colocated);
        layout
    }

    /// The `k`-th of `givers` contributes the `k`-th of as many equal parts.
    pub fn gathered(
        key: u64,
        part: usize,
        block_size: usize,
        shards: usize,
        givers: &[u32],
        colocated: bool,
    ) -> Layout {
        let mut ranges = Vec::new();
        let mut owners = Vec::new();
        for (place, worker) in givers.iter().enumerate() {
            for (offset, len) in cut(part, block_size, if colocated { 1 } else { shards }) {
                ranges.push((place * part + offset, len));
                owners.push(*worker);
            }
        }
        let mut layout = Layout::build(ranges, key, part * givers.len(), shards, |i| Some(owners[i]));
        layout.settle(colocated);
        layout
    }

    fn build(
        ranges: Vec<(usize, usize)>,
        key: u64,
        total: usize,
        shards: usize,
        only: impl Fn(usize) -> Option<u32>,
    ) -> Layout {
        let start = (key % shards as u64) as usize;
        let blocks = ranges
            .into_iter()
            .enumerate()
            .map(|(i, (offset, len))| Block { offset, len, shard: (start + i) % shards, only: only(i) })
            .collect();
        let mut layout = Layout { blocks, total, per_shard: vec![0; shards] };
        layout.weigh();
        layout
    }

    fn settle(&mut self, colocated: bool) {
        if colocated {
            for block in &mut self.blocks {
                block.shard = block.only.map_or(block.shard, |w| w as usize % self.per_shard.len());
            }
            self.weigh();
        }
    }

    fn weigh(&mut self) {
        self.per_shard.fill(0);
        for block in &self.blocks {
            self.per_shard[block.shard] += block.len;
        }
    }

    /// The chunks of block `index`; a block of no bytes has one chunk of no bytes, so that
    /// even an empty tensor is agreed upon by all.
    pub fn chunks(&self, index: usize) -> impl Iterator<Item = Chunk> + use<> {
        let len = self.blocks[index].len;
        (0..len.div_ceil(CHUNK).max(1)).map(move |i| Chunk {
            block: index as u32,
            offset: (i * CHUNK) as u32,
            len: (len - i * CHUNK).min(CHUNK),
        })
    }

    /// The chunk that starts at `offset` of block `block`, if there is one.
    pub fn chunk_at(&self, block: u32, offset: u32) -> Option<Chunk> {
        let len = self.blocks.get(block as usize)?.len;
        let at = offset as usize;
        if !at.is_multiple_of(CHUNK) || (at >= len && at != 0) {
            return None;
        }
        Some(Chunk { block, offset, len: (len - at).min(CHUNK) })
    }

    /// Where a chunk lies in the tensor.
    pub fn position(&self, chunk: Chunk) -> usize {
        self.blocks[chunk.block as usize].offset + chunk.offset as usize
    }

    pub fn chunk_count(&self) -> usize {
        self.blocks.iter().map(|b| b.len.div_ceil(CHUNK).max(1)).sum()
    }
}

/// Ranges of at most `block_size` bytes that cover `total` once, at least one per shard where worth it.
fn cut(total: usize, block_size: usize, shards: usize) -> Vec<(usize, usize)> {
    let share = total.div_ceil(shards).next_multiple_of(ALIGN).max(MIN_BLOCK.min(block_size));
    // Whole rounds over the shards: a tensor of 4 shares and a bit would otherwise give one shard twice as much.
    let size = if share > block_size {
        let rounds = share.div_ceil(block_size);
        total.div_ceil(shards * rounds).next_multiple_of(ALIGN)
    } else {
        share
    };
    let count = total.div_ceil(size).max(1);
    (0..count).map(|i| (i * size, (total - i * size).min(size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// GRAD-1: blocks cover every byte once, and each has exactly one shard.
        #[test]
        fn blocks_cover_all_bytes_once(elements in 0usize..3_000_000, block in 1024usize..1_000_000, shards in 1usize..17, key: u64) {
            let total = elements * 4;
            let layout = Layout::shared(key, total, block, shards);
            let mut at = 0;
            for (i, b) in layout.blocks.iter().enumerate() {
                prop_assert_eq!(b.offset, at);
                prop_assert!(b.shard < shards);
                prop_assert!(b.len <= block.next_multiple_of(ALIGN).max(MIN_BLOCK));
                prop_assert_eq!(b.offset % ALIGN, 0);
                let mut inner = 0;
                for c in layout.chunks(i) {
                    prop_assert_eq!(c.offset as usize, inner);
                    prop_assert_eq!(layout.chunk_at(c.block, c.offset), Some(c));
                    prop_assert!(c.len <= CHUNK);
                    inner += c.len;
                }
                prop_assert_eq!(inner, b.len);
                at += b.len;
            }
            prop_assert_eq!(at, total);
            prop_assert_eq!(layout.per_shard.iter().sum::<usize>(), total);
        }

        /// No shard has more than its share of a tensor, but for rounding and tensors too small to split.
        #[test]
        fn shards_are_balanced(elements in 0usize..30_000_000, shards in 1usize..17, key: u64) {
            let total = elements * 4;
            let layout = Layout::shared(key, total, 4 << 20, shards);
            let most = *layout.per_shard.iter().max().expect("a shard");
            let rounds = layout.blocks.len().div_ceil(shards);
            prop_assert!(most <= total.div_ceil(shards) + rounds * ALIGN + MIN_BLOCK, "{most} of {total} over {shards}");
        }

        #[test]
        fn gathered_parts_belong_to_their_workers(part in 0usize..500_000, workers in 1usize..9, servers in 0usize..4) {
            let colocated = servers == 0;
            let shards = if colocated { workers } else { servers };
            let everyone: Vec<u32> = (0..workers as u32).collect();
            let layout = Layout::gathered(7, part * 4, 65536, shards, &everyone, colocated);
            let mut at = 0;
            for b in &layout.blocks {
                prop_assert_eq!(b.offset, at);
                let owner = b.only.expect("an owner") as usize;
                prop_assert!(b.offset >= owner * part * 4 && b.offset + b.len <= (owner + 1) * part * 4);
                if colocated { prop_assert_eq!(b.shard, owner); }
                at += b.len;
            }
            prop_assert_eq!(at, part * 4 * workers);
        }
    }

    /// GRAD-1 for a few of many: the bytes are covered once, by shards of their own.
    #[test]
    fn a_few_workers_share_among_themselves() {
        let few = Layout::shared_by(3, 10 << 20, 4 << 20, 8, &[1, 4, 6]);
        assert_eq!(few.per_shard.len(), 8);
        assert_eq!(few.per_shard.iter().sum::<usize>(), 10 << 20);
        assert!(few.blocks.iter().all(|b| [1, 4, 6].contains(&b.shard)));
        assert!([1, 4, 6].iter().all(|s| few.per_shard[*s] > 3 << 20), "{:?}", few.per_shard);
        let rows = Layout::gathered(3, 100, 1024, 8, &[2, 5], true);
        assert_eq!(
            rows.blocks.iter().map(|b| (b.offset, b.only, b.shard)).collect::<Vec<_>>(),
            [(0, Some(2), 2), (100, Some(5), 5)]
        );
    }

    #[test]
    fn block_sizes_from_1_kib_and_more_shards_than_blocks() {
        let layout = Layout::shared(3, 100, 1024, 8);
        assert_eq!(layout.blocks.len(), 1);
        assert_eq!(Layout::shared(3, 0, 1024, 8).chunk_count(), 1);
        let many = Layout::shared(0, 1 << 20, 1024, 4);
        assert!(many.blocks.iter().all(|b| b.len <= 1024), "{:?}", many.blocks[0]);
    }
}
