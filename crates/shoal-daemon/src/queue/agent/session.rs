//! What does an agent do while its line lives? One loop; whatever takes long is done by others and comes back as an event.

use super::live::{self, Attempts};
use super::logs::Readers;
use super::look::{self, Looked};
use super::net::Net;
use super::note::{Note, name};
use super::outbox::Outbox;
use super::pool::Pool;
use super::publish;
use super::ready::Maker;
use super::shelf::Shelf;
use super::store::Storeroom;
use super::trees::{self, Arriving};
use super::{Asked, End, Event, Host, facts, gpus, link};
use crate::proc;
use crate::queue::keeper::diary::note;
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::words::{Over, ToKeeper};
use shoal_core::queue::Attempt;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION, ToHost};
use shoal_core::queue::work::{Ended, Publish, Start};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Things heard before what follows from them is told.
const AT_ONCE: usize = 512;
const TICK: Duration = Duration::from_millis(250);
const FACTS_EVERY: Duration = Duration::from_secs(5);
/// What has ended is told with hello if it can be within this.
const HELLO_WITHIN: Duration = Duration::from_millis(1500);
const LOOKERS: usize = 3;
const PUBLISHERS: usize = 4;
const PUBLISH_BATCH: usize = 32;
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
    /// Environments that are being made, or could not be until a moment.
    pub making: HashMap<String, Option<(Instant, String)>>,
    pub shelf: Arc<Shelf>,
    pub attempts: Attempts,
    pub readers: Readers,
    pub lookers: Pool<(Box<Over>, Note)>,
    pub publishers: Pool<publish::Job>,
    pub cleaners: Pool<PathBuf>,
    pub ends: Vec<Ended>,
    pub forget: Vec<String>,
    pub look_again: bool,
    /// What is wrong, by what it is about: whose it is, and the words that were said.
    pub troubles: HashMap<String, (Option<Attempt>, String)>,
    /// Runs that an earlier agent handed over, and what they need of what is shared.
    pub adopted: HashMap<String, Vec<String>>,
    pub store: Storeroom,
    pub acknowledged: Lately,
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
}

impl Session {
    pub fn open(
        host: &Host,
        name: String,
        to: impl Write + Send + 'static,
        events: SyncSender<Event>,
        inbox: Receiver<Event>,
    ) -> Result<Session, String> {
        let failed = |e: std::io::Error| format!("no thread could be started: {e}");
        let outbox = Arc::new(Outbox::default());
        let writer = outbox.clone();
        std::thread::Builder::new().name("to-daemon".into()).spawn(move || writer.write_to(to)).map_err(failed)?;
        trees::clear(&host.folder.trees());
        let shelf = Arc::new(Shelf::default());
        let (tell, folder) = (events.clone(), host.folder.clone());
        let lookers = Pool::start("look", LOOKERS, 1, move |jobs: Vec<(Box<Over>, Note)>| {
            for (over, note) in jobs {
                let _ = tell.send(Event::Looked(Box::new(look::look(&folder, &over, note))));
            }
        });
        let tell = events.clone();
        let publishers = Pool::start("publish", PUBLISHERS, PUBLISH_BATCH, move |jobs: Vec<publish::Job>| {
            for (job, done) in jobs.iter().zip(publish::all(&jobs)) {
                let _ = tell.send(Event::Published(job.name.clone(), done));
            }
        });
        let cleaners = Pool::start("clean", 1, 1, |paths: Vec<PathBuf>| {
            for path in paths {
                if let Err(e) = super::room::remove(&path) {
                    note("agent", format!("{} could not be removed: {e}", path.display()));
                }
            }
        });
        let attempts = Attempts::default();
        let mut session = Session {
            maker: Maker::new(host.folder.clone(), name.clone()),
            readers: Readers::new(host.folder.clone(), shelf.clone(), outbox.clone()),
            folder: host.folder.clone(),
            host: name,
            store_id: host.store.clone(),
            keeper_start: host.keeper.clone(),
            outbox,
            events,
            inbox,
            link: None,
            keeper: 0,
            keeper_pid: Arc::new(AtomicU32::new(0)),
            greeted: false,
            heard_of: HashSet::new(),
            retry_keeper_at: None,
            hello: false,
            hello_by: None,
            runs: HashMap::new(),
            gangs: HashMap::new(),
            pending: VecDeque::new(),
            arriving: Arriving::default(),
            asked: HashMap::new(),
            making: HashMap::new(),
            shelf,
            attempts,
            lookers: lookers.map_err(failed)?,
            publishers: publishers.map_err(failed)?,
            cleaners: cleaners.map_err(failed)?,
            ends: Vec::new(),
            forget: Vec::new(),
            look_again: false,
            troubles: HashMap::new(),
            adopted: HashMap::new(),
            store: Storeroom::default(),
            acknowledged: Lately::default(),
            rubbish: Vec::new(),
            trashed: 0,
            disk_again_at: None,
            facts: None,
            told_facts: None,
            marks: HashSet::new(),
            leaving: None,
            resting: false,
            end: None,
            told_to_end: host.asked.clone(),
            net: host.net.clone(),
        };
        session.dial_keeper()?;
        session.watch().map_err(failed)?;
        Ok(session)
    }

