//! What do tests of the queue have in common? Small sweeps and hosts, made in a line.

use super::event::{Action, Event};
use super::host::{Gpu, HostFacts, HostPolicy, OwnerPolicy};
use super::plan::plan;
use super::state::Queue;
use super::sweep::{Axes, Command, Dimension, Pass, Provenance, Rules, SWEEP_VERSION, Sweep, Value, Wants};
use super::work::{Ended, Ending};
use super::{Attempt, Moment};
use std::collections::BTreeMap;

pub(crate) fn axis(name: &str, values: impl IntoIterator<Item = i64>) -> Dimension {
    let rows = values.into_iter().map(|value| vec![Some(Value::Int(value))]).collect();
    Dimension { names: vec![name.into()], rows }
}

pub(crate) fn grid(dimensions: Vec<Dimension>) -> Axes {
    Axes { fixed: BTreeMap::new(), dimensions, only: None }
}

pub(crate) fn sweep(name: &str, owner: &str, cells: u32, reps: u32) -> Sweep {
    Sweep {
        version: SWEEP_VERSION,
        name: name.into(),
        owner: owner.into(),
        parts: vec![grid(vec![axis("x", 0..i64::from(cells))])],
        reps,
        command: Command {
            argv: vec!["/bin/true".into()],
            env: BTreeMap::new(),
            pass: Pass::default(),
            trees: Vec::new(),
            folder: None,
            setup: Vec::new(),
            virtualenv: None,
            requirements: None,
        },
        wants: Wants::default(),
        rules: Rules::default(),
        after: Vec::new(),
        provenance: Provenance::default(),
    }
}

pub(crate) fn policy(name: &str) -> HostPolicy {
    HostPolicy {
        name: name.into(),
        groups: Vec::new(),
        slots: None,
        cpus: None,
        memory_bytes: None,
        owner: None,
        lost_after_seconds: 60,
        reach: None,
        address: None,
        jumped: false,
        environment: None,
    }
}

pub(crate) fn desk(name: &str, user: &str) -> HostPolicy {
    let owner = OwnerPolicy { user: user.into(), idle_seconds: 900, grace_seconds: 30 };
    HostPolicy { owner: Some(owner), ..policy(name) }
}

pub(crate) fn facts(cpus: u32, gpus: u32) -> HostFacts {
    let gpu = |k: u32| Gpu {
        uuid: format!("GPU-{k}"),
        pci: format!("0000:{k:02x}:00.0"),
        model: "fake".into(),
        memory_bytes: 16 << 30,
        foreign_bytes: 0,
        foreign_processes: 0,
    };
    HostFacts {
        boot: "1".into(),
        cpus,
        memory_bytes: 64 << 30,
        gpus: (0..gpus).map(gpu).collect(),
        load1: 0.0,
        free_disk_bytes: 1 << 40,
        idle_seconds: None,
        users: Vec::new(),
        address: None,
        caller: None,
        ports: Vec::new(),
        place: None,
    }
}

/// A queue and its clock.
pub(crate) struct Bench {
    pub queue: Queue,
    pub now: Moment,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { queue: Queue::new(), now: 1_000_000 }
    }

    /// Hosts of so many CPUs, by name.
    pub fn with(hosts: &[(&str, u32)]) -> Bench {
        let mut bench = Bench::new();
        hosts.iter().for_each(|(name, cpus)| bench.host(policy(name), facts(*cpus, 0)));
        bench
    }

    pub fn apply(&mut self, event: Event) {
        self.queue.apply(&event);
    }

    pub fn host(&mut self, policy: HostPolicy, facts: HostFacts) {
        let name = policy.name.clone();
        self.apply(Event::HostAdded { at: self.now, policy });
        self.seen(&name, facts);
    }

    pub fn seen(&mut self, name: &str, facts: HostFacts) {
        self.apply(Event::HostSeen { at: self.now, name: name.into(), facts: Box::new(facts) });
    }

    pub fn submit(&mut self, sweep: Sweep) {
        let event = super::state::top_up(&self.queue, &sweep, self.now).unwrap_or_else(|no| panic!("{}", no.why));
        self.apply(event);
    }

    pub fn plan(&self) -> Vec<Action> {
        plan(&self.queue, self.now)
    }

    /// Plans, and does what the daemon does with it.
    pub fn go(&mut self) -> Vec<Action> {
        let actions = self.plan();
        for action in &actions {
            self.apply(action.event(self.now));
        }
        actions
    }

    /// Attempts that start, and where.
    pub fn started(&mut self) -> Vec<(String, String)> {
        starts(&self.go())
    }

    pub fn end(&mut self, attempt: &str, host: &str, ending: Ending) {
        self.end_rank(attempt, host, 0, ending, 0);
    }

    pub fn end_rank(&mut self, attempt: &str, host: &str, rank: u32, ending: Ending, peak_gpu_bytes: u64) {
        let attempt = attempt_of(attempt);
        let began = self.queue.live(&attempt).map_or(self.now, |live| live.assigned);
        let ended = ended(attempt, rank, ending, began, self.now);
        let ended = Box::new(Ended { peak_gpu_bytes, ..ended });
        self.apply(Event::Ended { at: self.now, host: host.into(), ended });
    }
}

pub(crate) fn ended(attempt: Attempt, rank: u32, ending: Ending, began: Moment, ended: Moment) -> Ended {
    Ended {
        attempt,
        rank,
        ending,
        began,
        ended,
        cpu_ms: 0,
        peak_memory_bytes: 0,
        peak_gpu_bytes: 0,
        output_bytes: 0,
        metrics: Vec::new(),
        tail: String::new(),
        results: None,
    }
}

pub(crate) fn starts(actions: &[Action]) -> Vec<(String, String)> {
    let start = |action: &Action| match action {
        Action::Start { attempt, places, .. } => {
            let hosts: Vec<&str> = places.iter().map(|seat| seat.host.as_str()).collect();
            Some((attempt.to_string(), hosts.join(" ")))
        }
        _ => None,
    };
    actions.iter().filter_map(start).collect()
}

/// `a:1.0#2`.
pub(crate) fn attempt_of(text: &str) -> Attempt {
    let (run, number) = text.split_once('#').unwrap_or((text, "1"));
    let Ok(super::Target::Run(run)) = run.parse() else { panic!("`{run}` is no run") };
    Attempt { run, number: number.parse().unwrap_or(1) }
}

pub(crate) const OK: Ending = Ending::Exited(0);
pub(crate) const BAD: Ending = Ending::Exited(1);
