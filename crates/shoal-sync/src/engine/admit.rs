//! Letting newcomers in at a step boundary, and being one (see [`crate::node::admit`]).

use super::Engine;
use super::handle::Handle;
use super::tensor::TensorSpec;
use super::wait::{Course, Patience, Pending};
use crate::control::{Late, ToMaster};
use crate::dtype::DType;
use crate::error::SyncError;
use crate::layout::Layout;
use crate::net::reactor::Event;
use crate::node::admit::KEY;
use crate::node::op::Request;
use crate::wire::Combine;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a newcomer looks whether it is in, or should give up.
const LOOK_UP: Duration = Duration::from_millis(20);

/// A step boundary under way. Dropping it waits for its end, because this worker's word on it is given.
#[must_use = "a boundary is only over when it has been waited for"]
pub struct Boundary {
    engine: Engine,
    /// Nothing where nobody can ever join.
    pending: Option<Pending>,
    votes: Vec<f64>,
}

impl Engine {
    /// A step boundary: the ranks that have just joined, the same on all; usually none. All workers call it at the same point, with
    /// nothing else under way. Newcomers then lack what the others have (parameters, the number of the step): broadcast it
    /// from [`Engine::root`]. Where nobody can join (`on_death=fail`, or no servers) it returns at once.
    pub fn admit(&self) -> Result<Vec<u32>, SyncError> {
        let mut boundary = self.start_admit()?;
        loop {
            if let Some(outcome) = boundary.wait_timeout(Duration::from_secs(2)) {
                return outcome;
            }
        }
    }

    /// The same, to be waited for.
    pub fn start_admit(&self) -> Result<Boundary, SyncError> {
        let usage = |why: &str| SyncError::Usage { key: "admit".into(), why: why.into() };
        if self.inner.is_forked() {
            return Err(usage(
                "this process was forked after the engine connected; only the process that connected may use it",
            ));
        }
        let mut reactor = self.inner.driver.reactor();
        if !reactor.node.may_admit() {
            return Ok(Boundary { engine: self.clone(), pending: None, votes: Vec::new() });
        }
        let mut votes = reactor.node.votes();
        drop(reactor);
        let key = self.register(KEY, TensorSpec { dtype: DType::F64, shape: vec![votes.len()], priority: 0 })?;
        let shards = self.inner.world.shards();
        let request = Request {
            key: key.key,
            name: key.name.clone(),
            dtype: DType::F64,
            shape: key.spec.shape.clone().into(),
            combine: Combine::Sum,
            weight: 1.0,
            priority: 0,
            layout: Arc::new(Layout::shared(key.key, key.bytes, self.inner.settings.block_size, shards)),
            // Stays where it is when the vector moves, and is not touched until the vote has ended.
            at: votes.as_mut_ptr().cast(),
            team_step: None,
            members: None,
            partial: false,
        };
        let handle = Arc::new(Handle::default());
        self.inner.driver.inbox.post(Event::Admit { request, handle: handle.clone() });
        self.inner.driver.push_along();
        let (engine, patience) = (self.clone(), Patience::new());
        let pending = Pending { engine, handle, course: Course::Network, name: key.name, patience };
        Ok(Boundary { engine: self.clone(), pending: Some(pending), votes })
    }

    /// Whether this worker came when the run was under way.
    pub fn joined_late(&self) -> bool {
        self.inner.joined_late.load(Ordering::Relaxed)
    }

    /// The workers as of the last boundary, those who came in there included: the same list on every rank. All there are
    /// before the first.
    pub fn members(&self) -> Vec<u32> {
        self.inner.driver.reactor().node.members()
    }

    /// Whom to broadcast from: the lowest rank that took part in the last boundary, the same on every rank and on those who came
    /// in there; 0 before the first.
    pub fn root(&self) -> u32 {
        self.inner.driver.reactor().node.root()
    }

    fn conclude(&self, votes: &[f64]) -> Result<Vec<u32>, SyncError> {
        let joined = self.inner.driver.reactor().node.conclude_boundary(votes)?;
        self.inner.driver.push_along();
        if !joined.is_empty() {
            // A newcomer counts from 0.
            self.inner.barriers.store(0, Ordering::Relaxed);
        }
        for newcomer in &joined {
            if let Some(master) = &self.inner.master {
                master.tell(&ToMaster::Admitted { node: newcomer.node, incarnation: newcomer.incarnation });
            }
        }
        Ok(joined.into_iter().map(|n| n.node).collect())
    }

    /// A newcomer's wait until all servers have let it in. It ends with the data, with the run, with the time that was given, or
    /// when `stop` says so (GRAD-5); in all but the first case this worker just leaves, which harms nobody.
    pub(super) fn await_admission(
        &self,
        late: &Late,
        deadline: Instant,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), SyncError> {
        let Some(master) = &self.inner.master else { return Err(SyncError::ShutDown) };
        master.tell(&ToMaster::AtTheDoor);
        tracing::info!("waiting to be let in at a step boundary, as worker {}", self.rank());
        let never = Handle::default();
        let refusal = loop {
            self.inner.driver.wait(&never, Instant::now() + LOOK_UP);
            let reactor = self.inner.driver.reactor();
            if let Some(error) = reactor.node.fatal() {
                break error.clone();
            }
            let missing = reactor.node.not_let_in_by();
            if missing.is_empty() {
                drop(reactor);
                self.inner.joined_late.store(true, Ordering::Relaxed);
                master.tell(&ToMaster::Admitted { node: self.rank(), incarnation: late.incarnation });
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = if missing.len() < self.inner.world.shards() {
                    let names: Vec<String> = missing.iter().map(|n| reactor.node.world.name(*n).to_string()).collect();
                    format!("{} to let this worker in, as other servers have", names.join(", "))
                } else {
                    "the other workers to let this one in (they do so when they call admit() between two steps)".into()
                };
                break SyncError::Timeout { what, seconds: self.inner.settings.connect_timeout.as_secs() };
            }
            drop(reactor);
            if stop() {
                break SyncError::ShutDown;
            }
        };
        self.hang_up();
        Err(refusal)
    }
}

impl Boundary {
    /// Waits for at most `slice`: for callers that must look up from time to time.
    pub fn wait_timeout(&mut self, slice: Duration) -> Option<Result<Vec<u32>, SyncError>> {
        let Some(pending) = &mut self.pending else { return Some(Ok(Vec::new())) };
        let outcome = pending.wait_timeout(slice)?;
        self.pending = None;
        Some(outcome.and_then(|()| self.engine.conclude(&self.votes)))
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        while self.pending.is_some() && !self.engine.inner.is_forked() {
            // The outcome is acted upon, or the others would wait for this worker's steps.
            let _ = self.wait_timeout(Duration::from_secs(2));
        }
    }
}
