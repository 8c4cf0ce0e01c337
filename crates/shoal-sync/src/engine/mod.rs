//! The engine as programs use it: connect, register, push_pull, broadcast, all_gather, barrier, finish, shutdown.

pub mod driver;
pub mod handle;
mod local_path;
pub mod tensor;

use crate::control::{Common, Register, Roster, ToMaster};
use crate::dtype::DType;
use crate::error::{Role, SyncError};
use crate::layout::{Layout, key_of};
use crate::local::{Hosting, Ticket};
use crate::net::join::{self, Joined};
use crate::net::master_line::Master;
use crate::net::reactor::{Event, Reactor, Traffic};
use crate::node::op::Request;
use crate::node::world::World;
use crate::node::{Config, Node};
use crate::settings::Settings;
use crate::wire::Combine;
use driver::Driver;
use handle::Handle;
use local_path::LocalPath;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
pub use tensor::{Key, Op, TensorSpec};

/// How long a wait lasts before it asks for whom, and how often it says so.
const ASK_AFTER: Duration = Duration::from_secs(2);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often a wait that may be given up looks whether it is.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Names longer than this would not fit the frame that introduces them.
const MAX_NAME: usize = 4096;

/// One worker's connection to a run. Cheap to clone; every method may be called from any thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Settings,
    rank: u32,
    world: World,
    driver: Arc<Driver>,
    master: Option<Arc<Master>>,
    local: local_path::Shared,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    keys: Mutex<HashMap<String, TensorSpec>>,
    introduced: Mutex<HashSet<u64>>,
    barriers: std::sync::atomic::AtomicU64,
}

/// An operation under way. Dropping it waits for its end, because the engine works in the caller's memory until then.
#[must_use = "an operation is only done when it has been waited for"]
pub struct Pending {
    engine: Engine,
    handle: Arc<Handle>,
    /// Set where the tensor goes through memory; the handle then only keeps how it ended.
    ticket: Option<Ticket>,
    name: Arc<str>,
    patience: Patience,
}

impl Engine {
    /// Joins the run that the settings name; returns when all its nodes are there.
    pub fn connect(settings: Settings) -> Result<Engine, SyncError> {
        Engine::connect_unless(settings, &|| false)
    }

    /// The same, given up with [`SyncError::ShutDown`] once `stop` says so (Ctrl-C while the others are still to come).
    pub fn connect_unless(settings: Settings, stop: &dyn Fn() -> bool) -> Result<Engine, SyncError> {
        settings.check()?;
        if !settings.distributed {
            let config = config_of(&settings, &common_of(&settings));
            return Engine::start(settings, 0, Node::new(World::alone(), 0, config), Vec::new(), None);
        }
        let common = common_of(&settings);
        // Without a place to meet, the network serves as well.
        let hosting = if settings.shared_memory { Hosting::bind().ok() } else { None };
        let meeting = hosting.as_ref().map(|h| h.name().to_string());
        let joined = join::join(
            &settings.master_address,
            &settings.token,
            settings.listen_host.as_deref(),
            settings.connect_timeout,
            stop,
            |port| Register {
                role: Role::Worker,
                id: u32::try_from(settings.client_id).ok(),
                host: crate::host::name(),
                pid: std::process::id(),
                address: settings.listen_host.clone(),
                port,
                memory_domain: meeting.as_ref().and_then(|_| crate::host::memory_domain()),
                meeting,
                num_workers: settings.num_workers,
                common: Some(common),
                version: env!("CARGO_PKG_VERSION").into(),
            },
        )?;
        let Joined { me, roster, world, master, links, dead, .. } = joined;
        let node = Node::new(world, me, config_of(&settings, &roster.common));
        let mut engine = Engine::start(settings, me, node, links, Some((master, roster.master.host.clone())))?;
        for (node, how) in dead {
            engine.inner.driver.inbox.post(Event::Lost { node, how });
        }
        if local_path::possible(&roster) {
            engine.meet_in_memory(&roster, hosting)?;
        }
        Ok(engine)
    }

