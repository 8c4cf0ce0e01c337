//! Workers that come when the run is under way: each takes the number of a dead one, and waits until the others let it
//! in (CORE-1: pure). Until then it has no part in the run: it can neither end it nor keep it going.

use super::table::{Effect, Entry, Link, State, Table, row};
use crate::control::{FromMaster, Late, NodeRow, Register, Roster};
use crate::error::{Role, SyncError, Who};
use crate::node::admit::{LAST_INCARNATION, LONGEST_HOST, MOST_WORKERS, Newcomer};
use crate::settings::OnDeath;

#[derive(Debug, Clone)]
pub struct Joining {
    pub row: NodeRow,
    pub link: Link,
    pub incarnation: u32,
    /// Every server knows it, and the workers have been told.
    pub at_the_door: bool,
}

impl Joining {
    fn newcomer(&self) -> Newcomer {
        Newcomer { node: self.row.who.id, incarnation: self.incarnation, who: self.row.who.clone() }
    }
}

impl Table {
    /// Whether this is a case for [`Table::register_late`].
    pub(super) fn comes_late(&self, node: &Register) -> bool {
        let goes_on = self.common.as_ref().is_some_and(|(c, _)| c.on_death == OnDeath::Continue);
        self.complete && self.failure.is_none() && node.role == Role::Worker && goes_on && self.expected_servers > 0
    }

    pub(super) fn register_late(&mut self, link: Link, node: Register, seen_as: &str) -> Vec<Effect> {
        let name = format!("a late {} on {} (pid {})", node.role, node.host, node.pid);
        let (id, who) = match self.find_place(&node) {
            Ok(found) => found,
            Err(error) => {
                let text = format!("{name} was refused: {error}");
                return vec![Effect::Warn(text), Effect::Send(link, FromMaster::Refused { error })];
            }
        };
        let Some((common, _)) = self.common.clone() else { return Vec::new() };
        self.incarnations += 1;
        let incarnation = self.incarnations;
        let row = row(node, who.clone(), seen_as);
        let mut workers: Vec<NodeRow> = self.workers.values().map(|e| e.row.clone()).collect();
        workers[id as usize] = row.clone();
        let is_dead =
            |(other, e): (&u32, &Entry)| (*other != id && matches!(e.state, State::Dead { .. })).then_some(*other);
        let roster = Roster {
            run: self.run,
            generation: self.generation,
            master: self.master.clone(),
            common,
            workers,
            servers: self.servers.values().map(|e| e.row.clone()).collect(),
            late: Some(Late { incarnation, dead: self.workers.iter().filter_map(is_dead).collect() }),
        };
        let mut effects = vec![
            Effect::Log(format!("{who} is here, in place of one that died, and waits to be let in")),
            Effect::Send(link, FromMaster::Welcome { id }),
            Effect::Send(link, FromMaster::Complete(roster)),
        ];
        // It may come in before these do, and then has a vote on them.
        let waiting = self.joining.values().filter(|j| j.at_the_door);
        effects.extend(waiting.map(|j| Effect::Send(link, FromMaster::Joining(j.newcomer()))));
        self.joining.insert(id, Joining { row, link, incarnation, at_the_door: false });
        effects
    }

