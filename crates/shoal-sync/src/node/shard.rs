//! What a shard does: collect the contributions to each chunk, sum them, pass the sum on (CORE-1: pure).

use super::Node;
use super::buffer::{Buffer, charge};
use super::op::OpId;
use super::outbox::Then;
use super::world::{Members, NodeId};
use crate::dtype::DType;
use crate::error::SyncError;
use crate::layout::Chunk;
use crate::reduce;
use crate::wire::{Codec, Combine, Header, Kind};
use std::collections::BTreeMap;

/// Which chunk: key, step, block, offset.
pub type ChunkKey = (u64, u64, u32, u32);

/// In place of a copy's root: all workers give a part.
pub const EVERY_WORKER: u32 = u32::MAX;

/// A chunk that some workers have contributed to.
#[derive(Debug)]
pub struct Pending {
    pub dtype: DType,
    pub combine: Combine,
    pub len: usize,
    pub priority: u16,
    /// Who came first: named if the next one differs.
    pub first: NodeId,
    /// Who came last so far, for the timeline.
    pub last: NodeId,
    pub contributed: Members,
    /// Teams that have given the sum of all their members.
    pub spoken: Members,
    /// Of all parts together: what a mean is divided by.
    pub weight: f64,
    /// The running sum of the peers' parts.
    pub sum: Option<Buffer>,
    /// Parts kept apart until all are there, where the order of summation is fixed.
    pub parked: Vec<(NodeId, f64, Buffer)>,
    /// The part of the worker in this process, and its factor: not copied, added last from where it lies.
    pub own: Option<(OpId, f64)>,
}

/// Who is ready for one step of a large tensor.
#[derive(Debug)]
pub struct Readiness {
    pub ready: Members,
    /// Teams one of whose members is ready for all of them.
    pub spoken: Members,
    pub first: NodeId,
    /// Who came last so far, for the timeline.
    pub last: NodeId,
    pub bytes: usize,
    pub bytes_left: usize,
    pub chunks_left: u32,
    pub priority: u16,
    pub combine: Combine,
    /// The worker whose bytes a copy needs, or [`EVERY_WORKER`] for a gather.
    pub root: u32,
    /// Of a partial gather: how many chunks each worker that is ready has still to send here.
    pub owed: Option<BTreeMap<NodeId, u32>>,
    pub candidate: bool,
    pub announced: bool,
}

impl Node {
    pub(super) fn hear_ready(&mut self, from: NodeId, header: &Header) {
        let id = (header.key, header.step);
        let entry = self.readiness.entry(id).or_insert_with(|| Readiness {
            ready: Members::default(),
            spoken: Members::default(),
            first: from,
            last: from,
            bytes: header.total as usize,
            bytes_left: header.total as usize,
            chunks_left: header.offset,
            priority: header.priority,
            combine: header.combine,
            root: header.block,
            owed: header.partial.then(BTreeMap::new),
            candidate: false,
            announced: false,
        });
        if entry.bytes != header.total as usize || entry.combine != header.combine {
            let (first, a) = (entry.first, format!("{} bytes, {}", entry.bytes, entry.combine.name()));
            return self.mismatch(header.key, "size or operation", first, a, from, {
                format!("{} bytes, {}", header.total, header.combine.name())
            });
        }
        if entry.owed.is_some() != header.partial {
            let (first, was, is) = (entry.first, entry.owed.is_some(), header.partial);
            return self.mismatch(header.key, "partial", first, was.to_string(), from, is.to_string());
        }
        entry.last = from;
        if entry.ready.insert(from)
            && let Some(owed) = &mut entry.owed
        {
            owed.insert(from, header.offset);
        }
        if header.codec == Codec::Team {
            entry.spoken.insert(self.world.team(from));
        }
        self.consider(id);
    }

    fn mismatch(&mut self, key: u64, field: &str, a: NodeId, a_value: String, b: NodeId, b_value: String) {
        let error = SyncError::Mismatch {
            key: self.key_name(key),
            field: field.into(),
            a: Box::new(self.world.name(a)),
            a_value,
            b: Box::new(self.world.name(b)),
            b_value,
        };
        self.fail(error);
    }

