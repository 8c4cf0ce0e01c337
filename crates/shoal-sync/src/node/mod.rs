//! The engine without its network: what a worker and a shard do with each frame, as plain functions over
//! plain state. No sockets, no clock, no threads (CORE-1): the caller delivers frames and asks for frames.
//! The same code runs behind real sockets ([`crate::net`]) and inside the simulator of the tests.
//!
//! How a tensor travels. Small ones go to their shards at once, within a limit per shard. Large ones are announced
//! (`Ready`); when a shard has heard all workers it says `Go`, to all in the same order, and every worker sends in that
//! order, at most a window ahead of the sums that come back. That is why no setting can deadlock: the earliest
//! announced chunk that is not summed yet is within every worker's window, and no key is announced before all
//! have promised it (GRAD-4, GRAD-5). It also keeps the workers in step, and their bytes in the cache.

pub mod admit;
pub mod buffer;
mod copy;
mod gone;
mod heard;
pub mod op;
pub mod outbox;
mod partial;
mod receive;
mod shard;
mod spec;
mod worker;
pub mod world;

use crate::error::SyncError;
use crate::settings::OnDeath;
use buffer::Pool;
use op::{Op, OpId};
use outbox::{Frame, Outbox, Payload};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use world::{Members, NodeId, World};

pub use receive::Sink;
use shard::{ChunkKey, Pending, Readiness};
pub use spec::Spec;

/// Bytes of one tensor for one shard up to which it is sent without asking.
pub const SMALL: usize = 512 * 1024;
/// Bytes of such tensors that one worker may have under way to one shard.
pub const SMALL_WINDOW: usize = 2 << 20;
/// However large the settings, no more than this is under way between one worker and one shard: more only
/// makes the caches colder.
pub const WINDOW_LIMIT: usize = 8 << 20;

/// What one push thread puts under way to a shard. The window is what keeps the workers in step: on a link of 1 Gbit/s,
/// 64 MB took 879 ms with a window of 8 MiB, where some pairs ran ahead and others trailed at the end, and 850 ms with 1 MiB
/// (4 threads), where the link itself needs 845. Long fat links want more threads.
pub const PUSH_STEP: usize = 256 * 1024;
/// The same between two processes of one host, where the bytes in flight of all pairs share one cache: measured with
/// four workers on two cores, 64 MB took 125 ms with 8 MiB, 90 ms with 1 MiB and 80 ms with this.
pub const NEAR_WINDOW: usize = 512 * 1024;

/// The settings that shape the protocol.
#[derive(Debug, Clone)]
pub struct Config {
    pub block_size: usize,
    pub push_window: usize,
    pub announce_window: usize,
    pub deterministic: bool,
    pub on_death: OnDeath,
}

impl Config {
    pub fn new(block_size: usize, push: u32, pull: u32, deterministic: bool, on_death: OnDeath) -> Config {
        let window = |count: u32, bytes: usize| (count as usize).saturating_mul(bytes).min(WINDOW_LIMIT);
        Config {
            block_size,
            push_window: window(push, block_size.min(PUSH_STEP)),
            announce_window: window(pull, block_size).max(1),
            deterministic,
            on_death,
        }
    }
}

/// Counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub frames_sent: u64,
    pub frames_received: u64,
    pub chunks_summed: u64,
    pub operations: u64,
}

/// An operation that has ended, and how.
pub type Ended = (OpId, Result<(), SyncError>);

/// One member of the run: a worker, a shard, or both.
pub struct Node {
    pub world: World,
    pub me: NodeId,
    pub config: Config,
    pub counters: Counters,
    out: Vec<Outbox>,
    /// By peer: bytes of announced blocks that may be under way to it.
    windows: Vec<usize>,
    pool: Pool,
    sequence: u64,

    // As a worker.
    ops: HashMap<OpId, Op>,
    in_flight: HashMap<u64, OpId>,
    steps: HashMap<u64, u64>,
    told: HashSet<u64>,
    next_op: OpId,
    ended: Vec<Ended>,
    /// Of partial gathers that ended with holes: whose parts did not come, until asked for.
    absent: HashMap<OpId, Vec<u32>>,

    // As a shard.
    pending: HashMap<ChunkKey, Pending>,
    readiness: HashMap<(u64, u64), Readiness>,
    candidates: BTreeMap<outbox::Rank, (u64, u64)>,
    announced: usize,
    copies: VecDeque<outbox::Stream>,
    copies_out: usize,
    specs: HashMap<u64, spec::Known>,
    /// By worker: bytes of its contributions that are not part of a finished sum yet (GRAD-4).
    unsummed: Vec<usize>,
    /// By worker: bytes of its copies that have not reached all others yet (GRAD-4).
    copying: Vec<usize>,

    /// Letting newcomers in at a step boundary.
    admission: admit::Admission,

