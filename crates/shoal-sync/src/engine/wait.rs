//! Waiting: until the data is there or a death is named (GRAD-5), saying from time to time for whom.

use super::Engine;
use super::handle::Handle;
use super::team_path::{Awaited, TeamOp};
use super::timeline::{Record, Timeline, Way};
use crate::control::ToMaster;
use crate::error::SyncError;
use crate::local::Ticket;
use crate::net::reactor::Event;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a wait lasts before it asks for whom, and how often it says so.
const ASK_AFTER: Duration = Duration::from_secs(2);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often a wait that may be given up looks whether it is.
pub(super) const LOOK_UP: Duration = Duration::from_millis(200);

/// An operation under way. Dropping it waits for its end, because the engine works in the caller's memory until then.
#[must_use = "an operation is only done when it has been waited for"]
pub struct Pending {
    pub(super) engine: Engine,
    pub(super) handle: Arc<Handle>,
    pub(super) course: Course,
    pub(super) name: Arc<str>,
    pub(super) patience: Patience,
}

/// Which way a tensor goes.
pub(super) enum Course {
    Network,
    /// Through memory alone; the handle then only keeps how it ended.
    Memory {
        ticket: Ticket,
        holes: Holes,
    },
    /// Through memory and the network.
    Team(Arc<TeamOp>),
}

/// What becomes of the places of those who have finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// There are no such places.
    None,
    /// Every worker's part is needed (all_gather): without one it fails.
    Refused,
    /// They stay as they are, and are told.
    Told,
}

impl Engine {
    /// Waits until the handle has ended, saying from time to time for whom.
    pub(super) fn await_handle(&self, handle: &Arc<Handle>, name: &str) -> Result<(), SyncError> {
        let mut patience = Patience::new();
        loop {
            if let Some(outcome) = self.await_slice(handle, name, &mut patience, ASK_AFTER) {
                return outcome;
            }
        }
    }

    /// Waits for at most `slice`; every two seconds it asks for whom, and every ten it says so.
    pub(super) fn await_slice(
        &self,
        handle: &Arc<Handle>,
        name: &str,
        patience: &mut Patience,
        slice: Duration,
    ) -> Option<Result<(), SyncError>> {
        if !self.inner.driver.wait(handle, Instant::now() + slice) && patience.is_over() {
            self.find_out(handle, name, patience);
        }
        if !handle.is_done() {
            return None;
        }
        self.moves_again(patience);
        handle.outcome()
    }

    fn moves_again(&self, patience: &Patience) {
        if patience.blocked
            && let Some(master) = &self.inner.master
        {
            master.tell(&ToMaster::Moving);
        }
    }

    /// Asks the shards for whom an operation waits, and says so.
    fn find_out(&self, handle: &Arc<Handle>, name: &str, patience: &mut Patience) {
        let driver = &self.inner.driver;
        driver.inbox.post(Event::Ask { handle: handle.clone() });
        driver.wait(handle, Instant::now() + Duration::from_millis(200));
        let waiting = driver.reactor().node.waiting_for(handle.op());
        match waiting {
            Some((key, step, missing)) => self.complain(key, step, &missing, patience),
            None => self.say_whom_shutdown_awaits(name, patience),
        }
    }

    pub(super) fn complain(&self, key: String, step: u64, missing: &[u32], patience: &mut Patience) {
        let workers: Vec<u32> = missing.iter().copied().filter(|n| *n < self.size()).collect();
        if let Some(master) = &self.inner.master {
            master.tell(&ToMaster::Blocked { key: key.clone(), missing: workers });
            patience.blocked = true;
        }
        if patience.told.elapsed() >= TELL_EVERY && !missing.is_empty() {
            patience.told = Instant::now();
            // From the loop: who holds a number may have changed.
            let world = self.inner.driver.reactor().node.world.clone();
            let names: Vec<String> = missing.iter().map(|w| world.name(*w).to_string()).collect();
            let seconds = patience.started.elapsed().as_secs();
            tracing::warn!(key, step, seconds, "waiting for {}", names.join(", "));
        }
    }

    pub(super) fn say_whom_shutdown_awaits(&self, name: &str, patience: &mut Patience) {
        if name == "shutdown" && patience.told.elapsed() >= TELL_EVERY {
            patience.told = Instant::now();
            let left = self.inner.driver.reactor().node.unfinished();
            let names: Vec<String> = left.iter().map(|w| self.inner.world.name(*w).to_string()).collect();
            let seconds = patience.started.elapsed().as_secs();
            tracing::info!(seconds, "done here; serving the shard until {} finish", names.join(", "));
        }
    }
}

/// How long a wait has lasted, and what was done about it.
pub(super) struct Patience {
    started: Instant,
    asked: Instant,
    told: Instant,
    blocked: bool,
    /// Somebody who had not come when this worker began to wait.
    missed: Option<u32>,
}

impl Patience {
    pub(super) fn new() -> Patience {
        let now = Instant::now();
        Patience { started: now, asked: now, told: now, blocked: false, missed: None }
    }

