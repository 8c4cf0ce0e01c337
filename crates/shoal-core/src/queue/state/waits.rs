//! What if a program is over, and what it left has no place yet: its folder is away, full or forbidden?
//!
//! It holds nothing any more, so that others go on. It is not over either: as long as its host has what it left, it is never started again
//! (QUEUE-2). What waits takes up the host's disk, so that a sweep starts nothing more where enough of its results wait.

use super::hosts::HostState;
use super::live::{HeldSeat, Line};
use super::sweeps::SweepState;
use super::{Queue, RunKey};
use crate::queue::{Attempt, Moment};

/// Results of one sweep that may wait on one host before nothing more of it starts there.
pub(in crate::queue) const MOST_WAITING: u32 = 16;
/// With less than this on the disk, one that waits is enough: the rest is for others.
const SPARED_BYTES: u64 = 2 << 30;

impl Queue {
    pub(super) fn results_wait(&mut self, at: Moment, host: &str, attempt: &Attempt, rank: u32) {
        let (Some(key), Some(host)) = (self.live_key(attempt), self.host_key(host)) else { return };
        let rank = rank as usize;
        let held = self.live.get(&key).and_then(|live| live.seats.get(rank));
        if !held.is_some_and(|seat| seat.host == host && seat.holds()) {
            return;
        }
        self.give_back(key, rank, at);
        let (Some(live), Some(sweep)) = (self.live.get_mut(&key), self.sweeps.get_mut(&key.0)) else { return };
        if let Some(seat) = live.seats.get_mut(rank) {
            seat.waits = true;
        }
        *sweep.unplaced.entry(host).or_default() += 1;
        if live.seats.iter().any(HeldSeat::holds) {
            return;
        }
        // What it was told for the sake of its desk's owner is done: nothing of it runs there.
        live.stopping = live.stopping.filter(|checkpoint_first| !checkpoint_first);
        let was = live.clone();
        // One that stood in line ran all the same, as soon as the program before it was over.
        live.since.get_or_insert(at);
        live.line = Line::default();
        sweep.heads.remove(&key.1);
        self.leave_line(key, &was, at);
    }

    /// What a process left is where it belongs, or never will be.
    pub(super) fn wait_no_more(&mut self, key: RunKey, rank: usize) {
        let (Some(live), Some(sweep)) = (self.live.get_mut(&key), self.sweeps.get_mut(&key.0)) else { return };
        let Some(seat) = live.seats.get_mut(rank).filter(|seat| seat.waits) else { return };
        seat.waits = false;
        if let Some(count) = sweep.unplaced.get_mut(&seat.host) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                sweep.unplaced.remove(&seat.host);
            }
        }
    }

    /// Whether this process of the attempt has a seat on the host.
    pub fn holds_seat(&self, attempt: &Attempt, rank: u32, host: &str) -> bool {
        let (Some(key), Some(host)) = (self.live_key(attempt), self.host_key(host)) else { return false };
        let seat = self.live.get(&key).and_then(|live| live.seats.get(rank as usize));
        seat.is_some_and(|seat| seat.host == host && seat.holds())
    }
}

