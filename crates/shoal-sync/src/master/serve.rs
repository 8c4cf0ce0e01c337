//! The master's sockets: a thread per node, one table behind one lock.

use super::status;
use super::table::{Effect, Link, MYSELF, Table};
use crate::control::{self, FromMaster, ToMaster};
use crate::error::{Role, SyncError, Who};
use crate::handshake;
use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections at once, proven or not; a run of this size has other problems first.
const MAX_LINKS: usize = 4096;
/// Strangers at once.
const MAX_UNPROVEN: usize = 64;
/// How long a finished or failed run waits for its nodes to hang up.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long a master that everybody has left before the run was complete waits for somebody to come back.
const ABANDONED: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct Options {
    /// `tcp://HOST:PORT` to listen on.
    pub address: String,
    /// `None` takes the number from the first worker that knows it.
    pub workers: Option<u32>,
    pub servers: u32,
    pub token: String,
}

pub struct Master {
    listener: TcpListener,
    shared: Arc<Shared>,
}

pub struct Shared {
    pub table: Mutex<Table>,
    writers: Mutex<HashMap<Link, TcpStream>>,
    token: String,
    started: Instant,
    unproven: AtomicUsize,
    links: AtomicUsize,
    next_link: AtomicU64,
}

impl Shared {
    pub fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writers(&self) -> MutexGuard<'_, HashMap<Link, TcpStream>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Carries out what the table decided. A node that cannot be written to is noticed by its own reader.
    fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Log(text) => tracing::info!("{text}"),
                Effect::Warn(text) => tracing::warn!("{text}"),
                Effect::Send(link, message) => {
                    if let Some(stream) = self.writers().get_mut(&link)
                        && let Err(error) = control::send(stream, &message)
                    {
                        tracing::debug!(link, %error, "a node could not be told");
                    }
                }
            }
        }
    }
}

