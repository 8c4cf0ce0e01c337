//! What shall all hosts of a detached run do? (pure: time is passed in)
//!
//! The same decisions as a launcher's ([`Follow`]): the run is over when its workers are, at the first failure, or when
//! somebody asks. A run on one host has a head too, with nobody to talk to.

use super::GONE_MS;
use super::words::{LINE_VERSION, Order, Report, Word};
use crate::ending::Ending;
use shoal_core::follow::{Do, Follow, Phase, Seen};
use shoal_core::rank::Rank;
use std::collections::{BTreeMap, BTreeSet};

pub struct Head {
    run: String,
    follow: Follow,
    /// The other hosts.
    members: BTreeMap<String, Member>,
    silence_ms: u64,
    order: Order,
    asked: bool,
    /// The failure that ends the run, and whether it is a worker's or a host's.
    failure: Option<(bool, String)>,
}

struct Member {
    ranks: BTreeSet<Rank>,
    heard: BTreeSet<Rank>,
    joined: bool,
    /// When it was last heard; at first, when the run began here.
    heard_ms: u64,
    closed_ms: Option<u64>,
    lost: bool,
}

impl Head {
    /// `me`: the host this warden is on. `ranks`: all of the run, with their hosts.
    pub fn new(run: &str, me: &str, ranks: &BTreeMap<Rank, String>, grace_ms: u64, silence_ms: u64) -> Head {
        let mut members: BTreeMap<String, Member> = BTreeMap::new();
        for (rank, host) in ranks.iter().filter(|(_, host)| *host != me) {
            let new = || Member {
                ranks: BTreeSet::new(),
                heard: BTreeSet::new(),
                joined: false,
                heard_ms: 0,
                closed_ms: None,
                lost: false,
            };
            members.entry(host.clone()).or_insert_with(new).ranks.insert(*rank);
        }
        let follow = Follow::new(ranks.iter().map(|(rank, host)| (*rank, host.clone())), grace_ms);
        Head { run: run.into(), follow, members, silence_ms, order: Order::GoOn, asked: false, failure: None }
    }

    /// All hosts have been heard.
    pub fn is_up(&self) -> bool {
        self.members.values().all(|m| m.joined)
    }

    /// Every rank is over, or was given up; and the members know that we know.
    pub fn is_over(&self) -> bool {
        self.follow.phase() == Phase::Over
    }

    pub fn order(&self) -> &Order {
        &self.order
    }

    /// What this member is to hear.
    pub fn word(&self, host: &str) -> Word {
        let heard = self.members.get(host).map_or(0, |m| m.heard.len());
        Word { version: LINE_VERSION, order: self.order.clone(), heard }
    }

    fn see(&mut self, seen: Seen, why: Option<String>, now_ms: u64) {
        let worker = !matches!(&seen, Seen::Ended { rank: Rank::Master | Rank::Server(_), .. });
        if let Some(text) = why {
            // Master and servers fail because a worker does, and may be heard of first.
            if self.failure.as_ref().is_none_or(|(of_worker, _)| worker && !of_worker) {
                self.failure = Some((worker, text));
            }
        }
        for action in self.follow.see(seen, now_ms) {
            let why = self.failure.as_ref().map(|(_, text)| text.clone());
            self.order = match (action, &self.order) {
                (Do::Stop { grace_ms }, _) => Order::Stop { grace_ms, why },
                (Do::Kill, Order::Stop { why, .. } | Order::Kill { why }) => Order::Kill { why: why.clone() },
                (Do::Kill, Order::GoOn) => Order::Kill { why },
            };
        }
    }

    /// A rank has ended, here or elsewhere.
    pub fn ended(&mut self, rank: Rank, ending: Ending, ran_ms: u64, now_ms: u64) {
        let Some(host) = self.follow.members().find(|m| m.rank == rank).map(|m| m.host.clone()) else { return };
        let text = format!("{rank} on {host}: {ending}");
        let ending = shoal_core::outcome::Ending::from(ending);
        let why = ending.is_failure().then_some(text);
        self.see(Seen::Ended { rank, ending, ran_ms }, why, now_ms);
    }

