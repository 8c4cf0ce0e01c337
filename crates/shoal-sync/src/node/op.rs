//! One operation of this worker: a tensor that is being summed or copied (CORE-1: pure).

use crate::dtype::DType;
use crate::layout::{Chunk, Layout};
use crate::wire::{Codec, Combine};
use std::sync::Arc;

pub type OpId = u64;

/// What the user asks for; `at` must stay valid and untouched until the operation has ended.
#[derive(Debug, Clone)]
pub struct Request {
    pub key: u64,
    pub name: Arc<str>,
    pub dtype: DType,
    pub shape: Arc<[usize]>,
    pub combine: Combine,
    pub weight: f64,
    pub priority: u16,
    pub layout: Arc<Layout>,
    pub at: *mut u8,
    /// Set if the bytes are the sum of all workers of this host (see [`crate::wire::Codec::Team`]): which step of the key
    /// it is, because the worker that speaks for a host may change from step to step.
    pub team_step: Option<u64>,
    /// Who takes part, in order; nothing: all workers.
    pub members: Option<Arc<[u32]>>,
    /// A gather that goes on without the parts of workers that are gone: their places are left as they are.
    pub partial: bool,
}

// SAFETY: the pointer is only followed while the operation lasts, during which its owner leaves it alone.
unsafe impl Send for Request {}
// SAFETY: a shared request is only read; its pointer is followed under the same rule.
unsafe impl Sync for Request {}

impl Request {
    pub fn codec(&self) -> Codec {
        if self.team_step.is_some() { Codec::Team } else { Codec::Dense }
    }
}

#[derive(Debug)]
pub struct Op {
    pub request: Request,
    pub step: u64,
    /// Chunks whose final bytes are not in place yet.
    pub left: usize,
    /// By shard: whether its blocks went at once, without waiting for `Go`.
    pub at_once: Vec<bool>,
    /// By block and chunk: which have come back, so that none is counted twice.
    pub came: Vec<u64>,
    /// Index of each block's first chunk in `came`.
    pub first_chunk: Vec<u32>,
    /// What the shards that still owe sums said when they were asked.
    pub asked: Vec<Asked>,
    /// Workers whose part of a partial gather does not come, or not all of it.
    pub absent: Vec<u32>,
    pub times: Times,
}

/// A shard that was asked whom it waits for.
#[derive(Debug)]
pub struct Asked {
    pub node: u32,
    pub missing: Vec<u32>,
    /// Questions since its last answer. One that leaves two unanswered is itself who is waited for.
    pub unanswered: u32,
}

/// When things happened, in nanoseconds of the caller's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub submitted: u64,
    pub first_sent: u64,
    pub last_sent: u64,
    pub first_back: u64,
    /// One more than the rank that came last, as the shards say; 0 if that is not known.
    pub last: u64,
}

impl Op {
    pub fn new(request: Request, step: u64, now: u64) -> Op {
        let mut first_chunk = Vec::with_capacity(request.layout.blocks.len());
        let mut count = 0u32;
        for block in 0..request.layout.blocks.len() {
            first_chunk.push(count);
            count += request.layout.chunks(block).count() as u32;
        }
        Op {
            left: count as usize,
            at_once: vec![false; request.layout.per_shard.len()],
            came: vec![0; (count as usize).div_ceil(64)],
            first_chunk,
            asked: Vec::new(),
            absent: Vec::new(),
            times: Times { submitted: now, ..Times::default() },
            request,
            step,
        }
    }

    /// Marks a chunk as back; false if it was already.
    pub fn mark(&mut self, chunk: Chunk) -> bool {
        let index = self.first_chunk[chunk.block as usize] as usize + chunk.offset as usize / crate::layout::CHUNK;
        let (word, bit) = (index / 64, 1u64 << (index % 64));
        let fresh = self.came[word] & bit == 0;
        self.came[word] |= bit;
        if fresh {
            self.left -= 1;
        }
        fresh
    }

    pub fn came(&self, chunk: Chunk) -> bool {
        let index = self.first_chunk[chunk.block as usize] as usize + chunk.offset as usize / crate::layout::CHUNK;
        self.came[index / 64] & (1u64 << (index % 64)) != 0
    }

    pub fn memory(&self, chunk: Chunk) -> *mut u8 {
        // SAFETY: the layout covers exactly the tensor, so the position lies within it.
        unsafe { self.request.at.add(self.request.layout.position(chunk)) }
    }

    /// The chunks of one shard, in order; of those, the ones that `contributor` sends.
    pub fn chunks_at(&self, shard: usize, contributor: Option<u32>) -> Vec<Chunk> {
        let layout = &self.request.layout;
        let mut out = Vec::new();
        for (index, block) in layout.blocks.iter().enumerate() {
            let mine = contributor.is_none() || block.only.is_none() || block.only == contributor;
            if block.shard == shard && mine {
                out.extend(layout.chunks(index));
            }
        }
        out
    }
}
