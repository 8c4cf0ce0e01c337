//! What waits to be sent to one peer, and in which order (CORE-1: pure).
//!
//! Words first (they are few and others wait for them), then finished sums (they free memory and end
//! somebody's wait), then small tensors, then the blocks the shard asked for. Within each, priority order.
//! The choice is made when the socket can take more, not when the frame was made: a late tensor of high
//! priority overtakes.

use super::buffer::Buffer;
use super::op::OpId;
use crate::layout::Chunk;
use crate::wire::{HEADER, Header};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A finished chunk and what is due when the last peer has been sent it.
#[derive(Debug)]
pub struct Sum {
    pub buffer: Buffer,
    pub len: usize,
    pub then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Then {
    Nothing,
    /// Room for the next chunk of a copy that starts here.
    CopyOn,
    /// Tell the contributor that its chunk has gone out, so that it sends the next.
    Acknowledge {
        to: u32,
        header: Header,
    },
}

/// Bytes that follow a header.
#[derive(Debug, Clone)]
pub enum Payload {
    None,
    /// The user's own memory; stays valid until its operation ends.
    Memory {
        at: *const u8,
        len: usize,
    },
    /// A finished chunk, shared by all the peers it goes to.
    Sum {
        sum: Arc<Sum>,
    },
    Words(Arc<[u8]>),
}

// SAFETY: `Memory` points into a tensor that its owner keeps in place and does not write until its
// operation has ended; the node that holds the payload is itself behind a lock.
unsafe impl Send for Payload {}

impl Payload {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::None => &[],
            // SAFETY: see the `Send` note above.
            Payload::Memory { at, len } => unsafe { std::slice::from_raw_parts(*at, *len) },
            Payload::Sum { sum } => sum.buffer.bytes(sum.len),
            Payload::Words(words) => words,
        }
    }
}

/// A frame on its way out.
#[derive(Debug, Clone)]
pub struct Frame {
    pub header: [u8; HEADER],
    pub payload: Payload,
}

/// The rest of one key's blocks for one shard, in the order the shard announced.
#[derive(Debug)]
pub struct Stream {
    pub op: OpId,
    /// What is still to be sent, last first (so that taking the next is cheap).
    pub chunks: Vec<Chunk>,
}

/// By priority, then by age.
pub type Rank = (u16, u64);

#[derive(Debug, Default)]
pub struct Outbox {
    pub words: VecDeque<Frame>,
    pub sums: BTreeMap<Rank, Frame>,
    pub small: BTreeMap<Rank, (OpId, Chunk)>,
    pub streams: VecDeque<Stream>,
    /// Bytes of small tensors sent or queued whose sums have not come back.
    pub small_out: usize,
    /// Bytes of announced blocks sent whose sums have not come back.
    pub stream_out: usize,
}

impl Outbox {
    pub fn is_idle(&self) -> bool {
        self.words.is_empty() && self.sums.is_empty() && self.small.is_empty() && self.streams.is_empty()
    }

    pub fn clear(&mut self) {
        self.words.clear();
        self.sums.clear();
        self.small.clear();
        self.streams.clear();
    }
}
