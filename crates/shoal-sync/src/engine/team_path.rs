//! One sum leaves the host: workers that share a host's memory sum there first, one of them speaks for all of them on the
//! network, and the result is spread in memory again.
//!
//! Who speaks is decided anew for each step of each key: the lowest of those who contributed. So a worker that finishes hands
//! nothing over; the next one simply speaks. Shards count the team as heard once one of it has spoken (GRAD-2).
//!
//! A thread of its own moves the operations along (collect in memory, speak, spread in memory), so that sums are made while
//! scripts compute. Small tensors are not worth the two extra meetings and go to the shards from every worker.

use super::driver::Driver;
use super::handle::Handle;
use super::local_path;
use super::timeline::{Record, Way};
use crate::error::SyncError;
use crate::local::{Action, LocalError, LocalGroup, LocalOp, Scale, Ticket};
use crate::net::reactor::Event;
use crate::node::op::Request;
use crate::node::world::World;
use crate::wire::{Combine, holds_sums};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tensors below this go to the shards from every worker: for them the round trips count, not the bytes.
pub const WORTH_IT: usize = 64 * 1024;

/// Makes the second slot of a key: one to collect, one to spread.
const SPREAD: u64 = 0x5350_5245_4144_2121;

pub struct TeamPath {
    group: LocalGroup,
    me: u32,
    world: World,
    driver: Arc<Driver>,
    /// Steps begun so far, by key.
    steps: Mutex<HashMap<u64, u64>>,
    /// Keys under way. Bounds `posted`: each is there at most once.
    under_way: Mutex<HashSet<u64>>,
    posted: Mutex<Vec<Arc<TeamOp>>>,
    news: AtomicBool,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One tensor on its way through the three stages.
pub struct TeamOp {
    request: Request,
    step: u64,
    slots: (u32, u32),
    handle: Arc<Handle>,
    submitted: Instant,
    stage: Mutex<Stage>,
}

enum Stage {
    Collecting(Ticket),
    Speaking(Arc<Handle>),
    Spreading(Ticket),
    Over,
}

/// Whom an operation waits for, as far as this host knows.
pub enum Awaited {
    Neighbours(Vec<u32>),
    /// This worker has spoken; the shards know more.
    Others(Arc<Handle>),
}

struct Alarm(std::sync::Weak<TeamPath>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(path) = self.0.upgrade() {
            path.ring();
        }
    }
}