    /// Sums through memory from now on, if every worker has managed to meet.
    fn meet_in_memory(&mut self, roster: &Roster, hosting: Option<Hosting>) -> Result<(), SyncError> {
        let met = LocalPath::meet(roster, self.rank(), &self.inner.settings.token, hosting);
        // All or nobody: one worker that is left out would wait for ever.
        let mut votes = [f32::from(u8::from(met.is_ok()))];
        let key =
            self.register("shoal: met in memory", TensorSpec { dtype: DType::F32, shape: vec![1], priority: 0 })?;
        // SAFETY: `votes` outlives the wait.
        unsafe { self.push_pull(&key, votes.as_mut_ptr().cast(), Op::Sum) }?.wait()?;
        let all = votes[0] as u32 == self.size();
        match met {
            Ok(path) if all => {
                let path = Arc::new(path);
                let fault = |e: std::io::Error| SyncError::system("cannot start a thread", e);
                let helper = path.clone();
                let builder = std::thread::Builder::new().name("shoal-local".into());
                let thread = builder.spawn(move || helper.help()).map_err(fault)?;
                let poison = path.clone();
                let members: Vec<u32> = (0..self.size()).collect();
                self.inner.driver.reactor().when_failed(Box::new(move |error| {
                    let culprit = match error {
                        SyncError::Dead { who, .. }
                        | SyncError::Aborted { who, .. }
                        | SyncError::Protocol { who, .. } => who.id,
                        _ => members[0],
                    };
                    poison.group().poison(culprit);
                }));
                let inner = Arc::get_mut(&mut self.inner).ok_or(SyncError::ShutDown)?;
                inner.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
                inner.local = Some(path);
            }
            Ok(_) => tracing::info!("not all workers can reach each other's memory; using the network"),
            Err(why) => tracing::info!(%why, "workers of this host cannot meet in memory; using the network"),
        }
        Ok(())
    }

    fn start(
        settings: Settings,
        rank: u32,
        node: Node,
        links: Vec<(u32, std::net::TcpStream)>,
        master: Option<(std::net::TcpStream, String)>,
    ) -> Result<Engine, SyncError> {
        let world = node.world.clone();
        let (reactor, inbox) = Reactor::new(node, links)?;
        let driver = Arc::new(Driver::new(reactor, inbox));
        let mut threads = Vec::new();
        let fault = |e: std::io::Error| SyncError::system("cannot start a thread", e);
        let master = match master {
            Some((stream, host)) => {
                let (master, thread) = Master::attend(stream, host, driver.inbox.clone())?;
                let master = Arc::new(master);
                driver.reactor().master = Some(master.clone());
                threads.push(thread);
                let driver = driver.clone();
                let name = std::thread::Builder::new().name("shoal".into());
                threads.push(name.spawn(move || driver.run()).map_err(fault)?);
                Some(master)
            }
            None => None,
        };
        let inner = Inner {
            settings,
            rank,
            world,
            driver,
            master,
            local: None,
            threads: Mutex::new(threads),
            keys: Mutex::default(),
            introduced: Mutex::default(),
            barriers: std::sync::atomic::AtomicU64::new(0),
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    pub fn size(&self) -> u32 {
        self.inner.world.workers
    }

    pub fn servers(&self) -> u32 {
        self.inner.world.servers
    }

    /// Names a tensor. The same name must mean the same type and shape on every worker, which is checked at its
    /// first use; registering it again is fine as long as it stays the same.
    pub fn register(&self, name: &str, spec: TensorSpec) -> Result<Key, SyncError> {
        let usage = |why: String| SyncError::Usage { key: name.chars().take(80).collect(), why };
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(usage(format!("a name needs 1 to {MAX_NAME} bytes, this one has {}", name.len())));
        }
        let bytes = spec.bytes().ok_or_else(|| usage("its size overflows".into()))?;
        let mut keys = self.inner.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = keys.get(name) {
            if (old.dtype, &old.shape) != (spec.dtype, &spec.shape) {
                return Err(usage(format!(
                    "registered before as {} {:?}, now as {} {:?}",
                    old.dtype, old.shape, spec.dtype, spec.shape
                )));
            }
        } else {
            keys.insert(name.to_string(), spec.clone());
        }
        Ok(Key { name: name.into(), key: key_of(name), bytes, spec })
    }

    /// Replaces the tensor by its sum or mean over all workers.
    ///
    /// # Safety
    /// `at` must point to the key's bytes, aligned to its element type, and stay valid and untouched until the returned
    /// operation has been waited for.
    pub unsafe fn push_pull(&self, key: &Key, at: *mut u8, op: Op) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        let layout = Layout::shared(key.key, key.bytes, self.inner.settings.block_size, world.shards());
        self.submit(key, at, op.combine(), op.weight(), layout)
    }

