//! What does the daemon hear of this host: its first word, what it is like, what is wrong?

use super::super::ends::page;
use super::super::{facts, trees};
use super::{Known, Session};
use crate::queue::keeper::diary::note;
use shoal_core::queue::Attempt;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION};
use shoal_core::queue::work::{Ended, Publish};
use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// What has ended is told with hello if it can be within this.
const HELLO_WITHIN: Duration = Duration::from_millis(1500);

/// Bytes of names of what is owed: far below what a message may have. Who is left out is told to start again, and says its end once more.
const OWED_BYTES: usize = 1 << 20;

impl Session {
    /// The first word: what lives and what has ended. Ends that are quickly done with are waited for.
    pub(super) fn say_hello_if_ready(&mut self) {
        if self.hello || !self.greeted || self.facts.is_none() {
            return;
        }
        let by = *self.hello_by.get_or_insert_with(|| Instant::now() + HELLO_WITHIN);
        let busy = self.runs.values().any(|known| match known {
            Known::Looking => true,
            // What goes to the daemon goes behind hello.
            Known::Publishing(p) => p.tries == 0 && matches!(p.looked.note.publish, Publish::Folder(_)),
            _ => false,
        });
        let Some(facts) = self.facts.clone().filter(|_| !busy || Instant::now() >= by) else { return };
        let told = |known: &Known| matches!(known, Known::Told(_));
        let alive = self.runs.iter().filter(|(_, known)| !told(known));
        let held = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: HashSet<Attempt> = alive.filter_map(|(name, _)| held.get(name).cloned()).collect();
        drop(held);
        // The rest follows in pages, and is named here: nobody takes it for lost, or for something to be started.
        let ended: Vec<Ended> = self.ends.drain(..page(&self.ends)).collect();
        let owed = owed(&ended, &self.runs);
        let hello = FromHost::Hello {
            version: LINE_VERSION,
            facts: facts.clone(),
            alive: alive.into_iter().collect(),
            ended,
            trees: trees::list(&self.folder.trees()),
            owed,
        };
        self.told_facts = Some(facts);
        self.outbox.greet(&hello);
        self.hello = true;
        let troubles: Vec<(Option<Attempt>, String)> = self.troubles.values().cloned().collect();
        for (attempt, what) in troubles {
            self.outbox.say(&FromHost::Trouble { attempt, what, over: false });
        }
    }

    pub(super) fn facts_came(&mut self, facts: Box<HostFacts>) {
        if self.hello && self.told_facts.as_ref().is_none_or(|told| facts::differ(told, &facts)) {
            self.outbox.say(&FromHost::Facts { facts: facts.clone() });
            self.told_facts = Some(facts.clone());
        }
        self.facts = Some(facts);
        self.wake_keeper();
    }

    pub fn trouble(&mut self, key: &str, attempt: Option<&Attempt>, what: String) {
        if self.troubles.get(key).is_some_and(|(_, said)| *said == what) {
            return;
        }
        self.no_more_trouble(key);
        note("agent", &what);
        if self.hello {
            self.outbox.say(&FromHost::Trouble { attempt: attempt.cloned(), what: what.clone(), over: false });
        }
        self.troubles.insert(key.into(), (attempt.cloned(), what));
    }

    pub fn no_more_trouble(&mut self, key: &str) {
        if let Some((attempt, what)) = self.troubles.remove(key)
            && self.hello
        {
            self.outbox.say(&FromHost::Trouble { attempt, what, over: true });
        }
    }
}

/// Who has ended and is not among those whose ends are told now.
fn owed(told: &[Ended], runs: &HashMap<String, Known>) -> Vec<Attempt> {
    let told: HashSet<(&Attempt, u32)> = told.iter().map(|ended| (&ended.attempt, ended.rank)).collect();
    let mut bytes = 0;
    let rest = runs.values().filter_map(|known| match known {
        Known::Told(ended) if !told.contains(&(&ended.attempt, ended.rank)) => Some(ended.attempt.clone()),
        _ => None,
    });
    rest.take_while(|attempt| {
        bytes += 80 + attempt.run.sweep.len() * 2;
        bytes <= OWED_BYTES
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::tests;
    use super::*;

    #[test]
    fn whatever_has_ended_is_named_in_the_first_word() {
        let ends: Vec<Ended> = (0..5000).map(|cell| tests::ended(&tests::start("mlp", cell).attempt)).collect();
        let known = |ended: &Ended| (ended.attempt.to_string(), Known::Told(Box::new(ended.clone())));
        let runs: HashMap<String, Known> = ends.iter().map(known).collect();
        let first = page(&ends);
        assert!(first > 0 && first < ends.len());
        let named: HashSet<Attempt> =
            ends[..first].iter().map(|ended| ended.attempt.clone()).chain(owed(&ends[..first], &runs)).collect();
        assert_eq!(named.len(), ends.len());
        let long: Vec<Ended> = ends.into_iter().map(|ended| Ended { tail: "x".repeat(100_000), ..ended }).collect();
        let bytes: usize = long[..page(&long)].iter().map(|ended| ended.tail.len()).sum();
        assert!(page(&long) > 0 && bytes <= 1 << 20, "{bytes}");
    }
}
