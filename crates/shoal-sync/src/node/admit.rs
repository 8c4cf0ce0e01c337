//! Letting a newcomer in at a step boundary, where a run goes on without its dead (CORE-1: pure).
//!
//! A newcomer takes the number of a worker that has died, under an incarnation of its own, and waits at the door of every
//! shard. The workers vote in an ordinary sum: each says which newcomers it knows to be waiting. All get the same bytes
//! (GRAD-3), so all decide the same: whoever is known to all comes in. Each worker then tells every shard, before anything of
//! the next step, and the first to tell begins the next generation there. Steps and specs start again, on all nodes,
//! so that a newcomer needs to be told neither.
//!
//! Nobody has anything under way at a boundary, because only an idle worker may vote. What a shard still holds then is of the
//! dead, and so is every tensor frame of an earlier generation that arrives later: both are dropped.

use super::Node;
use super::op::{OpId, Request};
use super::world::{Members, NodeId};
use crate::error::{SyncError, Who};
use crate::settings::OnDeath;
use crate::wire::{Header, Kind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The key of the vote.
pub const KEY: &str = "shoal: who may join";
/// Numbers are added up, and squared, in the vote's f64 without rounding.
pub const LAST_INCARNATION: u32 = 1 << 18;
/// Runs with more workers let nobody in: who took part must fit the words to a shard.
pub const MOST_WORKERS: u32 = 1 << 14;
/// Let in at one boundary, so that their names fit the words to a shard ([`crate::wire::MAX_WORDS`], of which this and the limits
/// above and below fill two thirds); the others come in at the next.
pub const MOST_AT_ONCE: usize = 16;
/// A longer name of a host, as JSON writes it, is refused by the master.
pub const LONGEST_HOST: usize = 255;
/// What a worker says for each number: that it is there, whom it knows to wait, and that squared.
const COLUMNS: usize = 3;

/// A worker that waits to be let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    pub node: NodeId,
    /// Counts the newcomers of a run from 1; 0 is whoever was there from the start.
    pub incarnation: u32,
    pub who: Who,
}

/// What was decided at a boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Boundary {
    took_part: Members,
    joined: Vec<Newcomer>,
}

#[derive(Debug, Default)]
pub struct Admission {
    /// As a worker: who waits, as the master said; and who did when this worker voted.
    waiting: BTreeMap<NodeId, Newcomer>,
    voted: BTreeMap<NodeId, Newcomer>,
    /// From the vote's start until its outcome has been acted upon.
    voting: bool,
    /// As a shard: who waits at its door, by incarnation.
    doors: BTreeMap<NodeId, u32>,
    /// The latest holder of each number that has been replaced.
    incarnations: HashMap<NodeId, u32>,
    /// As a newcomer: the shards that have let it in, until all have.
    awaiting: Option<Members>,
    /// Who took part in the last boundary, before anyone was let in; nothing before the first.
    took_part: Option<Members>,
    joined: Members,
    /// For the log.
    news: Vec<Who>,
}

/// How a frame's generation stands to the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Now,
    /// Of a generation that is over, and of no consequence.
    Past,
    Wrong,
}

/// The votes of all, added up: who took part, and whom all of them know to wait. With n votes that add up to s, and their squares
/// to q, n·q = s² holds exactly if all are equal.
fn decide(votes: &[f64]) -> (Members, Vec<(NodeId, u32)>) {
    let whole = |x: f64| if x.is_finite() && (0.0..9e15).contains(&x) { x as u128 } else { 0 };
    let rows = || votes.chunks_exact(COLUMNS).map(|row| (whole(row[0]), whole(row[1]), whole(row[2]))).zip(0..);
    let mut took_part = Members::default();
    for (_, worker) in rows().filter(|((there, ..), _)| *there > 0) {
        took_part.insert(worker);
    }
    let n = u128::from(took_part.count());
    let unanimous = rows().filter(|((_, s, q), _)| *s > 0 && n > 0 && n * q == s * s);
    let joined = unanimous.map(|((_, s, _), worker)| (worker, (s / n) as u32)).take(MOST_AT_ONCE).collect();
    (took_part, joined)
}

