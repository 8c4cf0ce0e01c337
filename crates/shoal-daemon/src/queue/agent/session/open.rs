//! What does a session begin with? Helpers, a keeper, and threads that look at the machine.

use super::super::live::{self, Attempts};
use super::super::logs::Readers;
use super::super::look;
use super::super::note::Note;
use super::super::outbox::Outbox;
use super::super::pool::Pool;
use super::super::publish;
use super::super::ready::Maker;
use super::super::send::{self, Sending};
use super::super::shelf::Shelf;
use super::super::store::Storeroom;
use super::super::trees::{self, Arriving};
use super::super::{Event, Host, facts, gpus, pods, room};
use super::Session;
use super::lately::Lately;
use crate::proc;
use crate::queue::keeper::diary::note;
use crate::queue::keeper::words::Over;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const FACTS_EVERY: Duration = Duration::from_secs(5);
const LOOKERS: usize = 3;
const PUBLISHERS: usize = 4;
const PUBLISH_BATCH: usize = 32;
const SENDERS: usize = 4;

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
        let (tell, to_daemon) = (events.clone(), outbox.clone());
        let on_the_way: Arc<Mutex<HashSet<String>>> = Arc::default();
        let sending = on_the_way.clone();
        let senders = Pool::start("send", SENDERS, 1, move |jobs: Vec<Sending>| {
            for job in jobs {
                let sent = send::send(&to_daemon, &job);
                sending.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.name);
                if let Err(e) = sent {
                    let why = format!("{} cannot be sent: {e}", job.room.display());
                    let _ = tell.send(Event::Published(job.name, Err(publish::Problem::Later(why))));
                }
            }
        });
        let cleaners = Pool::start("clean", 1, 1, |paths: Vec<PathBuf>| {
            for path in paths {
                if let Err(e) = room::remove(&path) {
                    note("agent", format!("{} could not be removed: {e}", path.display()));
                }
            }
        });
        let attempts = Attempts::default();
        let pool = host.pool.as_ref().map(|(pool, ..)| pool.clone());
        let shut = host.pool.as_ref().map(|(_, shut, _)| shut.clone()).unwrap_or_default();
        if let Some(words) = host.pool.as_ref().and_then(|(.., words)| words.lock().ok()?.take()) {
            let tell = events.clone();
            let pass_on = move || {
                for word in words {
                    if tell.send(Event::Pods(word)).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().name("words".into()).spawn(pass_on).map_err(failed)?;
        }
        let mut session = Session {
            maker: Maker::new(host.folder.clone(), name.clone(), pool.clone()),
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
            trees_again: HashMap::new(),
            without_room: HashMap::new(),
            making: HashMap::new(),
            shelf,
            attempts,
            lookers: lookers.map_err(failed)?,
            publishers: publishers.map_err(failed)?,
            senders: senders.map_err(failed)?,
            on_the_way,
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
            pool,
            shut,
        };
        session.dial_keeper()?;
        session.watch().map_err(failed)?;
        Ok(session)
    }

    /// Facts and numbers, each by a thread that may wait for a device or a drive.
    fn watch(&self) -> std::io::Result<()> {
        let (events, outbox, shelf) = (self.events.clone(), self.outbox.clone(), self.shelf.clone());
        let (disk, keeper) = (self.folder.root().to_path_buf(), self.keeper_pid.clone());
        let (net, pool, shut) = (self.net.clone(), self.pool.clone(), self.shut.clone());
        let look = move || {
            let mut gpus = gpus::Gpus::find();
            while !outbox.is_closed() {
                let facts = facts::gather(&disk, &mut gpus, keeper.load(Ordering::Relaxed), &net);
                let facts = match &pool {
                    Some(pool) => pods::facts(pool, &shut, facts),
                    None => facts,
                };
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
