//! What a worker does: submit a tensor, send its chunks when they are wanted, take the sums (CORE-1: pure).

use super::buffer::charge;
use super::op::{Asked, Op, OpId, Request};
use super::outbox::{Frame, Payload, Stream};
use super::shard::EVERY_WORKER;
use super::world::NodeId;
use super::{Node, SMALL, SMALL_WINDOW};
use crate::error::SyncError;
use crate::layout::Chunk;
use crate::wire::{Combine, Header, Kind};

impl Node {
    /// Starts an operation. Its end appears in `take_ended`.
    pub fn submit(&mut self, request: Request, now: u64) -> Result<OpId, SyncError> {
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        let usage = |why: &str| Err(SyncError::Usage { key: request.name.to_string(), why: why.into() });
        if self.finished.contains(self.me) {
            return usage("this worker has called finish() and takes no further part");
        }
        if self.is_voting() {
            return usage("admit() is under way, and nothing else may be until it has returned");
        }
        if self.in_flight.contains_key(&request.key) {
            return usage("still under way from an earlier call; wait for it first, or use another name");
        }
        if request.members.as_ref().is_some_and(|m| !m.contains(&self.me)) {
            return usage("this worker is not one of its members");
        }
        if !(request.weight.is_finite() && request.weight >= 0.0) {
            return usage(&format!("a weight of {} (must be finite and not negative)", request.weight));
        }
        let next = self.steps.entry(request.key).or_insert(0);
        let step = request.team_step.unwrap_or(*next);
        *next = step + 1;
        let op = Op::new(request, step, now);
        let id = self.next_op;
        self.next_op += 1;
        self.counters.operations += 1;
        self.introduce(&op.request);
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        self.in_flight.insert(op.request.key, id);
        let shards = op.request.layout.per_shard.len();
        self.ops.insert(id, op);
        for shard in 0..shards {
            self.offer(id, shard);
        }
        Ok(id)
    }

