//! Who is in the run, who is missing, who is dead: decisions only (CORE-1: pure; time is passed in).

use crate::control::{Common, FromMaster, NodeRow, Register, Roster};
use crate::error::{Role, SyncError, Who};
use crate::settings::OnDeath;
use std::collections::{BTreeMap, BTreeSet};

pub use super::late::Joining;

/// A connection's number; the table never sees a socket.
pub type Link = u64;

/// In place of a link: the master itself.
pub const MYSELF: Link = 0;

/// What the master must do next, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Send(Link, FromMaster),
    Log(String),
    Warn(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Alive,
    Finished,
    Dead { how: String },
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub row: NodeRow,
    pub link: Link,
    pub state: State,
    pub blocked: Option<Blocked>,
    /// Which holder of its number it is; 0 from the start.
    pub incarnation: u32,
}

/// A worker's word that it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    pub key: String,
    pub missing: Vec<u32>,
    /// Since when, and when it last said so (seconds).
    since: u64,
    said: u64,
}

/// Once all workers wait in a circle for this long, nobody will ever move again.
pub const DEADLOCK_SECONDS: u64 = 10;
/// Whoever waits says so every two seconds. One that has fallen silent (stopped, swapped out) may have got its data long ago
/// without having had the time to notice.
const FRESH_SECONDS: u64 = 5;

#[derive(Debug)]
pub struct Table {
    pub run: u32,
    pub generation: u32,
    pub master: Who,
    /// What the command line said; a worker's word counts only while a worker is there.
    told_workers: Option<u32>,
    pub(super) expected_workers: Option<u32>,
    pub(super) expected_servers: u32,
    /// Why a node was last refused: those who still wait want to know.
    refusal: Option<String>,
    /// Whether anybody has ever asked to take part.
    pub visited: bool,
    pub common: Option<(Common, Who)>,
    pub workers: BTreeMap<u32, Entry>,
    pub servers: BTreeMap<u32, Entry>,
    /// Newcomers that have not been let in yet, by the number they are to have.
    pub joining: BTreeMap<u32, Joining>,
    pub(super) incarnations: u32,
    pub complete: bool,
    /// Why the run failed, once it has.
    pub failure: Option<SyncError>,
}

impl Table {
    pub fn new(run: u32, workers: Option<u32>, servers: u32) -> Table {
        Table {
            run,
            generation: 1,
            master: Who { role: Role::Master, id: 0, host: "?".into(), pid: 0 },
            told_workers: workers.filter(|w| *w > 0),
            expected_workers: workers.filter(|w| *w > 0),
            refusal: None,
            visited: false,
            expected_servers: servers,
            common: None,
            workers: BTreeMap::new(),
            servers: BTreeMap::new(),
            joining: BTreeMap::new(),
            incarnations: 0,
            complete: false,
            failure: None,
        }
    }

    /// Says who keeps it, for those who will miss it.
    pub fn kept_by(self, master: Who) -> Table {
        Table { master, ..self }
    }

    /// A node asks to take part. The refusal, if any, goes to that node alone.
    pub fn register(&mut self, link: Link, node: Register, seen_as: &str) -> Vec<Effect> {
        self.visited = true;
        if self.comes_late(&node) {
            return self.register_late(link, node, seen_as);
        }
        let name = format!("a {} on {} (pid {})", node.role, node.host, node.pid);
        match self.admit(link, node, seen_as) {
            Err(error) => {
                let text = format!("{name} was refused: {error}");
                self.refusal = Some(text.clone());
                let mut effects = vec![Effect::Warn(text), Effect::Send(link, FromMaster::Refused { error })];
                if !self.complete && self.failure.is_none() {
                    self.tell_progress(&mut effects);
                }
                effects
            }
            Ok((id, who)) => {
                let mut effects =
                    vec![Effect::Log(format!("{who} is here")), Effect::Send(link, FromMaster::Welcome { id })];
                self.tell_progress(&mut effects);
                effects
            }
        }
    }