impl Master {
    pub fn bind(options: &Options) -> Result<Master, SyncError> {
        let address = crate::settings::address(&options.address)?;
        if options.token.is_empty() {
            return Err(crate::settings::Settings::default().check().expect_err("no token"));
        }
        let listener = TcpListener::bind(&address).map_err(|e| {
            let hint = match e.kind() {
                std::io::ErrorKind::AddrInUse => "; another program, perhaps another ps_master, listens there",
                std::io::ErrorKind::AddrNotAvailable => "; that is not an address of this host",
                _ => "",
            };
            SyncError::Unreachable {
                what: "the address to listen on".into(),
                address: address.clone(),
                why: format!("{e}{hint}"),
            }
        })?;
        listener.set_nonblocking(true).map_err(|e| SyncError::system("cannot set up the listener", e))?;
        let mut run = [0u8; 4];
        rustix::rand::getrandom(&mut run[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|e| SyncError::system("no random numbers", e))?;
        let master = Who { role: Role::Master, id: 0, host: crate::host::name(), pid: std::process::id() };
        let table = Table::new(u32::from_le_bytes(run), options.workers, options.servers).kept_by(master);
        let shared = Shared {
            table: Mutex::new(table),
            writers: Mutex::new(HashMap::new()),
            token: options.token.clone(),
            started: Instant::now(),
            unproven: AtomicUsize::new(0),
            links: AtomicUsize::new(0),
            next_link: AtomicU64::new(1),
        };
        Ok(Master { listener, shared: Arc::new(shared) })
    }

    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Serves until all workers are done, the run has failed, or `stop` is set.
    pub fn run(self, stop: &AtomicBool) -> Result<(), SyncError> {
        let mut ending: Option<Instant> = None;
        let mut abandoned: Option<Instant> = None;
        loop {
            self.accept();
            if stop.load(Ordering::Relaxed) {
                let mut table = self.shared.table();
                if !table.workers_done() {
                    let error = SyncError::Aborted { who: table.master.clone(), why: "it was told to stop".into() };
                    let effects = table.abort(MYSELF, error);
                    self.shared.carry_out(effects);
                }
                return Ok(());
            }
            let (over, failure) = {
                let table = self.shared.table();
                (table.over(), table.failure.clone())
            };
            if over || failure.is_some() {
                let since = *ending.get_or_insert_with(Instant::now);
                let gone = self.shared.writers().is_empty();
                if gone || since.elapsed() > FAREWELL {
                    return failure.map_or(Ok(()), Err);
                }
            }
            // Nodes may be started again by hand, but not for ever: whoever waits for this program must see it end.
            match self.shared.table().abandoned() {
                Some(error) => {
                    if abandoned.get_or_insert_with(Instant::now).elapsed() > ABANDONED {
                        return Err(error);
                    }
                }
                None => abandoned = None,
            }
            let mut fds = [rustix::event::PollFd::new(&self.listener, rustix::event::PollFlags::IN)];
            let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
            // Interrupted or not: the loop looks at everything again.
            let _ = rustix::event::poll(&mut fds, Some(&tick));
        }
    }

    fn accept(&self) {
        while let Ok((stream, from)) = self.listener.accept() {
            let shared = self.shared.clone();
            if shared.unproven.load(Ordering::Relaxed) >= MAX_UNPROVEN
                || shared.links.load(Ordering::Relaxed) >= MAX_LINKS
            {
                tracing::warn!(%from, "too many connections; turned away");
                continue;
            }
            shared.unproven.fetch_add(1, Ordering::Relaxed);
            shared.links.fetch_add(1, Ordering::Relaxed);
            let spawned = std::thread::Builder::new().name("node".into()).stack_size(256 * 1024).spawn({
                let shared = shared.clone();
                move || {
                    serve(&shared, stream, from);
                    shared.links.fetch_sub(1, Ordering::Relaxed);
                }
            });
            if let Err(error) = spawned {
                shared.unproven.fetch_sub(1, Ordering::Relaxed);
                shared.links.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!(%from, %error, "no thread for a connection; turned away");
            }
        }
    }
}

fn serve(shared: &Shared, mut stream: TcpStream, from: SocketAddr) {
    let proven = stream
        .set_nonblocking(false)
        .map_err(|e| handshake::Refusal::Broken(e.to_string()))
        .and_then(|()| handshake::answer(&mut stream, &shared.token));
    shared.unproven.fetch_sub(1, Ordering::Relaxed);
    if let Err(refusal) = proven {
        tracing::warn!(%from, "turned away: {refusal}");
        return;
    }
    let link = shared.next_link.fetch_add(1, Ordering::Relaxed);
    let set_up = control::watch_host(&stream)
        .and_then(|()| stream.set_read_timeout(None))
        .and_then(|()| stream.set_write_timeout(Some(Duration::from_secs(5))))
        .and_then(|()| stream.try_clone());
    let Ok(writer) = set_up else { return };
    shared.writers().insert(link, writer);
    let how = converse(shared, &mut stream, link, from);
    shared.writers().remove(&link);
    let mut table = shared.table();
    let effects = table.lost(link, &how);
    shared.carry_out(effects);
}

/// Listens to one node until its connection ends; says how it ended.
fn converse(shared: &Shared, stream: &mut TcpStream, link: Link, from: SocketAddr) -> String {
    loop {
        let message = match control::receive::<ToMaster>(stream) {
            Ok(message) => message,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return "its connection closed".into(),
            Err(e) if e.kind() == std::io::ErrorKind::TimedOut => return "its host has fallen silent".into(),
            Err(e) => return format!("its connection broke: {e}"),
        };
        let now = shared.seconds();
        // The table stays locked until its words are out: nobody may hear the roster before its own welcome.
        let mut table = shared.table();
        let effects = match message {
            ToMaster::Register(node) => table.register(link, node, &from.ip().to_string()),
            ToMaster::Finish => table.finish(link),
            ToMaster::AtTheDoor => table.at_the_door(link),
            ToMaster::Admitted { node, incarnation } => table.admitted(node, incarnation),
            ToMaster::Abort { error } => table.abort(link, error),
            ToMaster::Blocked { key, missing } => table.blocked(link, key, missing, now),
            ToMaster::Moving => {
                table.moving(link);
                Vec::new()
            }
            ToMaster::Status => vec![Effect::Send(link, FromMaster::Status(status::json(&table, now)))],
        };
        shared.carry_out(effects);
    }
}
