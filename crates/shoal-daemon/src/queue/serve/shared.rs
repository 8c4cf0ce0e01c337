//! What do the daemon's threads have in common?

use super::line::Lines;
use super::log::Log;
use super::logs::LogHub;
use super::message::Message;
use super::results::Job;
use crate::queue::door::Tokens;
use crate::queue::places::Store;
use crate::queue::trees::Trees;
use shoal_core::fleet::queue::OfAll;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::SyncSender;

pub struct Shared {
    pub store: Store,
    pub store_id: String,
    pub inbox: SyncSender<Message>,
    pub log: Log,
    pub trees: Trees,
    pub lines: Lines,
    pub logs: LogHub,
    /// Results that came whole and have to be unpacked.
    pub publish: SyncSender<Job>,
    pub tokens: Mutex<Tokens>,
    /// What holds for the queue as a whole.
    pub of_all: OfAll,
    /// Connections of clients.
    pub clients: AtomicUsize,
}

impl Shared {
    /// To the loop; false when it is gone.
    pub fn post(&self, message: Message) -> bool {
        self.inbox.send(message).is_ok()
    }
}
