//! What happened when to each tensor, for a timeline: kept in a ring while it is switched on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// So many records are kept; older ones make room and are counted.
const ROOM: usize = 1 << 17;

/// Which way a tensor went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Network,
    Memory,
    /// Through memory and the network; what the speaker sends has a record of its own within this one.
    Team,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Network => "network",
            Way::Memory => "memory",
            Way::Team => "memory and network",
        }
    }
}

/// One step of one key. Times are nanoseconds of the system's monotonic clock; 0 where it did not happen or is not known.
#[derive(Debug, Clone)]
pub struct Record {
    pub name: Arc<str>,
    pub step: u64,
    pub way: Way,
    pub bytes: usize,
    pub submitted: u64,
    pub first_sent: u64,
    pub last_sent: u64,
    pub done: u64,
    /// The worker that came last, if it is known.
    pub last: Option<u32>,
}

pub struct Timeline {
    on: AtomicBool,
    ring: Mutex<Ring>,
    /// One moment on both clocks: ours, which counts from here, and the system's, which others share.
    start: Instant,
    start_nanos: u64,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<Record>,
    dropped: u64,
}

impl Default for Timeline {
    fn default() -> Timeline {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        Timeline {
            on: AtomicBool::new(false),
            ring: Mutex::default(),
            start: Instant::now(),
            start_nanos: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        }
    }
}

impl Timeline {
    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.start).as_nanos() as u64
    }

    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Keeps a record whose times count from the start.
    pub fn keep(&self, mut record: Record) {
        if !self.is_on() {
            return;
        }
        for time in [&mut record.submitted, &mut record.first_sent, &mut record.last_sent, &mut record.done] {
            if *time > 0 {
                *time += self.start_nanos;
            }
        }
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.records.len() >= ROOM {
            ring.records.pop_front();
            ring.dropped += 1;
        }
        ring.records.push_back(record);
    }

    /// What was kept since the last call, and how many records had to make room.
    pub fn take(&self) -> (Vec<Record>, u64) {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut ring.dropped);
        (std::mem::take(&mut ring.records).into(), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(step: u64) -> Record {
        let (name, way) = ("k".into(), Way::Network);
        Record { name, step, way, bytes: 1, submitted: 5, first_sent: 0, last_sent: 0, done: 9, last: None }
    }

    #[test]
    fn the_ring_is_bounded_and_off_unless_asked_for() {
        let timeline = Timeline::default();
        timeline.keep(record(0));
        assert_eq!(timeline.take().0.len(), 0);
        timeline.switch(true);
        (0..ROOM as u64 + 3).for_each(|step| timeline.keep(record(step)));
        let (records, dropped) = timeline.take();
        assert_eq!((records.len(), dropped, records[0].step), (ROOM, 3, 3));
        assert!(records[0].submitted > 5 && records[0].first_sent == 0);
        assert_eq!(timeline.take().0.len(), 0);
    }
}
