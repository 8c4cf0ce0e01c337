//! What happens to a frame from a proven peer: where its payload goes, and then what it means (CORE-1: pure).
//!
//! Two steps, so that payloads are read straight to where they belong: `begin` looks at the header and names the
//! place, `finish_frame` acts once the bytes are there.

use super::Node;
use super::admit::Era;
use super::buffer::{Buffer, charge};
use super::shard::Readiness;
use super::spec::Spec;
use super::world::NodeId;
use super::{SMALL_WINDOW, WINDOW_LIMIT};
use crate::error::SyncError;
use crate::layout::CHUNK;
use crate::wire::{Codec, Combine, Header, Kind, WireError};

/// No tensor is larger; with this, sums of sizes cannot overflow.
const LARGEST: u64 = 1 << 46;

/// Where a payload goes.
#[derive(Debug)]
pub enum Sink {
    None,
    /// A chunk buffer of the shard.
    Buffer(Buffer),
    /// The user's tensor.
    Memory {
        at: *mut u8,
        len: usize,
    },
    Words(Vec<u8>),
    /// Nobody wants it any more: the run has ended.
    Discard,
}

// SAFETY: as for `Payload`: the tensor is left alone by its owner while its operation lasts.
unsafe impl Send for Sink {}

impl Node {
    /// Checks a header against what this peer may say now and names the place for its payload.
    pub fn begin(&mut self, from: NodeId, header: &Header) -> Result<Sink, SyncError> {
        if self.fatal.is_some() || self.is_cut_off(from) {
            return Ok(Sink::Discard);
        }
        let era = self.era(header);
        if era == Era::Wrong {
            return self.broke(from, WireError::Stranger { run: header.run, generation: header.generation });
        }
        if u32::from(header.worker) != from {
            return self.misfit(from, header, format!("signed by node {}", header.worker));
        }
        if era == Era::Past {
            return Ok(Sink::Discard);
        }
        let len = header.len as usize;
        let outsider = self.group(header.key).is_some_and(|group| !group.contains(from));
        if outsider && matches!(header.kind, Kind::Push | Kind::Ready) {
            return self.misfit(from, header, format!("it has no part in key `{}`", self.key_name(header.key)));
        }
        match header.kind {
            Kind::Push => {
                if !self.is_shard() || !self.world.is_worker(from) {
                    return self.misfit(from, header, "only workers push, and only to shards".into());
                }
                if header.codec == Codec::Team && (header.combine == Combine::Copy || self.world.teams.is_empty()) {
                    return self.misfit(from, header, "it speaks for others who cannot have asked it to".into());
                }
                if !len.is_multiple_of(header.dtype.size()) || !(header.offset as usize).is_multiple_of(CHUNK) {
                    return self.misfit(from, header, format!("{len} bytes at {}", header.offset));
                }
                // GRAD-4: a worker that keeps to its windows stays far below this.
                let held = self.unsummed[from as usize] + self.copying[from as usize];
                if held + charge(len) > WINDOW_LIMIT + SMALL_WINDOW + 2 * CHUNK {
                    return self.misfit(from, header, "more bytes in flight than its window".into());
                }
                let announced = |r: &Readiness| r.announced && r.combine == Combine::Copy && r.ready.contains(from);
                if header.combine == Combine::Copy
                    && !self.readiness.get(&(header.key, header.step)).is_some_and(announced)
                {
                    return self.misfit(from, header, "a copy that was not announced".into());
                }
                let key = (header.key, header.step, header.block, header.offset);
                if self.pending.get(&key).is_some_and(|p| self.has_said(p, from, header.codec)) {
                    return self.misfit(from, header, "the same part twice".into());
                }
                Ok(Sink::Buffer(self.pool.take(len)))
            }
            Kind::Result => self.place_for_result(from, header),
            Kind::Ready if header.total > LARGEST => {
                self.misfit(from, header, format!("a tensor of {} bytes", header.total))
            }
            Kind::Ready if header.partial && header.combine != Combine::Copy => {
                self.misfit(from, header, "only a gather may go on without a part".into())
            }
            Kind::Spec | Kind::Abort | Kind::Waiting | Kind::Admit | Kind::Admitted => Ok(Sink::Words(vec![0; len])),
            Kind::Ready | Kind::Go | Kind::Finish | Kind::Ask | Kind::Welcome | Kind::Absent => Ok(Sink::None),
        }
    }

