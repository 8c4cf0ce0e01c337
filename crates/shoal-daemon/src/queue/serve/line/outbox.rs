//! What is to be told to a host, and what if it does not listen?
//!
//! Orders never wait: who does not take them for so long that this many bytes are due is cut off, and told again when it comes back. Pieces
//! of trees wait for their turn behind orders.

use crate::queue::framing;
use shoal_core::queue::line::ToHost;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of orders that a host has not taken yet.
const MOST_BYTES: usize = 64 << 20;
/// Pieces of trees that wait to be written.
const MOST_PIECES: usize = 2;

pub struct Outbox {
    due: Mutex<Due>,
    /// Something to write, room for pieces, or the end.
    changed: Condvar,
    cut: Box<dyn Fn() + Send + Sync>,
    started: Instant,
    /// Milliseconds after `started` at which the host was last heard.
    heard: AtomicU64,
}

#[derive(Default)]
struct Due {
    orders: VecDeque<Vec<u8>>,
    bytes: usize,
    pieces: VecDeque<Vec<u8>>,
    /// Taken and not written yet.
    writing: bool,
    /// Nothing more comes; what is due is still written.
    finishing: bool,
    closed: Option<String>,
}

impl Outbox {
    pub fn new(cut: Box<dyn Fn() + Send + Sync>) -> Outbox {
        Outbox {
            due: Mutex::default(),
            changed: Condvar::new(),
            cut,
            started: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Never waits. False if the line is over; then it is told anew when the host is back.
    pub fn tell(&self, message: &ToHost) -> bool {
        match framing::encode(message, &[]) {
            Ok(bytes) => self.tell_bytes(bytes),
            Err(e) => {
                self.close(&format!("a message to it could not be written: {e}"));
                false
            }
        }
    }

    /// A message that is encoded already.
    pub fn tell_bytes(&self, bytes: Vec<u8>) -> bool {
        let mut due = self.due();
        if due.closed.is_some() || due.finishing {
            return false;
        }
        due.bytes += bytes.len();
        let too_much = due.bytes > MOST_BYTES;
        due.orders.push_back(bytes);
        drop(due);
        if too_much {
            self.close("it does not read what it is told");
            return false;
        }
        self.changed.notify_all();
        true
    }

    /// Waits until there is room. False if the line is over.
    pub fn send_piece(&self, message: &ToHost, body: &[u8]) -> bool {
        let Ok(bytes) = framing::encode(message, body) else { return false };
        let mut due = self.due();
        while due.closed.is_none() && !due.finishing && due.pieces.len() >= MOST_PIECES {
            due = self.changed.wait(due).unwrap_or_else(|e| e.into_inner());
        }
        if due.closed.is_some() || due.finishing {
            return false;
        }
        due.pieces.push_back(bytes);
        drop(due);
        self.changed.notify_all();
        true
    }

    /// The next message to write; nothing when the line is over.
    pub(super) fn next(&self) -> Option<Vec<u8>> {
        let mut due = self.due();
        due.writing = false;
        loop {
            if due.closed.is_some() {
                return None;
            }
            let next = due.orders.pop_front().inspect(|order| due.bytes -= order.len());
            if let Some(next) = next.or_else(|| due.pieces.pop_front()) {
                due.writing = true;
                drop(due);
                self.changed.notify_all();
                return Some(next);
            }
            if due.finishing {
                due.closed = Some("the daemon ends".into());
                drop(due);
                self.changed.notify_all();
                return None;
            }
            self.changed.notify_all();
            due = self.changed.wait(due).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Ends the line; the first reason stands.
    pub fn close(&self, why: &str) {
        let mut due = self.due();
        let first = due.closed.is_none();
        if first {
            due.closed = Some(why.into());
            due.orders.clear();
            due.pieces.clear();
            due.bytes = 0;
        }
        drop(due);
        self.changed.notify_all();
        if first {
            (self.cut)();
        }
    }

    pub fn closed(&self) -> Option<String> {
        self.due().closed.clone()
    }

    /// What is due is written, then it is over.
    pub fn finish(&self) {
        self.due().finishing = true;
        self.changed.notify_all();
    }

    /// A line that is to finish has, by itself: whoever is cut off instead has perhaps not read what was written last.
    pub fn wait_written(&self, end: Instant) {
        let mut due = self.due();
        while due.closed.is_none() && (due.writing || due.finishing || !due.orders.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            due = self.changed.wait_timeout(due, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    pub(super) fn hear(&self) {
        self.heard.store(self.started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn silence(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_millis(self.heard.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn outbox() -> (Arc<Outbox>, Arc<AtomicU64>) {
        let cuts = Arc::new(AtomicU64::new(0));
        let count = cuts.clone();
        let cut = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        (Arc::new(Outbox::new(Box::new(cut))), cuts)
    }

    #[test]
    fn orders_go_before_pieces_and_a_host_that_does_not_read_is_cut_off() {
        let (outbox, cuts) = outbox();
        let tree = ToHost::Tree { digest: "d".into(), at: 0, last: false };
        assert!(outbox.send_piece(&tree, b"1") && outbox.send_piece(&tree, b"2"));
        let waits = {
            let outbox = outbox.clone();
            std::thread::spawn(move || outbox.send_piece(&ToHost::Ping, b"3"))
        };
        assert!(outbox.tell(&ToHost::Ping));
        assert_eq!(outbox.next(), Some(framing::encode(&ToHost::Ping, &[]).unwrap()));
        assert_eq!(outbox.next(), Some(framing::encode(&tree, b"1").unwrap()));
        assert!(waits.join().unwrap(), "there was room again");
        let long = vec![0; MOST_BYTES / 2];
        assert!(outbox.tell_bytes(long.clone()) && outbox.tell_bytes(long.clone()));
        assert!(!outbox.tell_bytes(long));
        assert_eq!((outbox.next(), cuts.load(Ordering::SeqCst)), (None, 1));
        outbox.close("again");
        assert_eq!(
            (outbox.closed().unwrap().as_str(), cuts.load(Ordering::SeqCst)),
            ("it does not read what it is told", 1)
        );
        assert!(!outbox.tell(&ToHost::Ping) && !outbox.send_piece(&ToHost::Ping, b""));
    }

    #[test]
    fn what_was_told_before_the_end_is_written() {
        let (outbox, cuts) = outbox();
        outbox.tell(&ToHost::Ping);
        assert!(outbox.next().is_some());
        // All is written, and its writer waits for more.
        let writer = {
            let outbox = outbox.clone();
            std::thread::spawn(move || outbox.next())
        };
        outbox.finish();
        assert!(!outbox.tell(&ToHost::Ping), "too late");
        outbox.wait_written(Instant::now() + Duration::from_secs(60));
        assert!(outbox.closed().is_some(), "it is over before anybody is cut off");
        outbox.close("the daemon ends");
        assert_eq!((writer.join().unwrap(), cuts.load(Ordering::SeqCst)), (None, 0));
    }
}
