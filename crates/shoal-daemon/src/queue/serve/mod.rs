//! The daemon: from messages to events to what hosts are told.
//!
//! ```text
//!  doors (a thread each connection) ──┐                 ┌── journal (one commit a turn)
//!  lines (two threads each host)    ──┼─ bounded inbox ─┤
//!  signals                          ──┘    the loop     └── outboxes of hosts, answers
//! ```
//!
//! | file | question |
//! |---|---|
//! | `options`, `lock`, `clock`, `log` | how it is to be, who serves the store, what time it is, what it says |
//! | `message`, `turn` | what reaches the loop, and what a turn of it is made of |
//! | `daemon` | the loop |
//! | `ask/` | what requests change and show |
//! | `hosts`, `plan` | what changes when hosts come, speak and go; how decisions become orders |
//! | `live`, `troubles` | what is known of live runs beside the journal; what is wrong on hosts |
//! | `twins` | what if one machine is there under two names |
//! | `full` | what if nothing can be written |
//! | `settings` | what holds for the queue as a whole |
//! | `leave` | when it ends |
//! | `line/`, `reach`, `here` | the lines to hosts |
//! | `logs`, `results` | output and results on their way |

mod ask;
mod clock;
mod daemon;
mod full;
mod here;
mod hosts;
mod leave;
pub(super) mod line;
mod live;
mod lock;
mod log;
pub(super) mod logs;
pub(super) mod message;
mod options;
mod plan;
pub(super) mod reach;
mod results;
mod settings;
pub(super) mod shared;
mod troubles;
pub(super) mod turn;
mod twins;

pub use here::Here;
pub use lock::{Ended, Holder, holder, last_holder};
pub use options::{Options, this_machine};
pub use reach::{LineStream, NoReach, Reacher};

use super::door::{Caller, Tokens, tcp, unix};
use super::journal::Journal;
use super::trees::Trees;
use crate::signals;
use clock::Clock;
use daemon::Daemon;
use line::Lines;
use log::Log;
use message::{INBOX, Message};
use shared::Shared;
use shoal_core::queue::event::Event;
use shoal_core::queue::host::HostPolicy;
use shoal_core::queue::request::{Answer, Role};
use shoal_core::queue::state::Queue;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;
use turn::Turn;

/// Results that wait to be put in place.
const MOST_RESULTS: usize = 64;
/// At the end: for what hosts were told, and for clients to read their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Debug, Error)]
pub enum ServeError {
    /// Another daemon has the store.
    #[error("{0}")]
    Held(String),
    #[error("{what}{}", hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default())]
    Broken { what: String, hint: Option<String> },
}

impl ServeError {
    fn new(what: impl Into<String>) -> ServeError {
        ServeError::Broken { what: what.into(), hint: None }
    }
}

impl From<super::journal::JournalError> for ServeError {
    fn from(e: super::journal::JournalError) -> ServeError {
        ServeError::Broken { what: e.to_string(), hint: Some(e.hint()) }
    }
}

