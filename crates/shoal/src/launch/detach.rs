//! When may a gang go on by itself? When all its ranks have started; and then all its hosts must say that they do.

use super::Run;
use shoal_core::follow::{Member, Phase, Seen};
use shoal_core::outcome::Ending;
use shoal_core::rank::Rank;
use shoal_daemon::protocol::ToWarden;

/// Hosts of a detached run meet before they go on alone; those that did not within this long cannot reach each other. Said by
/// us, sooner than they find it out themselves and end without a word to anybody.
const MEETING_MS: u64 = 20_000;

impl Run {
    /// Every host goes on alone, or has nothing left to do; and nothing has gone wrong before that.
    pub(super) fn is_detached(&self) -> bool {
        if !self.detach || self.has_gone_wrong() {
            return false;
        }
        let alone = |host: &String| self.left_alone.contains(host);
        let settled = |host: &String| alone(host) || self.complete.contains(host);
        self.plan.hosts.iter().any(alone) && self.plan.hosts.iter().all(settled)
    }

    fn has_gone_wrong(&self) -> bool {
        let failed = |m: &Member| m.ended.as_ref().is_some_and(|(ending, ..)| ending.is_failure());
        self.follow.interrupted_ms().is_some() || self.follow.members().any(failed)
    }

    pub(super) fn see_to_detaching(&mut self) {
        if self.detach && self.has_gone_wrong() {
            return self.count_those_astray();
        }
        if !self.detach || self.follow.phase() != Phase::Running {
            return;
        }
        let now = self.now();
        match self.told_to_detach {
            None if self.follow.members().all(|m| m.started_ms.is_some() || m.ended.is_some()) => {
                self.told_to_detach = Some(now);
                self.tell_all(&ToWarden::Detach);
            }
            Some(at) if now.saturating_sub(at) > self.meeting_ms() && !self.is_detached() => self.give_up_detaching(),
            _ => {}
        }
    }

    fn meeting_ms(&self) -> u64 {
        self.plan.line.as_ref().map_or(MEETING_MS, |line| MEETING_MS.min(line.silence_ms * 2 / 3))
    }

    /// Hosts that went on alone tell us nothing more. Their ranks are stopped by whoever reads the report.
    fn count_those_astray(&mut self) {
        let astray = |m: &&Member| m.ended.is_none() && self.left_alone.contains(&m.host);
        let astray: Vec<Rank> = self.follow.members().filter(astray).map(|m| m.rank).collect();
        for rank in astray {
            self.see(Seen::Ended { rank, ending: Ending::Stopped, ran_ms: self.now() });
        }
    }

    /// The run must not go on in part (GANG-1).
    fn give_up_detaching(&mut self) {
        self.tell_all(&ToWarden::Stop { grace_ms: self.plan.grace_ms });
        let late = |host: &&String| !self.left_alone.contains(*host) && !self.complete.contains(*host);
        let late: Vec<String> = self.plan.hosts.iter().filter(late).cloned().collect();
        for host in late {
            let why = format!("the hosts of this run did not meet within {} s", self.meeting_ms() / 1000);
            let hint = "detached runs need connections between their hosts; is there a firewall?";
            let ranks = self.plan.ranks.iter().filter(|r| r.host == host).map(|r| (r.rank, hint.to_string()));
            self.hints.extend(ranks.collect::<Vec<_>>());
            self.see(Seen::HostLost { host, why });
        }
    }
}