    /// Announces a key once every worker that still takes part is ready or has already sent its part.
    pub(super) fn consider(&mut self, id: (u64, u64)) {
        let Some(entry) = self.readiness.get(&id) else { return };
        if entry.candidate {
            return;
        }
        if let Some(giver) = self.lost_giver(id.0, entry, |w| self.is_gone(w)) {
            let (who, key) = (self.world.name(giver), self.key_name(id.0));
            return self.fail(if self.dead.contains(giver) {
                SyncError::Dead { who, how: format!("it died before it gave its part of key `{key}`") }
            } else {
                SyncError::Finished { who, key }
            });
        }
        if !self.workers_of(id.0).all(|w| self.is_ready(entry, id, w)) {
            return;
        }
        let priority = entry.priority;
        let rank = self.rank(priority);
        self.candidates.insert(rank, id);
        if let Some(entry) = self.readiness.get_mut(&id) {
            entry.candidate = true;
        }
        self.announce();
    }

    /// A worker without whom a copy cannot end, if it is among the `gone`.
    pub(super) fn lost_giver(&self, key: u64, entry: &Readiness, gone: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let gives = |w: &NodeId| entry.root == *w || entry.root == EVERY_WORKER;
        let needed = entry.combine == Combine::Copy && entry.owed.is_none();
        self.workers_of(key).find(|w| needed && gives(w) && gone(*w))
    }

    /// Says `Go` for the most urgent keys, as far as the window reaches, to all workers in one order.
    pub(super) fn announce(&mut self) {
        while let Some((&rank, &id)) = self.candidates.first_key_value() {
            let Some(entry) = self.readiness.get_mut(&id) else {
                self.candidates.remove(&rank);
                continue;
            };
            if self.announced > 0 && self.announced + entry.bytes_left > self.config.announce_window {
                return;
            }
            self.candidates.remove(&rank);
            entry.announced = true;
            self.announced += entry.bytes_left;
            for worker in 0..self.world.workers {
                let wanted = self.readiness.get(&id).is_some_and(|e| e.ready.contains(worker));
                if !wanted || self.is_gone(worker) {
                    continue;
                }
                if worker == self.me {
                    self.hear_go(self.me, id.0, id.1);
                } else {
                    let header = Header { key: id.0, step: id.1, ..self.header(Kind::Go) };
                    self.tell(worker, header, None);
                }
            }
            self.close_if_all_gave(id);
        }
    }

    /// The part of the worker beside this shard: noted, not copied.
    pub(super) fn contribute_own(&mut self, id: OpId, chunk: Chunk) {
        let Some(op) = self.ops.get(&id) else { return };
        let (request, step) = (&op.request, op.step);
        let key = (request.key, step, chunk.block, chunk.offset);
        let me = self.me;
        let (weight, codec) = (request.weight, request.codec());
        let fresh = || Pending {
            dtype: request.dtype,
            combine: request.combine,
            len: chunk.len,
            priority: request.priority,
            first: me,
            last: me,
            contributed: Members::default(),
            spoken: Members::default(),
            weight: 0.0,
            sum: None,
            parked: Vec::new(),
            own: None,
        };
        let (dtype, combine) = (request.dtype, request.combine);
        let pending = self.pending.entry(key).or_insert_with(fresh);
        if (pending.dtype, pending.combine, pending.len) != (dtype, combine, chunk.len) {
            // Summing would read and write beyond the own tensor.
            let a = format!("{} bytes of {}, {}", pending.len, pending.dtype, pending.combine.name());
            let b = format!("{} bytes of {dtype}, {}", chunk.len, combine.name());
            let first = pending.first;
            return self.mismatch(key.0, "part", first, a, me, b);
        }
        pending.own = Some((id, codec.factor(dtype, combine, weight)));
        pending.weight += weight;
        pending.contributed.insert(me);
        pending.last = me;
        if codec == Codec::Team {
            pending.spoken.insert(self.world.team(me));
        }
        // Peers whose window was full have announced what this worker gives at once.
        if self.readiness.get(&(key.0, key.1)).is_some_and(|r| !r.candidate) {
            self.consider((key.0, key.1));
        }
        self.complete(key);
    }

