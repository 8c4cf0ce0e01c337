//! `ps_server`: a node that is nothing but a shard.

use crate::control::{Register, ToMaster};
use crate::error::{Role, SyncError};
use crate::net::join::{self, Joined};
use crate::net::master_line::Master;
use crate::net::reactor::{Reactor, Traffic};
use crate::net::welcome::Door;
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
    let told_to_stop = || stop.load(Ordering::Relaxed);
    let joined = join::join(
        &settings.master_address,
        &settings.token,
        settings.listen_host.as_deref(),
        settings.connect_timeout,
        &told_to_stop,
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
    );
    let Joined { me, roster, world, master, links, news, listener } = match joined {
        Err(SyncError::ShutDown) => return Ok(()),
        other => other?,
    };
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
    let run = roster.run;
    let (mut reactor, inbox) = Reactor::new(Node::new(world, me, config), links)?;
    for event in news {
        inbox.post(event);
    }
    // Workers may still come where the run goes on without its dead; elsewhere the door is shut.
    let open = reactor.node.may_admit().then(|| Door::open(listener, &settings.token, run, inbox.clone()));
    let _door = open.transpose()?;
    let (master, _listening) = Master::attend(master, roster.master.host, inbox)?;
    let master = Arc::new(master);
    reactor.master = Some(master.clone());
    let outcome = loop {
        reactor.turn(TICK);
        *view.traffic.lock().unwrap_or_else(PoisonError::into_inner) = reactor.traffic();
        if let Some(error) = reactor.node.fatal() {
            break Err(error.clone());
        }
        if reactor.node.all_gone() && reactor.all_said() {
            break Ok(());
        }
        if told_to_stop() {
            // The others hear of it in the turns of the farewell.
            reactor.node.fail(SyncError::Aborted { who: who.clone(), why: "it was told to stop".into() });
            break Ok(());
        }
    };
    let deadline = Instant::now() + FAREWELL;
    while !reactor.all_said() && Instant::now() < deadline {
        reactor.turn(Duration::from_millis(20));
    }
    if outcome.is_ok() {
        master.tell(&ToMaster::Finish);
    }
    master.hang_up();
    outcome
}
