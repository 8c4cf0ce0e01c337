//! What would a fleet do? Hosts that run, fail, vanish and come back, and a daemon that only passes words on. Checks, at
//! every step and without asking the code that decides, what must never be.

use super::plan;
use crate::queue::event::{Action, Event, Pausable, Seat};
use crate::queue::host::{HostFacts, HostPolicy};
use crate::queue::state::{Queue, top_up};
use crate::queue::sweep::Sweep;
use crate::queue::testing::ended;
use crate::queue::work::{Ended, Ending};
use crate::queue::{Attempt, Moment, RunId, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The same numbers for the same seed.
pub(super) struct Dice(u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone)]
struct Process {
    attempt: Attempt,
    rank: u32,
    seat: Seat,
    after: Option<Attempt>,
    began: Option<Moment>,
    ends: Moment,
    ending: Ending,
    /// What it leaves waits this long for its place.
    waits: u64,
}

struct Machine {
    policy: HostPolicy,
    facts: HostFacts,
    connected: bool,
    processes: Vec<Process>,
    /// Their results wait for their place, until then.
    unplaced: Vec<(Ended, Moment)>,
    /// Told again and again until they are acknowledged.
    over: Vec<Ended>,
    /// Every attempt it ever heard of: none is started twice.
    known: BTreeSet<(Attempt, u32)>,
}

pub(super) struct Simulator {
    pub queue: Queue,
    pub journal: Vec<Event>,
    pub now: Moment,
    pub dice: Dice,
    machines: BTreeMap<String, Machine>,
    /// How often each run was recorded as finished.
    pub finished: BTreeMap<RunId, u32>,
    /// Attempts that live, by the journal alone.
    alive: BTreeMap<RunId, (u32, usize)>,
    /// How long a run takes, by sweep, and how many of a hundred fail.
    pub takes: BTreeMap<String, (u64, u64)>,
    stopped: BTreeSet<Attempt>,
    pub most_in_line: u32,
}

impl Simulator {
    pub fn new(seed: u64) -> Simulator {
        Simulator {
            queue: Queue::new(),
            journal: Vec::new(),
            now: 1_700_000_000_000,
            dice: Dice(seed),
            machines: BTreeMap::new(),
            finished: BTreeMap::new(),
            alive: BTreeMap::new(),
            takes: BTreeMap::new(),
            stopped: BTreeSet::new(),
            most_in_line: 0,
        }
    }

    pub fn add(&mut self, policy: HostPolicy, facts: HostFacts) {
        let name = policy.name.clone();
        self.event(Event::HostAdded { at: self.now, policy: policy.clone() });
        self.event(Event::HostSeen { at: self.now, name: name.clone(), facts: Box::new(facts.clone()) });
        let (processes, unplaced, over, known) = (Vec::new(), Vec::new(), Vec::new(), BTreeSet::new());
        let machine = Machine { policy, facts, connected: true, processes, unplaced, over, known };
        self.machines.insert(name, machine);
    }

    pub fn submit(&mut self, sweep: &Sweep) {
        if let Ok(event) = top_up(&self.queue, sweep, self.now) {
            self.event(event);
        }
        self.plan();
    }

    pub fn event(&mut self, event: Event) {
        self.queue.apply(&event);
        self.journal.push(event);
    }

