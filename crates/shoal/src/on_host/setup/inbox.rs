//! What does the client want, and is it still there?

use shoal_core::cluster::steps::wire::Ask;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often silence is looked at while nothing else is to be done.
const LOOK: Duration = Duration::from_millis(500);

/// How much later than the client's silence a program that hangs is ended.
const STUCK: Duration = Duration::from_secs(10);

pub struct Inbox {
    asks: Receiver<Ask>,
    began: Instant,
    /// Milliseconds after `began`.
    heard: Arc<AtomicU64>,
    silence_ms: AtomicU64,
}

pub enum Heard {
    Said(Ask),
    Nothing,
    /// It closed the line, or said nothing for longer than it promised.
    Gone,
}

impl Inbox {
    pub fn open() -> Inbox {
        let (send, asks) = channel();
        let (began, heard) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let ear = heard.clone();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                ear.store(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                // What we do not understand is not for us; the versions were compared.
                let said = match serde_json::from_str(&line) {
                    Ok(Ask::Ping) | Err(_) => Ok(()),
                    Ok(ask) => send.send(ask),
                };
                if said.is_err() {
                    return;
                }
            }
        });
        Inbox { asks, began, heard, silence_ms: AtomicU64::new(u64::MAX) }
    }

    /// From now on. Should we hang on a line that nobody reads any more, everything ends a little later all the same.
    pub fn expect_a_word_every(&self, limit: Duration) {
        self.silence_ms.store(limit.as_millis() as u64, Ordering::Relaxed);
        let (began, heard) = (self.began, self.heard.clone());
        std::thread::spawn(move || {
            let quiet = || began.elapsed().saturating_sub(Duration::from_millis(heard.load(Ordering::Relaxed)));
            while quiet() < limit + STUCK {
                std::thread::sleep(LOOK);
            }
            super::command::kill_what_runs();
            std::process::exit(1);
        });
    }

    fn is_silent(&self) -> bool {
        let now = self.began.elapsed().as_millis() as u64;
        now.saturating_sub(self.heard.load(Ordering::Relaxed)) > self.silence_ms.load(Ordering::Relaxed)
    }

    /// The next question, if it comes within `limit`.
    pub fn wait(&self, limit: Duration) -> Heard {
        let deadline = Instant::now().checked_add(limit);
        loop {
            let left = deadline.map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            match self.asks.recv_timeout(left.min(LOOK)) {
                Ok(ask) => return Heard::Said(ask),
                Err(RecvTimeoutError::Disconnected) => return Heard::Gone,
                Err(RecvTimeoutError::Timeout) if self.is_silent() => return Heard::Gone,
                Err(RecvTimeoutError::Timeout) if left <= LOOK && deadline.is_some() => return Heard::Nothing,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