/// Serves a store until it is told to end (SIGTERM, SIGINT, a request), or, with `auto`, until there is nothing to do. To be called before
/// the program has other threads: signals are blocked for all of them.
pub fn main(options: Options, reacher: impl Reacher + 'static) -> Result<(), ServeError> {
    let store = options.store.clone();
    let root = store.root.display().to_string();
    store.make().map_err(|e| ServeError::new(format!("{root} cannot be made: {e}")))?;
    let mut lock = lock::take(&store, options.auto).map_err(|no| match no {
        lock::NoLock::Held(_) => ServeError::Held(no.text(&store)),
        lock::NoLock::Broken(_) => ServeError::new(no.text(&store)),
    })?;
    signals::block();
    let log = Log::open(&store, options.foreground);
    let tell = |e: ServeError| {
        log.say(e.to_string());
        e
    };
    let store_id = store.id().map_err(|e| tell(ServeError::new(format!("the id of {root}: {e}"))))?;
    let began = Instant::now();
    let journal = Journal::open(&store.journal()).map_err(|e| tell(e.into()))?;
    let mut queue = Queue::new();
    let mut last = 0;
    let count = journal.replay(|event| {
        last = last.max(moment(&event));
        queue.apply(&event);
    });
    let count = count.map_err(|e| tell(e.into()))?;
    log.say(format!("serves {root}: {count} events read in {} ms", began.elapsed().as_millis()));
    let of_all = settings::settle(&store, options.of_all.clone())
        .map_err(|e| tell(ServeError::new(format!("{}: {e}", store.settings().display()))))?;
    let tokens = Tokens::load(&store.tokens()).map_err(|e| tell(ServeError::new(e.to_string())))?;
    sweep_out(&store.incoming());
    let (inbox, messages) = sync_channel(INBOX);
    let (publish, jobs) = sync_channel(MOST_RESULTS);
    let shared = Arc::new(Shared {
        trees: Trees::of(&store),
        store_id,
        inbox,
        log,
        lines: Lines::default(),
        logs: logs::LogHub::default(),
        publish,
        tokens: Mutex::new(tokens),
        of_all,
        clients: AtomicUsize::new(0),
        store: store.clone(),
    });
    let tell = |what: &str, e: std::io::Error| {
        shared.log.say(format!("{what}: {e}"));
        ServeError::new(format!("{what}: {e}"))
    };
    let to_loop = shared.clone();
    signals::listen(move |signal| to_loop.post(Message::Signal(signal))).map_err(|e| tell("signals", e))?;
    results::work(shared.clone(), jobs).map_err(|e| tell("results", e))?;
    line::watch(&shared).map_err(|e| tell("lines", e))?;
    let mut daemon = Daemon {
        here: Arc::new(Here { program: options.program.clone(), store: store.clone() }),
        reacher: Arc::new(reacher),
        clock: Clock::new(last),
        open_since: Instant::now(),
        silent: Default::default(),
        lines: Default::default(),
        dialers: Default::default(),
        problems: Default::default(),
        twins: Default::default(),
        troubles: Default::default(),
        live: Default::default(),
        unheard: Vec::new(),
        unsent: Vec::new(),
        full: None,
        leaving: None,
        idle: Instant::now(),
        again: true,
        shared: shared.clone(),
        queue,
        journal,
        options,
    };
    let mut turn = Turn::new(daemon.clock.now());
    daemon.begin(&mut turn)?;
    daemon.finish(turn)?;
    if !daemon.options.listen.is_empty() {
        let (listen, names) = (&daemon.options.listen, &daemon.options.names);
        let (fingerprint, bound) = tcp::listen(&shared, listen, names).map_err(|e| tell("the door for others", e))?;
        let bound: Vec<String> = bound.iter().map(ToString::to_string).collect();
        lock.says(&bound);
        let port = bound.first().and_then(|first| first.rsplit(':').next()).unwrap_or_default();
        let name = format!("shoal://{}:{port}#{fingerprint}", crate::proc::node_name());
        shared.log.say(format!("listens on {}; from elsewhere it is SHOAL_QUEUE={name}", bound.join(", ")));
    }
    // Last: who finds the socket finds everything else, too.
    unix::listen(&shared, daemon.options.group.as_deref()).map_err(|e| tell(&socket_shown(&store), e))?;
    let ended = daemon.run(&messages);
    let _ = fs::remove_file(store.socket());
    shared.lines.finish(LAST_WORDS);
    let work = daemon.queue.sweep_names().any(|name| !daemon.queue.is_over(name));
    drop(daemon);
    // Whoever has an answer closes the connection.
    let end = Instant::now() + LAST_WORDS;
    while shared.clients.load(Ordering::Acquire) > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    if ended.is_ok() {
        lock.leave(work);
    }
    ended.map_err(|e| {
        shared.log.say(format!("the daemon cannot go on: {e}"));
        e.into()
    })
}

fn socket_shown(store: &super::places::Store) -> String {
    format!("the socket {}", store.socket().display())
}

/// What a former daemon did not finish to receive is sent again.
fn sweep_out(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

impl Daemon {
    /// Nobody is connected yet; hosts that were given are added. Done again when the disk was full before.
    fn begin(&mut self, turn: &mut Turn) -> Result<(), ServeError> {
        let heard: Vec<String> = self.queue.hosts().map(|policy| policy.name.clone()).collect();
        for name in heard {
            if self.queue.silent_since(&name).is_none() && !self.lines.contains_key(&name) {
                self.note(turn, Event::HostSilent { at: turn.now, name });
            }
        }
        let mut hosts = self.options.hosts.clone();
        if hosts.is_empty() && self.queue.hosts().next().is_none() {
            hosts.push(this_machine());
        }
        let shared = self.shared.clone();
        self.set_quotas(&shared.of_all, turn);
        let caller = Caller { user: "the command line".into(), role: Role::Admin, token: None };
        if let Answer::Refused { why, hint } = self.add_hosts(&caller, hosts, turn) {
            return Err(ServeError::Broken { what: why, hint });
        }
        self.say_others();
        Ok(())
    }
}

impl Daemon {
    /// Who was a host before and is in the file no more takes runs all the same: whoever wrote the file may think otherwise.
    fn say_others(&self) {
        let said = |policy: &HostPolicy| {
            self.options.hosts.iter().any(|host| host.reach == policy.reach || host.name == policy.name)
        };
        let others = self.queue.hosts().filter(|policy| policy.reach.is_some() && !said(policy));
        let names: Vec<&str> = others.map(|policy| policy.name.as_str()).collect();
        if !names.is_empty() && !self.options.hosts.is_empty() {
            let names = names.join(", ");
            self.shared.log.say(format!("also hosts, from before: {names}; `shoal hosts --remove HOST` takes one out"));
        }
    }
}

/// When an event happened, by the daemon's clock.
fn moment(event: &Event) -> u64 {
    match event {
        Event::Submitted { at, .. }
        | Event::ToppedUp { at, .. }
        | Event::Assigned { at, .. }
        | Event::Ended { at, .. }
        | Event::ResultsWait { at, .. }
        | Event::StopAsked { at, .. }
        | Event::Stopping { at, .. }
        | Event::Retried { at, .. }
        | Event::Paused { at, .. }
        | Event::Resumed { at, .. }
        | Event::HostAdded { at, .. }
        | Event::HostRemoved { at, .. }
        | Event::HostSeen { at, .. }
        | Event::HostSilent { at, .. }
        | Event::HostLost { at, .. }
        | Event::HostDrained { at, .. }
        | Event::QuotaSet { at, .. }
        | Event::Forgotten { at, .. } => *at,
        // By the clock of its host.
        Event::Began { .. } => 0,
    }
}