    /// Replaces the tensor by the root's.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn broadcast(&self, key: &Key, at: *mut u8, root: u32) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        if root >= world.workers {
            let why = format!("root {root}, but there are {} workers, numbered from 0", world.workers);
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let layout = Layout::from_root(key.key, key.bytes, block, world.shards(), root, world.colocated());
        self.submit(key, at, Combine::Copy, 1.0, layout)
    }

    /// Fills the tensor, whose first dimension is the number of workers, with every worker's row; the own row must be in place.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn all_gather(&self, key: &Key, at: *mut u8) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        let workers = world.workers as usize;
        if key.spec.shape.first() != Some(&workers) {
            let why = format!("its first dimension must be the number of workers, {workers}");
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let part = key.bytes / workers;
        let layout = Layout::gathered(key.key, part, block, world.shards(), workers, world.colocated());
        self.submit(key, at, Combine::Copy, 1.0, layout)
    }

    fn submit(
        &self,
        key: &Key,
        at: *mut u8,
        combine: Combine,
        weight: f64,
        layout: Layout,
    ) -> Result<Pending, SyncError> {
        if at.align_offset(key.spec.dtype.size()) != 0 {
            let why = format!("its memory is not aligned for {}", key.spec.dtype);
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let request = Request {
            key: key.key,
            name: key.name.clone(),
            dtype: key.spec.dtype,
            shape: key.spec.shape.clone().into(),
            combine,
            weight,
            priority: key.spec.priority,
            layout: Arc::new(layout),
            at,
        };
        if let Some(pending) = self.submit_in_memory(&request, key)? {
            return Ok(pending);
        }
        let handle = Arc::new(Handle::default());
        self.inner.driver.inbox.post(Event::Submit { request, handle: handle.clone() });
        self.inner.driver.push_along();
        Ok(self.pending(handle, None, key))
    }

    fn pending(&self, handle: Arc<Handle>, ticket: Option<Ticket>, key: &Key) -> Pending {
        Pending { engine: self.clone(), handle, ticket, name: key.name.clone(), patience: Patience::new() }
    }

    /// Takes the short way if there is one.
    fn submit_in_memory(&self, request: &Request, key: &Key) -> Result<Option<Pending>, SyncError> {
        let Some(local) = &self.inner.local else { return Ok(None) };
        self.inner.introduce(request)?;
        if !(request.weight.is_finite() && request.weight >= 0.0) {
            let why = format!("a weight of {} (must be finite and not negative)", request.weight);
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        // SAFETY: the callers of `push_pull` and its like vouch for the memory.
        match unsafe { local.submit(request, self.inner.rank) } {
            None => Ok(None),
            Some(Ok(ticket)) => Ok(Some(self.pending(Arc::new(Handle::default()), Some(ticket), key))),
            Some(Err(error)) => Err(self.explain_local(error, &key.name)),
        }
    }

    /// The run's own word for a failure in memory, if it comes soon; otherwise what the memory shows.
    fn explain_local(&self, error: crate::local::LocalError, key: &str) -> SyncError {
        use crate::local::LocalError;
        if matches!(error, LocalError::Busy { .. } | LocalError::Finished) {
            return local_path::explain(error, &self.inner.world, key);
        }
        let deadline = Instant::now() + Duration::from_millis(800);
        let never = Handle::default();
        while Instant::now() < deadline {
            if let Some(fatal) = self.inner.driver.reactor().node.fatal() {
                return fatal.clone();
            }
            self.inner.driver.wait(&never, Instant::now() + Duration::from_millis(10));
        }
        let error = local_path::explain(error, &self.inner.world, key);
        self.inner.driver.inbox.post(Event::Fail { error: error.clone() });
        self.inner.driver.push_along();
        error
    }

    /// Returns when every worker has called it.
    pub fn barrier(&self) -> Result<(), SyncError> {
        self.start_barrier()?.wait()
    }

    /// The same, to be waited for.
    pub fn start_barrier(&self) -> Result<Pending, SyncError> {
        let count = self.inner.barriers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let key = self.register(
            &format!("barrier {}", count % 2),
            TensorSpec { dtype: crate::dtype::DType::F32, shape: vec![0], priority: 0 },
        )?;
        // SAFETY: no bytes are touched at an aligned address.
        unsafe { self.push_pull(&key, std::ptr::without_provenance_mut(64), Op::Sum) }
    }

    /// This worker is done; the others go on without it. Its shard, if it has one, serves them until shutdown.
    pub fn finish(&self) -> Result<(), SyncError> {
        if let Some(local) = &self.inner.local {
            local
                .group()
                .finish()
                .map_err(|error| SyncError::Usage { key: "finish".into(), why: error.to_string() })?;
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

    fn hang_up(&self) {
        if let Some(master) = &self.inner.master {
            master.hang_up();
        }
        self.inner.driver.stop();
        if let Some(local) = &self.inner.local {
            local.stop();
        }
        let threads = std::mem::take(&mut *self.inner.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has already said so; there is nothing left to do for it.
            let _ = thread.join();
        }
    }

    pub fn traffic(&self) -> Traffic {
        self.inner.driver.reactor().traffic()
    }

    /// Waits until the handle has ended, saying from time to time for whom.
    fn await_handle(&self, handle: &Arc<Handle>, name: &str) -> Result<(), SyncError> {
        let mut patience = Patience::new();
        loop {
            if let Some(outcome) = self.await_slice(handle, name, &mut patience, ASK_AFTER) {
                return outcome;
            }
        }
    }

    /// Waits for at most `slice`; every two seconds it asks for whom, and every ten it says so.
    fn await_slice(
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

    fn complain(&self, key: String, step: u64, missing: &[u32], patience: &mut Patience) {
        if let Some(master) = &self.inner.master {
            master.tell(&ToMaster::Blocked { key: key.clone(), missing: missing.to_vec() });
            patience.blocked = true;
        }
        if patience.told.elapsed() >= TELL_EVERY && !missing.is_empty() {
            patience.told = Instant::now();
            let names: Vec<String> = missing.iter().map(|w| self.inner.world.name(*w).to_string()).collect();
            let seconds = patience.started.elapsed().as_secs();
            tracing::warn!(key, step, seconds, "waiting for {}", names.join(", "));
        }
    }

    fn say_whom_shutdown_awaits(&self, name: &str, patience: &mut Patience) {
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
struct Patience {
    started: Instant,
    asked: Instant,
    told: Instant,
    blocked: bool,
}

impl Patience {
    fn new() -> Patience {
        let now = Instant::now();
        Patience { started: now, asked: now, told: now, blocked: false }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last user has gone without shutdown(): hang up, so that the others see a death and not a hang.
        if let Some(master) = &self.master {
            master.hang_up();
        }
        self.driver.stop();
        if let Some(local) = &self.local {
            local.stop();
        }
    }
}

impl Inner {
    /// Tells the shards what a key is, although its bytes will not pass them: only they can say in words how two workers differ.
    fn introduce(&self, request: &Request) -> Result<(), SyncError> {
        if self.introduced.lock().unwrap_or_else(PoisonError::into_inner).insert(request.key) {
            self.driver.inbox.post(Event::Introduce { request: request.clone() });
            self.driver.push_along();
        }
        match self.driver.fatal() {
            Some(error) => Err(error),
            None => Ok(()),
        }
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
            Ok(true) => Ok(()),
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
                        self.handle.end(Ok(()));
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
        self.engine.inner.driver.reactor().node.waiting_for(self.handle.op()).map_or_else(Vec::new, |w| w.2)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.handle.is_done() {
            // Ends with the data or with a named death (GRAD-5); the memory must not be given up before.
            while self.wait_timeout(ASK_AFTER).is_none() {}
        }
    }
}

fn common_of(settings: &Settings) -> Common {
    Common { block_size: settings.block_size, deterministic: settings.deterministic, on_death: settings.on_death }
}

fn config_of(settings: &Settings, common: &Common) -> Config {
    Config::new(
        common.block_size,
        settings.num_push_threads,
        settings.num_pull_threads,
        common.deterministic,
        common.on_death,
    )
}