    finished: Members,
    dead: Members,
    /// Nodes that are no more, at a time when this node is done and does not mind.
    left: Members,
    fatal: Option<SyncError>,
    /// Operations that ended since somebody looked: key, step, bytes, and when each phase was.
    pub finished_times: Vec<(Arc<str>, u64, usize, op::Times)>,
}

impl Node {
    pub fn new(world: World, me: NodeId, config: Config) -> Node {
        let nodes = world.nodes() as usize;
        Node {
            out: (0..nodes).map(|_| Outbox::default()).collect(),
            windows: vec![config.push_window; nodes],
            unsummed: vec![0; world.workers as usize],
            copying: vec![0; world.workers as usize],
            world,
            me,
            config,
            counters: Counters::default(),
            pool: Pool::default(),
            sequence: 0,
            ops: HashMap::new(),
            in_flight: HashMap::new(),
            steps: HashMap::new(),
            told: HashSet::new(),
            next_op: 1,
            ended: Vec::new(),
            absent: HashMap::new(),
            pending: HashMap::new(),
            readiness: HashMap::new(),
            candidates: BTreeMap::new(),
            announced: 0,
            copies: VecDeque::new(),
            copies_out: 0,
            specs: HashMap::new(),
            admission: admit::Admission::default(),
            finished: Members::default(),
            dead: Members::default(),
            left: Members::default(),
            fatal: None,
            finished_times: Vec::new(),
        }
    }

    /// A peer on the same host: less under way to it keeps the bytes in the cache.
    pub fn is_near(&mut self, peer: NodeId) {
        self.windows[peer as usize] = self.config.push_window.min(NEAR_WINDOW);
    }

    /// Operations that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Whose parts a partial gather that has ended did without; told once. The same on all workers that took part (GRAD-3).
    pub fn take_absent(&mut self, id: OpId) -> Vec<u32> {
        self.absent.remove(&id).unwrap_or_default()
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    pub fn fatal(&self) -> Option<&SyncError> {
        self.fatal.as_ref()
    }

    /// Whether `next_frame(peer)` may have something.
    pub fn wants_to_send(&self, peer: NodeId) -> bool {
        !self.out[peer as usize].is_idle()
    }

    /// A frame has left for good, or never will because its peer is gone: its buffer may be used again. Every frame of
    /// `next_frame` ends here, or the giver of a copy waits for a receipt for ever.
    pub fn sent(&mut self, frame: Frame) {
        self.counters.frames_sent += 1;
        if let Payload::Sum { sum } = frame.payload {
            self.recycle(sum);
        }
    }

    /// Bytes of chunk memory in use now, and at most so far.
    pub fn memory(&self) -> (usize, usize) {
        (self.pool.in_use, self.pool.peak)
    }

    fn rank(&mut self, priority: u16) -> outbox::Rank {
        self.sequence += 1;
        (priority, self.sequence)
    }

    fn is_shard(&self) -> bool {
        self.world.shard_of(self.me).is_some()
    }

    /// Tells a peer words; ignored for oneself.
    fn tell(&mut self, peer: NodeId, header: crate::wire::Header, words: Option<Arc<[u8]>>) {
        let mut header = header;
        header.len = words.as_ref().map_or(0, |w| w.len() as u32);
        let payload = words.map_or(Payload::None, Payload::Words);
        self.out[peer as usize].words.push_back(Frame { header: header.encode(), payload });
    }

    /// A header of this run with nothing in it yet.
    fn header(&self, kind: crate::wire::Kind) -> crate::wire::Header {
        crate::wire::Header {
            kind,
            codec: crate::wire::Codec::Dense,
            dtype: crate::dtype::DType::F32,
            combine: crate::wire::Combine::Sum,
            partial: false,
            run: self.world.run,
            generation: self.world.generation,
            step: 0,
            key: 0,
            block: 0,
            offset: 0,
            len: 0,
            worker: self.me as u16,
            priority: 0,
            weight: 1.0,
            total: 0,
        }
    }

    /// Everything that must hold between any two calls; the tests call it all the time.
    #[doc(hidden)]
    pub fn sanity_check(&self) {
        for (key, op) in &self.in_flight {
            assert_eq!(self.ops.get(op).map(|o| o.request.key), Some(*key), "in-flight index out of step");
        }
        let mut held = vec![0usize; self.unsummed.len()];
        for (id, pending) in &self.pending {
            for worker in 0..self.world.workers {
                if pending.contributed.contains(worker) && worker != self.me {
                    held[worker as usize] += buffer::charge(pending.len);
                }
            }
            assert!(pending.contributed.count() > 0, "a chunk nobody contributed to: {id:?}");
        }
        assert_eq!(held, self.unsummed, "bytes in flight out of step (GRAD-4)");
        let announced: usize = self.readiness.values().filter(|r| r.announced).map(|r| r.bytes_left).sum();
        assert_eq!(announced, self.announced, "announced bytes out of step");
        if self.fatal.is_some() {
            assert!(self.ops.is_empty(), "operations outlive the run's end (GRAD-5)");
        }
    }
}
