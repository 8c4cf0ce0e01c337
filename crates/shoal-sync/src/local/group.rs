//! Bringing an operation: what a rank publishes when it arrives, and who opens the work.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use super::area::{Area, Half};
use super::arena::{self, Staging};
use super::bell;
use super::cause::{self, Cause};
use super::enter::Probe;
use super::error::{Difference, LocalError, Result};
use super::heap::{Heap, SharedBuffer};
use super::kernel;
use super::layout::{OpCell, SLOTS};
use super::op::{Action, How, Kind, LocalOp, Scale, chunk_bytes};
use super::state::{self, NotArrived, State};
use super::vm::{self, Peer};
use super::work::{ScratchPool, members};

/// From here on it pays to put huge pages under a tensor that comes again.
const COLLAPSE_BYTES: usize = 4 << 20;

/// The ranks of one host that sum through its memory. All methods may be called by many threads.
pub struct LocalGroup {
    pub(super) area: Arc<Area>,
    /// Global ranks, in the order in which parts are summed.
    pub(super) members: Vec<u32>,
    /// This rank's position in `members`.
    pub(super) me: usize,
    pub(super) peers: Vec<Peer>,
    pub(super) scratch: ScratchPool,
    pub(super) slots: Vec<LocalSlot>,
    pub(super) in_flight: AtomicUsize,
    heap: Arc<Heap>,
    cpus: usize,
    huge_pages: bool,
    /// Others have its address from the probe at joining.
    _probe: Box<Probe>,
}

/// What this process remembers of a slot.
#[derive(Default)]
pub(super) struct LocalSlot {
    /// `uses so far << 1 | one is in flight`.
    pub turn: AtomicU64,
    last_addr: AtomicUsize,
    seen: AtomicU32,
}

/// An operation in flight. Dropping it does not end the operation: wait for it.
#[derive(Debug)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) step: u64,
    pub(super) half: Half,
    pub(super) tag: u32,
    pub(super) staging: Option<Staging>,
    /// The tensor lies in shared memory itself and is not staged, though others' may be.
    pub(super) direct: bool,
    pub(super) kind: Kind,
    pub(super) bytes: usize,
    pub(super) target: usize,
    pub(super) stage: AtomicU8,
    pub(super) contributors: AtomicU32,
}