    /// The number a newcomer gets: the one it asks for if its holder is dead, or the lowest of the dead.
    fn find_place(&self, node: &Register) -> Result<(u32, Who), SyncError> {
        let refused = |why: String| Err(SyncError::Refused { why });
        let expected = self.expected_workers.unwrap_or(0);
        if self.workers_done() {
            return refused(
                "the run is under way, and all its workers have finished or died: nobody could let it in".into(),
            );
        }
        if self.workers.len() as u32 > MOST_WORKERS || self.incarnations >= LAST_INCARNATION {
            return refused(format!(
                "a run lets in {LAST_INCARNATION} late workers, and none if it has more than {MOST_WORKERS}"
            ));
        }
        // As JSON writes it, without the quotes: control characters take six times their room.
        if serde_json::to_string(&node.host).map_or(usize::MAX, |text| text.len() - 2) > LONGEST_HOST {
            return refused(format!("the name of its host is longer than {LONGEST_HOST} bytes"));
        }
        self.same_count(node, expected)?;
        let is_free = |id: &u32, e: &Entry| matches!(e.state, State::Dead { .. }) && !self.joining.contains_key(id);
        let id = match node.id {
            None => match self.workers.iter().find(|(id, e)| is_free(id, e)) {
                Some((id, _)) => *id,
                None => return refused("the run is complete and under way, and no worker's place is free".into()),
            },
            Some(id) => {
                let holder = self.joining.get(&id).map(|j| &j.row.who);
                let holder = holder.or(self.workers.get(&id).filter(|e| !is_free(&id, e)).map(|e| &e.row.who));
                match (self.workers.get(&id), holder) {
                    (None, _) => {
                        return refused(format!(
                            "worker {id} is one too many: this run has {expected}, numbered from 0"
                        ));
                    }
                    (Some(entry), Some(_)) if entry.state == State::Finished => {
                        return refused(format!(
                            "{} has finished; only the place of a dead worker is free",
                            entry.row.who
                        ));
                    }
                    (_, Some(holder)) => return Err(SyncError::DuplicateId { id, holder: holder.clone() }),
                    (Some(_), None) => id,
                }
            }
        };
        let who = Who { role: Role::Worker, id, host: node.host.clone(), pid: node.pid };
        self.same_settings(node, &who)?;
        Ok((id, who))
    }

    pub(super) fn is_joining(&self, link: Link) -> bool {
        self.joining.values().any(|j| j.link == link)
    }

    /// Every server knows the newcomer: from now on the workers may let it in.
    pub fn at_the_door(&mut self, link: Link) -> Vec<Effect> {
        let Some(joining) = self.joining.values_mut().find(|j| j.link == link && !j.at_the_door) else {
            return Vec::new();
        };
        joining.at_the_door = true;
        let message = FromMaster::Joining(joining.newcomer());
        let workers = self.workers.values().filter(|e| e.state == State::Alive).map(|e| e.link);
        let others = self.joining.values().filter(|j| j.link != link).map(|j| j.link);
        workers.chain(others).map(|link| Effect::Send(link, message.clone())).collect()
    }

    /// The workers have let a newcomer in. All of them say so, each before its own end, so that none is taken for the last.
    pub fn admitted(&mut self, node: u32, incarnation: u32) -> Vec<Effect> {
        if self.joining.get(&node).is_none_or(|j| j.incarnation != incarnation) {
            return Vec::new();
        }
        let Some(Joining { row, link, .. }) = self.joining.remove(&node) else { return Vec::new() };
        let text = format!("{} has joined the run", row.who);
        self.workers.insert(node, Entry { row, link, state: State::Alive, blocked: None, incarnation });
        vec![Effect::Log(text)]
    }

    /// A newcomer left before it was let in: its number is free again, and nobody waits for it.
    pub(super) fn lost_joining(&mut self, link: Link, how: &str) -> Vec<Effect> {
        let Some(id) = self.joining.iter().find(|(_, j)| j.link == link).map(|(id, _)| *id) else { return Vec::new() };
        let Some(gone) = self.joining.remove(&id) else { return Vec::new() };
        let mut effects = vec![Effect::Log(format!("{} left before it was let in: {how}", gone.row.who))];
        self.tell_of_death(id, gone.incarnation, how, &mut effects);
        effects
    }

    pub(super) fn tell_of_death(&self, node: u32, incarnation: u32, how: &str, effects: &mut Vec<Effect>) {
        let dead = FromMaster::Dead { node, how: how.into(), incarnation };
        let links = self.everyone().map(|e| e.link).chain(self.joining.values().map(|j| j.link));
        effects.extend(links.map(|link| Effect::Send(link, dead.clone())));
    }

    /// Nobody is left who could let a newcomer in: those who wait are told (GRAD-5).
    pub(super) fn send_away_if_over(&mut self) -> Vec<Effect> {
        if !self.workers_done() {
            return Vec::new();
        }
        let error = SyncError::Refused {
            why: "all workers of the run have finished or died, and none had let it in (they do so by calling admit())"
                .into(),
        };
        let mut effects = Vec::new();
        for (_, joining) in std::mem::take(&mut self.joining) {
            effects.push(Effect::Log(format!("{} came too late", joining.row.who)));
            effects.push(Effect::Send(joining.link, FromMaster::Refused { error: error.clone() }));
        }
        effects
    }
}
