//! Waiting: until the data is there or a death is named (GRAD-5), saying from time to time for whom.

use super::Engine;
use super::handle::Handle;
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
    /// Set where the tensor goes through memory; the handle then only keeps how it ended.
    pub(super) ticket: Option<Ticket>,
    /// Every worker's part is needed (all_gather): without one, the result has a hole.
    pub(super) whole: bool,
    pub(super) name: Arc<str>,
    pub(super) patience: Patience,
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
        let driver = &self.inner.driver;
        if !driver.wait(handle, Instant::now() + slice) && patience.asked.elapsed() >= ASK_AFTER {
            patience.asked = Instant::now();
            driver.inbox.post(Event::Ask { handle: handle.clone() });
            driver.wait(handle, Instant::now() + Duration::from_millis(200));
            let waiting = driver.reactor().node.waiting_for(handle.op());
            match waiting {
                Some((key, step, missing)) => self.complain(key, step, &missing, patience),
                None => self.say_whom_shutdown_awaits(name, patience),
            }
        }
        if !handle.is_done() {
            return None;
        }
        if patience.blocked
            && let Some(master) = &self.inner.master
        {
            master.tell(&ToMaster::Moving);
        }
        handle.outcome()
    }

    pub(super) fn complain(&self, key: String, step: u64, missing: &[u32], patience: &mut Patience) {
        let workers: Vec<u32> = missing.iter().copied().filter(|n| *n < self.size()).collect();
        if let Some(master) = &self.inner.master {
            master.tell(&ToMaster::Blocked { key: key.clone(), missing: workers });
            patience.blocked = true;
        }
        if patience.told.elapsed() >= TELL_EVERY && !missing.is_empty() {
            patience.told = Instant::now();
            let names: Vec<String> = missing.iter().map(|w| self.inner.world.name(*w).to_string()).collect();
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
}

impl Patience {
    pub(super) fn new() -> Patience {
        let now = Instant::now();
        Patience { started: now, asked: now, told: now, blocked: false }
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
        if self.ticket.is_some() {
            return self.wait_in_memory(slice);
        }
        self.engine.await_slice(&self.handle, &self.name, &mut self.patience, slice)
    }

    fn wait_in_memory(&mut self, slice: Duration) -> Option<Result<(), SyncError>> {
        let (Some(local), Some(ticket)) = (&self.engine.inner.local, &self.ticket) else { return None };
        if let Some(outcome) = self.handle.outcome() {
            return Some(outcome);
        }
        let outcome = match local.group().wait(ticket, Some(slice)) {
            Ok(true) => self.engine.check_gathered(local.group(), ticket, self.whole, &self.name),
            Ok(false) => {
                if self.patience.asked.elapsed() >= ASK_AFTER {
                    self.patience.asked = Instant::now();
                    let missing = local.group().missing(ticket);
                    self.engine.complain(self.name.to_string(), ticket.step(), &missing, &mut self.patience);
                }
                return None;
            }
            Err(error) => Err(self.engine.explain_local(error, &self.name)),
        };
        if self.patience.blocked
            && let Some(master) = &self.engine.inner.master
        {
            master.tell(&ToMaster::Moving);
        }
        self.handle.end(outcome.clone());
        Some(outcome)
    }

    pub fn is_done(&self) -> bool {
        if self.handle.is_done() {
            return true;
        }
        match (&self.engine.inner.local, &self.ticket) {
            (Some(local), Some(ticket)) => match local.group().is_done(ticket) {
                Ok(done) => {
                    if done {
                        self.handle.end(self.engine.check_gathered(local.group(), ticket, self.whole, &self.name));
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

    /// Workers this operation waits for, as last heard.
    pub fn waiting_for(&self) -> Vec<u32> {
        if let (Some(local), Some(ticket)) = (&self.engine.inner.local, &self.ticket) {
            return if self.handle.is_done() { Vec::new() } else { local.group().missing(ticket) };
        }
        self.engine
            .inner
            .driver
            .reactor()
            .node
            .waiting_for(self.handle.op())
            .map_or_else(Vec::new, |w| w.2.into_iter().filter(|n| *n < self.engine.size()).collect())
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