impl Ticket {
    pub fn slot(&self) -> u32 {
        self.slot
    }
    pub fn step(&self) -> u64 {
        self.step
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl LocalGroup {
    pub(super) fn new(area: Area, members: Vec<u32>, me: usize, peers: Vec<Peer>, probe: Box<Probe>) -> LocalGroup {
        let area = Arc::new(area);
        let cpus = area.header().cpus.load(Relaxed) as usize;
        let huge_pages = area.header().huge_pages.load(Relaxed) == 1;
        LocalGroup {
            heap: Arc::new(Heap::new(area.clone(), me)),
            scratch: ScratchPool::default(),
            slots: (0..SLOTS).map(|_| LocalSlot::default()).collect(),
            in_flight: AtomicUsize::new(0),
            area,
            members,
            me,
            peers,
            cpus,
            huge_pages,
            _probe: probe,
        }
    }

    /// The global ranks of the group.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Memory that all ranks of the host reach directly, for tensors worth placing there.
    pub fn alloc(&self, bytes: usize) -> Result<SharedBuffer> {
        self.heap.alloc(bytes)
    }

    /// Brings this rank's part of an operation. Whoever comes last does a small one at once; a large one
    /// is done by those who [`wait`](Self::wait) or [`help`](Self::help).
    ///
    /// A rank brings the next operation of a slot only after its wait for the last one has ended.
    ///
    /// # Safety
    /// The memory named by `op` must be valid (and writable where the operation writes), and neither be used nor
    /// freed until `wait` or `is_done` has said that the operation is over, by `Ok(true)` or by an error
    /// other than [`LocalError::Stuck`]. All ranks must give the same slot the same sequence of operations.
    pub unsafe fn submit(&self, slot: u32, step: u64, op: LocalOp) -> Result<Ticket> {
        let bad = |why: &str| LocalError::BadOperation { slot, step, why: why.into() };
        let Some(local) = self.slots.get(slot as usize) else { return Err(bad("there are only 4096 slots")) };
        self.check_alive()?;
        let mut ticket = self.ticket(slot, step, op.action)?;
        let turn = local.turn.load(Acquire);
        if turn & 1 == 1 || local.turn.compare_exchange(turn, turn | 1, AcqRel, Relaxed).is_err() {
            return Err(LocalError::Busy { slot, step });
        }
        self.in_flight.fetch_add(1, SeqCst);
        let use_number = (turn >> 1) as u32;
        ticket.half = Half::new(slot, use_number);
        ticket.tag = state::tag_of(use_number);
        // SAFETY: the caller vouches for the memory.
        unsafe { self.publish(&mut ticket, op) };
        self.area.header().slots_used.fetch_max(slot + 1, SeqCst);
        self.arrive(&ticket).inspect_err(|_| self.leave(&ticket))?;
        let head = self.area.half(ticket.half);
        if let Some(closed) = state::close(head, || self.expected()) {
            self.open(ticket.half, closed);
        }
        Ok(ticket)
    }

    /// Checks an operation and says what it is, before anything is shared.
    fn ticket(&self, slot: u32, step: u64, action: Action) -> Result<Ticket> {
        let bad = |why: String| LocalError::BadOperation { slot, step, why };
        let (kind, bytes, target) = match action {
            Action::Reduce { dtype, scale, addr, bytes } | Action::Collect { dtype, scale, addr, bytes } => {
                if !bytes.is_multiple_of(dtype.size()) || !(addr as usize).is_multiple_of(dtype.size()) {
                    return Err(bad(format!("{bytes} bytes at {addr:?} are not whole, aligned elements of {dtype}")));
                }
                let how = match scale {
                    Scale::Sum => How::Sum,
                    Scale::Mean => How::Mean,
                    Scale::WeightedMean { .. } => How::WeightedMean,
                    Scale::WeightedSum { .. } => How::WeightedSum,
                };
                let to_all = matches!(action, Action::Reduce { .. });
                (if to_all { Kind::Reduce(dtype, how) } else { Kind::Collect(dtype, how) }, bytes, addr)
            }
            Action::Broadcast { root, addr, bytes } => {
                let root = self.members.iter().position(|&m| m == root);
                let root = root.ok_or_else(|| bad("the root is not in this group".into()))?;
                (Kind::Broadcast { root: root as u8 }, bytes, addr)
            }
            Action::AllGather { bytes, out, .. } => (Kind::AllGather, bytes, out),
            Action::Barrier => (Kind::Barrier, 0, std::ptr::null_mut()),
        };
        // Chunks are counted in 32 bits and every chunk has at least 32 KiB.
        if bytes > isize::MAX as usize / self.members.len() || bytes / (32 << 10) * self.members.len() >= 1 << 31 {
            return Err(bad(format!("{bytes} bytes are too many")));
        }
        Ok(Ticket {
            slot,
            step,
            half: Half(0),
            tag: 0,
            staging: None,
            direct: false,
            kind,
            bytes,
            target: target as usize,
            stage: AtomicU8::new(0),
            contributors: AtomicU32::new(0),
        })
    }

    /// Writes this rank's cell. The half is free (see `state.rs`), so nobody reads it before the arrival.
    ///
    /// # Safety
    /// As for [`submit`](Self::submit).
    unsafe fn publish(&self, ticket: &mut Ticket, op: LocalOp) {
        let cell = self.area.cell(ticket.half, self.me);
        let (source, weight) = match op.action {
            Action::Reduce { addr, scale, .. } | Action::Collect { addr, scale, .. } => match scale {
                Scale::WeightedMean { weight } | Scale::WeightedSum { weight } => (addr.cast_const(), weight),
                Scale::Sum | Scale::Mean => (addr.cast_const(), 1.0),
            },
            Action::Broadcast { addr, .. } => (addr.cast_const(), 1.0),
            Action::AllGather { part, .. } => (part, 1.0),
            Action::Barrier => (std::ptr::null(), 1.0),
        };
        let gathered = if ticket.kind == Kind::AllGather { self.members.len() } else { 1 };
        let target = ticket.target as *mut u8;
        let source_at = self.area.offset_of(source, ticket.bytes);
        let target_at = self.area.offset_of(target, ticket.bytes * gathered);
        // All ranks take part in the choice of a place, so that all count when it is given back.
        ticket.staging = arena::stage(&self.area, ticket.half, ticket.tag, ticket.bytes);
        ticket.direct = matches!(ticket.kind, Kind::Reduce(..) | Kind::Collect(..)) && source_at.is_some();
        let (source, target, shared) = match ticket.staging {
            Some(staging) if !ticket.direct => {
                let mine = staging.part(self.me);
                if let Some(to) = self.area.data(mine, ticket.bytes) {
                    // SAFETY: the caller vouches for the source; this part of the arena is ours until we arrive.
                    unsafe { kernel::copy(source, to, ticket.bytes) };
                }
                (mine, staging.part(self.members.len()), 3)
            }
            _ => {
                if source_at.is_none() && self.huge_pages && ticket.bytes >= COLLAPSE_BYTES {
                    self.settle(ticket.slot, source, ticket.bytes);
                }
                let shared = u64::from(source_at.is_some()) | u64::from(target_at.is_some()) << 1;
                (source_at.unwrap_or(source as usize), target_at.unwrap_or(ticket.target), shared)
            }
        };
        cell.fingerprint.store(op.fingerprint, Relaxed);
        cell.step.store(ticket.step, Relaxed);
        cell.bytes.store(ticket.bytes as u64, Relaxed);
        cell.code.store(ticket.kind.code(ticket.staging.is_some()), Relaxed);
        cell.source.store(source as u64, Relaxed);
        cell.target.store(target as u64, Relaxed);
        cell.shared.store(shared, Relaxed);
        cell.weight.store(weight.to_bits(), Relaxed);
    }

    /// Puts huge pages under a tensor the second time it comes from the same address, once.
    fn settle(&self, slot: u32, addr: *const u8, bytes: usize) {
        let local = &self.slots[slot as usize];
        if local.last_addr.swap(addr as usize, Relaxed) != addr as usize {
            local.seen.store(1, Relaxed);
        } else if local.seen.fetch_add(1, Relaxed) == 1 {
            // SAFETY: the submitter vouches for the memory.
            unsafe { vm::collapse(addr.cast_mut(), bytes) };
        }
    }

    fn arrive(&self, ticket: &Ticket) -> Result<()> {
        let (head, mine) = (self.area.half(ticket.half), self.area.cell(ticket.half, self.me));
        let differ = |other: usize, what| Cause::Mismatch { member: self.me as u32, other: other as u32, what };
        let meets = |mask: u32| {
            let other = mask.trailing_zeros() as usize;
            difference(mine, self.area.cell(ticket.half, other)).map_or(Ok(()), |what| Err(differ(other, what)))
        };
        let follows = |old: State| {
            let left = |&m: &usize| self.area.cell(ticket.half, m).left.load(Acquire) == old.tag();
            let stays = match old.is_after(ticket.tag) {
                true => members(old.mask()).next(),
                false => members(old.mask()).find(|m| !left(m)),
            };
            stays.map_or(Ok(()), |other| Err(differ(other, Difference::Step)))
        };
        match state::arrive(head, ticket.tag, 1 << self.me, meets, follows) {
            Ok(()) => Ok(()),
            Err(NotArrived::Closed) => Err(LocalError::Finished),
            Err(NotArrived::Aborted) => Err(self.why(ticket)),
            Err(NotArrived::Refused(cause)) => {
                // Who is there already learns it too, at once.
                let there = state::load(head);
                cause::record(&head.cause, there.tag(), cause);
                state::abort(head, there.tag());
                bell::ring(self.area.header(), bell::slot_bit(ticket.slot), u32::MAX);
                Err(self.explain(ticket, cause))
            }
        }
    }

    /// Those an operation waits for.
    pub(super) fn expected(&self) -> u32 {
        let all = u32::MAX >> (32 - self.members.len());
        all & !self.area.header().finished.0.load(SeqCst)
    }

    /// Makes the work of a closed operation known, and does it if it is one chunk.
    pub(super) fn open(&self, half: Half, closed: State) {
        let (head, tag, mask) = (self.area.half(half), closed.tag(), closed.mask());
        let (header, bit) = (self.area.header(), bell::slot_bit(half.slot() as u32));
        let lead = self.area.cell(half, mask.trailing_zeros() as usize);
        let bytes = lead.bytes.load(Relaxed) as usize;
        let (kind, staged) = Kind::parse(lead.code.load(Relaxed)).unwrap_or((Kind::Barrier, false));
        if let Kind::Broadcast { root } = kind
            && mask >> root & 1 == 0
        {
            cause::record(&head.cause, tag, Cause::RootFinished { root: root.into() });
            state::abort(head, tag);
            return bell::ring(header, bit, u32::MAX);
        }
        let direct = members(mask).all(|m| self.area.cell(half, m).shared.load(Relaxed) == 3);
        let chunk = chunk_bytes(bytes, self.members.len(), self.cpus, direct);
        let chunks = kind.chunks(staged, bytes, chunk, mask.count_ones());
        if chunks > 1 {
            self.set_open(half, true);
        }
        state::open(head, tag, chunks, chunk as u32);
        match chunks {
            0 => bell::ring(header, bit, u32::MAX),
            1 => drop(self.work(half)),
            // No more hands than cores: the rest would only take turns.
            _ => bell::ring(header, bell::HELP, (self.cpus.saturating_sub(1) as u32).min(chunks - 1)),
        }
    }

    /// Marks the ticket's operation as over for this rank: its slot is free for the next.
    pub(super) fn leave(&self, ticket: &Ticket) {
        self.area.cell(ticket.half, self.me).left.store(ticket.tag, Release);
        self.slots[ticket.slot as usize].turn.fetch_add(1, AcqRel);
        self.in_flight.fetch_sub(1, SeqCst);
    }
}

fn difference(mine: &OpCell, other: &OpCell) -> Option<Difference> {
    let same = |field: fn(&OpCell) -> &AtomicU64| field(mine).load(Relaxed) == field(other).load(Relaxed);
    let differs = |field, what| (!same(field)).then_some(what);
    differs(|c| &c.step, Difference::Step)
        .or_else(|| {
            (mine.code.load(Relaxed) as u32 != other.code.load(Relaxed) as u32).then_some(Difference::Operation)
        })
        .or_else(|| differs(|c| &c.bytes, Difference::Bytes))
        .or_else(|| differs(|c| &c.fingerprint, Difference::Fingerprint))
        // One copied through the arena and the other did not: cannot be, with the same length.
        .or_else(|| differs(|c| &c.code, Difference::Operation))
}
