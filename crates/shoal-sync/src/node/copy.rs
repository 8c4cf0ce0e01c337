//! Finished bytes on their way to several workers, and copies (broadcast, all-gather), which are
//! nothing but that: one worker's chunk, passed on to the others (CORE-1: pure).

use super::Node;
use super::buffer::{Buffer, charge};
use super::outbox::{Frame, Payload, Sum, Then};
use super::world::{Members, NodeId};
use crate::layout::Chunk;
use crate::wire::{Header, Kind};
use std::sync::Arc;

impl Node {
    /// Queues a finished chunk for every other worker that `wanted` names (GRAD-3: all get these same bytes).
    pub(super) fn deliver(&mut self, header: Header, buffer: Buffer, then: Then, wanted: impl Fn(NodeId) -> bool) {
        let frame_header = header.encode();
        let sum = Arc::new(Sum { buffer, len: header.len as usize, then });
        let me = self.me;
        for worker in 0..self.world.workers {
            if worker == me || self.is_cut_off(worker) || !wanted(worker) {
                continue;
            }
            let rank = self.rank(header.priority);
            let frame = Frame { header: frame_header, payload: Payload::Sum { sum: sum.clone() } };
            self.out[worker as usize].sums.insert(rank, frame);
        }
        self.recycle(sum);
    }

    /// One holder of a finished chunk lets go of it; the last one returns the memory.
    pub(super) fn recycle(&mut self, sum: Arc<Sum>) {
        let Ok(sum) = Arc::try_unwrap(sum) else { return };
        self.pool.put(sum.buffer);
        match sum.then {
            Then::Nothing => {}
            Then::CopyOn => {
                self.copies_out -= sum.len.min(self.copies_out);
                self.pump_copies();
            }
            Then::Acknowledge { to, header } => {
                self.copying[to as usize] -= charge(sum.len);
                // Whoever holds its number in a later generation did not send it.
                let same = header.generation == self.world.generation;
                if same && !self.dead.contains(to) && self.fatal.is_none() {
                    self.tell(to, header, None);
                }
            }
        }
    }

    /// A remote worker's chunk of a copy has arrived: to the own worker's memory, and on to the others.
    pub(super) fn pass_on(&mut self, from: NodeId, header: &Header, buffer: Buffer, now: u64) {
        let chunk = Chunk { block: header.block, offset: header.offset, len: header.len as usize };
        let last = self.came_last((header.key, header.step)).unwrap_or(0);
        let own = self.in_flight.get(&header.key).copied().filter(|id| {
            self.ops.get(id).is_some_and(|op| {
                op.step == header.step && op.request.layout.chunk_at(chunk.block, chunk.offset) == Some(chunk)
            })
        });
        if let Some(id) = own
            && let Some(op) = self.ops.get(&id)
        {
            // SAFETY: the chunk was just checked against the layout of the tensor, whose owner leaves it alone.
            let target = unsafe { std::slice::from_raw_parts_mut(op.memory(chunk), chunk.len) };
            target.copy_from_slice(buffer.bytes(chunk.len));
            self.note_last(id, last);
            self.chunk_done(id, chunk, now);
        }
        self.copying[from as usize] += charge(chunk.len);
        let reply = Header { kind: Kind::Result, worker: self.me as u16, total: last, ..*header };
        let receipt = Header { len: 0, ..reply };
        let takers = self.takers((header.key, header.step));
        self.deliver(reply, buffer, Then::Acknowledge { to: from, header: receipt }, |w| {
            w != from && takers.contains(w)
        });
        self.progress((header.key, header.step), chunk.len, from);
    }

    /// Who gets a copy: those who have said that they wait for it. Who finished before has no place for it.
    fn takers(&self, key: (u64, u64)) -> Members {
        self.readiness.get(&key).map(|entry| entry.ready.clone()).unwrap_or_default()
    }

    /// Sends chunks of copies that start in this process, a window of them at a time.
    pub(super) fn pump_copies(&mut self) {
        while self.copies_out == 0 || self.copies_out < self.config.push_window {
            let Some(stream) = self.copies.front_mut() else { return };
            let id = stream.op;
            let Some(chunk) = stream.chunks.pop() else {
                self.copies.pop_front();
                continue;
            };
            let Some(op) = self.ops.get(&id) else { continue };
            let last = self.came_last((op.request.key, op.step)).unwrap_or(0);
            let header = Header {
                total: last,
                dtype: op.request.dtype,
                combine: op.request.combine,
                key: op.request.key,
                step: op.step,
                block: chunk.block,
                offset: chunk.offset,
                len: chunk.len as u32,
                priority: op.request.priority,
                ..self.header(Kind::Result)
            };
            let key = (header.key, header.step);
            self.note_last(id, last);
            let takers = self.takers(key);
            if !(0..self.world.workers).any(|w| w != self.me && takers.contains(w)) {
                // Nobody to send it to: without this, `deliver` would come straight back here, once deeper for every chunk.
                self.chunk_done(id, chunk, 0);
                self.progress(key, chunk.len, self.me);
                continue;
            }
            let Some(op) = self.ops.get(&id) else { continue };
            let at = op.memory(chunk);
            let mut buffer = self.pool.take(chunk.len);
            // SAFETY: the tensor's owner leaves it alone until the operation ends, which needs this chunk.
            let bytes = unsafe { std::slice::from_raw_parts(at, chunk.len) };
            buffer.bytes_mut(chunk.len).copy_from_slice(bytes);
            self.copies_out += chunk.len;
            self.deliver(header, buffer, Then::CopyOn, |w| takers.contains(w));
            self.chunk_done(id, chunk, 0);
            self.progress(key, chunk.len, self.me);
        }
    }
}
