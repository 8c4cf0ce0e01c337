//! `kill -9` at random points of agent and keeper: no run is lost, and none runs twice (QUEUE-2). Each run appends to a ledger, and the
//! ledger is compared with what was told.
//!
//! `SHOAL_ROUNDS` says how often; a few by default.

mod queue_host;

use queue_host::*;
use shoal_core::queue::Attempt;
use shoal_core::queue::work::{Ended, Ending, Start};
use shoal_testkit::{Again, Dice, Ledger, figures, rounds, spread};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Agent,
    Keeper,
    Both,
}

/// What a daemon does: gives out attempts in chains, gives them out again when the host does not know them, and tries what was lost again.
struct Daemon {
    place: Place,
    /// Given out and not ended.
    assigned: BTreeMap<Attempt, Start>,
    ended: BTreeMap<Attempt, Ended>,
    /// What was sent here, by attempt.
    sent: BTreeMap<Attempt, Vec<u8>>,
    ledger: Ledger,
    keeper_lives: bool,
    dice: Dice,
}

impl Daemon {
    fn new(seed: u64, keeper_lives: bool) -> Daemon {
        let place = Place::new();
        let ledger = Ledger::at(place.base.join("ledger"));
        let (assigned, ended, sent) = Default::default();
        Daemon { place, assigned, ended, sent, ledger, keeper_lives, dice: Dice::new(seed) }
    }

    fn start_of(&mut self, attempt: Attempt, after: Option<Attempt>) -> Start {
        // Some end at once, some take a moment, some leave somebody behind, some print, some leave results.
        let middle = match self.dice.below(6) {
            0 => "sleep 0.03".to_string(),
            1 => "sleep 0.3 & setsid sleep 0.05".into(),
            2 => "echo printed; echo more >&2".into(),
            3 => "echo result > result.txt".into(),
            _ => ":".into(),
        };
        let mut start = sh(attempt.run.cell, &self.ledger.around(&middle));
        start.env.push(("SHOAL_ATTEMPT".into(), attempt.number.to_string()));
        // Some put their results into the shared folder, some send them here.
        if self.dice.below(2) == 0 {
            start.publish = self.place.results(attempt.run.cell);
        }
        start.attempt = attempt;
        start.after = after;
        start
    }

    fn assign(&mut self, line: &mut Line, cells: impl Iterator<Item = u32>) {
        let mut last: [Option<Attempt>; 2] = [None, None];
        let mut starts = Vec::new();
        for cell in cells {
            let seat = (cell % 2) as usize;
            let start = self.start_of(attempt(cell, 1), last[seat].take());
            last[seat] = Some(start.attempt.clone());
            self.assigned.insert(start.attempt.clone(), start.clone());
            starts.push(start);
        }
        line.start(starts);
    }

    /// What was told on a line; lost ones are given out again as new attempts.
    fn hear(&mut self, line: &mut Line) {
        self.sent.extend(line.results.iter().map(|((attempt, _), tar)| (attempt.clone(), tar.clone())));
        for ended in line.ended.values() {
            let known = self.ended.get(&ended.attempt);
            // A keeper that is killed may have forgotten that an end was acknowledged, and nothing of its run is left.
            let same = known.is_none_or(|known| known == ended) || !self.keeper_lives;
            assert!(same, "told again, and differently: {known:?} {ended:?}");
        }
        let new: Vec<Ended> = line.ended.values().filter(|e| !self.ended.contains_key(&e.attempt)).cloned().collect();
        let mut again = Vec::new();
        for ended in new {
            self.assigned.remove(&ended.attempt);
            if matches!(ended.ending, Ending::Lost { .. }) {
                let next = attempt(ended.attempt.run.cell, ended.attempt.number + 1);
                let start = self.start_of(next, None);
                self.assigned.insert(start.attempt.clone(), start.clone());
                again.push(start);
            }
            self.ended.insert(ended.attempt.clone(), ended);
        }
        if !again.is_empty() {
            line.start(again);
        }
    }

    fn open(&mut self) -> Line {
        let mut line = until("an agent", || Line::try_open(&self.place));
        self.hear(&mut line);
        let alive: BTreeSet<&Attempt> = line.alive.iter().collect();
        let missing: Vec<Start> =
            self.assigned.iter().filter(|(a, _)| !alive.contains(a)).map(|(_, s)| s.clone()).collect();
        if !missing.is_empty() {
            line.start(missing);
        }
        line
    }

    fn strike(&mut self, line: Line, victim: Victim) -> Option<Line> {
        if victim != Victim::Agent
            && let Some(keeper) = self.place.keeper()
        {
            kill(keeper, libc::SIGKILL);
        }
        if victim == Victim::Keeper {
            return Some(line);
        }
        let mut line = line;
        self.hear(&mut line);
        line.kill_agent();
        None
    }

    /// How many were asked for.
    fn check(&self, cells: u32, again: Again) -> usize {
        let runs = (0..cells).map(|cell| attempt(cell, 1).run);
        let count = self.ledger.check(runs, again).unwrap();
        for cell in 0..cells {
            let attempts: Vec<&Ended> = self.ended.values().filter(|e| e.attempt.run.cell == cell).collect();
            let good: Vec<&&Ended> = attempts.iter().filter(|e| e.ending.success()).collect();
            assert_eq!(good.len(), 1, "{cell} has to succeed once: {attempts:?}");
            assert!(
                attempts.iter().all(|e| e.ending.success() || matches!(e.ending, Ending::Lost { .. })),
                "{attempts:?}"
            );
            assert!(again != Again::Never || attempts.len() == 1, "{cell} was lost: {attempts:?}");
            let folder = self.place.base.join(format!("results/s/runs/param_{cell:03}/t_num0"));
            match good[0].results.as_deref() {
                None => assert!(!folder.exists() && !self.sent.contains_key(&good[0].attempt), "{cell}: absent"),
                Some(to) if to.starts_with('/') => {
                    assert_eq!(fs::read_to_string(folder.join("result.txt")).unwrap(), "result\n", "{cell}: complete");
                }
                Some(_) => assert!(is_whole(&self.sent[&good[0].attempt]), "{cell}: complete"),
            }
        }
        count.runs
    }
}