    /// A member has spoken. `Err`: it is none of ours.
    pub fn hear(&mut self, report: Report, now_ms: u64) -> Result<(), String> {
        if report.version != LINE_VERSION {
            return Err(format!("it speaks version {} of the gang's line, not {LINE_VERSION}", report.version));
        }
        let Some(member) = self.members.get_mut(&report.host).filter(|_| report.run == self.run) else {
            return Err(format!("`{}` of run {} is no host of this run", report.host, report.run));
        };
        member.heard_ms = now_ms;
        member.closed_ms = None;
        let first = !std::mem::replace(&mut member.joined, true);
        let new: Vec<_> = report
            .ended
            .into_iter()
            .filter(|e| member.ranks.contains(&e.rank) && member.heard.insert(e.rank))
            .collect();
        let started: Vec<Rank> = if first { member.ranks.iter().copied().collect() } else { Vec::new() };
        started.into_iter().for_each(|rank| self.see(Seen::Started { rank }, None, now_ms));
        new.into_iter().for_each(|e| self.ended(e.rank, e.ending, e.ran_ms, now_ms));
        if let Some(grace_ms) = report.stop_ms {
            self.stop(grace_ms, now_ms);
        }
        Ok(())
    }

    /// Somebody wants the run to end.
    pub fn stop(&mut self, grace_ms: u64, now_ms: u64) {
        // Members repeat it; only the first one counts.
        if !std::mem::replace(&mut self.asked, true) {
            self.follow.set_grace(grace_ms);
            self.see(Seen::Interrupted, None, now_ms);
        }
    }

    /// The connection of a member was closed.
    pub fn closed(&mut self, host: &str, now_ms: u64) {
        if let Some(member) = self.members.get_mut(host) {
            member.closed_ms.get_or_insert(now_ms);
        }
    }