    fn admit(&mut self, link: Link, node: Register, seen_as: &str) -> Result<(u32, Who), SyncError> {
        let refused = |why: String| Err(SyncError::Refused { why });
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let holders = if node.role == Role::Server { &self.servers } else { &self.workers };
        if let Some((id, holder)) = node.id.and_then(|id| holders.get(&id).map(|h| (id, h))) {
            return Err(SyncError::DuplicateId { id, holder: holder.row.who.clone() });
        }
        if self.complete {
            return refused("the run is complete and under way".into());
        }
        if node.role == Role::Worker && self.expected_workers.is_none() && node.num_workers > 0 {
            self.expected_workers = Some(node.num_workers);
        }
        let (entries, expected) = match node.role {
            Role::Worker => (&self.workers, self.expected_workers),
            Role::Server => (&self.servers, Some(self.expected_servers)),
            Role::Master => return refused("there is one master, and this is it".into()),
        };
        let Some(expected) = expected else {
            return refused(
                "the number of workers is not known: start ps_master with --workers N, or set SHOAL_NUM_WORKERS".into(),
            );
        };
        self.same_count(&node, expected)?;
        let id = match node.id {
            Some(id) => id,
            None => (0..).find(|id| !entries.contains_key(id)).unwrap_or(0),
        };
        if id >= expected {
            return refused(format!("{} {id} is one too many: this run has {expected}, numbered from 0", node.role));
        }
        let who = Who { role: node.role, id, host: node.host.clone(), pid: node.pid };
        self.same_settings(&node, &who)?;
        if let (None, Some(common)) = (&self.common, &node.common) {
            self.common = Some((common.clone(), who.clone()));
        }
        let role = node.role;
        let entry =
            Entry { row: row(node, who.clone(), seen_as), link, state: State::Alive, blocked: None, incarnation: 0 };
        match role {
            Role::Worker => self.workers.insert(id, entry),
            _ => self.servers.insert(id, entry),
        };
        Ok((id, who))
    }

    /// A worker that believes in another number of workers belongs to another run.
    pub(super) fn same_count(&self, node: &Register, expected: u32) -> Result<(), SyncError> {
        if node.role != Role::Worker || node.num_workers == 0 || node.num_workers == expected {
            return Ok(());
        }
        let by = match (self.told_workers, self.workers.values().next()) {
            (None, Some(first)) => format!(" (as {} said)", first.row.who),
            _ => String::new(),
        };
        Err(SyncError::Refused { why: format!("this run has {expected} workers{by}, not {}", node.num_workers) })
    }

    pub(super) fn same_settings(&self, node: &Register, who: &Who) -> Result<(), SyncError> {
        let (Some(common), Some((have, first))) = (&node.common, &self.common) else { return Ok(()) };
        let Some((name, theirs, ours)) = have.difference(common) else { return Ok(()) };
        Err(SyncError::Refused {
            why: format!("setting {name} is {ours} on {who}, but {theirs} on {first}; it must be the same on all"),
        })
    }

    /// Tells all who is missing, or, when nobody is, who there is.
    fn tell_progress(&mut self, effects: &mut Vec<Effect>) {
        let message = match self.missing() {
            Some(missing) => {
                let refused = self.refusal.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                FromMaster::Gathering { missing: missing + &refused }
            }
            None => {
                let Some((common, _)) = self.common.clone() else { return };
                self.complete = true;
                let rows = |entries: &BTreeMap<u32, Entry>| entries.values().map(|e| e.row.clone()).collect();
                effects.push(Effect::Log(format!(
                    "complete: {} workers, {} servers",
                    self.workers.len(),
                    self.servers.len()
                )));
                FromMaster::Complete(Roster {
                    run: self.run,
                    generation: self.generation,
                    master: self.master.clone(),
                    common,
                    workers: rows(&self.workers),
                    servers: rows(&self.servers),
                    late: None,
                })
            }
        };
        effects.extend(self.everyone().map(|e| Effect::Send(e.link, message.clone())));
    }

