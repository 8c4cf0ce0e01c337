//! Gathers that go on without those who are gone: their places stay as they are (CORE-1: pure).
//!
//! A shard knows from each `Ready` how many chunks that worker owes it. Once all who are still there have given theirs, and
//! somebody is gone, it tells the takers that no more comes (`Absent`), behind everything that did come. What came is the same
//! for all takers, because one shard decides for each chunk; so all leave the same places as they are (GRAD-3), and every
//! wait ends (GRAD-5).

use super::Node;
use super::op::OpId;
use super::outbox::{Frame, Payload};
use super::world::NodeId;
use crate::layout::Chunk;
use crate::wire::{Header, Kind};

impl Node {
    /// Ends a partial gather at this shard when nobody who is still there owes a chunk of it. True if that made room to announce.
    pub(super) fn close_if_all_gave(&mut self, id: (u64, u64)) -> bool {
        let Some(entry) = self.readiness.get(&id).filter(|e| e.announced) else { return false };
        let Some(owed) = &entry.owed else { return false };
        if owed.iter().any(|(worker, chunks)| *chunks > 0 && !self.is_gone(*worker)) {
            return false;
        }
        let Some(entry) = self.readiness.remove(&id) else { return false };
        self.announced -= entry.bytes_left;
        let (gone, there): (Vec<NodeId>, Vec<NodeId>) = self.workers_of(id.0).partition(|w| self.is_gone(*w));
        if !gone.is_empty() {
            for worker in there.into_iter().filter(|w| entry.ready.contains(*w)) {
                if worker == self.me {
                    self.hear_absent(self.me, id.0, id.1, 0);
                    continue;
                }
                let header = Header { key: id.0, step: id.1, ..self.header(Kind::Absent) };
                // Among the sums and after all of them, whatever their priority: not a word that overtakes what did come.
                let rank = self.rank(u16::MAX);
                let frame = Frame { header: header.encode(), payload: Payload::None };
                self.out[worker as usize].sums.insert(rank, frame);
            }
        }
        true
    }

    /// A shard says that no more comes from it for this step: what is still missing stays as it is.
    pub(super) fn hear_absent(&mut self, from: NodeId, key: u64, step: u64, now: u64) {
        let (Some(shard), Some(&id)) = (self.world.shard_of(from), self.in_flight.get(&key)) else { return };
        for (chunk, giver) in self.holes(id, shard, step) {
            if let Some(op) = self.ops.get_mut(&id)
                && !op.absent.contains(&giver)
            {
                op.absent.push(giver);
                op.absent.sort_unstable();
            }
            self.chunk_done(id, chunk, now);
        }
    }

    /// What has not come from a shard of a partial gather, and whose it is. The own part is not among it: its receipts still come.
    fn holes(&self, id: OpId, shard: usize, step: u64) -> Vec<(Chunk, u32)> {
        let Some(op) = self.ops.get(&id).filter(|op| op.step == step && op.request.partial) else { return Vec::new() };
        let mut holes = Vec::new();
        for (index, block) in op.request.layout.blocks.iter().enumerate().filter(|(_, b)| b.shard == shard) {
            let Some(giver) = block.only.filter(|w| *w != self.me) else { continue };
            holes.extend(op.request.layout.chunks(index).filter(|c| !op.came(*c)).map(|c| (c, giver)));
        }
        holes
    }
}