    /// Sends the blocks of one shard at once if they are small, or announces them.
    fn offer(&mut self, id: OpId, shard: usize) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let chunks = op.chunks_at(shard, None);
        if chunks.is_empty() {
            return;
        }
        let node = self.world.shard_node(shard);
        let bytes = op.request.layout.per_shard[shard];
        let cost: usize = chunks.iter().map(|c| charge(c.len)).sum();
        let out = &mut self.out[node as usize];
        let fits = node == self.me || out.small_out + cost <= SMALL_WINDOW;
        let at_once = op.request.combine != Combine::Copy && bytes <= SMALL && fits;
        op.at_once[shard] = at_once;
        let priority = op.request.priority;
        let (key, step, combine, dtype) = (op.request.key, op.step, op.request.combine, op.request.dtype);
        let codec = op.request.codec();
        if !at_once {
            // Not only of this shard's blocks: a gather's parts may be spread so that it sees one giver or several.
            let mut givers = op.request.layout.blocks.iter().map(|b| b.only);
            let first = givers.next().flatten();
            let root = if givers.all(|g| g == first) { first } else { Some(EVERY_WORKER) };
            let own = op.chunks_at(shard, Some(self.me)).len() as u32;
            let header = Header {
                key,
                step,
                codec,
                combine,
                dtype,
                priority,
                block: root.unwrap_or(0),
                partial: op.request.partial,
                offset: if op.request.partial { own } else { chunks.len() as u32 },
                total: bytes as u64,
                ..self.header(Kind::Ready)
            };
            if node == self.me {
                self.hear_ready(self.me, &header);
            } else {
                self.tell(node, header, None);
            }
        } else if node == self.me {
            for chunk in chunks {
                self.contribute_own(id, chunk);
            }
        } else {
            out.small_out += cost;
            for chunk in chunks {
                let rank = self.rank(priority);
                self.out[node as usize].small.insert(rank, (id, chunk));
            }
        }
    }

    /// A shard says that all workers are ready for a key: queue its chunks in the shard's order.
    pub(super) fn hear_go(&mut self, from: NodeId, key: u64, step: u64) {
        let Some(shard) = self.world.shard_of(from) else { return };
        let Some(&id) = self.in_flight.get(&key) else { return };
        let Some(op) = self.ops.get(&id) else { return };
        if op.step != step || op.at_once[shard] {
            return;
        }
        let mut chunks = op.chunks_at(shard, Some(self.me));
        let copy = op.request.combine == Combine::Copy;
        if from == self.me && !copy {
            for chunk in chunks {
                self.contribute_own(id, chunk);
            }
            return;
        }
        chunks.reverse();
        if chunks.is_empty() {
            return;
        }
        let stream = Stream { op: id, chunks };
        if from == self.me {
            self.copies.push_back(stream);
            self.pump_copies();
        } else {
            self.out[from as usize].streams.push_back(stream);
        }
    }

    /// The next frame for a peer, chosen now, when it can be sent.
    pub fn next_frame(&mut self, peer: NodeId, now: u64) -> Option<Frame> {
        let window = self.windows[peer as usize];
        let out = &mut self.out[peer as usize];
        if let Some(frame) = out.words.pop_front() {
            return Some(frame);
        }
        if let Some((_, frame)) = out.sums.pop_first() {
            return Some(frame);
        }
        if let Some((_, (id, chunk))) = out.small.pop_first() {
            return Some(self.push_frame(id, chunk, now));
        }
        let stream = out.streams.front_mut()?;
        let chunk = *stream.chunks.last()?;
        if out.stream_out > 0 && out.stream_out + charge(chunk.len) > window {
            return None;
        }
        stream.chunks.pop();
        let id = stream.op;
        if stream.chunks.is_empty() {
            out.streams.pop_front();
        }
        out.stream_out += charge(chunk.len);
        Some(self.push_frame(id, chunk, now))
    }

    fn push_frame(&mut self, id: OpId, chunk: Chunk, now: u64) -> Frame {
        let blank = self.header(Kind::Push);
        let Some(op) = self.ops.get_mut(&id) else {
            // Queued chunks are dropped together with their operation, so this is never reached.
            return Frame { header: blank.encode(), payload: Payload::None };
        };
        if op.times.first_sent == 0 {
            op.times.first_sent = now;
        }
        op.times.last_sent = now;
        let header = Header {
            codec: op.request.codec(),
            dtype: op.request.dtype,
            combine: op.request.combine,
            step: op.step,
            key: op.request.key,
            block: chunk.block,
            offset: chunk.offset,
            len: chunk.len as u32,
            priority: op.request.priority,
            weight: op.request.weight,
            ..blank
        };
        Frame { header: header.encode(), payload: Payload::Memory { at: op.memory(chunk), len: chunk.len } }
    }

    /// Who came last, as a shard says.
    pub(super) fn note_last(&mut self, id: OpId, last: u64) {
        if let Some(op) = self.ops.get_mut(&id).filter(|_| last > 0) {
            op.times.last = last;
        }
    }

    /// A sum's bytes are in place (from a peer, or from the shard beside us).
    pub(super) fn chunk_done(&mut self, id: OpId, chunk: Chunk, now: u64) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        if op.times.first_back == 0 {
            op.times.first_back = now;
        }
        if op.mark(chunk) && op.left == 0 {
            if let Some(op) = self.ops.remove(&id) {
                self.in_flight.remove(&op.request.key);
                if !op.absent.is_empty() {
                    self.absent.insert(id, op.absent);
                }
                let bytes = op.request.layout.total;
                self.finished_times.push((op.request.name.clone(), op.step, bytes, op.times));
            }
            self.ended.push((id, Ok(())));
        }
    }

    /// This worker takes no further part; its shard, if any, goes on serving the others.
    pub fn finish(&mut self) -> Result<(), SyncError> {
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        if let Some(op) = self.ops.values().next() {
            let why = "still under way; wait for it before finish()".into();
            return Err(SyncError::Usage { key: op.request.name.to_string(), why });
        }
        if self.finished.contains(self.me) {
            return Ok(());
        }
        for shard in 0..self.world.shards() {
            let node = self.world.shard_node(shard);
            if node != self.me {
                let header = self.header(Kind::Finish);
                self.tell(node, header, None);
            }
        }
        self.hear_finish(self.me);
        Ok(())
    }

    /// Asks the shards that still owe sums whom they wait for.
    pub fn ask(&mut self, id: OpId) {
        let Some(op) = self.ops.get(&id) else { return };
        let (key, step) = (op.request.key, op.step);
        let mut owing: Vec<usize> = Vec::new();
        for (index, block) in op.request.layout.blocks.iter().enumerate() {
            if !owing.contains(&block.shard) && op.request.layout.chunks(index).any(|c| !op.came(c)) {
                owing.push(block.shard);
            }
        }
        let owing: Vec<NodeId> = owing.into_iter().map(|shard| self.world.shard_node(shard)).collect();
        if let Some(op) = self.ops.get_mut(&id) {
            op.asked.retain(|a| owing.contains(&a.node));
            for node in &owing {
                match op.asked.iter_mut().find(|a| a.node == *node) {
                    Some(asked) => asked.unanswered += 1,
                    None => op.asked.push(Asked { node: *node, missing: Vec::new(), unanswered: 1 }),
                }
            }
        }
        for node in owing {
            if node == self.me {
                let missing = self.missing(key, step);
                self.hear_waiting(self.me, key, step, missing);
            } else {
                let header = Header { key, step, ..self.header(Kind::Ask) };
                self.tell(node, header, None);
            }
        }
    }

    pub(super) fn hear_waiting(&mut self, from: NodeId, key: u64, step: u64, missing: Vec<u32>) {
        let id = self.in_flight.get(&key).copied();
        let op = id.and_then(|id| self.ops.get_mut(&id)).filter(|op| op.step == step);
        if let Some(asked) = op.and_then(|op| op.asked.iter_mut().find(|a| a.node == from)) {
            asked.missing = missing;
            asked.unanswered = 0;
        }
    }

    /// Name, step and the nodes an operation waits for: those the shards miss, and shards that do not answer.
    pub fn waiting_for(&self, id: OpId) -> Option<(String, u64, Vec<NodeId>)> {
        let op = self.ops.get(&id)?;
        let mut nodes: Vec<NodeId> = Vec::new();
        for asked in &op.asked {
            if asked.unanswered >= 2 {
                nodes.push(asked.node);
            } else {
                nodes.extend(&asked.missing);
            }
        }
        nodes.sort_unstable();
        nodes.dedup();
        Some((op.request.name.to_string(), op.step, nodes))
    }
}
