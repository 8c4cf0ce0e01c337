//! Who drives the loop. Whoever waits drives it himself: no thread has to be woken for a sum to arrive. While nobody
//! waits, a background thread keeps sums flowing for the others; it leaves the seat to the first who waits and
//! takes it back when nobody has driven for a while.

use super::handle::Handle;
use super::timeline::Timeline;
use crate::error::SyncError;
use crate::net::reactor::{Inbox, Reactor};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// After a waiting thread has left the seat, the background thread lets this pass before it sits down: in a tight
/// loop of waits it would otherwise be woken, and in the way, at every step.
const PATIENCE: Duration = Duration::from_micros(800);
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Seat {
    taken: bool,
    left: Option<Instant>,
}

pub struct Driver {
    reactor: Mutex<Reactor>,
    pub inbox: Arc<Inbox>,
    pub timeline: Arc<Timeline>,
    seat: Mutex<Seat>,
    change: Condvar,
    waiting: AtomicUsize,
    stop: AtomicBool,
}

impl Driver {
    pub fn new(reactor: Reactor, inbox: Arc<Inbox>) -> Driver {
        Driver {
            timeline: reactor.timeline.clone(),
            reactor: Mutex::new(reactor),
            inbox,
            seat: Mutex::default(),
            change: Condvar::new(),
            waiting: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reactor> {
        self.reactor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop's state for a moment: whoever drives is woken and makes room. Without being asked it would not, because a lock
    /// that is given up and taken again at once rarely reaches those who sleep on it.
    pub fn reactor(&self) -> MutexGuard<'_, Reactor> {
        self.inbox.visitors.fetch_add(1, Ordering::SeqCst);
        self.inbox.nudge();
        let reactor = self.lock();
        self.inbox.visitors.fetch_sub(1, Ordering::SeqCst);
        reactor
    }

    /// Lets visitors in, and takes the lock back.
    fn make_room<'a>(&'a self, reactor: MutexGuard<'a, Reactor>) -> MutexGuard<'a, Reactor> {
        if self.inbox.visitors.load(Ordering::SeqCst) == 0 {
            return reactor;
        }
        drop(reactor);
        while self.inbox.visitors.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        self.lock()
    }

    /// Why the run has failed, if it has.
    pub fn fatal(&self) -> Option<SyncError> {
        // The loop may be asleep with the lock; a failure it has not told yet is told by the next call.
        self.reactor.try_lock().ok().and_then(|r| r.node.fatal().cloned())
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what can be moved without waiting, if nobody else is driving.
    pub fn push_along(&self) {
        match self.reactor.try_lock() {
            Ok(mut reactor) => drop(reactor.turn(Duration::ZERO)),
            Err(TryLockError::Poisoned(poisoned)) => drop(poisoned.into_inner().turn(Duration::ZERO)),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Drives, or waits for whoever drives, until `handle` has ended or the deadline has passed.
    pub fn wait(&self, handle: &Handle, deadline: Instant) -> bool {
        if handle.is_done() {
            return true;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut seat = self.seat();
        while !handle.is_done() && Instant::now() < deadline {
            if seat.taken {
                self.inbox.nudge();
                let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
                seat = self.change.wait_timeout(seat, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            seat.taken = true;
            drop(seat);
            let since = Instant::now();
            let mut reactor = self.lock();
            while !handle.is_done() {
                let now = Instant::now();
                if now >= deadline {
                    break;
                }
                reactor.turn_eagerly((deadline - now).min(LONGEST_SLEEP));
                if self.waiting.load(Ordering::Relaxed) > 1 {
                    // Others may have got what they wait for.
                    self.change.notify_all();
                }
                reactor = self.make_room(reactor);
            }
            drop(reactor);
            seat = self.seat();
            seat.taken = false;
            seat.left = Some(Instant::now());
            if since.elapsed() > PATIENCE {
                // The background thread may have settled for a longer sleep meanwhile.
                self.change.notify_all();
            }
        }
        drop(seat);
        if self.waiting.fetch_sub(1, Ordering::SeqCst) > 1 {
            self.change.notify_all();
        }
        handle.is_done()
    }

    /// A handle was ended by a thread that does not drive: those who wait look again.
    pub fn wake_waiters(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.inbox.nudge();
            let _seat = self.seat();
            self.change.notify_all();
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.inbox.nudge();
        self.change.notify_all();
    }

    /// The background thread's life.
    pub fn run(&self) {
        let mut pause = PATIENCE;
        while !self.stop.load(Ordering::SeqCst) {
            let mut seat = self.seat();
            let recent = seat.left.is_some_and(|t| t.elapsed() < PATIENCE);
            if seat.taken || recent || self.waiting.load(Ordering::SeqCst) > 0 {
                pause = if seat.taken { (pause * 2).min(Duration::from_millis(10)) } else { PATIENCE };
                drop(self.change.wait_timeout(seat, pause).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            seat.taken = true;
            drop(seat);
            let mut reactor = self.lock();
            while self.waiting.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                reactor.turn(LONGEST_SLEEP);
                // Callers that only want to submit get a chance at the lock.
                drop(reactor);
                reactor = self.make_room(self.lock());
            }
            drop(reactor);
            let mut seat = self.seat();
            seat.taken = false;
            drop(seat);
            self.change.notify_all();
        }
    }
}
