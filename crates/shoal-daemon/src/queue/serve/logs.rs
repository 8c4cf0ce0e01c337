//! Who reads the output of which run? Pieces go from a host's line to the connection that asked.
//!
//! Neither waits for the other: a reader that is slow loses its subscription, and asks again from where it is (so that a line with a
//! hundred runs never waits for one terminal).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard};

/// Pieces (of at most a mebibyte) that a reader may be behind.
const BEHIND: usize = 8;

#[derive(Debug)]
pub enum Piece {
    Bytes { from: u64, bytes: Vec<u8>, end: bool },
    None { why: String },
}

/// By number of the question: the line it went to, and where pieces go.
type Readers = HashMap<u64, (Option<u64>, SyncSender<Piece>)>;

#[derive(Default)]
pub struct LogHub {
    readers: Mutex<Readers>,
    next: AtomicU64,
}

/// A subscription. When it closes without an end, the rest has to be asked for again.
pub struct Reading {
    pub ask: u64,
    pub pieces: Receiver<Piece>,
}

impl LogHub {
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn ask(&self) -> Reading {
        let ask = self.next.fetch_add(1, Ordering::Relaxed);
        let (to, pieces) = sync_channel(BEHIND);
        self.readers().insert(ask, (None, to));
        Reading { ask, pieces }
    }

    /// On which line it was asked; it ends with that.
    pub fn on_line(&self, ask: u64, line: u64) {
        if let Some(reader) = self.readers().get_mut(&ask) {
            reader.0 = Some(line);
        }
    }

    pub fn done(&self, ask: u64) {
        self.readers().remove(&ask);
    }

    /// False if nobody takes it: the host need not send more.
    pub fn piece(&self, ask: u64, from: u64, end: bool, bytes: Vec<u8>) -> bool {
        let mut readers = self.readers();
        let Some((_, to)) = readers.get(&ask) else { return false };
        let given = to.try_send(Piece::Bytes { from, bytes, end });
        if end || given.is_err() {
            readers.remove(&ask);
        }
        !matches!(given, Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
    }

    pub fn none(&self, ask: u64, why: String) {
        if let Some((_, to)) = self.readers().remove(&ask) {
            let _ = to.try_send(Piece::None { why });
        }
    }

    /// A line is over, and with it what was asked there.
    pub fn forget(&self, line: u64) {
        self.readers().retain(|_, (on, _)| *on != Some(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_is_let_go_and_sees_it() {
        let hub = LogHub::default();
        let reading = hub.ask();
        let given = (0..100).take_while(|n| hub.piece(reading.ask, *n, false, vec![0])).count();
        assert_eq!(given, BEHIND);
        assert_eq!(reading.pieces.iter().count(), BEHIND, "then it is closed");
        assert!(!hub.piece(reading.ask, 0, false, vec![]), "nobody reads it");
    }

    #[test]
    fn a_reading_ends_with_its_line() {
        let hub = LogHub::default();
        let (one, other) = (hub.ask(), hub.ask());
        hub.on_line(one.ask, 1);
        hub.on_line(other.ask, 2);
        hub.forget(1);
        assert!(one.pieces.recv().is_err());
        assert!(hub.piece(other.ask, 0, true, b"x".to_vec()));
        assert!(matches!(other.pieces.recv(), Ok(Piece::Bytes { end: true, .. })));
        assert!(other.pieces.recv().is_err());
        let none = hub.ask();
        hub.none(none.ask, "gone".into());
        assert!(matches!(none.pieces.recv(), Ok(Piece::None { .. })));
    }
}