    fn place_for_result(&mut self, from: NodeId, header: &Header) -> Result<Sink, SyncError> {
        let id = self.in_flight.get(&header.key).copied();
        let Some(op) = id.and_then(|id| self.ops.get(&id)).filter(|op| op.step == header.step) else {
            return self.misfit(from, header, "this worker has no such operation under way".into());
        };
        let Some(chunk) = op.request.layout.chunk_at(header.block, header.offset) else {
            return self.misfit(from, header, "no such chunk".into());
        };
        let block = op.request.layout.blocks[header.block as usize];
        if self.world.shard_node(block.shard) != from || op.came(chunk) {
            return self.misfit(from, header, "not its chunk, or a chunk that is already here".into());
        }
        let receipt = op.request.combine == Combine::Copy && block.only == Some(self.me);
        if receipt && header.len == 0 {
            return Ok(Sink::None);
        }
        if receipt || header.len as usize != chunk.len {
            let why = format!("{} bytes for a chunk of {}", header.len, chunk.len);
            return self.misfit(from, header, why);
        }
        Ok(Sink::Memory { at: op.memory(chunk), len: chunk.len })
    }

    pub(super) fn misfit<T>(&mut self, from: NodeId, header: &Header, why: String) -> Result<T, SyncError> {
        self.broke(from, WireError::Misfit { kind: header.kind, why })
    }

    /// A proven peer that breaks the protocol ends the run: its sums cannot be trusted.
    pub fn broke<T>(&mut self, from: NodeId, error: WireError) -> Result<T, SyncError> {
        let error = SyncError::Protocol { who: self.world.name(from), why: error.to_string() };
        self.fail(error.clone());
        Err(error)
    }

    /// Acts on a frame whose payload has been put in place.
    pub fn finish_frame(&mut self, from: NodeId, header: &Header, sink: Sink, now: u64) -> Result<(), SyncError> {
        self.counters.frames_received += 1;
        // The master may say that a worker is dead while its last frames are still to be read. By then sums have
        // ended without it: its part would wait for ever for the others' (GRAD-4).
        if self.fatal.is_some() || self.is_cut_off(from) || self.era(header) == Era::Past {
            self.abandon(sink);
            return Ok(());
        }
        match (header.kind, sink) {
            (Kind::Push, Sink::Buffer(buffer)) => self.contribute(from, header, buffer, now),
            (Kind::Result, Sink::Memory { .. } | Sink::None) => self.take_result(from, header, now),
            (Kind::Ready, _) => {
                if self.is_shard() && self.world.is_worker(from) {
                    self.hear_ready(from, header);
                }
            }
            (Kind::Go, _) => self.hear_go(from, header.key, header.step),
            (Kind::Finish, _) => self.hear_finish(from),
            (Kind::Absent, _) => self.hear_absent(from, header.key, header.step, now),
            (Kind::Ask, _) => {
                let missing = self.missing(header.key, header.step);
                let words = serde_json::to_vec(&missing).unwrap_or_default();
                let reply = Header { key: header.key, step: header.step, ..self.header(Kind::Waiting) };
                self.tell(from, reply, Some(words.into()));
            }
            (Kind::Spec, Sink::Words(words)) => match serde_json::from_slice::<Spec>(&words) {
                Ok(spec) if self.is_possible(from, &spec) => self.hear_spec(from, header.key, spec),
                Ok(spec) => return self.misfit(from, header, format!("members that cannot be: {:?}", spec.members)),
                Err(e) => return self.misfit(from, header, e.to_string()),
            },
            (Kind::Waiting, Sink::Words(words)) => match serde_json::from_slice::<Vec<u32>>(&words) {
                Ok(missing) => self.hear_waiting(from, header.key, header.step, missing),
                Err(e) => return self.misfit(from, header, e.to_string()),
            },
            (Kind::Abort, Sink::Words(words)) => match serde_json::from_slice::<SyncError>(&words) {
                Ok(error) => self.fail(error),
                Err(e) => return self.misfit(from, header, e.to_string()),
            },
            (Kind::Admit | Kind::Admitted, Sink::Words(words)) => return self.hear_boundary(from, header, &words),
            (_, sink) => {
                let why = format!("a payload in the wrong place ({sink:?})");
                return self.misfit(from, header, why);
            }
        }
        Ok(())
    }

    /// A frame that was begun and will never be complete, because its sender is gone: only its memory comes back.
    pub fn abandon(&mut self, sink: Sink) {
        if let Sink::Buffer(buffer) = sink {
            self.pool.put(buffer);
        }
    }

    fn take_result(&mut self, from: NodeId, header: &Header, now: u64) {
        let Some(&id) = self.in_flight.get(&header.key) else { return };
        let Some(op) = self.ops.get(&id) else { return };
        let Some(chunk) = op.request.layout.chunk_at(header.block, header.offset) else { return };
        let shard = op.request.layout.blocks[header.block as usize].shard;
        let out = &mut self.out[from as usize];
        if op.at_once[shard] {
            out.small_out -= charge(chunk.len).min(out.small_out);
        } else if op.request.layout.blocks[header.block as usize].only.is_none_or(|w| w == self.me) {
            out.stream_out -= charge(chunk.len).min(out.stream_out);
        }
        self.note_last(id, header.total);
        self.chunk_done(id, chunk, now);
    }
}