impl TeamPath {
    /// Takes over the group, and starts the thread that moves operations along.
    pub fn start(group: LocalGroup, me: u32, world: World, driver: Arc<Driver>) -> std::io::Result<Arc<TeamPath>> {
        let path = Arc::new(TeamPath {
            group,
            me,
            world,
            driver,
            steps: Mutex::default(),
            under_way: Mutex::default(),
            posted: Mutex::default(),
            news: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let runner = path.clone();
        let thread = std::thread::Builder::new().name("shoal-team".into()).spawn(move || runner.run())?;
        *lock(&path.thread) = Some(thread);
        Ok(path)
    }

    pub fn group(&self) -> &LocalGroup {
        &self.group
    }

    /// Whether a request goes this way. The same on every worker of the host: it depends on the key alone, and on room in an area they share.
    pub fn takes(&self, request: &Request) -> Option<(u32, u32)> {
        if request.combine == Combine::Copy || request.layout.total < WORTH_IT {
            return None;
        }
        Some((self.group.slot_of(request.key)?, self.group.slot_of(request.key ^ SPREAD)?))
    }

    /// Brings this worker's tensor to its neighbours.
    ///
    /// # Safety
    /// As for [`crate::Engine::push_pull`].
    pub unsafe fn submit(
        self: &Arc<TeamPath>,
        request: &Request,
        slots: (u32, u32),
        handle: &Arc<Handle>,
    ) -> Result<Arc<TeamOp>, LocalError> {
        if !lock(&self.under_way).insert(request.key) {
            return Err(LocalError::Busy { slot: slots.0, step: 0 });
        }
        let step = lock(&self.steps).get(&request.key).copied().unwrap_or(0);
        let op = LocalOp { fingerprint: request.key, action: collect(request) };
        // SAFETY: passed on to the caller.
        let ticket = unsafe { self.group.submit(slots.0, step, op) }.inspect_err(|_| {
            lock(&self.under_way).remove(&request.key);
        })?;
        lock(&self.steps).insert(request.key, step + 1);
        let op = Arc::new(TeamOp {
            request: request.clone(),
            step,
            slots,
            handle: handle.clone(),
            submitted: Instant::now(),
            stage: Mutex::new(Stage::Collecting(ticket)),
        });
        lock(&self.posted).push(op.clone());
        self.ring();
        Ok(op)
    }

    fn ring(&self) {
        self.news.store(true, Ordering::SeqCst);
        self.group.ring();
    }

    fn run(self: &Arc<TeamPath>) {
        let mut open: Vec<Arc<TeamOp>> = Vec::new();
        while !self.stop.load(Ordering::SeqCst) {
            self.news.store(false, Ordering::SeqCst);
            open.append(&mut lock(&self.posted));
            let mut moved = false;
            open.retain(|op| {
                moved |= self.advance(op);
                !op.handle.is_done()
            });
            if !moved && !self.group.help() {
                let before = Instant::now();
                self.group.wait_for_news(&self.news);
                if before.elapsed() >= Duration::from_millis(90) {
                    // Nothing rang for long: somebody may have died in silence.
                    open.iter().for_each(|op| self.look_around(op));
                }
            }
        }
    }

    fn look_around(&self, op: &TeamOp) {
        if let Stage::Collecting(ticket) | Stage::Spreading(ticket) = &*lock(&op.stage) {
            self.group.look_for_the_dead(ticket);
        }
    }

    /// Moves an operation to its next stage if it is through with the last; true if it did.
    fn advance(self: &Arc<TeamPath>, op: &Arc<TeamOp>) -> bool {
        let mut stage = lock(&op.stage);
        let next = match &*stage {
            Stage::Collecting(ticket) => match self.group.is_done(ticket) {
                Ok(false) => return false,
                Ok(true) => self.speak(op, ticket),
                Err(error) => Err(self.explain(error, op)),
            },
            Stage::Speaking(net) => match net.outcome() {
                None => return false,
                Some(Ok(())) => self.spread(op, self.me),
                Some(Err(error)) => Err(error),
            },
            Stage::Spreading(ticket) => match self.group.is_done(ticket) {
                Ok(false) => return false,
                Ok(true) => Ok(Stage::Over),
                Err(error) => Err(self.explain(error, op)),
            },
            Stage::Over => return false,
        };
        let outcome = match next {
            Ok(Stage::Over) => Ok(()),
            Ok(next) => {
                *stage = next;
                return true;
            }
            Err(error) => Err(error),
        };
        *stage = Stage::Over;
        let timeline = &self.driver.timeline;
        timeline.keep(Record {
            name: op.request.name.clone(),
            step: op.step,
            way: Way::Team,
            bytes: op.request.layout.total,
            submitted: timeline.at(op.submitted),
            first_sent: 0,
            last_sent: 0,
            done: timeline.now(),
            last: None,
        });
        // First free, then told: whoever is told may come with the next step at once.
        lock(&self.under_way).remove(&op.request.key);
        op.handle.end(outcome);
        self.driver.wake_waiters();
        true
    }

    /// The host's sum is in the speaker's tensor; the others wait for what becomes of it.
    fn speak(self: &Arc<TeamPath>, op: &TeamOp, ticket: &Ticket) -> Result<Stage, SyncError> {
        let speaker = self.group.contributors(ticket).first().copied().unwrap_or(self.me);
        if speaker != self.me {
            return self.spread(op, speaker);
        }
        let weight = if op.request.combine == Combine::Sum { 1.0 } else { self.group.total_weight(ticket) };
        let request = Request { weight, team_step: Some(op.step), ..op.request.clone() };
        let net = Arc::new(Handle::waking(Waker::from(Arc::new(Alarm(Arc::downgrade(self))))));
        self.driver.inbox.post(Event::Submit { request, handle: net.clone() });
        self.driver.push_along();
        Ok(Stage::Speaking(net))
    }

    fn spread(&self, op: &TeamOp, root: u32) -> Result<Stage, SyncError> {
        let action = Action::Broadcast { root, addr: op.request.at, bytes: op.request.layout.total };
        let local = LocalOp { fingerprint: op.request.key ^ SPREAD, action };
        // SAFETY: the tensor is left alone by its owner until the operation's handle has ended, which comes after.
        let ticket = unsafe { self.group.submit(op.slots.1, op.step, local) };
        ticket.map(Stage::Spreading).map_err(|error| self.explain(error, op))
    }

    fn explain(&self, error: LocalError, op: &TeamOp) -> SyncError {
        local_path::word_of_the_run(&self.driver, &self.world, error, &op.request.name)
    }

    pub fn is_idle(&self) -> bool {
        lock(&self.under_way).is_empty()
    }

    /// Ends the thread; what is still under way has to be over (or its run has failed).
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ring();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread.filter(|t| t.thread().id() != std::thread::current().id()) {
            // A thread that panicked has already said so.
            let _ = thread.join();
        }
    }

    /// The same, for those who must not wait.
    pub fn stop_soon(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub fn awaited(&self, op: &TeamOp) -> Awaited {
        match &*lock(&op.stage) {
            Stage::Collecting(ticket) | Stage::Spreading(ticket) => Awaited::Neighbours(self.group.missing(ticket)),
            Stage::Speaking(net) => Awaited::Others(net.clone()),
            Stage::Over => Awaited::Neighbours(Vec::new()),
        }
    }
}

impl TeamOp {
    pub fn step(&self) -> u64 {
        self.step
    }
}

/// What the neighbours make of their parts: a sum where the type holds one, else a mean (see [`crate::wire::Codec::Team`]).
fn collect(request: &Request) -> Action {
    let (addr, bytes, dtype, weight) = (request.at, request.layout.total, request.dtype, request.weight);
    let scale = match (request.combine, holds_sums(dtype)) {
        (Combine::Sum | Combine::Copy, _) | (Combine::Mean, true) => Scale::Sum,
        (Combine::Mean, false) => Scale::Mean,
        (Combine::WeightedMean, true) => Scale::WeightedSum { weight },
        (Combine::WeightedMean, false) => Scale::WeightedMean { weight },
    };
    Action::Collect { dtype, scale, addr, bytes }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
