//! What is known of a sweep beside what was asked for?

use super::runs::{Runs, State};
use crate::queue::sweep::Sweep;
use crate::queue::work::Ending;
use crate::queue::{Attempt, Moment, RunId};
use std::collections::{BTreeMap, BTreeSet};

/// How many failed runs' endings are kept at hand; the journal has all of them.
pub(super) const ENDINGS_KEPT: usize = 1_000;
/// Between attempts to put results into a place that does not take them.
const HOLD_MS: u64 = 5_000;
const LONGEST_HOLD_MS: u64 = 300_000;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::queue) struct SweepState {
    pub sweep: Sweep,
    pub user: u32,
    pub submitted: Moment,
    pub runs: Runs,
    pub paused: bool,
    /// Nothing starts any more, and why.
    pub stuck: Option<String>,
    /// Its results could not be put in place: it waits for a while.
    pub hold: Option<Hold>,
    /// Different runs that failed since it was submitted, topped up or retried.
    pub tainted: u32,
    pub measured: Measured,
    pub outcomes: Outcomes,
    /// When a run of it failed last, no second host could have taken it: to keep it from the only one would be to wait for ever.
    pub no_choice: bool,
    /// How it fares on each host.
    pub tallies: BTreeMap<u32, Tally>,
    /// Results of it that wait for their place, by host.
    pub unplaced: BTreeMap<u32, u32>,
    /// Runs that hold a seat.
    pub heads: BTreeSet<u32>,
    /// Runs that are on a host, in line behind one of those.
    pub chained: u32,
    /// Runs that wait to be tried again, and where they failed.
    pub avoid: BTreeMap<u32, u32>,
    /// Runs that are not over, and how often the keeper of their host was killed while they ran.
    pub felled: BTreeMap<u32, u8>,
    pub endings: BTreeMap<u32, Ending>,
    /// Under which priority it stands among those that have something to start.
    pub(super) ready: Option<i32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::queue) struct Hold {
    pub until: Moment,
    pub why: String,
    in_a_row: u32,
    /// It was over, and something of the sweep has been started since.
    pub tried: bool,
}

/// What finished runs took.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::queue) struct Measured {
    pub finished: u32,
    pub total_ms: u64,
    /// The last ones count most, in eighths of a millisecond.
    pub recent_eighths: u64,
    pub peak_memory_bytes: u64,
    /// `None`: none that used devices has finished yet.
    pub peak_gpu_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::queue) struct Tally {
    pub finished: u32,
    pub failed: u32,
    /// Failures since the last success.
    pub in_a_row: u32,
    /// What had ended of the sweep, everywhere, when they began.
    pub since: Outcomes,
    /// The program could not even be started.
    pub not_started: bool,
}

/// Processes that ended by themselves, well and badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::queue) struct Outcomes {
    pub finished: u32,
    pub failed: u32,
}

impl SweepState {
    pub fn new(sweep: Sweep, user: u32, submitted: Moment) -> SweepState {
        SweepState {
            sweep,
            user,
            submitted,
            runs: Runs::default(),
            paused: false,
            stuck: None,
            hold: None,
            tainted: 0,
            measured: Measured::default(),
            outcomes: Outcomes::default(),
            no_choice: false,
            tallies: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            heads: BTreeSet::new(),
            chained: 0,
            avoid: BTreeMap::new(),
            felled: BTreeMap::new(),
            endings: BTreeMap::new(),
            ready: None,
        }
    }

    pub fn run_id(&self, index: u32) -> Option<RunId> {
        let (cell, rep) = self.runs.id(index)?;
        Some(RunId { sweep: self.sweep.name.clone(), cell, rep })
    }

    pub fn attempt(&self, index: u32, number: u32) -> Option<Attempt> {
        Some(Attempt { run: self.run_id(index)?, number })
    }

    /// Every copy of every configuration is there.
    pub fn is_complete(&self) -> bool {
        self.runs.count(State::Finished) == self.runs.len()
    }

    /// Nothing waits or lives: it gets no further by itself.
    pub fn is_over(&self) -> bool {
        self.runs.count(State::Waiting) == 0 && self.runs.count(State::Live) == 0
    }

    pub fn succeeded(&mut self, ms: u64) {
        let m = &mut self.measured;
        m.recent_eighths = if m.finished == 0 { ms * 8 } else { m.recent_eighths - m.recent_eighths / 8 + ms };
        m.finished += 1;
        m.total_ms = m.total_ms.saturating_add(ms);
        self.stuck = None;
        self.hold = None;
    }

    /// Its results' place does not take them: longer each time, until one gets through.
    pub fn hold(&mut self, why: &str, at: Moment) {
        let in_a_row = self.hold.as_ref().map_or(0, |hold| hold.in_a_row + 1);
        let pause = (HOLD_MS << in_a_row.min(10)).min(LONGEST_HOLD_MS);
        // Many runs end at once: they are one refusal, not several.
        if self.hold.as_ref().is_none_or(|hold| hold.until <= at) {
            self.hold = Some(Hold { until: at.saturating_add(pause), why: why.into(), in_a_row, tried: false });
        }
    }

    /// Somebody changed something, or wants it tried again: what went wrong before says nothing any more.
    pub fn forgive(&mut self) {
        self.stuck = None;
        self.hold = None;
        self.tainted = 0;
        for tally in self.tallies.values_mut() {
            tally.in_a_row = 0;
            tally.not_started = false;
        }
    }

    /// Alive when two keepers were killed: such runs are tried one at a time on a host.
    pub fn is_watched(&self, index: u32) -> bool {
        self.felled.get(&index).is_some_and(|times| *times >= 2)
    }

    pub fn keep_ending(&mut self, index: u32, ending: Ending) {
        if self.endings.len() < ENDINGS_KEPT {
            self.endings.insert(index, ending);
        }
    }

    pub fn bytes(&self) -> usize {
        let each = |entries: usize, size: usize| entries * (size + 16);
        size_of::<SweepState>()
            + self.runs.bytes()
            + each(self.tallies.len(), size_of::<(u32, Tally)>())
            + each(self.heads.len(), 4)
            + each(self.avoid.len(), 8)
            + each(self.felled.len(), 8)
            + each(self.endings.len(), size_of::<Ending>() + 64)
    }
}

impl Measured {
    pub fn mean_ms(&self) -> Option<u64> {
        (self.finished > 0).then(|| self.total_ms / u64::from(self.finished))
    }

    /// The mean, or what the last ones took if that is more.
    pub fn careful_ms(&self) -> Option<u64> {
        Some(self.mean_ms()?.max(self.recent_eighths / 8))
    }
}
