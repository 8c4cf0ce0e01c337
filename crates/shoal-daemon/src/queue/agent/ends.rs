//! What is made of an end before it is told? Numbers are read, results put where they belong; only then is it told, and again until it
//! is acknowledged (QUEUE-2).

use super::look::{self, Looked};
use super::note::{Note, name};
use super::pods;
use super::publish::Problem;
use super::session::{Known, Publishing, Session};
use super::shelf::Where;
use crate::queue::keeper::diary::note;
use crate::queue::keeper::words::{Alive, FromKeeper, Over, ToKeeper};
use shoal_core::queue::Attempt;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::work::{Ended, Ending};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

/// Of one message to the daemon.
const PAGE: usize = 1 << 20;

impl Session {
    pub fn hear_keeper(&mut self, message: FromKeeper) {
        match message {
            FromKeeper::Alive { runs } => runs.into_iter().for_each(|run| self.alive(run)),
            FromKeeper::Over { runs } => runs.into_iter().for_each(|run| self.over(run)),
            FromKeeper::Ready => self.keeper_ready(),
            FromKeeper::Trouble { what, over: false } => self.trouble(&format!("keeper: {what}"), None, what),
            FromKeeper::Trouble { what, over: true } => self.no_more_trouble(&format!("keeper: {what}")),
            FromKeeper::Left => self.keeper_left(),
            FromKeeper::Hello { .. } | FromKeeper::Pong => {}
        }
    }

    fn remember(&mut self, name: &str, note: &Note) {
        if note.rank > 0 {
            self.gangs.entry(note.attempt.clone()).or_default().insert(note.rank);
        }
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if !attempts.contains_key(name) {
            attempts.insert(name.into(), note.attempt.clone());
        }
    }

    fn alive(&mut self, run: Alive) {
        let Ok(note) = serde_json::from_str::<Note>(&run.note) else {
            return note("agent", format!("the keeper has a run {} that nobody here understands", run.name));
        };
        self.remember(&run.name, &note);
        if !self.greeted {
            self.heard_of.insert(run.name.clone());
        }
        match run.began {
            None => self.shelf.put(&run.name, Where::Waits),
            Some(begun) => {
                self.shelf.put(&run.name, Where::Live { log: begun.log, pid: begun.pid });
                if self.hello {
                    self.outbox.say(&FromHost::Began { attempt: note.attempt.clone(), at: begun.at });
                }
            }
        }
        if !self.runs.contains_key(&run.name) {
            let needs = note.trees.into_iter().chain(note.requirements).collect();
            self.adopted.insert(run.name.clone(), needs);
            self.runs.insert(run.name, Known::Handed(None));
        }
    }

    fn over(&mut self, mut over: Over) {
        if self.pool.is_some() {
            pods::settle(&self.folder, &mut over);
            self.no_more_trouble(&format!("pod: {}", over.name));
        }
        if !self.greeted {
            self.heard_of.insert(over.name.clone());
        }
        if self.acknowledged.contains(&over.name) {
            // Its keeper was killed before it had written down that nobody needs it any more.
            return self.forget.push(over.name);
        }
        match self.runs.get(&over.name) {
            None | Some(Known::Pending(_) | Known::Handed(_)) => {}
            Some(Known::Told(ended)) => return self.ends.push((**ended).clone()),
            Some(_) => return,
        }
        let note = match serde_json::from_str::<Note>(&over.note) {
            Ok(note) => note,
            Err(e) => {
                note("agent", format!("the note of {} cannot be understood: {e}", over.name));
                return;
            }
        };
        self.remember(&over.name, &note);
        self.adopted.remove(&over.name);
        self.shelf.put(&over.name, Where::Packed(over.output));
        // Most short runs leave nothing and print nothing: then there is nothing to look at. Their folder stays until their end is acknowledged:
        // one that is not there was removed by somebody else.
        if over.ending.success() && over.output.is_none() && !note.always {
            let mut left = fs::read_dir(self.folder.work().join(&over.name));
            if left.as_mut().is_ok_and(|left| left.next().is_none()) {
                let mut ended = look::plain(&over, &note);
                ended.peak_gpu_bytes = self.shelf.peak_gpu_memory(&over.name);
                return self.done(ended);
            }
        }
        let over = Box::new(over);
        self.runs.insert(over.name.clone(), Known::Looking);
        self.lookers.add((over, note));
    }

