//! What does the daemon hear of this host: its first word, what it is like, what is wrong?

use super::super::{facts, trees};
use super::{Known, Session};
use crate::queue::keeper::diary::note;
use shoal_core::queue::Attempt;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION};
use shoal_core::queue::work::Publish;
use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// What has ended is told with hello if it can be within this.
const HELLO_WITHIN: Duration = Duration::from_millis(1500);

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
        // The rest follows in pages.
        let first = self.ends.len().min(500);
        let hello = FromHost::Hello {
            version: LINE_VERSION,
            facts: facts.clone(),
            alive: alive.into_iter().collect(),
            ended: self.ends.drain(..first).collect(),
            trees: trees::list(&self.folder.trees()),
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
