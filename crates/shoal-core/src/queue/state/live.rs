//! What is known of an attempt while it lives?
//!
//! Short runs are assigned ahead: they stand in line behind the one that holds the seat, and take it over when that one is
//! over. Only the first of a line holds anything (PLAN-2).

use crate::queue::Moment;
use crate::queue::event::Meet;
use crate::queue::host::Held;
use crate::queue::sweep::Wants;
use crate::queue::work::Ending;

/// What one process takes of its host, as it was when it was assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::queue) struct Shape {
    pub cpus_milli: u32,
    pub memory_bytes: u64,
    pub gpus_milli: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::queue) struct Live {
    pub number: u32,
    pub seats: Vec<HeldSeat>,
    pub shape: Shape,
    /// For fair share, of each process.
    pub weight: u64,
    pub assigned: Moment,
    pub began: Option<Moment>,
    /// Holds its seats since; `None`: in line.
    pub since: Option<Moment>,
    pub line: Line,
    /// Somebody wants it to end.
    pub asked: bool,
    /// It was told to, and whether by way of a checkpoint.
    pub stopping: Option<bool>,
    /// The first of its processes that did not succeed, and did not just follow us: how, and on which host.
    pub failure: Option<(Ending, u32)>,
    pub stopped: bool,
    /// First begin and last end of its processes, by their hosts' clocks.
    pub ran: Option<(Moment, Moment)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::queue) struct HeldSeat {
    pub host: u32,
    pub devices: Vec<Held>,
    pub meet: Option<Meet>,
    /// Its program is over, and what it left waits for its place.
    pub waits: bool,
    pub over: bool,
}

/// Places in the sweep of its neighbours in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::queue) struct Line {
    pub ahead: Option<u32>,
    pub next: Option<u32>,
    /// Of the first of a line: the last, and how many are behind it.
    pub last: Option<u32>,
    pub behind: u32,
}

impl Shape {
    pub fn of(wants: &Wants) -> Shape {
        Shape {
            cpus_milli: wants.cpus_milli,
            memory_bytes: wants.memory_bytes.unwrap_or(0),
            gpus_milli: wants.gpus_milli,
        }
    }
}

impl HeldSeat {
    /// Whether a process is there, or will be: what it takes of its host is taken (PLAN-2).
    pub fn holds(&self) -> bool {
        !self.over && !self.waits
    }
}

impl Live {
    /// Nothing of it runs any more, and not all of it is over.
    pub fn waits(&self) -> bool {
        !self.is_over() && !self.seats.iter().any(HeldSeat::holds)
    }

    pub fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| seat.over)
    }
}
