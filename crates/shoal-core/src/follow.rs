//! What does a launcher do when something happens to a gang? (CORE-1: pure, time is passed in; GANG-1: no rank outlives its gang)
//!
//! The gang is over when all workers have finished, at the first failure, or when somebody says so. Then every rank is asked
//! to end, after the grace it is made to, and whoever cannot be reached any more is given up by name. Where a master tells the
//! other workers of a failure, they have a moment before that to say it in their own logs, or to save what they have.

use crate::outcome::Ending;
use crate::rank::Rank;
use std::collections::BTreeMap;

/// How long after the master or a server a worker may fail and be the cause.
pub(crate) const CULPRIT_MS: u64 = 5_000;
/// How long workers that hear of another's failure may take to end by themselves; at most half of the grace, of which it is a part.
const WORDS_MS: u64 = 2_000;
/// Beyond the grace, for words to travel and processes to be swept up.
const SLACK_MS: u64 = 3_000;
/// How long ranks may take to be killed before they are given up.
const KILL_MS: u64 = 4_000;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Started {
        rank: Rank,
    },
    Ended {
        rank: Rank,
        ending: Ending,
        ran_ms: u64,
    },
    /// A host cannot be reached any more, or never could.
    HostLost {
        host: String,
        why: String,
    },
    /// Nothing will be started: who has not begun never will.
    Abandoned,
    /// Somebody wants it to end: politely at first.
    Interrupted,
    /// Nothing; time passes.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Do {
    /// Every host: ask all ranks to end, and end them after this long.
    Stop { grace_ms: u64 },
    /// Every host: end all ranks now.
    Kill,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub rank: Rank,
    pub host: String,
    pub started_ms: Option<u64>,
    /// How it ended, when, and how long it ran.
    pub ended: Option<(Ending, u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    Stopping { since_ms: u64 },
    Killing { since_ms: u64 },
    Over,
}

#[derive(Debug, Clone)]
pub struct Follow {
    members: BTreeMap<Rank, Member>,
    grace_ms: u64,
    phase: Phase,
    interrupts: u32,
    interrupted_ms: Option<u64>,
    /// When the master or a server failed, which they do because of a worker: that one's own end says more, and is awaited for a moment.
    helper_failed_ms: Option<u64>,
    /// When the first worker failed of which a master tells the others.
    worker_failed_ms: Option<u64>,
    way_ms: u64,
}

impl Follow {
    pub fn new(ranks: impl IntoIterator<Item = (Rank, String)>, grace_ms: u64) -> Follow {
        let member = |(rank, host)| (rank, Member { rank, host, started_ms: None, ended: None });
        let members = ranks.into_iter().map(member).collect();
        let phase = Phase::Running;
        let (interrupts, interrupted_ms, helper_failed_ms, worker_failed_ms) = (0, None, None, None);
        Follow { members, grace_ms, phase, interrupts, interrupted_ms, helper_failed_ms, worker_failed_ms, way_ms: 0 }
    }

    /// Words to ranks and back take so much longer than on a line to a host.
    pub fn over_a_long_way(self, way_ms: u64) -> Follow {
        Follow { way_ms, ..self }
    }