    /// Who has not come yet, in words.
    pub fn missing(&self) -> Option<String> {
        let Some(workers) = self.expected_workers else { return Some("the first worker".into()) };
        let absent = |entries: &BTreeMap<u32, Entry>, n: u32| -> Vec<u32> {
            (0..n).filter(|id| !entries.contains_key(id)).collect()
        };
        let mut parts = Vec::new();
        for (role, ids) in
            [("worker", absent(&self.workers, workers)), ("server", absent(&self.servers, self.expected_servers))]
        {
            if !ids.is_empty() {
                let list: Vec<String> = ids.iter().map(u32::to_string).collect();
                parts.push(format!("{role} {}", list.join(", ")));
            }
        }
        (!parts.is_empty()).then(|| parts.join(" and "))
    }

    pub(super) fn everyone(&self) -> impl Iterator<Item = &Entry> {
        self.workers.values().chain(self.servers.values()).filter(|e| !matches!(e.state, State::Dead { .. }))
    }

    fn find(&mut self, link: Link) -> Option<&mut Entry> {
        self.workers.values_mut().chain(self.servers.values_mut()).find(|e| e.link == link)
    }

    pub fn finish(&mut self, link: Link) -> Vec<Effect> {
        if let Some(entry) = self.find(link) {
            entry.state = State::Finished;
            entry.blocked = None;
        }
        self.send_away_if_over()
    }

    /// A node ends the run, and says why.
    pub fn abort(&mut self, link: Link, error: SyncError) -> Vec<Effect> {
        if self.is_joining(link) {
            // It has no part in the run yet, and cannot end it.
            return self.lost_joining(link, &error.to_string());
        }
        match self.find(link) {
            // It will leave now; that is not a death of its own.
            Some(entry) => entry.state = State::Finished,
            None if link == MYSELF => {}
            // Whoever has no part in the run cannot end it.
            None => return Vec::new(),
        }
        self.fail(error)
    }

    fn fail(&mut self, error: SyncError) -> Vec<Effect> {
        if self.failure.is_some() {
            return Vec::new();
        }
        self.failure = Some(error.clone());
        let mut effects = vec![Effect::Log(format!("the run ends: {error}"))];
        let links = self.everyone().map(|e| e.link).chain(self.joining.values().map(|j| j.link));
        effects.extend(links.map(|link| Effect::Send(link, FromMaster::Abort { error: error.clone() })));
        effects
    }

    /// A connection has ended.
    pub fn lost(&mut self, link: Link, how: &str) -> Vec<Effect> {
        if self.is_joining(link) {
            return self.lost_joining(link, how);
        }
        let all_finished = self.workers_done();
        let workers = self.expected_workers.unwrap_or(0);
        let complete = self.complete;
        let Some(entry) = self.find(link) else { return Vec::new() };
        let (who, incarnation) = (entry.row.who.clone(), entry.incarnation);
        if entry.state == State::Finished || matches!(entry.state, State::Dead { .. }) {
            return Vec::new();
        }
        if who.role == Role::Server && all_finished {
            entry.state = State::Finished;
            return Vec::new();
        }
        if !complete {
            // Its number is free again; the others go on waiting.
            let entries = if who.role == Role::Worker { &mut self.workers } else { &mut self.servers };
            entries.remove(&who.id);
            if self.workers.is_empty() {
                // Nobody is left who said how many there would be, or with which settings.
                self.expected_workers = self.told_workers;
                self.common = None;
            }
            let mut effects = vec![Effect::Log(format!("{who} left before the run was complete: {how}"))];
            self.tell_progress(&mut effects);
            return effects;
        }
        entry.state = State::Dead { how: how.into() };
        entry.blocked = None;
        let node = if who.role == Role::Worker { who.id } else { workers + who.id };
        let mut effects = vec![Effect::Log(format!("{who} died: {how}"))];
        self.tell_of_death(node, incarnation, how, &mut effects);
        let carries_shard = who.role == Role::Server || self.expected_servers == 0;
        let policy = self.common.as_ref().map_or(OnDeath::Fail, |(c, _)| c.on_death);
        if (carries_shard || policy == OnDeath::Fail) && self.failure.is_none() {
            self.failure = Some(SyncError::Dead { who, how: how.into() });
        }
        effects.extend(self.send_away_if_over());
        effects
    }

