//! What do daemon and agent say to each other?
//!
//! A message is `u32` (little endian: bytes of JSON), `u32` (bytes of body), JSON, body. Both lengths are checked before anything
//! is allocated. The body carries pieces of logs and of source trees.

use super::host::HostFacts;
use super::work::{Ended, Start};
use super::{Attempt, Moment};
use serde::{Deserialize, Serialize};

/// Changes whenever the meaning of a message does (WIRE-1).
pub const LINE_VERSION: u32 = 3;
pub const JSON_LIMIT: usize = 4 << 20;
pub const BODY_LIMIT: usize = 1 << 20;

/// From the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHost {
    /// The first word. `store` names the daemon's store: an agent keeps a folder for each, and never mixes them.
    Hello {
        version: u32,
        store: String,
        host: String,
    },
    /// Idempotent: an attempt that the host knows already is not started again (QUEUE-2).
    Start {
        starts: Vec<Start>,
    },
    Stop {
        attempt: Attempt,
        checkpoint_first: bool,
        grace_seconds: u32,
    },
    /// Ends it as stopped if it has not begun; else it goes on, as if nothing had been said.
    TakeBack {
        attempt: Attempt,
    },
    /// These endings are in the journal; the host may forget them.
    Ended {
        attempts: Vec<Attempt>,
    },
    /// The same for processes of gangs, each by its rank: others of the attempt may still live on the host.
    EndedRanks {
        ended: Vec<(Attempt, u32)>,
    },
    /// A piece (the body) of a packed tree; `last` completes it and its digest is checked.
    Tree {
        digest: String,
        at: u64,
        last: bool,
    },
    /// The results are in the store, or will never be: the host may remove its copy, or keep it apart.
    Published {
        attempt: Attempt,
        problem: Option<String>,
        /// The problem may pass: they are to be sent again after a while.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        later: bool,
        /// Whose, of a gang: several of its processes may be on one host.
        #[serde(default, skip_serializing_if = "is_first")]
        rank: u32,
    },
    /// Output of an attempt from this byte on, and whatever comes if `follow`. `ask` comes back with every piece.
    Log {
        ask: u64,
        attempt: Attempt,
        from: u64,
        follow: bool,
        /// Which process of a gang.
        #[serde(default, skip_serializing_if = "is_first")]
        rank: u32,
    },
    CancelLog {
        ask: u64,
    },
    Ping,
    /// Nothing follows: the daemon ends, and nothing is left to run. A keeper without runs need not stay for the next daemon.
    Rest,
    /// End everything of this store on the host, then leave nothing behind.
    Leave {
        stop_runs: bool,
    },
}

/// From the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// The first word: what lives here, what has ended and was not acknowledged, which trees are here.
    Hello {
        version: u32,
        facts: Box<HostFacts>,
        alive: Vec<Attempt>,
        ended: Vec<Ended>,
        trees: Vec<String>,
        /// Ended as well; what is to be said of them comes behind this word.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        owed: Vec<Attempt>,
    },
    Began {
        attempt: Attempt,
        at: Moment,
    },
    Ended {
        ended: Vec<Ended>,
    },
    /// Their programs are over, and what they left waits for its place: they hold no seat. `Ended` comes when it is there.
    ResultsWait {
        waiting: Vec<(Attempt, u32)>,
    },
    Facts {
        facts: Box<HostFacts>,
    },
    /// It has to come before anything that needs it starts.
    NeedTree {
        digest: String,
    },
    HaveTree {
        digest: String,
    },
    /// A piece (the body, of a tar) of what a run leaves, for `Publish::Send`. `Ended` comes after `Published` was heard.
    Result {
        attempt: Attempt,
        at: u64,
        last: bool,
        /// Which process of a gang left it.
        #[serde(default, skip_serializing_if = "is_first")]
        rank: u32,
    },
    /// A piece of output (the body). `end`: nothing more will come.
    Log {
        ask: u64,
        from: u64,
        end: bool,
    },
    NoLog {
        ask: u64,
        why: String,
    },
    /// Numbers a live attempt printed last.
    Metrics {
        attempt: Attempt,
        metrics: Vec<(String, String)>,
    },
    /// Something is wrong that ends no attempt by itself: a full disk, a shared folder that is away. For people, and said again when it
    /// is over (`over`).
    Trouble {
        attempt: Option<Attempt>,
        what: String,
        #[serde(default)]
        over: bool,
    },
    Pong,
    Left,
}

fn is_first(rank: &u32) -> bool {
    *rank == 0
}
