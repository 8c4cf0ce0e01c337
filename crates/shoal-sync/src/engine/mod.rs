//! The engine as programs use it: connect, register, push_pull, broadcast, all_gather, barrier, finish, shutdown.

mod admit;
pub mod driver;
pub mod handle;
mod leave;
mod local_path;
mod operations;
mod team_path;
pub mod tensor;
pub mod timeline;
mod wait;

use crate::control::{Common, Register, Roster};
use crate::dtype::DType;
use crate::error::{Role, SyncError};
use crate::local::{Hosting, LocalGroup};
use crate::net::join::{self, Joined};
use crate::net::master_line::Master;
use crate::net::reactor::Reactor;
use crate::node::world::World;
use crate::node::{Config, Node};
use crate::settings::{OnDeath, Settings};
pub use admit::Boundary;
use driver::Driver;
use local_path::{LocalPath, Way};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use team_path::TeamPath;
use tensor::Group;
pub use tensor::{Key, Op, TensorSpec};
pub use wait::Pending;

/// One worker's connection to a run. Cheap to clone; every method may be called from any thread.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    /// The process that connected; a forked child has the same sockets, but not the threads, and must leave them alone.
    pid: u32,
    settings: Settings,
    rank: u32,
    world: World,
    driver: Arc<Driver>,
    master: Option<Arc<Master>>,
    local: Option<Arc<LocalPath>>,
    team: Option<Arc<TeamPath>>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    keys: Mutex<HashMap<String, (TensorSpec, Group)>>,
    introduced: Mutex<HashSet<u64>>,
    barriers: std::sync::atomic::AtomicU64,
    joined_late: std::sync::atomic::AtomicBool,
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
        let deadline = std::time::Instant::now() + settings.connect_timeout;
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
                memory_domain: meeting.as_ref().and_then(|_| crate::host::memory_domain()).map(
                    |domain| match &settings.pretend_host {
                        Some(host) => format!("{domain} as {host}"),
                        None => domain,
                    },
                ),
                meeting,
                num_workers: settings.num_workers,
                common: Some(common),
                version: env!("CARGO_PKG_VERSION").into(),
            },
        )?;
        let Joined { me, roster, world, master, links, news, .. } = joined;
        let config = config_of(&settings, &roster.common);
        let node = match &roster.late {
            None => Node::new(world, me, config),
            Some(late) => Node::newcomer(world, me, config, late.incarnation),
        };
        let mut engine = Engine::start(settings, me, node, links, Some((master, roster.master.host.clone())))?;
        for event in news {
            engine.inner.driver.inbox.post(event);
        }
        if let Some(late) = &roster.late {
            engine.await_admission(late, deadline, stop)?;
        }
        if roster.common.on_death == OnDeath::Continue && roster.servers.is_empty() && roster.workers.len() > 1 {
            tracing::warn!(
                "on_death=continue needs ps_server processes: without them every worker carries a shard, and its death ends the run"
            );
        }
        let way = local_path::way(&engine.inner.world);
        if way != Way::Network {
            engine.meet_in_memory(&roster, way, hosting)?;
        }
        Ok(engine)
    }

    /// Sums through memory from now on, if every worker has managed to meet its neighbours.
    fn meet_in_memory(&mut self, roster: &Roster, way: Way, hosting: Option<Hosting>) -> Result<(), SyncError> {
        let met = local_path::meet(roster, &self.inner.world, self.rank(), &self.inner.settings.token, hosting);
        // All or nobody: one worker that is left out would wait for ever.
        let mut votes = [f32::from(u8::from(met.is_ok()))];
        let key =
            self.register("shoal: met in memory", TensorSpec { dtype: DType::F32, shape: vec![1], priority: 0 })?;
        // SAFETY: `votes` outlives the wait.
        unsafe { self.push_pull(&key, votes.as_mut_ptr().cast(), Op::Sum) }?.wait()?;
        let all = votes[0] as u32 == self.size();
        match met {
            Ok(Some(group)) if all && way == Way::Memory => self.use_memory(group),
            Ok(Some(group)) if all => self.use_team(group),
            Ok(None) if all => Ok(()),
            Ok(_) => {
                tracing::info!("not all workers can reach their neighbours' memory; using the network");
                Ok(())
            }
            Err(why) => {
                tracing::info!(%why, "workers of this host cannot meet in memory; using the network");
                Ok(())
            }
        }
    }

    fn use_memory(&mut self, group: LocalGroup) -> Result<(), SyncError> {
        let path = Arc::new(LocalPath::new(group));
        let helper = path.clone();
        let builder = std::thread::Builder::new().name("shoal-local".into());
        let thread = builder.spawn(move || helper.help()).map_err(no_thread)?;
        let poison = path.clone();
        self.inner.driver.reactor().when_failed(Box::new(move |error| poison_group(poison.group(), error)));
        let inner = Arc::get_mut(&mut self.inner).ok_or(SyncError::ShutDown)?;
        inner.threads.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        inner.local = Some(path);
        Ok(())
    }

    fn use_team(&mut self, group: LocalGroup) -> Result<(), SyncError> {
        let inner = Arc::get_mut(&mut self.inner).ok_or(SyncError::ShutDown)?;
        let path = TeamPath::start(group, inner.rank, inner.world.clone(), inner.driver.clone()).map_err(no_thread)?;
        // Weak: the path holds the loop, which holds this hook; nothing would ever be closed.
        let poison = Arc::downgrade(&path);
        inner.driver.reactor().when_failed(Box::new(move |error| {
            if let Some(path) = poison.upgrade() {
                poison_group(path.group(), error);
            }
        }));
        inner.team = Some(path);
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
        let master = match master {
            Some((stream, host)) => {
                let (master, thread) = Master::attend(stream, host, driver.inbox.clone())?;
                let master = Arc::new(master);
                driver.reactor().master = Some(master.clone());
                threads.push(thread);
                let driver = driver.clone();
                let name = std::thread::Builder::new().name("shoal".into());
                threads.push(name.spawn(move || driver.run()).map_err(no_thread)?);
                Some(master)
            }
            None => None,
        };
        let inner = Inner {
            pid: std::process::id(),
            settings,
            rank,
            world,
            driver,
            master,
            local: None,
            team: None,
            threads: Mutex::new(threads),
            keys: Mutex::default(),
            introduced: Mutex::default(),
            barriers: std::sync::atomic::AtomicU64::new(0),
            joined_late: std::sync::atomic::AtomicBool::new(false),
        };
        Ok(Engine { inner: Arc::new(inner) })
    }

    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    pub fn size(&self) -> u32 {
        self.inner.world.workers
    }

    /// What happened when to each tensor: off until it is switched on.
    pub fn timeline(&self) -> &timeline::Timeline {
        &self.inner.driver.timeline
    }

    pub fn servers(&self) -> u32 {
        self.inner.world.servers
    }
}

fn no_thread(error: std::io::Error) -> SyncError {
    SyncError::system("cannot start a thread", error)
}

/// The run has failed: whoever waits in memory hears of it. Whom it names there does not matter, the run's own word comes first.
fn poison_group(group: &LocalGroup, error: &SyncError) {
    let culprit = match error {
        SyncError::Dead { who, .. } | SyncError::Aborted { who, .. } | SyncError::Protocol { who, .. } => who.id,
        _ => group.members()[0],
    };
    let known = group.members().contains(&culprit);
    group.poison(if known { culprit } else { group.members()[0] });
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
