//! How do the ranks of a gang end? Their pods are taken away, which asks each program and kills it after the grace; where the server is away, a
//! file on the volume says so, which every pod looks at.

use super::Run;
use super::gathering::AGAIN;
use super::server::pods_of;
use serde_json::Value;
use shoal_core::outcome::Ending;
use shoal_core::rank::Rank;
use std::time::Instant;

pub(super) struct Stopping {
    grace_s: u64,
    asked: Instant,
}

impl Run<'_> {
    /// All at once; who has not begun never will.
    pub(super) fn end_all(&mut self, grace_s: u64) {
        let last = self.stop.replace(Stopping { grace_s, asked: Instant::now() });
        let told = if self.gone.is_none() { self.placed.volume.stop() } else { Ok(()) };
        self.ask();
        if self.gone.is_some() || last.is_some() || told.is_err() {
            return;
        }
        let waiting: Vec<Rank> =
            self.members.iter().filter(|(_, m)| !m.over && m.address.is_none()).map(|(rank, _)| *rank).collect();
        for rank in waiting {
            self.over(rank, Ending::Stopped);
        }
    }

    /// Those that live are asked again now and then: a request may have come before its pod, or not at all.
    pub(super) fn stop_again(&mut self) {
        if self.stop.as_ref().is_some_and(|stop| stop.asked.elapsed() >= AGAIN) {
            self.ask();
        }
    }

    fn ask(&mut self) {
        let Some(stop) = &mut self.stop else { return };
        stop.asked = Instant::now();
        let run = self.placed.gang.run;
        // A second word would shorten the grace of the first, or be taken for impatience by the program.
        let is_asked = |pod: &&Value| stop.grace_s > 0 && !pod["metadata"]["deletionTimestamp"].is_null();
        let alive = self.members.iter().filter(|(_, member)| !member.over);
        let pods: Vec<Value> = alive
            .flat_map(|(rank, _)| pods_of(&self.shown, run, *rank))
            .filter(|pod| !is_asked(pod))
            .cloned()
            .collect();
        let unheard = !pods.is_empty() && self.server.end_pods(&pods, stop.grace_s).is_err();
        if unheard || !self.shown.is_whole {
            let _ = self.placed.volume.stop();
        }
    }
}