    /// As often as there is something to do; and that comes to an end.
    fn plan(&mut self) {
        for _ in 0..20 {
            let actions = plan(&self.queue, self.now);
            if actions.is_empty() {
                return self.check();
            }
            self.act(actions);
        }
        panic!("plans do not come to an end");
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            let event = action.event(self.now);
            match &action {
                Action::Start { attempt, places, .. } => {
                    let before = self.alive.insert(attempt.run.clone(), (attempt.number, places.len()));
                    assert_eq!(before, None, "{attempt} starts while another attempt lives");
                    for seat in places {
                        assert!(self.machines[&seat.host].connected, "{} is not there", seat.host);
                    }
                }
                Action::Stop { attempt, .. } => {
                    assert!(self.stopped.insert(attempt.clone()), "{attempt} is told twice")
                }
                Action::Drain { .. } => {}
            }
            self.event(event);
            self.tell(&action);
        }
        self.check();
    }

    fn tell(&mut self, action: &Action) {
        match action {
            Action::Start { attempt, places, after } => {
                for (rank, seat) in places.iter().enumerate() {
                    self.start(attempt, rank as u32, seat, after.clone());
                }
            }
            Action::Stop { attempt, .. } => {
                let names: Vec<String> = self.machines.keys().cloned().collect();
                names.iter().for_each(|name| self.stop_on(name, attempt));
            }
            Action::Drain { .. } => {}
        }
    }

    fn start(&mut self, attempt: &Attempt, rank: u32, seat: &Seat, after: Option<Attempt>) {
        let (takes, fails) = self.takes.get(&attempt.run.sweep).copied().unwrap_or((1_000, 0));
        let takes = 1 + self.dice.below(takes * 2);
        let ending = match self.dice.below(100) {
            n if n < fails => Ending::Exited(1),
            n if n == fails && fails > 0 => Ending::NotPublished { why: "full".into() },
            _ => Ending::Exited(0),
        };
        let waits = if self.dice.one_in(8) { self.dice.below(3_000) } else { 0 };
        let Some(machine) = self.machines.get_mut(&seat.host).filter(|machine| machine.connected) else { return };
        if machine.known.insert((attempt.clone(), rank)) {
            let seat = seat.clone();
            machine.processes.push(Process {
                attempt: attempt.clone(),
                rank,
                seat,
                after,
                began: None,
                ends: takes,
                ending,
                waits,
            });
            self.run_on(&self.machines.keys().cloned().collect::<Vec<_>>());
        }
    }

    /// What a keeper does: those whose turn it is begin, those whose time is over end.
    fn run_on(&mut self, names: &[String]) {
        for name in names {
            let now = self.now;
            let Some(machine) = self.machines.get_mut(name) else { continue };
            loop {
                let here: BTreeSet<Attempt> = machine.processes.iter().map(|process| process.attempt.clone()).collect();
                let mut changed = false;
                for process in machine.processes.iter_mut().filter(|process| process.began.is_none()) {
                    if process.after.as_ref().is_none_or(|after| !here.contains(after)) {
                        process.began = Some(now);
                        process.ends += now;
                        changed = true;
                    }
                }
                let (over, still): (Vec<Process>, Vec<Process>) = std::mem::take(&mut machine.processes)
                    .into_iter()
                    .partition(|process| process.began.is_some() && process.ends <= now);
                machine.processes = still;
                changed |= !over.is_empty();
                for process in over {
                    let (waits, began) = (process.waits, process.began.unwrap_or(now));
                    let end = ended(process.attempt, process.rank, process.ending, began, process.ends.max(began));
                    match waits > 0 && end.ending.success() {
                        true => machine.unplaced.push((end, now + waits)),
                        false => machine.over.push(end),
                    }
                }
                if !changed {
                    break;
                }
            }
            let (placed, still) = std::mem::take(&mut machine.unplaced).into_iter().partition(|(_, at)| *at <= now);
            machine.unplaced = still;
            let placed: Vec<(Ended, Moment)> = placed;
            machine.over.extend(placed.into_iter().map(|(end, _)| end));
        }
    }

    fn stop_on(&mut self, name: &str, attempt: &Attempt) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(name).filter(|machine| machine.connected) else { return };
        let mut taken_back = Vec::new();
        // Nobody wants what it left any more.
        machine.unplaced.retain(|(end, _)| {
            let given_up = end.attempt == *attempt;
            if given_up {
                let ending = Ending::NotPublished { why: "stopped".into() };
                machine.over.push(Ended { ending, ..end.clone() });
            }
            !given_up
        });
        for process in machine.processes.iter_mut().filter(|process| process.attempt == *attempt) {
            process.ending = Ending::Stopped;
            match process.began {
                Some(_) => process.ends = process.ends.min(now + 5),
                None => taken_back.push(process.clone()),
            }
        }
        for process in taken_back {
            machine.processes.retain(|other| other.attempt != process.attempt);
            for other in machine.processes.iter_mut().filter(|other| other.after.as_ref() == Some(&process.attempt)) {
                other.after = process.after.clone();
            }
            machine.over.push(ended(process.attempt, process.rank, Ending::Stopped, now, now));
        }
    }

    /// Time passes, and everybody says what they have to say.
    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
        let names: Vec<String> = self.machines.keys().cloned().collect();
        self.run_on(&names);
        for name in &names {
            self.listen(name);
        }
        let (queue, now) = (&self.queue, self.now);
        let silence = |name: &str| Duration::from_millis(now.saturating_sub(queue.silent_since(name).unwrap_or(now)));
        for event in super::silent::lost(queue, now, silence) {
            self.lose(&event);
            self.event(event);
        }
        self.plan();
    }

    fn listen(&mut self, name: &str) {
        let Some(machine) = self.machines.get_mut(name).filter(|machine| machine.connected) else { return };
        let unplaced: Vec<(Attempt, u32)> =
            machine.unplaced.iter().map(|(end, _)| (end.attempt.clone(), end.rank)).collect();
        let mut over = std::mem::take(&mut machine.over);
        // Said again and again; the daemon writes it down once.
        for (attempt, rank) in unplaced {
            if self.queue.holds_seat(&attempt, rank, name) || self.dice.one_in(5) {
                self.event(Event::ResultsWait { at: self.now, host: name.into(), attempt, rank });
            }
        }
        // Words arrive in any order, and sometimes twice.
        if over.len() > 1 && self.dice.one_in(3) {
            let at = self.dice.below(over.len() as u64) as usize;
            over.rotate_left(at);
        }
        for ended in over {
            let twice = self.dice.one_in(5);
            self.record(name, &ended);
            if twice {
                self.record(name, &ended);
            }
        }
    }

    fn record(&mut self, name: &str, ended: &Ended) {
        let counts = self.queue.is_live_on(&ended.attempt, name);
        let before = self.queue.state_of(&ended.attempt.run);
        self.event(Event::Ended { at: self.now, host: name.into(), ended: Box::new(ended.clone()) });
        if self.queue.live(&ended.attempt).is_none() && counts {
            self.alive.remove(&ended.attempt.run);
            use crate::queue::request::RunState::Finished;
            if self.queue.state_of(&ended.attempt.run).is_some_and(|(state, _)| state == Finished) {
                assert!(before.is_some_and(|(state, _)| state != Finished));
                *self.finished.entry(ended.attempt.run.clone()).or_default() += 1;
            }
        }
    }

    fn lose(&mut self, event: &Event) {
        let Event::HostLost { name, .. } = event else { return };
        let mut queue = self.queue.clone();
        queue.apply(event);
        let gone: Vec<RunId> = self
            .queue
            .assigned_on(name)
            .into_iter()
            .filter(|(one, _)| queue.live(one).is_none())
            .map(|(one, _)| one.run)
            .collect();
        for run in gone {
            self.alive.remove(&run);
        }
    }

    pub fn vanish(&mut self, name: &str) {
        let Some(machine) = self.machines.get_mut(name).filter(|machine| machine.connected) else { return };
        machine.connected = false;
        self.event(Event::HostSilent { at: self.now, name: name.into() });
        self.plan();
    }

    /// It comes back: with what it ran, or booted anew and with nothing.
    pub fn come_back(&mut self, name: &str, booted: bool) {
        let Some(machine) = self.machines.get_mut(name).filter(|machine| !machine.connected) else { return };
        machine.connected = true;
        let now = self.now;
        if booted {
            let gone = std::mem::take(&mut machine.processes);
            let lost = Ending::lost("booted");
            machine.over.extend(
                gone.into_iter().map(|process| {
                    ended(process.attempt, process.rank, lost.clone(), process.began.unwrap_or(now), now)
                }),
            );
            let gone = std::mem::take(&mut machine.unplaced);
            machine.over.extend(gone.into_iter().map(|(end, _)| Ended { ending: lost.clone(), ..end }));
        }
        let alive = machine.processes.iter().map(|process| &process.attempt);
        let alive: Vec<Attempt> = alive.chain(machine.unplaced.iter().map(|(end, _)| &end.attempt)).cloned().collect();
        let facts = Box::new(machine.facts.clone());
        self.listen(name);
        for attempt in alive {
            if !self.queue.is_live_on(&attempt, name) {
                self.stop_on(name, &attempt);
            }
        }
        self.event(Event::HostSeen { at: now, name: name.into(), facts });
        for (attempt, rank) in self.queue.assigned_on(name) {
            let Some(live) = self.queue.live(&attempt) else { continue };
            self.start(&attempt, rank, &live.places[rank as usize], live.after);
        }
        for (attempt, _) in self.queue.stopping_on(name) {
            self.stop_on(name, &attempt);
        }
        self.plan();
    }

    pub fn change_facts(&mut self, name: &str, change: impl FnOnce(&mut HostFacts)) {
        let Some(machine) = self.machines.get_mut(name) else { return };
        change(&mut machine.facts);
        if machine.connected {
            let facts = Box::new(machine.facts.clone());
            self.event(Event::HostSeen { at: self.now, name: name.into(), facts });
            self.plan();
        }
    }

    pub fn ask(&mut self, target: Target, stop: bool) {
        let (at, by) = (self.now, "ann".to_string());
        self.event(if stop { Event::StopAsked { at, by, target } } else { Event::Retried { at, by, target } });
        self.plan();
    }

    pub fn pause(&mut self, what: Pausable, pause: bool) {
        let (at, by) = (self.now, "ann".to_string());
        self.event(if pause { Event::Paused { at, by, what } } else { Event::Resumed { at, by, what } });
        self.plan();
    }

    pub fn quota(&mut self, user: &str, slots: Option<u32>) {
        self.event(Event::QuotaSet { at: self.now, user: user.into(), slots });
        self.plan();
    }

    /// PLAN-2, on the machines themselves: nothing is over what there is.
    fn check(&mut self) {
        for machine in self.machines.values().filter(|machine| machine.connected) {
            let name = &machine.policy.name;
            let ours = machine.processes.iter().filter(|process| self.queue.is_live_on(&process.attempt, name));
            let running: Vec<&Process> = ours.clone().filter(|process| process.began.is_some()).collect();
            let waiting = ours.count() - running.len();
            self.most_in_line = self.most_in_line.max(waiting as u32);
            let wants =
                |process: &Process| self.queue.sweep(&process.attempt.run.sweep).map(|sweep| sweep.wants.clone());
            let cpus: u64 =
                running.iter().filter_map(|process| wants(process)).map(|wants| u64::from(wants.cpus_milli)).sum();
            assert!(cpus <= u64::from(machine.facts.cpus) * 1000, "{name} has {cpus}");
            if let Some(slots) = machine.policy.slots {
                assert!(running.len() <= slots as usize, "{name} runs {}", running.len());
            }
            let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
            for held in running.iter().flat_map(|process| &process.seat.devices) {
                *devices.entry(&held.uuid).or_default() += held.milli;
            }
            assert!(devices.values().all(|milli| *milli <= 1000), "{name}: {devices:?}");
        }
    }

    /// Whether anything can still happen without somebody's help.
    pub fn is_quiet(&self) -> bool {
        let idle =
            |machine: &Machine| machine.processes.is_empty() && machine.unplaced.is_empty() && machine.over.is_empty();
        self.machines.values().all(idle) && self.queue.wake_at().is_none()
    }
}