    /// Facts and numbers, each by a thread that may wait for a device or a drive.
    fn watch(&self) -> std::io::Result<()> {
        let (events, outbox, shelf) = (self.events.clone(), self.outbox.clone(), self.shelf.clone());
        let (disk, keeper) = (self.folder.root().to_path_buf(), self.keeper_pid.clone());
        let net = self.net.clone();
        let look = move || {
            let mut gpus = gpus::Gpus::find();
            while !outbox.is_closed() {
                let facts = facts::gather(&disk, &mut gpus, keeper.load(Ordering::Relaxed), &net);
                note_gpu_memory(&gpus, &shelf);
                if events.send(Event::Facts(Box::new(facts))).is_err() {
                    return;
                }
                let end = Instant::now() + FACTS_EVERY;
                while Instant::now() < end && !outbox.is_closed() {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        };
        std::thread::Builder::new().name("facts".into()).spawn(look)?;
        let (folder, shelf, attempts) = (self.folder.clone(), self.shelf.clone(), self.attempts.clone());
        let outbox = self.outbox.clone();
        std::thread::Builder::new()
            .name("numbers".into())
            .spawn(move || live::watch(&folder, &shelf, &attempts, &outbox))?;
        Ok(())
    }

    fn dial_keeper(&mut self) -> Result<(), String> {
        self.keeper += 1;
        self.greeted = false;
        self.heard_of.clear();
        let link = link::Link::open(&self.folder, &self.keeper_start, self.keeper, &self.events)?;
        self.keeper_pid.store(link.pid, Ordering::Relaxed);
        self.link = Some(link);
        Ok(())
    }

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
            if self.outbox.is_closed() {
                self.rest();
                return Ok(End::Line("the line is broken".into()));
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Line(message, body) => self.obey(message, &body),
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
                    self.stop(&name, checkpoint_first, u64::from(grace_seconds) * 1000);
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
            ToHost::Published { attempt, problem } => self.sent(&attempt, problem),
            ToHost::Log { ask, attempt, from, follow } => {
                let names = self.names_of(&attempt);
                let name =
                    names.into_iter().find(|name| self.runs.contains_key(name)).unwrap_or_else(|| name(&attempt, 0));
                self.readers.start(ask, name, from, follow);
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

    /// Nothing is here, and nothing follows: the keeper need not stay for another agent.
    fn rest(&self) {
        if self.resting && self.greeted && self.runs.is_empty() {
            self.tell_keeper(&ToKeeper::Leave { stop_runs: false, grace_ms: 0 });
        }
    }

    /// All processes of an attempt that may be here.
    pub fn names_of(&self, attempt: &Attempt) -> Vec<String> {
        let ranks = self.gangs.get(attempt).into_iter().flatten();
        std::iter::once(0).chain(ranks.copied()).map(|rank| name(attempt, rank)).collect()
    }

    pub fn tell_keeper(&self, message: &ToKeeper) {
        if let Some(link) = &self.link {
            link.say(message);
        }
    }

    /// What is over and was not done at the last look; a keeper that could not be had.
    fn pass_time(&mut self) {
        let now = Instant::now();
        self.publish_again(now);
        self.measure_if_due(now);
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

    /// Nothing lives here any more, and nothing is owed.
    fn leave_if_done(&mut self) {
        let owes = |known: &Known| matches!(known, Known::Looking | Known::Publishing(_));
        if !self.leaving.as_ref().is_some_and(|leaving| leaving.keeper_left) || self.runs.values().any(owes) {
            return;
        }
        self.leaving = None;
        self.link = None;
        self.tell_ends();
        self.outbox.say(&FromHost::Left);
        self.outbox.wait_written(Instant::now() + Duration::from_secs(2));
        if let Err(e) = super::room::remove(self.folder.root()) {
            note("agent", format!("{} could not be removed: {e}", self.folder.root().display()));
        }
        self.end = Some(End::Left);
    }

    pub fn keeper_left(&mut self) {
        if let Some(leaving) = &mut self.leaving {
            leaving.keeper_left = true;
        }
    }

    fn keeper_gone(&mut self) {
        self.link = None;
        if self.leaving.is_some() {
            return self.keeper_left();
        }
        self.retry_keeper_at = None;
        // It has not heard of these, perhaps; then its successor tells of them again.
        self.forget.clear();
        self.rubbish.clear();
        let of_keeper: Vec<String> = self.troubles.keys().filter(|key| key.starts_with("keeper: ")).cloned().collect();
        of_keeper.iter().for_each(|key| self.no_more_trouble(key));
        note("agent", "the keeper is gone; another is started");
        if let Err(why) = self.dial_keeper() {
            self.trouble("keeper", None, why);
            self.retry_keeper_at = Some(Instant::now() + Duration::from_secs(2));
        }
    }

    /// The first word: what lives and what has ended. Ends that are quickly done with are waited for.
    fn say_hello_if_ready(&mut self) {
        if self.hello || !self.greeted || self.facts.is_none() {
            return;
        }
        let by = *self.hello_by.get_or_insert_with(|| Instant::now() + HELLO_WITHIN);
        let busy = self.runs.values().any(|known| match known {
            Known::Looking => true,
            // What goes to the daemon goes behind hello.
            Known::Publishing(p) => p.tries == 0 && matches!(p.looked.note.publish, Publish::Folder(_)),
            _ => false,
        });
        let Some(facts) = self.facts.clone().filter(|_| !busy || Instant::now() >= by) else { return };
        let told = |known: &Known| matches!(known, Known::Told(_));
        let alive = self.runs.iter().filter(|(_, known)| !told(known));
        let held = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: HashSet<Attempt> = alive.filter_map(|(name, _)| held.get(name).cloned()).collect();
        drop(held);
        // The rest follows in pages.
        let first = self.ends.len().min(500);
        let hello = FromHost::Hello {
            version: LINE_VERSION,
            facts: facts.clone(),
            alive: alive.into_iter().collect(),
            ended: self.ends.drain(..first).collect(),
            trees: trees::list(&self.folder.trees()),
        };
        self.told_facts = Some(facts);
        self.outbox.greet(&hello);
        self.hello = true;
        let troubles: Vec<(Option<Attempt>, String)> = self.troubles.values().cloned().collect();
        for (attempt, what) in troubles {
            self.outbox.say(&FromHost::Trouble { attempt, what, over: false });
        }
    }

    fn facts_came(&mut self, facts: Box<HostFacts>) {
        if self.hello && self.told_facts.as_ref().is_none_or(|told| facts::differ(told, &facts)) {
            self.outbox.say(&FromHost::Facts { facts: facts.clone() });
            self.told_facts = Some(facts.clone());
        }
        self.facts = Some(facts);
    }

    pub fn trouble(&mut self, key: &str, attempt: Option<&Attempt>, what: String) {
        if self.troubles.get(key).is_some_and(|(_, said)| *said == what) {
            return;
        }
        self.no_more_trouble(key);
        note("agent", &what);
        if self.hello {
            self.outbox.say(&FromHost::Trouble { attempt: attempt.cloned(), what: what.clone(), over: false });
        }
        self.troubles.insert(key.into(), (attempt.cloned(), what));
    }

    pub fn no_more_trouble(&mut self, key: &str) {
        if let Some((attempt, what)) = self.troubles.remove(key)
            && self.hello
        {
            self.outbox.say(&FromHost::Trouble { attempt, what, over: true });
        }
    }
}

/// Names that came lately: so many at least, twice as many at most.
#[derive(Default)]
pub(super) struct Lately {
    new: HashSet<String>,
    old: HashSet<String>,
}

const LATELY: usize = 4096;

impl Lately {
    pub fn insert(&mut self, name: String) {
        if self.new.len() >= LATELY {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(name);
    }

    pub fn contains(&self, name: &str) -> bool {
        self.new.contains(name) || self.old.contains(name)
    }

    pub fn remove(&mut self, name: &str) {
        self.new.remove(name);
        self.old.remove(name);
    }
}

/// Which run each of our processes on a device is of.
fn note_gpu_memory(gpus: &gpus::Gpus, shelf: &Shelf) {
    if gpus.ours.is_empty() {
        return;
    }
    let leaders: HashMap<u32, String> = shelf.live().into_iter().map(|(name, _, pid)| (pid, name)).collect();
    let mut sums: HashMap<&String, u64> = HashMap::new();
    for (pid, bytes) in &gpus.ours {
        let mut at = *pid;
        for _ in 0..64 {
            if let Some(name) = leaders.get(&at) {
                *sums.entry(name).or_default() += bytes;
                break;
            }
            match proc::stat(at) {
                Some(stat) if stat.parent > 1 => at = stat.parent,
                _ => break,
            }
        }
    }
    sums.into_iter().for_each(|(name, bytes)| shelf.saw_gpu_memory(name, bytes));
}
