//! Whom a shard has heard and whom it still waits for. A worker counts once (GRAD-2), whether it speaks for itself or another of
//! its team for all of them (CORE-1: pure).

use super::Node;
use super::shard::{Pending, Readiness};
use super::world::NodeId;
use crate::wire::Codec;

impl Node {
    fn has_contributed(&self, (key, step): (u64, u64), worker: NodeId) -> bool {
        let team = self.world.team(worker);
        let has = |p: &Pending| p.contributed.contains(worker) || p.spoken.contains(team);
        self.pending.iter().any(|(id, p)| id.0 == key && id.1 == step && has(p))
    }

    pub(super) fn is_ready(&self, entry: &Readiness, id: (u64, u64), worker: NodeId) -> bool {
        let said = entry.ready.contains(worker) || entry.spoken.contains(self.world.team(worker));
        said || self.is_gone(worker) || self.has_contributed(id, worker)
    }

    /// Whether a chunk no longer waits for this worker.
    pub(super) fn is_in(&self, pending: &Pending, worker: NodeId) -> bool {
        let given = pending.contributed.contains(worker) || pending.spoken.contains(self.world.team(worker));
        given || self.is_gone(worker)
    }

    /// Whether any of what this part is made of has been counted already (GRAD-2).
    pub(super) fn has_said(&self, pending: &Pending, from: NodeId, codec: Codec) -> bool {
        let team = self.world.team(from);
        let of_team = |w: &NodeId| self.world.team(*w) == team && pending.contributed.contains(*w);
        match codec {
            _ if pending.spoken.contains(team) => true,
            Codec::Dense => pending.contributed.contains(from),
            Codec::Team => (0..self.world.workers).any(|w| of_team(&w)),
        }
    }

    /// Workers that a key's step still waits for.
    pub(super) fn missing(&self, key: u64, step: u64) -> Vec<u32> {
        let mut missing: Vec<u32> = Vec::new();
        let chunks = self.pending.iter().filter(|(id, _)| id.0 == key && id.1 == step);
        for (_, pending) in chunks {
            missing.extend(self.workers_of(key).filter(|w| !self.is_in(pending, *w)));
        }
        if let Some(entry) = self.readiness.get(&(key, step)).filter(|e| !e.candidate) {
            missing = self.workers_of(key).filter(|w| !self.is_ready(entry, (key, step), *w)).collect();
        }
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}