    /// A tensor that went through memory is done.
    fn record(&self, timeline: &Timeline, name: &Arc<str>, step: u64, bytes: usize) {
        timeline.keep(Record {
            name: name.clone(),
            step,
            way: Way::Memory,
            bytes,
            submitted: timeline.at(self.started),
            first_sent: 0,
            last_sent: 0,
            done: timeline.now(),
            last: self.missed,
        });
    }

    /// Whether it is time to ask again; asking starts it anew.
    fn is_over(&mut self) -> bool {
        let over = self.asked.elapsed() >= ASK_AFTER;
        if over {
            self.asked = Instant::now();
        }
        over
    }
}

impl Pending {
    /// Waits until the tensor holds the result.
    pub fn wait(mut self) -> Result<(), SyncError> {
        loop {
            if let Some(outcome) = self.wait_timeout(ASK_AFTER) {
                return outcome;
            }
        }
    }

    /// Waits for at most `slice`: for callers that must look up from time to time.
    pub fn wait_timeout(&mut self, slice: Duration) -> Option<Result<(), SyncError>> {
        match &self.course {
            Course::Network => self.engine.await_slice(&self.handle, &self.name, &mut self.patience, slice),
            Course::Memory { .. } => self.wait_in_memory(slice),
            Course::Team(_) => self.wait_with_team(slice),
        }
    }

    fn wait_in_memory(&mut self, slice: Duration) -> Option<Result<(), SyncError>> {
        let (Some(local), Course::Memory { ticket, holes }) = (&self.engine.inner.local, &self.course) else {
            return None;
        };
        if let Some(outcome) = self.handle.outcome() {
            return Some(outcome);
        }
        let timeline = self.engine.timeline();
        if timeline.is_on()
            && let Some(last) = local.group().missing(ticket).last()
        {
            self.patience.missed = Some(*last);
        }
        match local.group().wait(ticket, Some(slice)) {
            Ok(true) => {
                self.engine.end_in_memory(local.group(), ticket, *holes, &self.name, &self.handle);
                self.patience.record(timeline, &self.name, ticket.step(), ticket.bytes());
            }
            Ok(false) => {
                if self.patience.is_over() {
                    let missing = local.group().missing(ticket);
                    self.engine.complain(self.name.to_string(), ticket.step(), &missing, &mut self.patience);
                }
                return None;
            }
            Err(error) => self.handle.end(Err(self.engine.explain_local(error, &self.name))),
        }
        self.engine.moves_again(&self.patience);
        self.handle.outcome()
    }

    fn wait_with_team(&mut self, slice: Duration) -> Option<Result<(), SyncError>> {
        let (Some(team), Course::Team(op)) = (&self.engine.inner.team, &self.course) else { return None };
        if !self.engine.inner.driver.wait(&self.handle, Instant::now() + slice) {
            if self.patience.is_over() {
                match team.awaited(op) {
                    Awaited::Neighbours(missing) => {
                        self.engine.complain(self.name.to_string(), op.step(), &missing, &mut self.patience);
                    }
                    Awaited::Others(net) => self.engine.find_out(&net, &self.name, &mut self.patience),
                }
            }
            return None;
        }
        self.engine.moves_again(&self.patience);
        self.handle.outcome()
    }

    pub fn is_done(&self) -> bool {
        if self.handle.is_done() {
            return true;
        }
        match (&self.engine.inner.local, &self.course) {
            (Some(local), Course::Memory { ticket, holes }) => match local.group().is_done(ticket) {
                Ok(done) => {
                    if done {
                        self.engine.end_in_memory(local.group(), ticket, *holes, &self.name, &self.handle);
                        let (step, bytes) = (ticket.step(), ticket.bytes());
                        self.patience.record(self.engine.timeline(), &self.name, step, bytes);
                    }
                    done
                }
                Err(error) => {
                    self.handle.end(Err(self.engine.explain_local(error, &self.name)));
                    true
                }
            },
            _ => {
                self.engine.inner.driver.push_along();
                self.handle.is_done()
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whose rows a partial gather that has ended did without, the same on all workers; one of them may have left a part of its row.
    pub fn absent(&self) -> Vec<u32> {
        self.handle.absent()
    }

    /// Workers this operation waits for, as last heard.
    pub fn waiting_for(&self) -> Vec<u32> {
        if self.handle.is_done() {
            return Vec::new();
        }
        let inner = &self.engine.inner;
        let heard = |handle: &Handle| {
            let waiting = inner.driver.reactor().node.waiting_for(handle.op());
            waiting.map_or_else(Vec::new, |w| w.2.into_iter().filter(|n| *n < self.engine.size()).collect())
        };
        match (&self.course, &inner.local, &inner.team) {
            (Course::Memory { ticket, .. }, Some(local), _) => local.group().missing(ticket),
            (Course::Team(op), _, Some(team)) => match team.awaited(op) {
                Awaited::Neighbours(missing) => missing,
                Awaited::Others(net) => heard(&net),
            },
            _ => heard(&self.handle),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.handle.is_done() && !self.engine.inner.is_forked() {
            // Ends with the data or with a named death (GRAD-5); the memory must not be given up before.
            while self.wait_timeout(ASK_AFTER).is_none() {}
        }
    }
}
