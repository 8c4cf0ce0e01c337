//! What can happen to the queue? The journal is a list of these; the same list gives the same queue (CORE-2).

use super::host::{Held, HostFacts, HostPolicy};
use super::sweep::{Axes, Sweep};
use super::work::Ended;
use super::{Attempt, Moment, Target};
use serde::{Deserialize, Serialize};

/// Changes whenever the meaning of a field does (WIRE-1).
pub const EVENT_VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Submitted {
        at: Moment,
        sweep: Box<Sweep>,
    },
    /// The same name again: configurations that were not there, more reps, and what else may change later.
    ToppedUp {
        at: Moment,
        name: String,
        new: Vec<Axes>,
        reps: u32,
        like: Box<Sweep>,
    },
    /// Decided here, before the host is told (QUEUE-2). Rank k of a gang runs on `places[k]`.
    /// With `after`, it takes the seats of that one when it is over.
    Assigned {
        at: Moment,
        attempt: Attempt,
        places: Vec<Seat>,
        after: Option<Attempt>,
    },
    Began {
        at: Moment,
        attempt: Attempt,
    },
    Ended {
        at: Moment,
        host: String,
        ended: Box<Ended>,
    },
    /// The program of one process is over, and what it left waits for its place: it holds no seat any more, and is not over (QUEUE-2).
    ResultsWait {
        at: Moment,
        host: String,
        attempt: Attempt,
        rank: u32,
    },
    /// Somebody asked for it. Runs that wait are stopped at once; those that live are asked to end.
    StopAsked {
        at: Moment,
        by: String,
        target: Target,
    },
    /// A live attempt was told to end, so that it is not told again by every plan. Ends without success from here on are
    /// `Stopped`: for good if somebody asked for it, else the run waits again free of charge (the owner of the desk is back).
    Stopping {
        at: Moment,
        attempt: Attempt,
        checkpoint_first: bool,
        why: String,
    },
    /// Failed and stopped runs of it may start again.
    Retried {
        at: Moment,
        by: String,
        target: Target,
    },
    Paused {
        at: Moment,
        by: String,
        what: Pausable,
    },
    Resumed {
        at: Moment,
        by: String,
        what: Pausable,
    },
    HostAdded {
        at: Moment,
        policy: HostPolicy,
    },
    HostRemoved {
        at: Moment,
        name: String,
    },
    HostSeen {
        at: Moment,
        name: String,
        facts: Box<HostFacts>,
    },
    /// Nothing heard of it; what it runs goes on as far as we know.
    HostSilent {
        at: Moment,
        name: String,
    },
    /// Silent for longer than its policy bears, booted anew, or somebody said so: what it ran is lost and starts elsewhere.
    HostLost {
        at: Moment,
        name: String,
        why: String,
    },
    /// The owner is back, or it fails everything: takes no more, and why.
    HostDrained {
        at: Moment,
        name: String,
        why: String,
    },
    QuotaSet {
        at: Moment,
        user: String,
        slots: Option<u32>,
    },
    /// Forget a complete sweep; results stay.
    Forgotten {
        at: Moment,
        name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    pub host: String,
    pub devices: Vec<Held>,
    /// Of the first seat of a gang: where all of it meets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meet: Option<Meet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meet {
    pub address: String,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pausable {
    Sweep(String),
    Host(String),
}

/// What the daemon has to do now. Each becomes an event in the journal before anything is done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Journal as `Assigned`, then tell the hosts.
    Start { attempt: Attempt, places: Vec<Seat>, after: Option<Attempt> },
    /// Ask a live attempt to end: a checkpoint signal first if the owner of the desk is back. Journal as `Stopping`.
    Stop { attempt: Attempt, checkpoint_first: bool, why: String },
    /// Journal as `HostDrained`.
    Drain { host: String, why: String },
}

impl Action {
    /// What goes into the journal before it is done.
    pub fn event(&self, at: Moment) -> Event {
        match self.clone() {
            Action::Start { attempt, places, after } => Event::Assigned { at, attempt, places, after },
            Action::Stop { attempt, checkpoint_first, why } => Event::Stopping { at, attempt, checkpoint_first, why },
            Action::Drain { host, why } => Event::HostDrained { at, name: host, why },
        }
    }
}