impl SweepState {
    /// Whether so much of what it left waits on the host that nothing more of it starts there.
    pub fn is_kept_off(&self, key: u32, host: &HostState) -> bool {
        let waiting = self.unplaced.get(&key).copied().unwrap_or(0);
        let scarce = || host.facts.as_ref().is_some_and(|facts| facts.free_disk_bytes < SPARED_BYTES);
        waiting >= MOST_WAITING || (waiting > 0 && scarce())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::event::{Action, Event};
    use crate::queue::request::RunState;
    use crate::queue::testing::{BAD, Bench, OK, attempt_of, desk, facts, policy, starts, sweep};
    use crate::queue::why::why;
    use crate::queue::work::Ending;

    fn waits(bench: &mut Bench, attempt: &str, host: &str) {
        waits_rank(bench, attempt, host, 0);
    }

    fn waits_rank(bench: &mut Bench, attempt: &str, host: &str, rank: u32) {
        let (at, host, attempt) = (bench.now, host.into(), attempt_of(attempt));
        bench.apply(Event::ResultsWait { at, host, attempt, rank });
    }

    fn code(bench: &Bench, target: &str) -> String {
        why(&bench.queue, &target.parse().unwrap(), bench.now).swap_remove(0).code
    }

    fn seats(bench: &Bench) -> u32 {
        bench.queue.host_rows()[0].running
    }

    #[test]
    fn whose_program_is_over_holds_no_seat_and_is_not_started_again() {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.submit(sweep("s", "ann", 2, 1));
        bench.go();
        bench.submit(sweep("t", "bob", 1, 1));
        bench.now += 60_000;
        waits(&mut bench, "s:0.0#1", "b");
        waits(&mut bench, "s:0.0#2", "a");
        assert_eq!(bench.go(), [], "words that make no sense change nothing");
        waits(&mut bench, "s:0.0#1", "a");
        let once = bench.queue.clone();
        waits(&mut bench, "s:0.0#1", "a");
        assert_eq!((&bench.queue, seats(&bench)), (&once, 0));
        assert_eq!(bench.queue.state_of(&attempt_of("s:0.0#1").run), Some((RunState::Running, 1)));
        assert_eq!((code(&bench, "s:0.0"), code(&bench, "s")), ("results_wait".into(), "behind_others".into()));
        assert_eq!(bench.started(), [("t:0.0#1".into(), "a".into())], "the one who used less");
        bench.end("t:0.0#1", "a", OK);
        assert_eq!(bench.started(), [("s:1.0#1".into(), "a".into())], "its own sweep goes on, too");
        assert_eq!(bench.queue.assigned_on("a").len(), 2, "its host still has it");
        bench.end("s:0.0#1", "a", OK);
        bench.end("s:1.0#1", "a", OK);
        let row = bench.queue.sweep_row("s", bench.now).unwrap();
        assert_eq!((row.finished, seats(&bench)), (2, 0));
        assert!(bench.queue.users.iter().all(|user| user.held == 0));
        assert!(bench.queue.sweeps.values().all(|sweep| sweep.unplaced.is_empty()));
    }

    #[test]
    fn where_enough_results_wait_nothing_more_of_their_sweep_starts() {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.submit(sweep("s", "ann", 100, 1));
        for run in 0..MOST_WAITING {
            assert_eq!(bench.started().len(), 1);
            waits(&mut bench, &format!("s:{run}.0#1"), "a");
        }
        assert_eq!(bench.go(), []);
        let reason = why(&bench.queue, &"s:50".parse().unwrap(), bench.now).swap_remove(0);
        assert_eq!(reason.code, "results_wait");
        assert!(reason.reason.contains("16 on a"), "{}", reason.reason);
        // Of the same user, and wanting the same.
        bench.submit(sweep("t", "ann", 1, 1));
        assert_eq!(bench.started(), [("t:0.0#1".into(), "a".into())], "others go on");
        bench.end("t:0.0#1", "a", OK);
        bench.end("s:3.0#1", "a", OK);
        assert_eq!(bench.started(), [("s:16.0#1".into(), "a".into())]);
        waits(&mut bench, "s:16.0#1", "a");
        bench.host(policy("b"), facts(1, 0));
        assert_eq!(bench.started(), [("s:17.0#1".into(), "b".into())], "elsewhere it goes on");
        // On a disk with little room one is enough.
        bench.seen("b", crate::queue::host::HostFacts { free_disk_bytes: 1 << 30, ..facts(1, 0) });
        waits(&mut bench, "s:17.0#1", "b");
        assert_eq!(bench.go(), []);
        bench.apply(Event::HostLost { at: bench.now, name: "a".into(), why: "gone".into() });
        assert_eq!(bench.started().len(), 1, "what it had is lost, and starts again");
    }

    #[test]
    fn whoever_is_next_in_line_gets_the_seat() {
        let mut bench = Bench::with(&[("a", 1)]);
        bench.submit(sweep("s", "ann", 100, 1));
        for _ in 0..4 {
            let (attempt, host) = bench.started().swap_remove(0);
            bench.now += 50;
            bench.end(&attempt, &host, OK);
        }
        let line = starts(&bench.go());
        assert_eq!((line[0].0.as_str(), line.len()), ("s:4.0#1", 11));
        // One in the middle, which its host has begun before we hear that the first is over.
        waits(&mut bench, "s:6.0#1", "a");
        assert_eq!(bench.queue.live(&attempt_of("s:7.0#1")).unwrap().after, Some(attempt_of("s:5.0#1")));
        waits(&mut bench, "s:4.0#1", "a");
        assert_eq!(bench.queue.live(&attempt_of("s:5.0#1")).unwrap().after, None);
        let row = bench.queue.sweep_row("s", bench.now).unwrap();
        assert_eq!((row.running, row.waiting, seats(&bench)), (3, 100 - 4 - 3, 1));
        assert_eq!(bench.queue.state_of(&attempt_of("s:6.0#1").run).unwrap().0, RunState::Running);
        for run in 4..15 {
            bench.end(&format!("s:{run}.0#1"), "a", OK);
        }
        let row = bench.queue.sweep_row("s", bench.now).unwrap();
        assert_eq!((row.finished, row.running, seats(&bench)), (15, 0, 0));
        // Behind somebody without a seat nobody waits.
        bench.go();
        waits(&mut bench, "s:15.0#1", "a");
        let seat = crate::queue::event::Seat { host: "a".into(), devices: Vec::new(), meet: None };
        let (attempt, after) = (attempt_of("s:99.0#1"), Some(attempt_of("s:15.0#1")));
        bench.apply(Event::Assigned { at: bench.now, attempt: attempt.clone(), places: vec![seat], after });
        assert_eq!(bench.queue.live(&attempt).unwrap().after, None);
    }

    #[test]
    fn nobodys_desk_is_disturbed_by_it() {
        let mut bench = Bench::new();
        let away = crate::queue::host::HostFacts { idle_seconds: Some(1_000), ..facts(2, 0) };
        bench.host(desk("a", "bob"), away.clone());
        bench.submit(sweep("s", "ann", 2, 1));
        bench.go();
        waits(&mut bench, "s:0.0#1", "a");
        bench.seen("a", crate::queue::host::HostFacts { idle_seconds: Some(0), ..away });
        let actions = bench.go();
        assert!(matches!(&actions[..], [Action::Stop { attempt, .. }] if attempt.run.cell == 1), "{actions:?}");
        // It was told just before; then somebody asks, and that is told as well.
        waits(&mut bench, "s:1.0#1", "a");
        bench.apply(Event::StopAsked { at: 0, by: "ann".into(), target: "s".parse().unwrap() });
        assert_eq!(bench.go().len(), 2);
        bench.end("s:1.0#1", "a", Ending::NotPublished { why: "they are in attempts".into() });
        assert_eq!(code(&bench, "s:1.0"), "stopped");
        let reason = why(&bench.queue, &"s:1.0".parse().unwrap(), bench.now).swap_remove(0).reason;
        assert!(reason.contains("they are in attempts"), "{reason}");
    }

    #[test]
    fn a_gang_keeps_the_seats_of_those_that_still_run() {
        let mut bench = Bench::with(&[("a", 3)]);
        let mut gang = sweep("s", "ann", 1, 1);
        gang.wants.ranks = 2;
        bench.submit(gang);
        bench.go();
        waits_rank(&mut bench, "s:0.0#1", "a", 1);
        assert_eq!((seats(&bench), code(&bench, "s:0.0")), (1, "running".into()));
        assert!(!bench.queue.holds_seat(&attempt_of("s:0.0#1"), 1, "a"));
        assert!(bench.queue.holds_seat(&attempt_of("s:0.0#1"), 0, "a"));
        waits_rank(&mut bench, "s:0.0#1", "a", 0);
        assert_eq!((seats(&bench), code(&bench, "s:0.0")), (0, "results_wait".into()));
        bench.end_rank("s:0.0#1", "a", 1, OK, 0);
        assert_eq!(seats(&bench), 0);
        bench.end_rank("s:0.0#1", "a", 0, BAD, 0);
        assert_eq!((seats(&bench), code(&bench, "s:0.0")), (0, "failed".into()));
    }
}