impl Node {
    /// A node that waits to be let in under this incarnation.
    pub fn newcomer(world: super::world::World, me: NodeId, config: super::Config, incarnation: u32) -> Node {
        let mut node = Node::new(world, me, config);
        node.admission.awaiting = Some(Members::default());
        node.admission.incarnations.insert(me, incarnation);
        node
    }

    /// Whether newcomers are possible at all: there are survivors to join, and shards that outlive workers.
    pub fn may_admit(&self) -> bool {
        self.config.on_death == OnDeath::Continue && !self.world.colocated() && self.world.workers <= MOST_WORKERS
    }

    pub(super) fn is_voting(&self) -> bool {
        self.admission.voting
    }

    /// Whether this is a newcomer that is not in yet: its leaving is no failure of the run.
    pub fn is_outside(&self) -> bool {
        self.admission.awaiting.is_some()
    }

    /// The shards that have not let this newcomer in yet.
    pub fn not_let_in_by(&self) -> Vec<NodeId> {
        let Some(admitted) = &self.admission.awaiting else { return Vec::new() };
        (0..self.world.shards()).map(|s| self.world.shard_node(s)).filter(|n| !admitted.contains(*n)).collect()
    }

    /// The workers as of the last boundary, the same list on each of them; all there are before the first.
    pub fn members(&self) -> Vec<u32> {
        let Some(took_part) = &self.admission.took_part else { return (0..self.world.workers).collect() };
        (0..self.world.workers).filter(|w| took_part.contains(*w) || self.admission.joined.contains(*w)).collect()
    }

    /// The lowest worker that took part in the last boundary: it has what newcomers lack. The same on every worker.
    pub fn root(&self) -> u32 {
        self.admission.took_part.as_ref().and_then(Members::first).unwrap_or(0)
    }

    /// Who was let in since the last call, for the log.
    pub fn take_joined(&mut self) -> Vec<Who> {
        std::mem::take(&mut self.admission.news)
    }

    /// The master says that somebody waits at all doors.
    pub fn joining(&mut self, newcomer: Newcomer) {
        if self.world.is_worker(newcomer.node) && newcomer.incarnation > self.incarnation(newcomer.node) {
            self.admission.waiting.insert(newcomer.node, newcomer);
        }
    }

    fn incarnation(&self, node: NodeId) -> u32 {
        self.admission.incarnations.get(&node).copied().unwrap_or(0)
    }

    /// The master's word of a death. False if it was about one who has been replaced since.
    pub fn lost_incarnation(&mut self, node: NodeId, incarnation: u32, how: &str) -> bool {
        if self.admission.waiting.get(&node).is_some_and(|n| n.incarnation <= incarnation) {
            self.admission.waiting.remove(&node);
        }
        let current = incarnation >= self.incarnation(node);
        if current {
            self.lost(node, how);
        }
        current
    }

    /// What this worker says in the vote: the tensor that [`Node::start_boundary`] takes.
    pub fn votes(&mut self) -> Vec<f64> {
        let mut votes = vec![0.0; COLUMNS * self.world.workers as usize];
        for newcomer in self.admission.waiting.values() {
            let incarnation = f64::from(newcomer.incarnation);
            votes[COLUMNS * newcomer.node as usize + 1] = incarnation;
            votes[COLUMNS * newcomer.node as usize + 2] = incarnation * incarnation;
        }
        if let Some(there) = votes.get_mut(COLUMNS * self.me as usize) {
            *there = 1.0;
        }
        self.admission.voted = self.admission.waiting.clone();
        votes
    }

