//! When are results put in place, and what if they cannot be? They wait here, are tried again, and hold no seat meanwhile.

use super::about::Here;
use super::look;
use super::note::{Note, name};
use super::publish::{Job, Problem};
use super::send::Sending;
use super::session::{Known, Publishing, Session};
use crate::keeper::command::{expand, home};
use shoal_core::queue::Attempt;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::work::{Ending, Publish};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Where somebody has to allow it first.
const FIRST_RARE_WAIT: Duration = Duration::from_secs(10);
/// Until those whose results are not in place give up their seats, if no try has failed before.
const SEAT_FOR: Duration = Duration::from_secs(2);
/// Published for so long without an answer: it is said.
const SLOW: Duration = Duration::from_secs(30);
const WAITING_PAGE: usize = 1000;
/// Troubles of results that wait, each by its run.
const PUBLISH: &str = "publish ";

fn publish_key(name: &str) -> String {
    format!("{PUBLISH}{name}")
}

impl Session {
    pub fn publish(&mut self, name: &str) {
        let here = self.here();
        let Some(Known::Publishing(publishing)) = self.runs.get_mut(name) else { return };
        publishing.again_at = None;
        publishing.since = Instant::now();
        let looked = &publishing.looked;
        let Some(room) = looked.leaves.clone() else { return };
        match &looked.note.publish {
            Publish::Folder(to) => {
                let home = home(&std::env::vars_os().collect());
                let job = Job {
                    name: name.into(),
                    note: looked.note.clone(),
                    ended: looked.ended.clone(),
                    room,
                    to: expand(to, &home),
                    here,
                };
                self.publishers.add(job);
            }
            Publish::Send(_) => {
                // A few at a time: the daemon takes so many only, and the line one piece after the other.
                if !self.on_the_way.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into()) {
                    // What was to come later is still being sent: pieces of the two would be mixed.
                    publishing.again_at = Some(Instant::now() + FIRST_WAIT);
                    return;
                }
                let (note, ended) = (looked.note.clone(), looked.ended.clone());
                self.senders.add(Sending { name: name.into(), room, note, ended, here });
            }
        }
    }

    fn here(&self) -> Here {
        let gpus = self.facts.as_ref().map(|facts| facts.gpus.clone()).unwrap_or_default();
        Here {
            host: self.host.clone(),
            store: self.store_id.clone(),
            gpus,
            trees: self.folder.trees(),
            packages: self.folder.packages(),
            marks: self.folder.marks(),
        }
    }

    /// The daemon has put them in place, or cannot now, or never will.
    pub fn sent(&mut self, attempt: &Attempt, rank: u32, problem: Option<String>, later: bool) {
        let problem_of = if later { Problem::Later } else { Problem::Never };
        let done = problem.map_or(Ok(()), |why| Err(problem_of(why)));
        let name = name(attempt, rank);
        let known = self.runs.get(&name);
        if matches!(known, Some(Known::Publishing(p)) if matches!(p.looked.note.publish, Publish::Send(_))) {
            self.published(&name, done);
        }
    }

    pub fn published(&mut self, name: &str, done: Result<(), Problem>) {
        let Some(Known::Publishing(publishing)) = self.runs.get_mut(name) else { return };
        let (given_up, attempt) = (publishing.given_up, publishing.looked.note.attempt.clone());
        let mut ended = publishing.looked.ended.clone();
        match done {
            Ok(()) => {
                ended.results = Some(match &publishing.looked.note.publish {
                    Publish::Folder(to) | Publish::Send(to) => to.clone(),
                });
            }
            Err(problem @ (Problem::Later(_) | Problem::Refused(_))) if !given_up => {
                publishing.tries += 1;
                let (first, why) = match problem {
                    Problem::Refused(why) => (FIRST_RARE_WAIT, why),
                    Problem::Later(why) | Problem::Never(why) => (FIRST_WAIT, why),
                };
                let wait = first * 2u32.saturating_pow((publishing.tries - 1).min(10));
                publishing.again_at = Some(Instant::now() + wait.min(LONGEST_WAIT));
                return self.trouble(&publish_key(name), Some(&attempt), format!("results wait on this host: {why}"));
            }
            Err(Problem::Later(why) | Problem::Refused(why) | Problem::Never(why)) => {
                look::put_aside(&self.folder, name);
                let kept = self.folder.attempts().join(name);
                let why = if given_up { "it was stopped while they waited for it".into() } else { why };
                ended.ending = Ending::NotPublished {
                    why: format!("{why}; they are in {} on host {}", kept.display(), self.host),
                };
            }
        }
        self.no_more_trouble(&publish_key(name));
        if ended.results.is_some() {
            self.hurry_others();
        }
        self.done(ended);
    }

    /// The drive takes results again: those that wait for it need not wait any longer.
    fn hurry_others(&mut self) {
        if !self.troubles.keys().any(|key| key.starts_with(PUBLISH)) {
            return;
        }
        let now = Instant::now();
        for known in self.runs.values_mut() {
            if let Known::Publishing(publishing) = known {
                publishing.again_at = publishing.again_at.map(|_| now);
            }
        }
    }

    /// Those whose program is over and whose results are not in place soon hold no seat: they must not keep others from the host.
    fn give_up_seats(&mut self, now: Instant) {
        let mut waiting = Vec::new();
        for known in self.runs.values_mut() {
            if let Known::Publishing(publishing) = known
                && !publishing.told
                && (publishing.tries > 0 || now >= publishing.first + SEAT_FOR)
            {
                publishing.told = true;
                waiting.push((publishing.looked.note.attempt.clone(), publishing.looked.note.rank));
            }
        }
        for page in waiting.chunks(WAITING_PAGE) {
            self.outbox.say(&FromHost::ResultsWait { waiting: page.to_vec() });
        }
    }

    pub fn publish_again(&mut self, now: Instant) {
        if self.hello {
            self.give_up_seats(now);
        }
        let due = |p: &Publishing| p.again_at.is_some_and(|at| now >= at);
        let names: Vec<String> = self
            .runs
            .iter()
            .filter(|(_, known)| matches!(known, Known::Publishing(p) if due(p)))
            .map(|(name, _)| name.clone())
            .collect();
        names.iter().for_each(|name| self.publish(name));
        let slow = self.runs.values().find_map(|known| match known {
            Known::Publishing(p) if p.again_at.is_none() && now >= p.since + SLOW => Some(p.looked.note.clone()),
            _ => None,
        });
        if let Some(Note { attempt, rank, publish: Publish::Folder(to), .. }) = slow {
            let what = format!(
                "results wait on this host: {to} on host {} has not taken them for {} s; is its drive away?",
                self.host,
                SLOW.as_secs()
            );
            self.trouble(&publish_key(&name(&attempt, rank)), Some(&attempt), what);
        }
    }
}