    /// A peer's part has arrived in `buffer`.
    pub(super) fn contribute(&mut self, from: NodeId, header: &Header, buffer: Buffer, now: u64) {
        let key = (header.key, header.step, header.block, header.offset);
        let len = header.len as usize;
        if header.combine == Combine::Copy {
            return self.pass_on(from, header, buffer, now);
        }
        let pending = self.pending.entry(key).or_insert_with(|| Pending {
            dtype: header.dtype,
            combine: header.combine,
            len,
            priority: header.priority,
            first: from,
            last: from,
            contributed: Members::default(),
            spoken: Members::default(),
            weight: 0.0,
            sum: None,
            parked: Vec::new(),
            own: None,
        });
        if (pending.dtype, pending.combine, pending.len) != (header.dtype, header.combine, len) {
            let a = format!("{} bytes of {}, {}", pending.len, pending.dtype, pending.combine.name());
            let b = format!("{len} bytes of {}, {}", header.dtype, header.combine.name());
            let first = pending.first;
            self.pool.put(buffer);
            return self.mismatch(header.key, "part", first, a, from, b);
        }
        let (dtype, wide) = (header.dtype, len / header.dtype.size() * header.dtype.accumulator_size());
        let factor = header.codec.factor(dtype, header.combine, header.weight);
        if self.config.deterministic {
            pending.parked.push((from, factor, buffer));
        } else if let Some(sum) = &mut pending.sum {
            reduce::add(dtype, buffer.bytes(len), factor, sum.bytes_mut(wide));
            self.pool.put(buffer);
        } else if dtype.accumulator_size() == dtype.size() && factor == 1.0 {
            // The first part needs no copy: what it was received into becomes the sum.
            pending.sum = Some(buffer);
        } else {
            let mut sum = self.pool.take(wide);
            reduce::load(dtype, buffer.bytes(len), factor, sum.bytes_mut(wide));
            pending.sum = Some(sum);
            self.pool.put(buffer);
        }
        pending.weight += header.weight;
        pending.contributed.insert(from);
        pending.last = from;
        if header.codec == Codec::Team {
            pending.spoken.insert(self.world.team(from));
        }
        self.unsummed[from as usize] += charge(len);
        if self.readiness.get(&(header.key, header.step)).is_some_and(|r| !r.candidate) {
            self.consider((header.key, header.step));
        }
        self.complete(key);
    }

    /// Finishes a chunk when everyone who still takes part has contributed (GRAD-2: each once).
    pub(super) fn complete(&mut self, key: ChunkKey) {
        let Some(pending) = self.pending.get(&key) else { return };
        if !self.workers_of(key.0).all(|w| self.is_in(pending, w)) {
            return;
        }
        let Some(mut pending) = self.pending.remove(&key) else { return };
        self.counters.chunks_summed += 1;
        for worker in 0..self.world.workers {
            if worker != self.me && pending.contributed.contains(worker) {
                self.unsummed[worker as usize] -= charge(pending.len);
            }
        }
        let scale = match pending.combine {
            Combine::Sum | Combine::Copy => 1.0,
            // A mean's parts weigh one each, a team's as many as it has members.
            Combine::Mean | Combine::WeightedMean if pending.weight > 0.0 => 1.0 / pending.weight,
            Combine::Mean | Combine::WeightedMean => 0.0,
        };
        let chunk = Chunk { block: key.2, offset: key.3, len: pending.len };
        let result = self.sum_up(&mut pending, chunk, scale);
        let last = self.came_last((key.0, key.1)).unwrap_or(u64::from(pending.last) + 1);
        if let Some((id, _)) = pending.own {
            self.note_last(id, last);
            self.chunk_done(id, chunk, 0);
        }
        if let Some(result) = result {
            let header = Header {
                dtype: pending.dtype,
                combine: pending.combine,
                key: key.0,
                step: key.1,
                block: key.2,
                offset: key.3,
                len: pending.len as u32,
                priority: pending.priority,
                total: last,
                ..self.header(Kind::Result)
            };
            let there = &pending.contributed;
            self.deliver(header, result, Then::Nothing, |w| there.contains(w));
        }
        self.progress((key.0, key.1), pending.len, self.me);
    }