    /// Where a rank is was not known before somebody else had chosen it.
    pub fn is_on(&mut self, rank: Rank, host: &str) {
        if let Some(member) = self.members.get_mut(&rank).filter(|member| member.host != host) {
            member.host = host.into();
        }
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// When somebody first wanted it to end.
    pub fn interrupted_ms(&self) -> Option<u64> {
        self.interrupted_ms
    }

    /// From now on ranks have this long to end: somebody asked for another grace.
    pub fn set_grace(&mut self, grace_ms: u64) {
        self.grace_ms = grace_ms;
    }

    /// Takes in what happened and says what to do about it.
    pub fn see(&mut self, seen: Seen, now_ms: u64) -> Vec<Do> {
        let mut failed = false;
        match seen {
            Seen::Started { rank } => {
                if let Some(member) = self.members.get_mut(&rank) {
                    member.started_ms.get_or_insert(now_ms);
                }
            }
            Seen::Ended { rank, ending, ran_ms } => {
                // Master and servers go when a worker has failed, whether they hear of it from us or from each other.
                let served = !matches!(rank, Rank::Worker(_)) && matches!(ending, Ending::Exited(_));
                let expected = self.phase != Phase::Running && (served || self.is_done());
                let heard = self.is_told(&ending);
                if let Some(member) = self.members.get_mut(&rank).filter(|m| m.ended.is_none()) {
                    // The work is done and all are told to go: a server that hears of it from the master first has not failed.
                    let ending = if expected { Ending::Stopped } else { ending };
                    match rank {
                        Rank::Worker(_) if ending.is_failure() && heard => {
                            self.worker_failed_ms.get_or_insert(now_ms);
                        }
                        Rank::Worker(_) => failed = ending.is_failure(),
                        _ if ending.is_failure() => {
                            self.helper_failed_ms.get_or_insert(now_ms);
                        }
                        _ => {}
                    }
                    member.ended = Some((ending, now_ms, ran_ms));
                }
            }
            Seen::HostLost { host, why } => {
                for member in self.members.values_mut().filter(|m| m.host == host && m.ended.is_none()) {
                    failed = true;
                    let ran_ms = member.started_ms.map_or(0, |at| now_ms.saturating_sub(at));
                    let ending = match member.started_ms {
                        Some(_) => Ending::Lost { why: why.clone() },
                        None => Ending::Unreachable { why: why.clone() },
                    };
                    member.ended = Some((ending, now_ms, ran_ms));
                }
            }
            Seen::Abandoned => {
                for member in self.members.values_mut().filter(|m| m.started_ms.is_none() && m.ended.is_none()) {
                    member.ended = Some((Ending::Stopped, now_ms, 0));
                }
            }
            Seen::Interrupted => {
                self.interrupts += 1;
                self.interrupted_ms.get_or_insert(now_ms);
            }
            Seen::Tick => {}
        }
        self.decide(failed, now_ms)
    }

    /// All workers are over; the rest only served them.
    fn is_done(&self) -> bool {
        let mut workers = self.members.values().filter(|m| matches!(m.rank, Rank::Worker(_)));
        workers.all(|m| m.ended.is_some())
    }

    /// Whether the other workers hear of such an end from the master: it was there, and then its connection closed.
    fn is_told(&self, ending: &Ending) -> bool {
        let began = matches!(ending, Ending::Exited(_) | Ending::Signaled(_) | Ending::OutOfMemory);
        began && self.members.contains_key(&Rank::Master)
    }

    fn all_is_said(&self, now_ms: u64) -> bool {
        self.worker_failed_ms.is_some_and(|at| now_ms.saturating_sub(at) >= WORDS_MS.min(self.grace_ms / 2))
    }

    /// What is left of the grace, which began with the failure: all are over as soon as without that moment.
    fn grace_left(&self, now_ms: u64) -> u64 {
        let spent = self.worker_failed_ms.filter(|_| self.interrupts == 0).map_or(0, |at| now_ms.saturating_sub(at));
        self.grace_ms - spent.min(self.grace_ms / 2)
    }

    fn helper_is_to_blame(&self, now_ms: u64) -> bool {
        self.helper_failed_ms.is_some_and(|at| now_ms.saturating_sub(at) >= CULPRIT_MS)
    }

    fn decide(&mut self, failed: bool, now_ms: u64) -> Vec<Do> {
        if self.members.values().all(|m| m.ended.is_some()) {
            self.phase = Phase::Over;
            return Vec::new();
        }
        match self.phase {
            Phase::Running
                if failed
                    || self.is_done()
                    || self.interrupts > 0
                    || self.all_is_said(now_ms)
                    || self.helper_is_to_blame(now_ms) =>
            {
                self.phase = Phase::Stopping { since_ms: now_ms };
                vec![Do::Stop { grace_ms: self.grace_left(now_ms) }]
            }
            Phase::Stopping { since_ms } => {
                let late = now_ms.saturating_sub(since_ms) > self.grace_ms + SLACK_MS + self.way_ms;
                if !late && self.interrupts < 2 {
                    return Vec::new();
                }
                self.phase = Phase::Killing { since_ms: now_ms };
                vec![Do::Kill]
            }
            Phase::Killing { since_ms } => {
                if now_ms.saturating_sub(since_ms) > KILL_MS + self.way_ms || self.interrupts > 2 {
                    self.give_up(now_ms);
                }
                Vec::new()
            }
            Phase::Running | Phase::Over => Vec::new(),
        }
    }

    /// Nothing more can be done from here.
    fn give_up(&mut self, now_ms: u64) {
        for member in self.members.values_mut().filter(|m| m.ended.is_none()) {
            let why = "it was told to end and its host did not say that it has; look there".to_string();
            let ran_ms = member.started_ms.map_or(0, |at| now_ms.saturating_sub(at));
            member.ended = Some((Ending::Lost { why }, now_ms, ran_ms));
        }
        self.phase = Phase::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gang() -> Follow {
        let ranks = [(Rank::Master, "a"), (Rank::Worker(0), "a"), (Rank::Worker(1), "b")];
        Follow::new(ranks.map(|(rank, host)| (rank, host.to_string())), 5_000)
    }

    fn ended(rank: Rank, ending: Ending) -> Seen {
        Seen::Ended { rank, ending, ran_ms: 1 }
    }

    const STOP: Do = Do::Stop { grace_ms: 5_000 };

    #[test]
    fn the_gang_is_over_when_its_workers_are() {
        let mut gang = gang();
        assert_eq!(gang.see(ended(Rank::Worker(0), Ending::Exited(0)), 10), []);
        assert_eq!(gang.see(ended(Rank::Worker(1), Ending::Exited(0)), 20), [STOP]);
        assert_eq!(gang.see(ended(Rank::Master, Ending::Stopped), 30), []);
        assert_eq!(gang.phase(), Phase::Over);
    }

    #[test]
    fn helpers_that_end_badly_after_the_work_is_done_have_not_failed() {
        let ranks = [(Rank::Master, "a"), (Rank::Server(0), "b"), (Rank::Worker(0), "a")];
        let mut gang = Follow::new(ranks.map(|(rank, host)| (rank, host.to_string())), 5_000);
        assert_eq!(gang.see(ended(Rank::Worker(0), Ending::Exited(0)), 10), [STOP]);
        gang.see(ended(Rank::Server(0), Ending::Exited(1)), 20);
        gang.see(ended(Rank::Master, Ending::Exited(0)), 30);
        assert!(gang.members().all(|m| m.ended.as_ref().is_some_and(|e| !e.0.is_failure())));
        assert_eq!(gang.phase(), Phase::Over);
    }

    #[test]
    fn the_first_failure_stops_everyone_once() {
        let mut gang = gang();
        assert_eq!(gang.see(ended(Rank::Worker(1), Ending::NotStarted { why: "no such file".into() }), 10), [STOP]);
        assert_eq!(gang.see(ended(Rank::Worker(0), Ending::Exited(1)), 11), []);
        assert_eq!(gang.see(Seen::Tick, 7_000), []);
        assert_eq!(gang.see(Seen::Tick, 8_100), [Do::Kill]);
        assert_eq!(gang.see(Seen::Tick, 12_200), []);
        assert_eq!(gang.phase(), Phase::Over);
        let lost = gang.members().find(|m| m.rank == Rank::Master).and_then(|m| m.ended.clone());
        assert!(matches!(lost, Some((Ending::Lost { .. }, 12_200, _))), "{lost:?}");
    }

    #[test]
    fn others_have_a_moment_to_say_whose_failure_they_heard_of() {
        let mut gang = gang();
        assert_eq!(gang.see(ended(Rank::Worker(1), Ending::Signaled(9)), 10), []);
        assert_eq!(gang.see(ended(Rank::Master, Ending::Exited(1)), 20), []);
        assert_eq!(gang.see(Seen::Tick, 2_000), []);
        assert_eq!(gang.see(Seen::Tick, 2_010), [Do::Stop { grace_ms: 3_000 }]);
        let mut quicker = self::gang();
        assert_eq!(quicker.see(ended(Rank::Worker(1), Ending::Signaled(9)), 10), []);
        assert_eq!(quicker.see(ended(Rank::Worker(0), Ending::Exited(1)), 300), [Do::Stop { grace_ms: 4_710 }]);
        let mut asked = self::gang();
        assert_eq!(asked.see(ended(Rank::Worker(1), Ending::Signaled(9)), 10), []);
        assert_eq!(asked.see(Seen::Interrupted, 20), [STOP]);
        let mut brief =
            Follow::new([(Rank::Master, "a".into()), (Rank::Worker(0), "a".into()), (Rank::Worker(1), "a".into())], 0);
        assert_eq!(brief.see(ended(Rank::Worker(1), Ending::Signaled(9)), 10), [Do::Stop { grace_ms: 0 }]);
    }

    #[test]
    fn without_a_master_nobody_hears_of_it_and_all_end_at_once() {
        let mut gang = Follow::new([0, 1].map(|k| (Rank::Worker(k), "a".to_string())), 5_000);
        assert_eq!(gang.see(ended(Rank::Worker(1), Ending::Exited(3)), 10), [STOP]);
    }

    #[test]
    fn a_lost_host_takes_its_ranks_with_it() {
        let mut gang = gang();
        gang.see(Seen::Started { rank: Rank::Worker(1) }, 5);
        let lost = |host: &str| Seen::HostLost { host: host.into(), why: "silent".into() };
        assert_eq!(gang.see(lost("b"), 100), [STOP]);
        let ending = gang.members().find(|m| m.host == "b").and_then(|m| m.ended.clone());
        assert_eq!(ending, Some((Ending::Lost { why: "silent".into() }, 100, 95)));
        assert_eq!(gang.see(lost("a"), 200), []);
        assert_eq!(gang.phase(), Phase::Over);
        let master = gang.members().next().and_then(|m| m.ended.clone());
        assert!(matches!(master, Some((Ending::Unreachable { .. }, ..))));
    }

    #[test]
    fn a_gang_that_never_began_is_over_at_once() {
        let mut gang = gang();
        gang.see(Seen::HostLost { host: "b".into(), why: "no route".into() }, 5);
        assert_eq!(gang.see(Seen::Abandoned, 6), []);
        assert_eq!(gang.phase(), Phase::Over);
        let failed: Vec<Rank> =
            gang.members().filter(|m| m.ended.as_ref().is_some_and(|e| e.0.is_failure())).map(|m| m.rank).collect();
        assert_eq!(failed, [Rank::Worker(1)]);
    }

    #[test]
    fn asked_once_it_is_polite_twice_it_is_not() {
        let mut gang = gang();
        assert_eq!(gang.see(Seen::Interrupted, 10), [STOP]);
        assert_eq!(gang.see(Seen::Interrupted, 20), [Do::Kill]);
        assert_eq!(gang.see(Seen::Interrupted, 30), []);
        assert_eq!(gang.phase(), Phase::Over);
    }
}