    /// Starts the vote, which nothing else of this worker may accompany; [`Node::conclude_boundary`] must follow its end.
    pub fn start_boundary(&mut self, request: Request, now: u64) -> Result<OpId, SyncError> {
        if let Some(op) = self.ops.values().next() {
            let why = "still under way; wait for it before admit()".into();
            return Err(SyncError::Usage { key: op.request.name.to_string(), why });
        }
        let id = self.submit(request, now)?;
        self.admission.voting = true;
        Ok(id)
    }

    /// Acts on the votes' sum: tells every shard who comes in, before anything of the next step.
    pub fn conclude_boundary(&mut self, votes: &[f64]) -> Result<Vec<Newcomer>, SyncError> {
        self.admission.voting = false;
        if let Some(error) = &self.fatal {
            return Err(error.clone());
        }
        let (took_part, joined) = decide(votes);
        let joined: Vec<Newcomer> = joined
            .into_iter()
            .map(|(node, incarnation)| match self.admission.voted.get(&node) {
                Some(known) if known.incarnation == incarnation => known.clone(),
                // Unanimous, so this worker knew it; its name is the least of it.
                _ => Newcomer { node, incarnation, who: self.world.name(node) },
            })
            .collect();
        let boundary = Boundary { took_part, joined };
        self.note(&boundary);
        if boundary.joined.is_empty() {
            return Ok(Vec::new());
        }
        self.next_generation();
        for newcomer in &boundary.joined {
            // Who died while the votes were counted stays dead here; the shards know it too, or will.
            if self.admission.waiting.get(&newcomer.node).is_some_and(|n| n.incarnation == newcomer.incarnation) {
                self.admission.waiting.remove(&newcomer.node);
                self.bring_back(newcomer);
            }
        }
        let words: Arc<[u8]> = serde_json::to_vec(&boundary).unwrap_or_default().into();
        for shard in 0..self.world.shards() {
            let header = self.header(Kind::Admit);
            self.tell(self.world.shard_node(shard), header, Some(words.clone()));
        }
        Ok(boundary.joined)
    }

    fn note(&mut self, boundary: &Boundary) {
        self.admission.took_part = Some(boundary.took_part.clone());
        self.admission.joined = Members::default();
        for newcomer in &boundary.joined {
            self.admission.joined.insert(newcomer.node);
        }
    }

    fn bring_back(&mut self, newcomer: &Newcomer) {
        let node = newcomer.node;
        if let Some(who) = self.world.who.get_mut(node as usize) {
            *who = newcomer.who.clone();
        }
        self.admission.incarnations.insert(node, newcomer.incarnation);
        self.dead.remove(node);
        self.left.remove(node);
        self.finished.remove(node);
        self.admission.news.push(newcomer.who.clone());
    }

    /// Everything counts anew: nobody alive has anything under way, and what the dead left behind is dropped.
    fn next_generation(&mut self) {
        self.world.generation = self.world.generation.saturating_add(1);
        self.steps.clear();
        self.told.clear();
        self.specs.clear();
        for (_, pending) in self.pending.drain() {
            let parked = pending.parked.into_iter().map(|(_, _, buffer)| buffer);
            pending.sum.into_iter().chain(parked).for_each(|buffer| self.pool.put(buffer));
        }
        self.unsummed.fill(0);
        self.readiness.clear();
        self.candidates.clear();
        self.announced = 0;
        for out in &mut self.out {
            (out.small_out, out.stream_out) = (0, 0);
        }
    }

    /// As a shard: a proven newcomer stands at the door. False if there is no place for it.
    pub fn arrive(&mut self, node: NodeId, incarnation: u32) -> bool {
        let again = self.admission.doors.get(&node) == Some(&incarnation);
        let fresh = incarnation > self.incarnation(node);
        let server = self.is_shard() && !self.world.is_worker(self.me);
        if self.fatal.is_some() || !server || !self.may_admit() || !self.world.is_worker(node) || !(fresh || again) {
            return false;
        }
        // The master gives a number away only when its holder is dead, which may not have been noticed here yet.
        self.lost(node, "another has come in its place");
        self.dead.insert(node);
        self.drop_outbox(node);
        self.admission.doors.insert(node, incarnation);
        self.admission.incarnations.insert(node, incarnation);
        let header = self.header(Kind::Welcome);
        self.tell(node, header, None);
        true
    }

