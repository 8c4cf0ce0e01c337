//! How does somebody far away read the output of a run, while it lives and afterwards?

use super::numbers::{ReadAt, read};
use super::outbox::Outbox;
use super::shelf::{Shelf, Where};
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::{logs, packs};
use shoal_core::queue::line::FromHost;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Readers at once.
const MOST: usize = 64;
const PIECE: u64 = 256 << 10;
const LOOK: Duration = Duration::from_millis(50);

pub struct Readers {
    folder: Folder,
    shelf: Arc<Shelf>,
    outbox: Arc<Outbox>,
    asks: HashMap<u64, Arc<AtomicBool>>,
}

/// One reader.
struct Reader {
    folder: Folder,
    shelf: Arc<Shelf>,
    outbox: Arc<Outbox>,
    ask: u64,
    name: String,
    at: u64,
    follow: bool,
    /// It was cancelled, or has ended.
    over: Arc<AtomicBool>,
}

impl Readers {
    pub fn new(folder: Folder, shelf: Arc<Shelf>, outbox: Arc<Outbox>) -> Readers {
        Readers { folder, shelf, outbox, asks: HashMap::new() }
    }

    pub fn start(&mut self, ask: u64, name: String, from: u64, follow: bool) {
        self.asks.retain(|_, over| !over.load(Ordering::Acquire));
        if self.asks.len() >= MOST {
            let why = format!("{MOST} others read logs of this host; try again when one of them has stopped");
            self.outbox.say(&FromHost::NoLog { ask, why });
            return;
        }
        let over = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            folder: self.folder.clone(),
            shelf: self.shelf.clone(),
            outbox: self.outbox.clone(),
            ask,
            name,
            at: from,
            follow,
            over: over.clone(),
        };
        let run = move || {
            if let Err(why) = reader.run() {
                reader.outbox.say(&FromHost::NoLog { ask, why });
            }
            reader.over.store(true, Ordering::Release);
        };
        match std::thread::Builder::new().name("log".into()).stack_size(256 << 10).spawn(run) {
            Ok(_) => drop(self.asks.insert(ask, over)),
            Err(e) => {
                self.outbox.say(&FromHost::NoLog { ask, why: format!("no thread could be started: {e}") });
            }
        }
    }

    pub fn cancel(&mut self, ask: u64) {
        if let Some(over) = self.asks.remove(&ask) {
            over.store(true, Ordering::Release);
        }
    }
}

impl Reader {
    fn run(&self) -> Result<(), String> {
        let mut reader = Cursor { of: self, at: self.at };
        loop {
            if self.is_over() {
                return Ok(());
            }
            match self.shelf.get(&self.name) {
                Some(Where::Live { log, .. }) => {
                    // It may have ended since, and its file be gone: then the shelf knows better.
                    let Ok(file) = File::open(logs::path(&self.folder.live(), log)) else {
                        std::thread::sleep(LOOK);
                        continue;
                    };
                    return reader.follow(&file, log);
                }
                Some(Where::Waits) if self.follow => std::thread::sleep(LOOK),
                Some(Where::Waits | Where::Packed(None)) => return reader.end(),
                Some(Where::Packed(Some(place))) => {
                    let packed = packs::open(&self.folder.packs(), &self.name, place);
                    return reader.all(&packed.map_err(|e| format!("its log cannot be read: {e}"))?);
                }
                None => {
                    let found = packs::find(&self.folder.packs(), &self.name);
                    return match found.map_err(|e| format!("the logs of this host cannot be read: {e}"))? {
                        Some(packed) => reader.all(&packed),
                        None => {
                            Err("this host has no output of it: it printed nothing, or old logs were removed since"
                                .into())
                        }
                    };
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.outbox.is_closed()
    }
}

struct Cursor<'a> {
    of: &'a Reader,
    at: u64,
}

impl Cursor<'_> {
    /// Sends all there is; false when nobody wants more.
    fn rest(&mut self, from: &impl ReadAt) -> Result<bool, String> {
        loop {
            let bytes = read(from, self.at, PIECE).map_err(|e| format!("its log cannot be read: {e}"))?;
            if bytes.is_empty() {
                return Ok(true);
            }
            let piece = FromHost::Log { ask: self.of.ask, from: self.at, end: false };
            if self.of.is_over() || !self.of.outbox.send_piece(&piece, &bytes) {
                return Ok(false);
            }
            self.at += bytes.len() as u64;
        }
    }

    fn end(&mut self) -> Result<(), String> {
        // As a piece, so that it comes behind those that are on their way.
        self.of.outbox.send_piece(&FromHost::Log { ask: self.of.ask, from: self.at, end: true }, &[]);
        Ok(())
    }

    fn all(&mut self, from: &impl ReadAt) -> Result<(), String> {
        if self.rest(from)? { self.end() } else { Ok(()) }
    }

    fn follow(&mut self, file: &File, log: u64) -> Result<(), String> {
        loop {
            // Asked before reading: what was written before it ended is then read.
            let lives = matches!(self.of.shelf.get(&self.of.name), Some(Where::Live { log: now, .. }) if now == log);
            if !self.rest(file)? {
                return Ok(());
            }
            if !lives || !self.of.follow {
                return self.end();
            }
            std::thread::sleep(LOOK);
        }
    }
}
