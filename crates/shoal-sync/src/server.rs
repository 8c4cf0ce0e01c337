//! `ps_server`: a node that is nothing but a shard.

use crate::control::Register;

use crate::error::{Role, SyncError};
use crate::net::join::{self, Joined};
use crate::net::reactor::{Reactor, Traffic};
use crate::node::{Config, Node};
use crate::settings::Settings;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server that must end still tries to tell the others why.
const FAREWELL: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

/// What a running server shows to others.
#[derive(Default)]
pub struct View {
    pub traffic: Mutex<Traffic>,
}

impl View {
    pub fn traffic(&self) -> Traffic {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one run, from registration until all workers are done.
pub fn serve(settings: &Settings, id: Option<u32>, stop: &AtomicBool, view: &Arc<View>) -> Result<(), SyncError> {
    settings.check()?;
    let joined = join::join(
        &settings.master_address,
        &settings.token,
        settings.listen_host.as_deref(),
        settings.connect_timeout,
        |port| Register {
            role: Role::Server,
            id,
            host: crate::host::name(),
            pid: std::process::id(),
            address: settings.listen_host.clone(),
            port,
            memory_domain: None,
            meeting: None,
            num_workers: 0,
            common: None,
            version: env!("CARGO_PKG_VERSION").into(),
        },
    )?;
    let Joined { me, roster, world, master, master_host, links, listener } = joined;
    drop(listener);
    let who = world.name(me);
    tracing::info!(workers = world.workers, servers = world.servers, "{who}: the run is complete");
    let common = roster.common;
    let config = Config::new(
        common.block_size,
        settings.num_push_threads,
        settings.num_pull_threads,
        common.deterministic,
        common.on_death,
    );
    let (mut reactor, inbox) = Reactor::new(Node::new(world, me, config), links)?;
    let (master, _listening) = crate::net::master_line::Master::attend(master, master_host, inbox)?;
    let outcome = loop {
        reactor.turn(TICK);
        *view.traffic.lock().unwrap_or_else(PoisonError::into_inner) = reactor.traffic();
        if let Some(error) = reactor.node.fatal() {
            break Err(error.clone());
        }
        if reactor.node.all_gone() && reactor.all_said() {
            break Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            let error = SyncError::Aborted { who: who.clone(), why: "it was told to stop".into() };
            master.tell(&crate::control::ToMaster::Abort { error: error.clone() });
            reactor.node.fail(error);
            break Ok(());
        }
    };
    let deadline = Instant::now() + FAREWELL;
    while !reactor.all_said() && Instant::now() < deadline {
        reactor.turn(Duration::from_millis(20));
    }
    if outcome.is_ok() {
        master.tell(&crate::control::ToMaster::Finish);
    }
    master.hang_up();
    outcome
}
