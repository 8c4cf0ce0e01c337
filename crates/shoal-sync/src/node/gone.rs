//! Leaving: by finishing, by dying, or because the run is over (CORE-1: pure).

use super::Node;
use super::outbox::Payload;
use super::world::NodeId;
use crate::error::{Role, SyncError};
use crate::settings::OnDeath;
use crate::wire::{Kind, MAX_WORDS};
use std::sync::Arc;

impl Node {
    /// Whether sums no longer wait for this worker.
    pub(super) fn is_gone(&self, worker: NodeId) -> bool {
        self.finished.contains(worker) || self.dead.contains(worker)
    }

    /// Whether nothing that comes from this node counts any more, and nothing reaches it.
    pub(super) fn is_cut_off(&self, node: NodeId) -> bool {
        self.dead.contains(node) || self.left.contains(node)
    }

    /// Whether every worker has finished or died, so that a shard is no longer needed.
    pub fn all_gone(&self) -> bool {
        (0..self.world.workers).all(|w| self.is_gone(w) || self.left.contains(w))
    }

    /// Workers that have not finished yet.
    pub fn unfinished(&self) -> Vec<u32> {
        (0..self.world.workers).filter(|w| !self.is_gone(*w)).collect()
    }

    pub(super) fn hear_finish(&mut self, from: NodeId) {
        if self.world.is_worker(from) && self.finished.insert(from) {
            self.reconsider();
        }
    }

    /// A connection ended, or the master says that a node is no more.
    pub fn lost(&mut self, node: NodeId, how: &str) {
        if self.fatal.is_some() || node == self.me || self.leaves_the_door(node) || self.dead.contains(node) {
            return;
        }
        let carries_shard = self.world.shard_of(node).is_some();
        // Nobody leaves a shard while a worker needs it; once all have finished, leaving is what everyone does.
        let over = if self.world.is_worker(self.me) { self.finished.contains(self.me) } else { self.all_gone() };
        let left_in_order = self.world.is_worker(node) && self.finished.contains(node);
        let in_order = if carries_shard { over } else { left_in_order };
        if in_order {
            // Sums still count it, but whoever waits to leave no longer waits for its farewell.
            self.left.insert(node);
            self.drop_outbox(node);
            return;
        }
        if carries_shard || self.config.on_death == OnDeath::Fail {
            let error = SyncError::Dead { who: self.world.name(node), how: how.into() };
            return self.fail(error);
        }
        self.dead.insert(node);
        self.drop_outbox(node);
        if self.is_shard() {
            self.reconsider();
        }
    }

    /// The master is gone. It is not needed for sums, so survivors may choose to go on.
    pub fn lost_master(&mut self, how: &str, host: &str) {
        let over = if self.world.is_worker(self.me) { self.finished.contains(self.me) } else { self.all_gone() };
        if self.fatal.is_none() && !over && self.config.on_death == OnDeath::Fail {
            let who = crate::error::Who { role: Role::Master, id: 0, host: host.into(), pid: 0 };
            self.fail(SyncError::Dead { who, how: how.into() });
        }
    }

    pub(super) fn drop_outbox(&mut self, node: NodeId) {
        let sums = std::mem::take(&mut self.out[node as usize].sums);
        self.out[node as usize].clear();
        for frame in sums.into_values() {
            if let Payload::Sum { sum } = frame.payload {
                self.recycle(sum);
            }
        }
    }

    /// Somebody less to wait for: what was waiting only for them can go on.
    fn reconsider(&mut self) {
        let mut keys: Vec<_> = self.readiness.keys().copied().collect();
        keys.sort_unstable();
        for id in keys {
            self.consider(id);
            if self.close_if_all_gave(id) {
                self.announce();
            }
            let entry = self.readiness.get(&id);
            if let Some(giver) = entry.and_then(|e| self.lost_giver(id.0, e, |w| self.dead.contains(w))) {
                let how = format!("it died before it gave its part of key `{}`", self.key_name(id.0));
                let error = SyncError::Dead { who: self.world.name(giver), how };
                return self.fail(error);
            }
        }
        let mut chunks: Vec<_> = self.pending.keys().copied().collect();
        chunks.sort_unstable();
        for key in chunks {
            self.complete(key);
        }
    }

    /// The run is over: every operation ends with `error`, and every peer is told whose fault it is (GANG-2, GRAD-5).
    pub fn fail(&mut self, error: SyncError) {
        if self.fatal.is_some() {
            return;
        }
        self.fatal = Some(error.clone());
        let mut open: Vec<_> = self.ops.drain().map(|(id, _)| id).collect();
        open.sort_unstable();
        self.ended.extend(open.into_iter().map(|id| (id, Err(error.clone()))));
        self.in_flight.clear();
        for (_, pending) in self.pending.drain() {
            let parked = pending.parked.into_iter().map(|(_, _, buffer)| buffer);
            pending.sum.into_iter().chain(parked).for_each(|buffer| self.pool.put(buffer));
        }
        self.unsummed.fill(0);
        self.readiness.clear();
        self.candidates.clear();
        self.announced = 0;
        self.copies.clear();
        let words: Arc<[u8]> = serde_json::to_vec(&error).unwrap_or_default().into();
        for peer in 0..self.world.nodes() {
            self.drop_outbox(peer);
            // A newcomer that gives up before it is in takes nobody with it.
            if self.world.linked(self.me, peer) && words.len() <= MAX_WORDS && !self.is_outside() {
                let header = self.header(Kind::Abort);
                self.tell(peer, header, Some(words.clone()));
            }
        }
    }
}
