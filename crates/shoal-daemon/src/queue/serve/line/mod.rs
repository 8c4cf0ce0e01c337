//! The lines to hosts: one thread reads, one writes, whatever the host does; the loop never waits for any of them.
//!
//! | file | question |
//! |---|---|
//! | `outbox` | what is to be told to a host, and what if it does not listen |
//! | `talk` | one line from its first word to its end |
//! | `dial` | how does a host that we reach get its line, and the next one |
//! | `watch` | which lines are silent |
//! | `trees` | how packed trees get to a host |

mod dial;
mod outbox;
mod talk;
mod trees;
mod watch;

pub use dial::{Dialer, dial};
pub use outbox::Outbox;
pub use talk::talk;
pub use watch::watch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// All lines that are open, and whether new ones may be.
#[derive(Default)]
pub struct Lines {
    open: Mutex<HashMap<u64, Arc<Outbox>>>,
    next: AtomicU64,
    /// No line is opened while this is set: what hosts say could not be written down.
    held: AtomicBool,
    wake: (Mutex<u64>, Condvar),
}

impl Lines {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Outbox>>> {
        self.open.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A number for a new line, under which it is watched. Nothing while lines are held.
    fn register(&self, outbox: &Arc<Outbox>) -> Option<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open();
        // Looked at under the lock, so that none slips through while all are closed.
        if self.held.load(Ordering::Acquire) {
            return None;
        }
        open.insert(id, outbox.clone());
        Some(id)
    }

    fn forget(&self, id: u64) {
        self.open().remove(&id);
    }

    fn all(&self) -> Vec<Arc<Outbox>> {
        self.open().values().cloned().collect()
    }

    /// Ends all lines and opens none until [`Lines::release`].
    pub fn hold(&self, why: &str) {
        let open = self.open();
        self.held.store(true, Ordering::Release);
        let all: Vec<Arc<Outbox>> = open.values().cloned().collect();
        drop(open);
        all.iter().for_each(|outbox| outbox.close(why));
    }

    pub fn release(&self) {
        self.held.store(false, Ordering::Release);
        self.poke();
    }

    /// As `hold`, but what hosts were told before is written first.
    pub fn finish(&self, within: Duration) {
        self.held.store(true, Ordering::Release);
        let all = self.all();
        all.iter().for_each(|outbox| outbox.finish());
        let end = std::time::Instant::now() + within;
        all.iter().for_each(|outbox| outbox.wait_written(end));
        all.iter().for_each(|outbox| outbox.close("the daemon ends"));
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Wakes dialers that wait.
    pub fn poke(&self) {
        *self.wake.0.lock().unwrap_or_else(|e| e.into_inner()) += 1;
        self.wake.1.notify_all();
    }

    /// Waits this long, or until somebody pokes.
    fn rest(&self, long: Duration) {
        let count = self.wake.0.lock().unwrap_or_else(|e| e.into_inner());
        let before = *count;
        let _ = self.wake.1.wait_timeout_while(count, long, |count| *count == before);
    }
}