fn is_whole(tar: &[u8]) -> bool {
    let mut archive = tar::Archive::new(tar);
    let names = archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string());
    names.collect::<BTreeSet<_>>() == BTreeSet::from(["result.txt".to_string(), "run.json".to_string()])
}

fn play(seed: u64, victims: &[Victim], strikes: u64) -> usize {
    const CELLS: u32 = 60;
    let again = if victims.iter().all(|v| *v == Victim::Agent) { Again::Never } else { Again::Perhaps };
    let mut daemon = Daemon::new(seed, again == Again::Never);
    let mut line = daemon.open();
    daemon.assign(&mut line, 0..CELLS);
    let mut line = Some(line);
    let end = Instant::now() + BOUND;
    let mut struck = 0;
    while !daemon.assigned.is_empty() {
        assert!(Instant::now() < end, "{:?} never end", daemon.assigned.keys());
        let mut open = line.take().unwrap_or_else(|| daemon.open());
        let pause = Instant::now() + Duration::from_micros(daemon.dice.below(60_000));
        while Instant::now() < pause {
            if open.next(Duration::from_millis(1)).is_none() {
                break;
            }
        }
        daemon.hear(&mut open);
        if struck < strikes {
            struck += 1;
            let victim = victims[daemon.dice.below(victims.len() as u64) as usize];
            line = daemon.strike(open, victim);
        } else if open.next(Duration::from_millis(50)).is_some() {
            line = Some(open);
        }
    }
    drop(line);
    let runs = daemon.check(CELLS, again);
    until("nothing to be left", || daemon.place.left().is_empty().then_some(()));
    runs
}

fn play_often(kind: &str, seed: u64, rounds: u64, victims: &[Victim], strikes: u64) {
    let runs = (0..rounds).map(|round| play(seed + round, victims, strikes)).sum();
    figures(kind, rounds, runs, &format!(" | {strikes} strikes a round"));
}

#[test]
fn agents_are_killed() {
    play_often("agent of a host killed", 1000, rounds(6), &[Victim::Agent], 8);
}

#[test]
fn keepers_are_killed() {
    play_often("keeper of a host killed", 2000, rounds(4), &[Victim::Keeper], 4);
}

#[test]
fn both_are_killed() {
    play_often("agent and keeper of a host killed", 3000, rounds(4), &[Victim::Agent, Victim::Keeper, Victim::Both], 6);
}

#[test]
fn live_runs_outlive_their_agent_and_are_adopted() {
    let place = Place::new();
    let mut line = Line::open(&place);
    let go = place.base.join("go");
    line.start(vec![sh(0, &format!("echo begun; while [ ! -e {} ]; do sleep 0.01; done; exit 9", go.display()))]);
    line.wait_alive(&attempt(0, 1));
    line.kill_agent();
    let began = Instant::now();
    let mut line = Line::open(&place);
    assert_eq!(line.alive, [attempt(0, 1)]);
    figures("agent killed once", 1, 1, &spread("adopted", vec![began.elapsed()]));
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"begun\n");
    fs::write(&go, "").unwrap();
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(9));
    // Not acknowledged: whoever comes next is told, also after the keeper was killed and has read its records.
    let mut line = line;
    line.acknowledges = false;
    assert_eq!(line.run(sh(1, "exit 4")).ending, Ending::Exited(4));
    kill(place.keeper().unwrap(), libc::SIGKILL);
    drop(line);
    let line = Line::open(&place);
    assert_eq!(line.first_ended.iter().map(|e| &e.ending).collect::<Vec<_>>(), [&Ending::Exited(4)]);
    assert_eq!(line.first_ended[0].attempt, attempt(1, 1));
}

#[test]
fn a_second_agent_takes_over() {
    let place = Place::new();
    let mut first = Line::open(&place);
    let mut second = Line::open(&place);
    assert_eq!(second.run(argv(0, &["true"])).ending, Ending::Exited(0));
    assert_eq!(first.next(Duration::from_secs(10)).flatten(), None);
    assert!(first.agent.wait().unwrap().success(), "it was asked, and left");
}

#[test]
fn half_a_line_at_the_end_of_the_records_is_no_line() {
    use std::io::Write;
    let place = Place::new();
    let mut line = Line::open(&place);
    line.acknowledges = false;
    assert_eq!(line.run(sh(0, "echo kept; exit 3")).ending, Ending::Exited(3));
    line.start(vec![sh(1, "sleep 1000")]);
    line.wait_alive(&attempt(1, 1));
    kill(place.keeper().unwrap(), libc::SIGKILL);
    line.kill_agent();
    let records = place.store().join("records");
    let mut file = fs::OpenOptions::new().append(true).open(&records).unwrap();
    file.write_all(b"{\"ended\":{\"name\":\"s_1.0_1\",\"note\":\"\",\"endi").unwrap();
    let mut line = Line::open(&place);
    assert_eq!(line.end_of(&attempt(0, 1)).ending, Ending::Exited(3));
    assert!(matches!(line.end_of(&attempt(1, 1)).ending, Ending::Lost { .. }));
    assert_eq!(place.left(), Vec::<u32>::new());
    assert_eq!(line.log(1, &attempt(0, 1), 0, false).unwrap(), b"kept\n");
}
