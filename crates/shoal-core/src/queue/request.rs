//! What do people ask of the daemon, and what does it answer?
//!
//! Framed as in `line`. One request, one answer; `Logs` and `Wait` answer with a stream of `Answer`s that ends with `Done`.

use super::event::Pausable;
use super::host::HostFacts;
use super::sweep::{Sweep, Value};
use super::work::Ending;
use super::{Moment, RunId, Target};
use serde::{Deserialize, Serialize};

/// Changes whenever the meaning of a request or an answer does (WIRE-1).
pub const REQUEST_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The first word on every connection.
    Hello {
        version: u32,
    },
    /// Answered by `Submitted` when it is durable (QUEUE-1).
    Submit {
        sweep: Box<Sweep>,
    },
    /// Which of these trees the store lacks.
    Lacks {
        digests: Vec<String>,
    },
    /// A piece (the body) of a packed tree; the last is answered by `Done` when it is durable.
    Tree {
        digest: String,
        at: u64,
        last: bool,
    },
    Sweeps {
        all: bool,
    },
    Runs {
        filter: Filter,
        from: u32,
        limit: u32,
    },
    Logs {
        run: RunId,
        attempt: Option<u32>,
        follow: bool,
        /// Which process of a gang.
        #[serde(default)]
        rank: u32,
    },
    /// Answered by `Sweeps` with that one whenever it has changed, at most five times a second, and by `Done` when nothing of it waits or runs.
    Wait {
        sweep: String,
    },
    /// Answered by `Counted`. `now`: without the sweep's grace; `grace_seconds`: with this one instead of it.
    Stop {
        target: Target,
        #[serde(default)]
        now: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_seconds: Option<u32>,
    },
    Retry {
        target: Target,
    },
    /// A sweep of which nothing lives, whatever waits: its name is free again, and results stay where they are. Answered by `Done`.
    Forget {
        sweep: String,
    },
    Pause {
        what: Pausable,
    },
    Resume {
        what: Pausable,
    },
    Drain {
        host: String,
    },
    Why {
        target: Target,
    },
    /// Every finished run of a sweep with its configuration and metrics, in pages.
    Results {
        sweep: String,
        from: u32,
        limit: u32,
    },
    Hosts,
    AddHosts {
        policies: Vec<super::host::HostPolicy>,
    },
    /// What runs there is lost if `lost`, else it has to be empty.
    RemoveHost {
        name: String,
        lost: bool,
    },
    /// Tokens: one for each user; shown once.
    AddToken {
        user: String,
        role: Role,
        days: Option<u32>,
    },
    RemoveToken {
        user: String,
    },
    Tokens,
    /// Ends the daemon; runs go on unless `stop_runs`.
    Shutdown {
        stop_runs: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Read,
    Submit,
    /// An agent that calls in.
    Host,
    Admin,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    pub target: Option<Target>,
    pub states: Vec<RunState>,
    pub owner: Option<String>,
    pub host: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Waiting,
    Running,
    Finished,
    Failed,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Hello {
        version: u32,
        store: String,
        user: String,
    },
    Submitted {
        sweep: String,
        cells: u32,
        new_cells: u32,
        waiting: u64,
        already_done: u64,
        /// Runs of these configurations that had failed or were stopped: they start again.
        #[serde(default)]
        failed: u64,
        #[serde(default)]
        stopped: u64,
        /// What is not as it was when earlier runs of it were done: their results are of something else.
        #[serde(default)]
        changed: Vec<String>,
        /// Copies of each configuration that the sweep has now; fewer than before are not taken back.
        #[serde(default)]
        reps: u32,
    },
    Lacks {
        digests: Vec<String>,
    },
    Sweeps {
        sweeps: Vec<SweepRow>,
    },
    Runs {
        runs: Vec<RunRow>,
        total: u64,
    },
    Why {
        reasons: Vec<WhyRow>,
    },
    Results {
        names: Vec<String>,
        rows: Vec<ResultRow>,
        total: u64,
    },
    Hosts {
        hosts: Vec<HostRow>,
    },
    /// A piece of output (the body).
    Log {
        attempt: u32,
    },
    Counted {
        runs: u64,
    },
    /// The secret, this once.
    Token {
        user: String,
        token: String,
    },
    Tokens {
        users: Vec<(String, Role, Option<Moment>)>,
    },
    Done,
    /// What failed, why, and what to do.
    Refused {
        why: String,
        hint: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    pub name: String,
    pub owner: String,
    pub submitted: Moment,
    pub cells: u32,
    pub reps: u32,
    pub waiting: u64,
    pub running: u64,
    pub finished: u64,
    pub failed: u64,
    pub stopped: u64,
    pub priority: i32,
    pub paused: bool,
    /// When it will be done, from measured runs.
    pub done_at: Option<Moment>,
    /// Said when nothing starts any more, and why.
    pub stuck: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub run: RunId,
    pub state: RunState,
    pub attempt: u32,
    pub hosts: Vec<String>,
    pub began: Option<Moment>,
    pub ended: Option<Moment>,
    pub ending: Option<Ending>,
    /// Only the parameters in which the sweep's configurations differ.
    pub differs: Vec<(String, Value)>,
    pub metrics: Vec<(String, String)>,
    /// What is wrong with it at the moment, while it is not over: its results wait, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// It was told to end, and has not yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopping: bool,
    /// While it runs: when it will probably be over, by what it says itself, else by what others of its sweep took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_at: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyRow {
    pub run: RunId,
    pub state: RunState,
    /// A sentence for people; `code` is for programs.
    pub reason: String,
    pub code: String,
    pub starts_at: Option<Moment>,
    /// It stays so until somebody does something about it: whoever waits for the run would wait for ever.
    #[serde(default)]
    pub forever: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    pub run: RunId,
    pub config: Vec<(String, Value)>,
    pub seconds: f64,
    pub host: String,
    pub metrics: Vec<(String, String)>,
    pub folder: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    pub name: String,
    pub connected: bool,
    pub paused: bool,
    pub drained: Option<String>,
    pub facts: Option<HostFacts>,
    pub running: u32,
    pub slots: u32,
    pub heard: Option<Moment>,
    /// Why it is not there, or what troubles it, in its own words or those of ssh.
    #[serde(default)]
    pub problem: Option<String>,
    /// The fleet's file says which environment runs find there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
    /// It is this part of a cluster (JSON of a [`crate::fleet::pool::Pool`]), and no machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}