    pub fn blocked(&mut self, link: Link, key: String, missing: Vec<u32>, now: u64) -> Vec<Effect> {
        if let Some(entry) = self.find(link) {
            let same = entry.blocked.take().filter(|b| b.key == key && b.missing == missing);
            entry.blocked = Some(Blocked { key, missing, since: same.map_or(now, |b| b.since), said: now });
        }
        self.find_circle(now)
    }

    pub fn moving(&mut self, link: Link) {
        if let Some(entry) = self.find(link) {
            entry.blocked = None;
        }
    }

    /// All live workers wait, each for somebody who waits for another key: no message will ever come.
    fn find_circle(&mut self, now: u64) -> Vec<Effect> {
        let alive: Vec<&Entry> = self.workers.values().filter(|e| e.state == State::Alive).collect();
        let long = |b: &&Blocked| {
            now.saturating_sub(b.since) >= DEADLOCK_SECONDS && now.saturating_sub(b.said) <= FRESH_SECONDS
        };
        // Stuck is who waits for one that waits for another key, and who waits for one that is stuck: a worker whose
        // neighbour speaks for it waits for that neighbour.
        let mut stuck: BTreeSet<u32> = BTreeSet::new();
        loop {
            let waits = |e: &&&Entry| {
                let Some(blocked) = e.blocked.as_ref().filter(long) else { return false };
                let other = |m: &u32| self.workers.get(m).and_then(|o| o.blocked.as_ref());
                let is_elsewhere = |m: &u32| other(m).is_some_and(|o| o.key != blocked.key);
                blocked.missing.iter().any(|m| stuck.contains(m) || is_elsewhere(m))
            };
            let found: BTreeSet<u32> = alive.iter().filter(waits).map(|e| e.row.who.id).collect();
            if found == stuck {
                break;
            }
            stuck = found;
        }
        if !self.complete || alive.len() < 2 || stuck.len() < alive.len() {
            return Vec::new();
        }
        let waits: Vec<String> = alive
            .iter()
            .filter_map(|e| e.blocked.as_ref().map(|b| format!("{} waits for `{}`", e.row.who, b.key)))
            .collect();
        self.fail(SyncError::Deadlock { waits: waits.join("; ") })
    }

    /// What to say if everybody has left before the run was complete.
    pub fn abandoned(&self) -> Option<SyncError> {
        let empty = self.workers.is_empty() && self.servers.is_empty();
        if self.complete || !self.visited || !empty {
            return None;
        }
        let why = self.refusal.clone().unwrap_or_else(|| "all nodes left".into());
        Some(SyncError::Refused { why: format!("the run never was complete: {why}") })
    }

    /// Whether every worker has finished or is dead.
    pub fn workers_done(&self) -> bool {
        self.complete && self.workers.values().all(|e| e.state != State::Alive)
    }

    /// Whether nobody is left to serve.
    pub fn over(&self) -> bool {
        self.complete && self.workers_done()
    }
}

/// A node's row, with the address the others reach it at.
pub(super) fn row(node: Register, who: Who, seen_as: &str) -> NodeRow {
    let host = node.address.unwrap_or_else(|| seen_as.to_string());
    let address = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{}", node.port)
    } else {
        format!("{host}:{}", node.port)
    };
    NodeRow { who, address, memory_domain: node.memory_domain, meeting: node.meeting }
}
