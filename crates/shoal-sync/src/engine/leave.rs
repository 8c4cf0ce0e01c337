//! Leaving a run: done, interrupted, or by simply being dropped.

use super::handle::Handle;
use super::wait::{LOOK_UP, Patience};
use super::{Engine, Inner};
use crate::control::ToMaster;
use crate::error::SyncError;
use crate::local::LocalError;
use crate::net::reactor::{Event, Traffic};
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

impl Engine {
    /// This worker is done; the others go on without it. Its shard, if it has one, serves them until shutdown.
    pub fn finish(&self) -> Result<(), SyncError> {
        if self.inner.is_forked() {
            return Err(SyncError::ShutDown);
        }
        if let Some(local) = &self.inner.local {
            local
                .group()
                .finish()
                .map_err(|error| SyncError::Usage { key: "finish".into(), why: error.to_string() })?;
        }
        if let Some(team) = &self.inner.team {
            if !team.is_idle() {
                let why = "operations are still under way; wait for them before finish()".into();
                return Err(SyncError::Usage { key: "finish".into(), why });
            }
            // First the thread: one that has finished must not die with a neighbour's chunk in its hands.
            team.stop();
            let wrong = |error: LocalError| SyncError::Usage { key: "finish".into(), why: error.to_string() };
            team.group().finish().map_err(wrong)?;
        }
        let handle = Arc::new(Handle::default());
        self.inner.driver.inbox.post(Event::Finish { handle: handle.clone() });
        self.inner.driver.push_along();
        self.await_handle(&handle, "finish")?;
        if let Some(master) = &self.inner.master {
            master.tell(&ToMaster::Finish);
        }
        Ok(())
    }

    /// Finishes, waits until nobody needs this process any more, and hangs up.
    pub fn shutdown(&self) -> Result<(), SyncError> {
        self.shutdown_unless(&|| false)
    }

    /// The same, but once `stop` says so (Ctrl-C while others still train) the run is ended for all.
    pub fn shutdown_unless(&self, stop: &dyn Fn() -> bool) -> Result<(), SyncError> {
        let outcome = self.finish().and_then(|()| {
            let handle = Arc::new(Handle::default());
            self.inner.driver.inbox.post(Event::Drained { handle: handle.clone() });
            self.inner.driver.push_along();
            let mut patience = Patience::new();
            loop {
                if let Some(outcome) = self.await_slice(&handle, "shutdown", &mut patience, LOOK_UP) {
                    return outcome;
                }
                if stop() {
                    self.abort("interrupted while its shard still served the others");
                    return Err(SyncError::ShutDown);
                }
            }
        });
        self.hang_up();
        outcome
    }

    /// Ends the run for everyone, giving a reason (an exception in the training script, say).
    pub fn abort(&self, why: &str) {
        if self.inner.is_forked() {
            return;
        }
        let error = SyncError::Aborted { who: self.inner.world.name(self.inner.rank), why: why.into() };
        if let Some(master) = &self.inner.master {
            master.tell(&ToMaster::Abort { error: error.clone() });
        }
        self.inner.driver.inbox.post(Event::Fail { error });
        let deadline = Instant::now() + Duration::from_millis(300);
        while Instant::now() < deadline {
            self.inner.driver.push_along();
            if self.inner.driver.reactor().all_said() {
                break;
            }
        }
        self.hang_up();
    }

    pub(super) fn hang_up(&self) {
        if self.inner.is_forked() {
            return;
        }
        if let Some(master) = &self.inner.master {
            master.hang_up();
        }
        self.inner.driver.stop();
        if let Some(local) = &self.inner.local {
            local.stop();
        }
        if let Some(team) = &self.inner.team {
            team.stop();
        }
        let threads = std::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has already said so; there is nothing left to do for it.
            let _ = thread.join();
        }
    }

    /// The sockets by which the others see that this process is alive. A forked child has copies of them; as long as it keeps those
    /// open, nobody sees this process die (GRAD-5).
    pub fn sockets(&self) -> Vec<RawFd> {
        if self.inner.is_forked() {
            return Vec::new();
        }
        let mut sockets = self.inner.driver.reactor().sockets();
        sockets.extend(self.inner.master.iter().map(|master| master.socket()));
        sockets
    }

    pub fn traffic(&self) -> Traffic {
        self.inner.driver.reactor().traffic()
    }
}

impl Inner {
    /// Whether this is a child of the process that connected.
    pub(super) fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        // The last user has gone without shutdown(): hang up, so that the others see a death and not a hang.
        if let Some(master) = &self.master {
            master.hang_up();
        }
        self.driver.stop();
        if let Some(local) = &self.local {
            local.stop();
        }
        if let Some(team) = &self.team {
            team.stop_soon();
        }
    }
}
