//! When may it go, and what becomes of keeper and folder then?

use super::super::{End, room};
use super::{Known, Session};
use crate::queue::keeper::diary::note;
use crate::queue::keeper::words::ToKeeper;
use shoal_core::queue::line::FromHost;
use std::time::{Duration, Instant};

impl Session {
    /// Nothing is here, and nothing follows: the keeper need not stay for another agent.
    pub(super) fn rest(&self) {
        if self.resting && self.greeted && self.runs.is_empty() {
            self.tell_keeper(&ToKeeper::Leave { stop_runs: false, grace_ms: 0 });
        }
    }

    /// Nothing lives here any more, and nothing is owed.
    pub(super) fn leave_if_done(&mut self) {
        let owes = |known: &Known| matches!(known, Known::Looking | Known::Publishing(_));
        if !self.leaving.as_ref().is_some_and(|leaving| leaving.keeper_left) || self.runs.values().any(owes) {
            return;
        }
        self.leaving = None;
        self.link = None;
        self.tell_ends();
        self.outbox.say(&FromHost::Left);
        self.outbox.wait_written(Instant::now() + Duration::from_secs(2));
        if let Err(e) = room::remove(self.folder.root()) {
            note("agent", format!("{} could not be removed: {e}", self.folder.root().display()));
        }
        // The folder that such folders are in is ours, too, unless somebody named another. It may hold those of other queues.
        let above = self.folder.root().parent().filter(|above| above.ends_with(".cache/shoal/queue"));
        let _ = above.map(std::fs::remove_dir);
        self.end = Some(End::Left);
    }

    pub fn keeper_left(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.keeper_left = true;
        }
    }
}