    /// Whether this was a newcomer at the door; it is forgotten.
    pub(super) fn leaves_the_door(&mut self, node: NodeId) -> bool {
        let was = self.admission.doors.remove(&node).is_some();
        if was {
            self.drop_outbox(node);
        }
        was
    }

    /// Whether a frame is of this generation, of one that is over, or of none that could be.
    pub(super) fn era(&self, header: &Header) -> Era {
        let (theirs, ours) = (header.generation, self.world.generation);
        if header.run != self.world.run {
            return Era::Wrong;
        }
        match header.kind {
            // The run's end is the same in every generation.
            Kind::Abort => Era::Now,
            // A newcomer learns the generation when it is let in.
            Kind::Admitted if self.admission.awaiting.is_some() => Era::Now,
            Kind::Admitted => Era::Wrong,
            Kind::Admit if self.is_shard() && self.may_admit() => match () {
                () if theirs.checked_sub(1) == Some(ours) => Era::Now,
                // Somebody else's word came first.
                () if theirs <= ours => Era::Past,
                () => Era::Wrong,
            },
            Kind::Admit => Era::Wrong,
            _ if theirs == ours => Era::Now,
            // Whoever had finished by then did not vote, and its word may come after another's word of the boundary.
            Kind::Finish if theirs < ours => Era::Now,
            // A dead worker's last words, or questions of the living that have answered themselves.
            Kind::Push | Kind::Ready | Kind::Spec | Kind::Ask if theirs < ours => Era::Past,
            // An answer that was under way when the boundary came, or word of parts that came after all.
            Kind::Waiting | Kind::Absent => Era::Past,
            _ => Era::Wrong,
        }
    }

    /// `Admit` to a shard, or `Admitted` to a newcomer.
    pub(super) fn hear_boundary(&mut self, from: NodeId, header: &Header, words: &[u8]) -> Result<(), SyncError> {
        let boundary: Boundary = match serde_json::from_slice(words) {
            Ok(boundary) => boundary,
            Err(e) => return self.misfit(from, header, e.to_string()),
        };
        let fits = boundary.joined.len() <= MOST_AT_ONCE
            && boundary.joined.iter().all(|n| self.world.is_worker(n.node) && n.who.host.len() <= LONGEST_HOST);
        if !fits || boundary.joined.is_empty() {
            return self.misfit(from, header, "newcomers that cannot be".into());
        }
        if header.kind == Kind::Admitted {
            return self.hear_admitted(from, header, &boundary);
        }
        self.next_generation();
        let words: Arc<[u8]> = words.into();
        for newcomer in &boundary.joined {
            // Who is no longer at the door has died meanwhile, and stays dead.
            if self.admission.doors.get(&newcomer.node) == Some(&newcomer.incarnation) {
                self.admission.doors.remove(&newcomer.node);
                self.bring_back(newcomer);
                let header = self.header(Kind::Admitted);
                self.tell(newcomer.node, header, Some(words.clone()));
            }
        }
        Ok(())
    }

