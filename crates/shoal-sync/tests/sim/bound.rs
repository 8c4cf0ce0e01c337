//! GRAD-4 as a number: the most memory for chunks that a node may ever hold under a plan.

use super::plan::{Plan, What};
use shoal_sync::layout::CHUNK;
use shoal_sync::node::{SMALL, SMALL_WINDOW};

/// Every chunk that a shard holds is inside the window of at least one worker: its part has been sent, its result has
/// not been received. So the windows of all workers, in the width in which chunks are summed, bound everything.
pub fn most_memory(plan: &Plan, node: u32) -> usize {
    let world = plan.world();
    let Some(shard) = world.shard_of(node) else { return 0 };
    let config = plan.config();
    let (mut small, mut largest, mut copied) = (0, 0, 0);
    for (key, spec) in plan.keys.iter().enumerate() {
        let layout = plan.layout(key);
        let at_once = matches!(spec.what, What::Reduce(_)) && layout.per_shard[shard] <= SMALL;
        let mine = (0..layout.blocks.len()).filter(|b| layout.blocks[*b].shard == shard);
        for chunk in mine.flat_map(|b| layout.chunks(b)) {
            let held = buffer(chunk.len / spec.dtype.size() * spec.dtype.accumulator_size());
            // A key that found the window full is announced instead, so every chunk may be in either.
            largest = largest.max(held);
            small += if at_once { held } else { 0 };
            copied = copied.max(if at_once { 0 } else { buffer(chunk.len) });
        }
    }
    // Chunks are of any size up to the largest; rounding up to a size class at most doubles, half precision doubles again.
    let small = small.min(4 * SMALL_WINDOW);
    let stream = (4 * config.push_window).max(largest) + largest;
    let peers = (0..plan.workers).filter(|w| *w != node).count();
    // Beyond the windows: a frame being received from each, the widening of the chunk at hand, and own copies.
    peers * (small + stream + buffer(CHUNK).min(largest)) + 2 * largest + (2 * config.push_window).max(copied) + copied
}

/// What a piece of memory for `len` bytes really takes.
fn buffer(len: usize) -> usize {
    len.max(1024).next_power_of_two()
}
