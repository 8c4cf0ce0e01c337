//! What does an agent do while its line lives? One loop; whatever takes long is done by others and comes back as an event.
//!
//! | file | question |
//! |---|---|
//! | `open` | what a session begins with |
//! | `keeper` | how it holds on to a keeper |
//! | `tell` | what the daemon hears of this host |
//! | `leave` | when it may go |
//! | `lately` | which names came lately |

mod keeper;
mod lately;
mod leave;
mod open;
mod tell;

use super::live::Attempts;
use super::logs::Readers;
use super::look::Looked;
use super::net::Net;
use super::note::{Note, name};
use super::outbox::Outbox;
use super::pool::Pool;
use super::publish;
use super::ready::Maker;
use super::send::Sending;
use super::shelf::Shelf;
use super::store::Storeroom;
use super::trees::Arriving;
use super::{Asked, End, Event, link, pods};
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::words::{Over, ToKeeper};
use lately::Lately;
use shoal_core::fleet::pool::Pool as Cluster;
use shoal_core::queue::Attempt;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ended, Start};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Things heard before what follows from them is told.
const AT_ONCE: usize = 512;
const TICK: Duration = Duration::from_millis(250);
const LEAVE_WITHIN: Duration = Duration::from_secs(30);

/// A run, as far as this agent has come with it.
pub(super) enum Known {
    /// Not handed to the keeper: something is missing, or comes before it.
    Pending(Box<Start>),
    /// At the keeper. What it was made of, if it was us who made it: a keeper that dies before it began has forgotten it.
    Handed(Option<Box<Start>>),
    /// Its processes are gone; what it left is looked at.
    Looking,
    /// Its results are on their way.
    Publishing(Box<Publishing>),
    /// All is done; told until it is acknowledged.
    Told(Box<Ended>),
}

pub(super) struct Publishing {
    pub looked: Looked,
    /// Its program is over since.
    pub first: Instant,
    /// The daemon knows that it waits, and holds no seat.
    pub told: bool,
    pub tries: u32,
    pub again_at: Option<Instant>,
    pub since: Instant,
    /// Nobody wants them any more.
    pub given_up: bool,
}

/// Everything is to end.
struct Leaving {
    until: Instant,
    keeper_left: bool,
}

pub(super) struct Session {
    pub folder: Folder,
    pub host: String,
    pub store_id: String,
    pub outbox: Arc<Outbox>,
    pub events: SyncSender<Event>,
    inbox: Receiver<Event>,
    keeper_start: link::Start,
    pub link: Option<link::Link>,
    pub keeper: u64,
    keeper_pid: Arc<AtomicU32>,
    /// The keeper has said all it knows.
    pub greeted: bool,
    /// What a new keeper said of, while it says hello.
    pub heard_of: HashSet<String>,
    retry_keeper_at: Option<Instant>,
    /// Told hello, and when at the latest.
    pub hello: bool,
    hello_by: Option<Instant>,
    pub runs: HashMap<String, Known>,
    /// Names of gangs' processes, beside the first, by attempt.
    pub gangs: HashMap<Attempt, HashSet<u32>>,
    pub pending: VecDeque<String>,
    pub maker: Maker,
    pub arriving: Arriving,
    /// Trees that were asked for, and how often.
    pub asked: HashMap<String, u32>,
    /// When those that could not be had may be asked for anew.
    pub trees_again: HashMap<String, Instant>,
    /// Trees of which a piece found no room, and why, until their last piece has come.
    pub without_room: HashMap<String, String>,
    /// Environments that are being made, or could not be until a moment.
    pub making: HashMap<String, Option<(Instant, String)>>,
    pub shelf: Arc<Shelf>,
    pub attempts: Attempts,
    pub readers: Readers,
    pub lookers: Pool<(Box<Over>, Note)>,
    pub publishers: Pool<publish::Job>,
    pub senders: Pool<Sending>,
    /// Whose results are given to them, and not all sent.
    pub on_the_way: Arc<Mutex<HashSet<String>>>,
    pub cleaners: Pool<PathBuf>,
    pub ends: Vec<Ended>,
    pub forget: Vec<String>,
    pub look_again: bool,
    /// What is wrong, by what it is about: whose it is, and the words that were said.
    pub troubles: HashMap<String, (Option<Attempt>, String)>,
    /// Runs that an earlier agent handed over, and what they need of what is shared.
    pub adopted: HashMap<String, Vec<String>>,
    pub store: Storeroom,
    pub(super) acknowledged: Lately,
    /// Folders of runs whose ends are acknowledged.
    pub rubbish: Vec<PathBuf>,
    pub trashed: u64,
    pub disk_again_at: Option<Instant>,
    pub facts: Option<Box<HostFacts>>,
    told_facts: Option<Box<HostFacts>>,
    /// Marks of folders for results that were looked for.
    pub marks: HashSet<String>,
    leaving: Option<Leaving>,
    /// The daemon has said that nothing follows.
    resting: bool,
    end: Option<End>,
    told_to_end: Asked,
    net: Arc<Net>,
    /// Runs are done by this part of a cluster.
    pub pool: Option<Cluster>,
    shut: pods::Shut,
}