    /// Time passes: who has not been heard for too long?
    pub fn tick(&mut self, now_ms: u64) {
        let mut lost = Vec::new();
        for (host, member) in self.members.iter_mut().filter(|(_, m)| !m.lost && m.heard.len() < m.ranks.len()) {
            let silent = now_ms.saturating_sub(member.heard_ms);
            let closed = member.closed_ms.map(|at| now_ms.saturating_sub(at));
            let why = match closed {
                Some(ms) if ms >= GONE_MS.min(self.silence_ms) => "its warden closed the connection and is gone".into(),
                _ if silent < self.silence_ms => continue,
                _ if member.joined => format!("it has not been heard for {} s", silent / 1000),
                _ => format!("its warden did not reach this one within {} s", silent / 1000),
            };
            member.lost = true;
            lost.push((host.clone(), why));
        }
        for (host, why) in lost {
            let text = format!("host {host} was lost: {why}");
            self.see(Seen::HostLost { host, why: text.clone() }, Some(text), now_ms);
        }
        self.see(Seen::Tick, None, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::EndedRank;
    use super::*;

    fn head() -> Head {
        let ranks = [(Rank::Master, "a"), (Rank::Worker(0), "a"), (Rank::Worker(1), "b"), (Rank::Worker(2), "c")];
        Head::new("r", "a", &ranks.map(|(rank, host)| (rank, host.to_string())).into(), 5_000, 30_000)
    }

    fn report(host: &str, ended: &[(Rank, Ending)]) -> Report {
        let ended = ended.iter().map(|(rank, ending)| EndedRank { rank: *rank, ending: ending.clone(), ran_ms: 1 });
        Report { version: LINE_VERSION, run: "r".into(), host: host.into(), ended: ended.collect(), stop_ms: None }
    }

    fn why(head: &Head) -> &str {
        match head.order() {
            Order::Stop { why: Some(why), .. } | Order::Kill { why: Some(why) } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_up_when_all_have_spoken_and_the_first_failure_ends_all() {
        let mut head = head();
        head.hear(report("b", &[]), 1).unwrap();
        assert!(!head.is_up());
        head.hear(report("c", &[]), 2).unwrap();
        assert!(head.is_up());
        let failed = report("b", &[(Rank::Worker(1), Ending::Exited(3))]);
        head.hear(failed.clone(), 10).unwrap();
        assert_eq!((head.word("b").heard, head.word("c").heard), (1, 0));
        // The others have a moment to say what they heard.
        assert_eq!(head.order(), &Order::GoOn);
        head.ended(Rank::Master, Ending::Exited(1), 1, 11);
        head.tick(2_010);
        assert_eq!(why(&head), "worker1 on b: exited with code 3");
        // The same again changes nothing; others that fail because of it neither.
        head.hear(failed, 2_011).unwrap();
        head.hear(report("c", &[(Rank::Worker(2), Ending::Exited(1))]), 2_012).unwrap();
        assert_eq!(why(&head), "worker1 on b: exited with code 3");
        head.ended(Rank::Worker(0), Ending::Exited(1), 1, 2_013);
        assert!(head.is_over());
    }

    #[test]
    fn a_silent_host_is_lost_and_named_and_one_that_has_ended_may_leave() {
        let mut head = head();
        head.hear(report("b", &[(Rank::Worker(1), Ending::Exited(0))]), 0).unwrap();
        head.closed("b", 10);
        head.hear(report("c", &[]), 29_000).unwrap();
        head.tick(31_000);
        assert_eq!(*head.order(), Order::GoOn);
        head.tick(58_999);
        assert_eq!(*head.order(), Order::GoOn);
        head.tick(59_000);
        assert_eq!(why(&head), "host c was lost: it has not been heard for 30 s");
        head.tick(68_000);
        assert!(matches!(head.order(), Order::Kill { why: Some(_) }), "{:?}", head.order());
        head.tick(80_000);
        assert!(head.is_over(), "whoever does not answer is given up");
    }

    #[test]
    fn a_closed_connection_is_lost_sooner_unless_another_comes() {
        let mut head = head();
        for host in ["b", "c"] {
            head.hear(report(host, &[]), 0).unwrap();
        }
        head.closed("b", 1_000);
        head.hear(report("b", &[]), 2_000).unwrap();
        head.tick(7_000);
        assert_eq!(*head.order(), Order::GoOn);
        head.closed("c", 8_000);
        head.tick(12_999);
        assert_eq!(*head.order(), Order::GoOn);
        head.tick(13_000);
        assert!(why(&head).starts_with("host c was lost: its warden"), "{:?}", head.order());
    }

    #[test]
    fn strangers_change_nothing_and_a_host_that_never_comes_ends_the_run() {
        let mut head = head();
        for stranger in [
            report("d", &[]),
            report("a", &[(Rank::Worker(0), Ending::Exited(1))]),
            Report { run: "q".into(), ..report("b", &[]) },
            Report { version: 9, ..report("b", &[]) },
        ] {
            assert!(head.hear(stranger, 1).is_err());
        }
        // A host speaks for its own ranks alone.
        head.hear(report("b", &[(Rank::Worker(2), Ending::Exited(1))]), 1).unwrap();
        assert_eq!((head.order(), head.word("b").heard), (&Order::GoOn, 0));
        head.tick(30_000);
        assert!(why(&head).starts_with("host c was lost: its warden did not reach"), "{:?}", head.order());
    }

    #[test]
    fn asked_for_the_end_it_has_the_grace_that_was_asked_for() {
        let mut head = head();
        for at in [5, 6, 7] {
            head.hear(Report { stop_ms: Some(60_000), ..report("b", &[]) }, at).unwrap();
        }
        head.tick(50_000 - 30_000);
        assert_eq!(*head.order(), Order::Stop { grace_ms: 60_000, why: None });
    }
}