    /// The finished bytes: in the own worker's memory, and in a buffer for the others.
    fn sum_up(&mut self, pending: &mut Pending, chunk: Chunk, scale: f64) -> Option<Buffer> {
        let (dtype, len) = (pending.dtype, pending.len);
        let wide = len / dtype.size() * dtype.accumulator_size();
        let mut own = pending.own.and_then(|(id, weight)| {
            let at = self.ops.get(&id)?.memory(chunk);
            // SAFETY: the own tensor is left alone by its owner until its operation ends, which needs this chunk.
            Some((unsafe { std::slice::from_raw_parts_mut(at, len) }, weight))
        });
        let alone = pending.sum.is_none() && pending.parked.is_empty();
        if alone && own.as_ref().is_some_and(|(_, weight)| weight * scale == 1.0) {
            return None;
        }
        let own_width = dtype.accumulator_size() == dtype.size();
        if own_width
            && pending.parked.is_empty()
            && let Some((bytes, weight)) = &mut own
            && let Some(mut sum) = pending.sum.take()
        {
            // The usual case in one pass: both copies of the result are written while the parts are in registers.
            reduce::close(dtype, sum.bytes_mut(len), bytes, *weight, scale);
            return Some(sum);
        }
        let mut started = pending.sum.is_some();
        let mut sum = pending.sum.take().unwrap_or_else(|| self.pool.take(wide));
        let mut put = |bytes: &[u8], weight: f64| {
            let combine = if started { reduce::add } else { reduce::load };
            combine(dtype, bytes, weight, sum.bytes_mut(wide));
            started = true;
        };
        // In worker order, the own part at its place among the parked ones.
        pending.parked.sort_by_key(|(worker, ..)| *worker);
        let before = pending.parked.partition_point(|(worker, ..)| *worker < self.me);
        for (_, weight, buffer) in &pending.parked[..before] {
            put(buffer.bytes(len), *weight);
        }
        if let Some((bytes, weight)) = &own {
            put(bytes, *weight);
        }
        for (_, weight, buffer) in &pending.parked[before..] {
            put(buffer.bytes(len), *weight);
        }
        for (_, _, buffer) in pending.parked.drain(..) {
            self.pool.put(buffer);
        }
        let result = if own_width {
            reduce::scale(dtype, sum.bytes_mut(len), scale);
            sum
        } else {
            let mut narrow = self.pool.take(len);
            reduce::store(dtype, sum.bytes(wide), scale, narrow.bytes_mut(len));
            self.pool.put(sum);
            narrow
        };
        if let Some((bytes, _)) = own {
            bytes.copy_from_slice(result.bytes(len));
        }
        Some(result)
    }

    /// Who was the last to be ready for an announced key, for the timeline: its parts then come from all at once.
    pub(super) fn came_last(&self, id: (u64, u64)) -> Option<u64> {
        self.readiness.get(&id).map(|entry| u64::from(entry.last) + 1)
    }

    /// Bookkeeping of a finished chunk, which makes room to announce further keys.
    pub(super) fn progress(&mut self, id: (u64, u64), len: usize, from: NodeId) {
        let Some(entry) = self.readiness.get_mut(&id) else { return };
        if let Some(owed) = &mut entry.owed {
            owed.entry(from).and_modify(|n| *n = n.saturating_sub(1));
            let done = len.min(entry.bytes_left);
            entry.bytes_left -= done;
            if entry.announced {
                self.announced -= done;
            }
            self.close_if_all_gave(id);
            return self.announce();
        }
        let mut done = len.min(entry.bytes_left);
        entry.chunks_left = entry.chunks_left.saturating_sub(1);
        if entry.chunks_left == 0 {
            // With the last chunk all bytes are done, also if somebody's count of chunks was wrong.
            done = entry.bytes_left;
        }
        entry.bytes_left -= done;
        if entry.announced {
            self.announced -= done;
        }
        if entry.chunks_left == 0 {
            self.readiness.remove(&id);
        }
        self.announce();
    }
}