impl Session {
    pub fn run(mut self) -> Result<End, String> {
        let mut tick = Instant::now() + TICK;
        loop {
            let wait = tick.saturating_duration_since(Instant::now());
            match self.inbox.recv_timeout(wait) {
                Ok(event) => {
                    self.take(event);
                    for _ in 0..AT_ONCE {
                        let Ok(event) = self.inbox.try_recv() else { break };
                        self.take(event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Left),
            }
            if Instant::now() >= tick {
                tick = Instant::now() + TICK;
                self.pass_time();
            }
            self.say_hello_if_ready();
            self.hand_over();
            self.tell_ends();
            self.leave_if_done();
            if let Some(end) = self.end.take() {
                self.rest();
                self.outbox.wait_written(Instant::now() + Duration::from_secs(2));
                self.outbox.close();
                return Ok(end);
            }
            // A signal may have found the list full.
            if self.told_to_end.to_end() {
                self.end = Some(End::Left);
            }
            if self.outbox.is_closed() && self.leaving.is_none() {
                self.rest();
                return Ok(End::Line("the line is broken".into()));
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Line(message, body) => self.obey(message, &body),
            // Told to leave, it has no more to hear, but something to do.
            Event::LineEnded(_) if self.leaving.is_some() => {}
            Event::LineEnded(why) => self.end = Some(End::Line(why)),
            Event::Keeper(of, message) if of == self.keeper => self.hear_keeper(message),
            Event::KeeperGone(of) if of == self.keeper => self.keeper_gone(),
            Event::Keeper(..) | Event::KeeperGone(_) => {}
            Event::Looked(looked) => self.looked(*looked),
            Event::Published(name, done) => self.published(&name, done),
            Event::Environment(digest, made) => self.environment_made(digest, made),
            Event::Tree(digest, unpacked) => self.tree_unpacked(digest, unpacked),
            Event::Measured(found) => self.measured(&found),
            Event::Facts(facts) => self.facts_came(facts),
            Event::Pods(word) => self.pods_say(word),
            Event::Signal => self.end = Some(End::Left),
        }
    }

    fn obey(&mut self, message: ToHost, body: &[u8]) {
        match message {
            ToHost::Hello { .. } | ToHost::Ping => drop(self.outbox.say(&FromHost::Pong)),
            ToHost::Start { starts } => {
                self.resting = false;
                starts.into_iter().for_each(|start| self.accept(start));
            }
            ToHost::Rest => self.resting = true,
            ToHost::Stop { attempt, checkpoint_first, grace_seconds } => {
                for name in self.names_of(&attempt) {
                    let slack = if self.pool.is_some() { pods::SLACK_MS } else { 0 };
                    self.stop(&name, checkpoint_first, u64::from(grace_seconds) * 1000 + slack);
                }
            }
            ToHost::TakeBack { attempt } => {
                for name in self.names_of(&attempt) {
                    match self.runs.get(&name) {
                        Some(Known::Pending(_)) => self.stop(&name, false, 0),
                        Some(Known::Handed(_)) => self.tell_keeper(&ToKeeper::TakeBack { name }),
                        _ => {}
                    }
                }
            }
            ToHost::Ended { attempts } => attempts.iter().for_each(|attempt| {
                self.names_of(attempt).iter().for_each(|name| self.acknowledged(name));
            }),
            ToHost::EndedRanks { ended } => {
                ended.iter().for_each(|(attempt, rank)| self.acknowledged(&name(attempt, *rank)));
            }
            ToHost::Tree { digest, at, last } => self.tree_piece(&digest, at, last, body),
            ToHost::Published { attempt, problem, later, rank } => self.sent(&attempt, rank, problem, later),
            ToHost::Log { ask, attempt, from, follow, rank } => {
                self.readers.start(ask, name(&attempt, rank), from, follow);
            }
            ToHost::CancelLog { ask } => self.readers.cancel(ask),
            ToHost::Leave { stop_runs: false } => {
                self.outbox.say(&FromHost::Left);
                self.end = Some(End::Left);
            }
            ToHost::Leave { stop_runs: true } => {
                self.leaving = Some(Leaving { until: Instant::now() + LEAVE_WITHIN, keeper_left: self.link.is_none() });
                let names: Vec<String> = self.pending.iter().cloned().collect();
                names.iter().for_each(|name| self.stop(name, false, 0));
                self.tell_keeper(&ToKeeper::Leave { stop_runs: true, grace_ms: 10_000 });
            }
        }
    }

    /// All processes of an attempt that may be here.
    pub fn names_of(&self, attempt: &Attempt) -> Vec<String> {
        let ranks = self.gangs.get(attempt).into_iter().flatten();
        std::iter::once(0).chain(ranks.copied()).map(|rank| name(attempt, rank)).collect()
    }

    /// What is over and was not done at the last look; a keeper that could not be had.
    fn pass_time(&mut self) {
        let now = Instant::now();
        self.publish_again(now);
        self.measure_if_due(now);
        self.ask_for_trees_again(now);
        if self.disk_again_at.take_if(|at| now >= *at).is_some() {
            self.look_again = true;
        }
        if self.link.is_none() && self.retry_keeper_at.is_none_or(|at| now >= at) {
            match self.dial_keeper() {
                Ok(()) => self.no_more_trouble("keeper"),
                Err(why) => {
                    self.trouble("keeper", None, why);
                    self.retry_keeper_at = Some(now + Duration::from_secs(2));
                }
            }
        }
        if self.making.values().flatten().any(|(until, _)| now >= *until) {
            self.making.retain(|_, failed| failed.as_ref().is_none_or(|(until, _)| now < *until));
        }
        if self.leaving.as_ref().is_some_and(|leaving| now >= leaving.until) {
            // What is still owed stays, and is told to whoever asks next.
            self.end = Some(End::Left);
        }
    }
}
