//! How does the agent tell the daemon, without its loop ever waiting for the line?
//!
//! What happened goes first and never waits; pieces of logs, results and trees wait until there is room, so that they never fill the
//! memory.

use crate::queue::framing;
use shoal_core::queue::line::FromHost;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes that may be due: more, and nobody listens.
const LIMIT: usize = 128 << 20;
/// Bytes of pieces that may be due.
const PIECES: usize = 2 << 20;

#[derive(Default)]
struct Due {
    words: VecDeque<Vec<u8>>,
    pieces: VecDeque<Vec<u8>>,
    word_bytes: usize,
    piece_bytes: usize,
    /// Hello was said: it comes before everything else.
    greeted: bool,
    closed: bool,
    writing: bool,
}

#[derive(Default)]
pub struct Outbox {
    due: Mutex<Due>,
    changed: Condvar,
}

impl Outbox {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first word. What was said before it comes behind it.
    pub fn greet(&self, hello: &FromHost) {
        let Ok(bytes) = framing::encode(hello, &[]) else { return self.close() };
        let mut due = self.due();
        due.words.push_front(bytes);
        due.greeted = true;
        drop(due);
        self.changed.notify_all();
    }

    /// False if the line is over.
    pub fn say(&self, message: &FromHost) -> bool {
        let Ok(bytes) = framing::encode(message, &[]) else { return !self.due().closed };
        let mut due = self.due();
        due.word_bytes += bytes.len();
        due.closed |= due.word_bytes > LIMIT;
        if due.closed {
            return false;
        }
        due.words.push_back(bytes);
        drop(due);
        self.changed.notify_all();
        true
    }

    /// Waits until there is room. False if the line is over.
    pub fn send_piece(&self, message: &FromHost, body: &[u8]) -> bool {
        let Ok(bytes) = framing::encode(message, body) else { return false };
        let mut due = self.due();
        while !due.closed && due.piece_bytes > PIECES {
            due = self.changed.wait(due).unwrap_or_else(PoisonError::into_inner);
        }
        if due.closed {
            return false;
        }
        due.piece_bytes += bytes.len();
        due.pieces.push_back(bytes);
        drop(due);
        self.changed.notify_all();
        true
    }

    pub fn close(&self) {
        self.due().closed = true;
        self.changed.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.due().closed
    }

    /// Until what is due is written, or the line is over, or the time is.
    pub fn wait_written(&self, end: std::time::Instant) {
        let mut due = self.due();
        while !due.closed && (due.writing || !due.words.is_empty()) {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return;
            }
            due = self.changed.wait_timeout(due, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All words that are due, or else one piece; nothing when the line is over.
    fn next(&self) -> Option<Vec<u8>> {
        let mut due = self.due();
        due.writing = false;
        loop {
            if due.closed {
                return None;
            }
            let bytes = if !due.greeted {
                None
            } else if due.words.is_empty() {
                due.pieces.pop_front().inspect(|piece| due.piece_bytes -= piece.len())
            } else {
                due.word_bytes = 0;
                let words = std::mem::take(&mut due.words);
                Some(Vec::from(words).concat())
            };
            if let Some(bytes) = bytes {
                due.writing = true;
                drop(due);
                self.changed.notify_all();
                return Some(bytes);
            }
            self.changed.notify_all();
            due = self.changed.wait(due).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes what is due until the line is over.
    pub fn write_to(self: &Arc<Outbox>, mut to: impl Write) {
        while let Some(bytes) = self.next() {
            if to.write_all(&bytes).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::framing::read_message;

    #[test]
    fn words_go_before_pieces_and_all_arrive() {
        let outbox = Arc::new(Outbox::default());
        assert!(outbox.send_piece(&FromHost::Log { ask: 1, from: 0, end: false }, b"abc"));
        assert!(outbox.say(&FromHost::Pong));
        assert!(outbox.say(&FromHost::Left));
        outbox.greet(&FromHost::HaveTree { digest: "first".into() });
        let (read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        let writer = {
            let outbox = outbox.clone();
            std::thread::spawn(move || outbox.write_to(write))
        };
        let mut read = read;
        let mut next = || read_message::<FromHost>(&mut read).unwrap().unwrap();
        assert_eq!(next().0, FromHost::HaveTree { digest: "first".into() });
        assert_eq!(next().0, FromHost::Pong);
        assert_eq!(next().0, FromHost::Left);
        assert_eq!(next(), (FromHost::Log { ask: 1, from: 0, end: false }, b"abc".to_vec()));
        outbox.close();
        writer.join().unwrap();
        assert!(!outbox.say(&FromHost::Pong) && !outbox.send_piece(&FromHost::Pong, b""));
    }
}
