//! Who takes part: numbers, names, and which of them host shards (CORE-1: pure).

use crate::error::{Role, Who};
use serde::{Deserialize, Serialize};

/// A node's number on the wire: workers from 0, then servers.
pub type NodeId = u32;

/// The members of one generation of a run, as the master told everyone.
#[derive(Debug, Clone)]
pub struct World {
    pub run: u32,
    pub generation: u32,
    pub workers: u32,
    pub servers: u32,
    /// By node id.
    pub who: Vec<Who>,
    /// By worker: the lowest worker of those it can share memory with, who may then speak with one voice. Empty: all by themselves.
    pub teams: Vec<u32>,
}

impl World {
    /// A world of one worker, without network.
    pub fn alone() -> World {
        let who = Who { role: Role::Worker, id: 0, host: "localhost".into(), pid: std::process::id() };
        World { run: 0, generation: 0, workers: 1, servers: 0, who: vec![who], teams: Vec::new() }
    }

    pub fn nodes(&self) -> u32 {
        self.workers + self.servers
    }

    /// Shards sit in the servers, or, where there are none, in the workers.
    pub fn colocated(&self) -> bool {
        self.servers == 0
    }

    pub fn shards(&self) -> usize {
        if self.colocated() { self.workers as usize } else { self.servers as usize }
    }

    pub fn shard_node(&self, shard: usize) -> NodeId {
        if self.colocated() { shard as NodeId } else { self.workers + shard as NodeId }
    }

    pub fn shard_of(&self, node: NodeId) -> Option<usize> {
        let shard = if self.colocated() { node } else { node.checked_sub(self.workers)? };
        ((shard as usize) < self.shards()).then_some(shard as usize)
    }

    pub fn team(&self, worker: NodeId) -> u32 {
        self.teams.get(worker as usize).copied().unwrap_or(worker)
    }

    pub fn is_worker(&self, node: NodeId) -> bool {
        node < self.workers
    }

    pub fn name(&self, node: NodeId) -> Who {
        self.who.get(node as usize).cloned().unwrap_or(Who { role: Role::Worker, id: node, host: "?".into(), pid: 0 })
    }

    /// Whether two nodes talk to each other directly: only shards and those who use them.
    pub fn linked(&self, a: NodeId, b: NodeId) -> bool {
        a != b && (self.shard_of(a).is_some() && self.is_worker(b) || self.shard_of(b).is_some() && self.is_worker(a))
    }
}

/// A set of workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members(Vec<u64>);

impl FromIterator<u32> for Members {
    fn from_iter<I: IntoIterator<Item = u32>>(workers: I) -> Members {
        let mut members = Members::default();
        for worker in workers {
            members.insert(worker);
        }
        members
    }
}

impl Members {
    pub fn insert(&mut self, worker: u32) -> bool {
        let (word, bit) = (worker as usize / 64, 1u64 << (worker % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let fresh = self.0[word] & bit == 0;
        self.0[word] |= bit;
        fresh
    }

    pub fn remove(&mut self, worker: u32) {
        if let Some(word) = self.0.get_mut(worker as usize / 64) {
            *word &= !(1u64 << (worker % 64));
        }
    }

    pub fn contains(&self, worker: u32) -> bool {
        self.0.get(worker as usize / 64).is_some_and(|w| w & (1 << (worker % 64)) != 0)
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    pub fn first(&self) -> Option<u32> {
        (0..self.0.len() as u32 * 64).find(|w| self.contains(*w))
    }
}