    /// The keeper has said all it knows. What it does not know never began.
    fn keeper_ready(&mut self) {
        self.greeted = true;
        self.look_again = true;
        let forgotten: Vec<String> = self
            .runs
            .iter()
            .filter(|(name, known)| matches!(known, Known::Handed(_)) && !self.heard_of.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in forgotten {
            match self.runs.remove(&name) {
                Some(Known::Handed(Some(start))) => {
                    self.runs.insert(name.clone(), Known::Pending(start));
                    self.pending.push_back(name);
                }
                // It waited at a keeper that is gone, and was handed over before our time: the daemon sends it again.
                _ => {
                    let attempt = self.attempts.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
                    if let Some(attempt) = attempt {
                        let now = crate::records::unix_ms();
                        let why = "the keeper of its host was killed before it began".to_string();
                        let ranks = self.gangs.get(&attempt).into_iter().flatten().copied();
                        let rank = rank_of(&name, &attempt, ranks);
                        self.done(never_began(attempt, rank, Ending::lost(why), now));
                    }
                }
            }
        }
        // In the order in which they came, as far as that is known: those that follow others behind these.
        self.sort_pending();
        self.heard_of.clear();
        self.clear_work();
        self.measure_soon();
    }

    fn sort_pending(&mut self) {
        let follows = |session: &Session, name: &String| match session.runs.get(name) {
            Some(Known::Pending(start)) => start.after.as_ref().map(|after| super::note::name(after, start.rank)),
            _ => None,
        };
        let mut left: Vec<String> = self.pending.drain(..).collect();
        while !left.is_empty() {
            let waits = |name: &String| follows(self, name).is_some_and(|after| left.contains(&after));
            let (later, next): (Vec<String>, Vec<String>) = left.iter().cloned().partition(waits);
            // A circle, which nobody sends: all of it then.
            let next = if next.is_empty() { std::mem::take(&mut left) } else { next };
            left = if left.is_empty() { left } else { later };
            self.pending.extend(next);
        }
    }

    /// Folders of runs that nobody knows: prepared and never handed over, or over and acknowledged.
    fn clear_work(&mut self) {
        for entry in fs::read_dir(self.folder.trash()).into_iter().flatten().flatten() {
            self.cleaners.add(entry.path());
        }
        for entry in fs::read_dir(self.folder.work()).into_iter().flatten().flatten() {
            let known = entry.file_name().to_str().is_some_and(|name| self.runs.contains_key(name));
            if !known {
                self.trash(&entry.path());
            }
        }
    }

    /// Out of the way at once, gone later: somebody may need the name before a large folder is removed.
    pub fn trash(&mut self, path: &Path) {
        let trash = self.folder.trash();
        self.trashed += 1;
        let to = trash.join(format!("{}-{}", std::process::id(), self.trashed));
        let moved = crate::queue::keeper::folder::make(&trash).and_then(|()| fs::rename(path, &to));
        match moved {
            Ok(()) => self.cleaners.add(to),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(_) => drop(super::room::remove(path)),
        }
    }

    pub fn looked(&mut self, looked: Looked) {
        if !matches!(self.runs.get(&looked.name), Some(Known::Looking)) {
            return;
        }
        let mut looked = looked;
        looked.ended.peak_gpu_bytes = self.shelf.peak_gpu_memory(&looked.name);
        if looked.leaves.is_none() {
            return self.done(looked.ended);
        }
        let name = looked.name.clone();
        let now = Instant::now();
        let publishing =
            Publishing { looked, first: now, told: false, tries: 0, again_at: None, since: now, given_up: false };
        self.runs.insert(name.clone(), Known::Publishing(Box::new(publishing)));
        self.publish(&name);
    }

    /// To be told until it is acknowledged.
    pub fn done(&mut self, ended: Ended) {
        let name = name(&ended.attempt, ended.rank);
        self.ends.push(ended.clone());
        self.runs.insert(name, Known::Told(Box::new(ended)));
    }

    pub fn tell_ends(&mut self) {
        if !self.forget.is_empty() {
            let names = std::mem::take(&mut self.forget);
            self.tell_keeper(&ToKeeper::Forget { names });
            // Behind that word: an agent that is killed in between leaves folders that nobody knows, and the next one removes those. The
            // other way round the next one would hear of a run whose results it cannot find any more.
            for room in std::mem::take(&mut self.rubbish) {
                // Most are empty.
                if fs::remove_dir(&room).is_err() {
                    self.trash(&room);
                }
            }
        }
        if !self.hello || self.ends.is_empty() {
            return;
        }
        let mut ends = std::mem::take(&mut self.ends);
        while !ends.is_empty() {
            let rest = ends.split_off(page(&ends));
            self.outbox.say(&FromHost::Ended { ended: ends });
            ends = rest;
        }
    }

    /// It is in the journal: nothing of it is needed here any more but its log.
    pub fn acknowledged(&mut self, name: &str) {
        if !matches!(self.runs.get(name), Some(Known::Told(_))) {
            return;
        }
        let Some(Known::Told(ended)) = self.runs.remove(name) else { return };
        if ended.ending.success() {
            self.rubbish.push(self.folder.work().join(name));
        } else {
            self.one_more_aside();
        }
        if self.pool.is_some() {
            self.rubbish.push(pods::notes(&self.folder, name));
        }
        if let Some(ranks) = self.gangs.get_mut(&ended.attempt) {
            ranks.remove(&ended.rank);
            if ranks.is_empty() {
                self.gangs.remove(&ended.attempt);
            }
        }
        self.shelf.remove(name);
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.forget.push(name.into());
        self.acknowledged.insert(name.into());
    }

    pub fn stop(&mut self, name: &str, checkpoint_first: bool, grace_ms: u64) {
        match self.runs.get_mut(name) {
            None | Some(Known::Told(_) | Known::Looking) => {}
            Some(Known::Pending(start)) => {
                let now = crate::records::unix_ms();
                let ended = never_began(start.attempt.clone(), start.rank, Ending::Stopped, now);
                let after = start.after.clone();
                let gone = name.to_string();
                // Those that would have followed it wait for whom it waited for.
                for known in self.runs.values_mut() {
                    if let Known::Pending(other) = known
                        && other.after.as_ref().is_some_and(|it| super::note::name(it, other.rank) == gone)
                    {
                        other.after = after.clone();
                    }
                }
                self.look_again = true;
                self.done(ended);
            }
            Some(Known::Handed(_)) => {
                self.tell_keeper(&ToKeeper::Stop { name: name.into(), checkpoint_first, grace_ms });
            }
            // The owner of a desk is back, whom a program that is over does not disturb.
            Some(Known::Publishing(_)) if checkpoint_first => {}
            Some(Known::Publishing(publishing)) => {
                publishing.given_up = true;
                if publishing.again_at.is_some() {
                    self.published(name, Err(Problem::Never("nobody wants them any more".into())));
                }
            }
        }
    }
}

/// Which process of its gang has this name; whoever is alone is the first.
fn rank_of(called: &str, attempt: &Attempt, mut others: impl Iterator<Item = u32>) -> u32 {
    others.find(|rank| name(attempt, *rank) == called).unwrap_or(0)
}

/// How many of these go into one message: one at least.
pub fn page(ends: &[Ended]) -> usize {
    let mut bytes = 0;
    let fits = |ended: &&Ended| {
        let metrics: usize = ended.metrics.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        bytes += 400 + ended.attempt.run.sweep.len() + ended.tail.len() * 2 + metrics;
        bytes <= PAGE
    };
    let count = ends.iter().take_while(fits).count();
    count.max(1).min(ends.len())
}

fn never_began(attempt: Attempt, rank: u32, ending: Ending, at: u64) -> Ended {
    Ended {
        attempt,
        rank,
        ending,
        began: at,
        ended: at,
        cpu_ms: 0,
        peak_memory_bytes: 0,
        peak_gpu_bytes: 0,
        output_bytes: 0,
        metrics: Vec::new(),
        tail: String::new(),
        results: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::start;
    use super::*;

    #[test]
    fn whoever_is_forgotten_ends_under_its_own_number() {
        let attempt = start("mlp", 3).attempt;
        for rank in [0, 1, 12] {
            assert_eq!(rank_of(&name(&attempt, rank), &attempt, [1, 12].into_iter()), rank);
        }
        assert_eq!(rank_of(&name(&attempt, 0), &attempt, std::iter::empty()), 0);
    }
}