    fn hear_admitted(&mut self, from: NodeId, header: &Header, boundary: &Boundary) -> Result<(), SyncError> {
        let mine = |n: &Newcomer| n.node == self.me && n.incarnation == self.incarnation(self.me);
        if self.world.shard_of(from).is_none() || !boundary.joined.iter().any(mine) {
            return self.misfit(from, header, "this worker was not meant".into());
        }
        let Some(admitted) = &mut self.admission.awaiting else { return Ok(()) };
        let first = admitted.count() == 0;
        admitted.insert(from);
        let all = admitted.count() as usize == self.world.shards();
        if first {
            self.world.generation = header.generation;
            self.note(boundary);
            let me = self.me;
            for other in boundary.joined.iter().filter(|n| n.node != me) {
                self.admission.waiting.remove(&other.node);
                self.bring_back(other);
            }
        } else if header.generation != self.world.generation {
            return self.misfit(from, header, "another shard let this worker in with another generation".into());
        }
        if all {
            self.admission.awaiting = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of what workers say: who they are, and whom they know.
    fn sum(workers: usize, said: &[(usize, &[(usize, u32)])]) -> Vec<f64> {
        let mut votes = vec![0.0; COLUMNS * workers];
        for (me, known) in said {
            votes[COLUMNS * me] += 1.0;
            for (node, incarnation) in *known {
                votes[COLUMNS * node + 1] += f64::from(*incarnation);
                votes[COLUMNS * node + 2] += f64::from(*incarnation).powi(2);
            }
        }
        votes
    }

    #[test]
    fn only_whom_all_know_comes_in() {
        let joined = |votes: &[f64]| decide(votes).1;
        assert_eq!(joined(&sum(4, &[(0, &[(2, 5)]), (1, &[(2, 5)]), (3, &[(2, 5)])])), [(2, 5)]);
        assert_eq!(joined(&sum(4, &[(0, &[(2, 5)]), (1, &[]), (3, &[(2, 5)])])), []);
        assert_eq!(joined(&sum(4, &[(0, &[(2, 5)]), (1, &[(2, 6)]), (3, &[(2, 5)])])), []);
        // The mean of what they say is what the third says.
        assert_eq!(joined(&sum(4, &[(0, &[(2, 4)]), (1, &[(2, 6)]), (3, &[(2, 5)])])), []);
        assert_eq!(joined(&sum(4, &[(3, &[(0, 1), (2, LAST_INCARNATION)])])), [(0, 1), (2, LAST_INCARNATION)]);
        assert_eq!(decide(&sum(4, &[(1, &[]), (3, &[])])).0.first(), Some(1));
    }

    /// WIRE-1: a kept sample of the words of `Admit` and `Admitted`.
    #[test]
    fn kept_sample_of_version_2() {
        let text = r#"{"took_part":[5],"joined":[{"node":1,"incarnation":3,"who":{"role":"worker","id":1,"host":"h","pid":7}}]}"#;
        let read: Boundary = serde_json::from_str(text).expect("old words are read");
        assert_eq!(serde_json::to_string(&read).expect("written"), text);
    }

    #[test]
    fn the_longest_words_fit() {
        let who = Who { role: crate::error::Role::Worker, id: u32::MAX, host: "h".repeat(LONGEST_HOST), pid: u32::MAX };
        let newcomer = Newcomer { node: u32::MAX, incarnation: LAST_INCARNATION, who };
        let mut took_part = Members::default();
        for worker in 0..MOST_WORKERS {
            took_part.insert(worker);
        }
        let longest = Boundary { took_part, joined: vec![newcomer; MOST_AT_ONCE] };
        let len = serde_json::to_vec(&longest).expect("written").len();
        assert!(len <= crate::wire::MAX_WORDS, "{len} bytes");
    }

    #[test]
    fn large_numbers_are_exact_and_nonsense_is_nobody() {
        let n = MOST_WORKERS as usize;
        let known = [(n - 1, LAST_INCARNATION)];
        let said: Vec<(usize, &[(usize, u32)])> = (0..n - 1).map(|w| (w, &known[..])).collect();
        assert_eq!(decide(&sum(n, &said)).1, [(NodeId::from(MOST_WORKERS - 1), LAST_INCARNATION)]);
        assert_eq!(decide(&[f64::NAN, f64::INFINITY, -1.0, 1.0, 1e300, 1e300]).1, []);
        assert_eq!(decide(&[]).1, []);
    }
}
