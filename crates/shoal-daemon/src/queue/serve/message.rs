//! What reaches the daemon's loop? Everything that changes or reads the queue comes through one bounded inbox.

use super::line::Outbox;
use crate::queue::door::Caller;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::FromHost;
use shoal_core::queue::request::{Answer, Request, SweepRow};
use shoal_core::queue::work::{Ended, Origin};
use shoal_core::queue::{Attempt, RunId};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Messages that wait for the loop, at most; who has more to say waits.
pub const INBOX: usize = 4096;

/// Where an answer goes: one, or for `Find` and `Look` a value.
pub type Reply<T> = SyncSender<T>;

pub enum Message {
    Asked {
        by: Caller,
        request: Box<Request>,
        reply: Reply<Answer>,
    },
    /// Which host has the output of this run, for whoever reads it.
    FindLog {
        run: RunId,
        attempt: Option<u32>,
        rank: u32,
        reply: Reply<Result<LogPlace, Answer>>,
    },
    /// How a sweep is doing, and whether nothing of it waits or runs; nothing if there is no such sweep.
    Look {
        sweep: String,
        reply: Reply<Option<(SweepRow, bool)>>,
    },
    Up(Box<Up>),
    Said {
        host: String,
        line: u64,
        message: FromHost,
    },
    Down {
        host: String,
        line: u64,
        why: String,
    },
    /// No line could be opened.
    Unreachable {
        host: String,
        why: String,
    },
    /// Where the results of an attempt go that this host sends; nothing if it should not have it.
    PublishTo {
        host: String,
        attempt: Attempt,
        rank: u32,
        reply: Reply<Option<PublishTo>>,
    },
    /// The store has no room for what hosts send.
    Full {
        why: String,
    },
    Signal(i32),
}

/// A host's agent has said hello.
pub struct Up {
    pub host: String,
    pub line: u64,
    pub outbox: Arc<Outbox>,
    pub facts: Box<HostFacts>,
    pub alive: Vec<Attempt>,
    pub ended: Vec<Ended>,
    /// Their ends come behind hello.
    pub owed: Vec<Attempt>,
}

pub struct LogPlace {
    pub attempt: Attempt,
    pub host: String,
    /// Nothing while the host is away.
    pub line: Option<(u64, Arc<Outbox>)>,
    /// The last lines of one that failed, as the journal has them.
    pub tail: String,
    /// It has not ended yet.
    pub live: bool,
}

pub struct PublishTo {
    /// Below the store's results.
    pub name: String,
    /// Files beside it, which belong to all runs of the configuration.
    pub beside: Vec<(String, String)>,
    /// Whose difference to a commit lies beside all of them.
    pub origin: Option<Origin>,
}
