//! Becoming part of a run: register with the master, hear who the others are, connect to those one talks to.

use crate::control::{self, FromMaster, Register, Roster, ToMaster};
use crate::error::SyncError;
use crate::handshake;
use crate::node::world::{NodeId, World};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A node that is in, with all its connections.
pub struct Joined {
    pub me: NodeId,
    pub roster: Roster,
    pub world: World,
    pub master: TcpStream,
    pub master_host: String,
    pub links: Vec<(NodeId, TcpStream)>,
    /// Kept so that late strangers are turned away instead of hanging.
    pub listener: TcpListener,
}

/// Dials until it answers or the deadline passes: nodes of a run start in any order.
fn dial(what: &str, address: &str, deadline: Instant) -> Result<TcpStream, SyncError> {
    let unreachable = |why: String| SyncError::Unreachable { what: what.into(), address: address.into(), why };
    let mut pause = Duration::from_millis(20);
    loop {
        let targets = address.to_socket_addrs().map_err(|e| unreachable(e.to_string()))?;
        let mut last = String::from("the name has no address");
        for target in targets {
            match TcpStream::connect_timeout(&target, Duration::from_secs(3)) {
                Ok(stream) => return Ok(stream),
                Err(e) => last = e.to_string(),
            }
        }
        if Instant::now() + pause > deadline {
            return Err(unreachable(last));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Registers and waits until the run is complete. `make` is told the address to listen on and fills in the rest.
pub fn join(
    master_address: &str,
    token: &str,
    listen_host: Option<&str>,
    timeout: Duration,
    make: impl FnOnce(u16) -> Register,
) -> Result<Joined, SyncError> {
    let deadline = Instant::now() + timeout;
    let address = crate::settings::address(master_address)?;
    let mut master = dial("the master", &address, deadline)?;
    handshake::dial(&mut master, token, &format!("the master at {address}"))?;
    let system = |what: &str| {
        let what = what.to_string();
        move |e: std::io::Error| SyncError::system(what, e)
    };
    control::watch_host(&master).map_err(system("cannot set up the connection to the master"))?;
    let local = master.local_addr().map_err(system("cannot see this machine's own address"))?;
    let bind = listen_host.map_or_else(|| local.ip().to_string(), str::to_string);
    let listener = TcpListener::bind((bind.as_str(), 0)).map_err(|e| SyncError::Unreachable {
        what: "a place to listen for peers".into(),
        address: bind.clone(),
        why: e.to_string(),
    })?;
    let port = listener.local_addr().map_err(system("cannot see the listener's port"))?.port();
    let role = {
        let register = make(port);
        let role = register.role;
        control::send(&mut master, &ToMaster::Register(register)).map_err(system("cannot register with the master"))?;
        role
    };
    let (id, roster) = await_roster(&mut master, deadline, timeout)?;
    let world = world_of(&roster);
    let me = if role == crate::error::Role::Worker { id } else { world.workers + id };
    let links = connect_all(&world, me, &roster, token, &listener, deadline)?;
    master.set_read_timeout(None).map_err(system("cannot set up the connection to the master"))?;
    let master_host = address.rsplit_once(':').map_or(address.clone(), |(h, _)| h.to_string());
    Ok(Joined { me, roster, world, master, master_host, links, listener })
}

fn world_of(roster: &Roster) -> World {
    World {
        run: roster.run,
        generation: roster.generation,
        workers: roster.workers.len() as u32,
        servers: roster.servers.len() as u32,
        who: roster.workers.iter().chain(&roster.servers).map(|r| r.who.clone()).collect(),
    }
}

fn await_roster(master: &mut TcpStream, deadline: Instant, timeout: Duration) -> Result<(u32, Roster), SyncError> {
    let mut id = None;
    let mut missing = String::from("the master's answer");
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SyncError::Timeout {
                what: format!("the run to be complete: still missing {missing}"),
                seconds: timeout.as_secs(),
            });
        }
        master.set_read_timeout(Some(left)).map_err(|e| SyncError::system("cannot set a time-out", e))?;
        match control::receive::<FromMaster>(master) {
            Ok(FromMaster::Welcome { id: mine }) => id = Some(mine),
            Ok(FromMaster::Refused { error } | FromMaster::Abort { error }) => return Err(error),
            Ok(FromMaster::Gathering { missing: who }) => missing = who,
            Ok(FromMaster::Complete(roster)) => {
                let id = id.ok_or_else(|| SyncError::Refused { why: "it sent a roster before a welcome".into() })?;
                return Ok((id, roster));
            }
            Ok(FromMaster::Dead { .. } | FromMaster::Status(_)) => {}
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(e) => {
                let address = master.peer_addr().map_or_else(|_| "?".into(), |a| a.to_string());
                return Err(SyncError::Unreachable { what: "the master".into(), address, why: e.to_string() });
            }
        }
    }
}

/// One connection per pair that talks: the higher number dials the lower.
fn connect_all(
    world: &World,
    me: NodeId,
    roster: &Roster,
    token: &str,
    listener: &TcpListener,
    deadline: Instant,
) -> Result<Vec<(NodeId, TcpStream)>, SyncError> {
    let peers: Vec<NodeId> = (0..world.nodes()).filter(|p| world.linked(me, *p)).collect();
    let mut expected: Vec<NodeId> = peers.iter().copied().filter(|p| *p > me).collect();
    let mut links = Vec::new();
    for &peer in peers.iter().filter(|p| **p < me) {
        let rows = if world.is_worker(peer) { &roster.workers } else { &roster.servers };
        let row = &rows[(if world.is_worker(peer) { peer } else { peer - world.workers }) as usize];
        let name = row.who.to_string();
        let mut stream = dial(&name, &row.address, deadline)?;
        handshake::dial(&mut stream, token, &name)?;
        let mut introduction = [0u8; 12];
        introduction[..4].copy_from_slice(&me.to_le_bytes());
        introduction[4..8].copy_from_slice(&world.run.to_le_bytes());
        introduction[8..].copy_from_slice(&world.generation.to_le_bytes());
        stream.write_all(&introduction).map_err(|e| SyncError::system(format!("cannot greet {name}"), e))?;
        links.push((peer, tune(stream)?));
    }
    let (tx, rx) = std::sync::mpsc::sync_channel::<(NodeId, TcpStream)>(world.nodes() as usize + 1);
    listener.set_nonblocking(true).map_err(|e| SyncError::system("cannot set up the listener", e))?;
    while !expected.is_empty() {
        if Instant::now() > deadline {
            let names: Vec<String> = expected.iter().map(|p| world.name(*p).to_string()).collect();
            return Err(SyncError::Timeout { what: format!("a connection from {}", names.join(", ")), seconds: 0 });
        }
        while let Ok((stream, from)) = listener.accept() {
            let (tx, token, run, generation) = (tx.clone(), token.to_string(), world.run, world.generation);
            // A stranger may say nothing for a while; it must not keep the others waiting.
            let spawned = std::thread::Builder::new().name("greet".into()).spawn(move || {
                match greet(stream, &token, run, generation) {
                    Ok(found) => drop(tx.try_send(found)),
                    Err(refusal) => tracing::warn!(%from, "turned away: {refusal}"),
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%from, %error, "no thread for a connection; turned away");
            }
        }
        if let Ok((peer, stream)) = rx.recv_timeout(Duration::from_millis(5))
            && let Some(at) = expected.iter().position(|p| *p == peer)
        {
            expected.swap_remove(at);
            links.push((peer, tune(stream)?));
        }
    }
    Ok(links)
}

fn greet(
    mut stream: TcpStream,
    token: &str,
    run: u32,
    generation: u32,
) -> Result<(NodeId, TcpStream), handshake::Refusal> {
    let broken = |e: std::io::Error| handshake::Refusal::Broken(e.to_string());
    stream.set_nonblocking(false).map_err(broken)?;
    handshake::answer(&mut stream, token)?;
    let mut introduction = [0u8; 12];
    stream.set_read_timeout(Some(handshake::PATIENCE)).map_err(broken)?;
    stream.read_exact(&mut introduction).map_err(broken)?;
    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| introduction[i + k]));
    if (word(4), word(8)) != (run, generation) {
        return Err(handshake::Refusal::Broken("it belongs to another run".into()));
    }
    Ok((word(0), stream))
}

/// Socket options of a data connection.
fn tune(stream: TcpStream) -> Result<TcpStream, SyncError> {
    let fault = |e: std::io::Error| SyncError::system("cannot set up a connection", e);
    stream.set_nodelay(true).map_err(fault)?;
    stream.set_read_timeout(None).map_err(fault)?;
    stream.set_write_timeout(None).map_err(fault)?;
    if is_near(&stream) {
        // Nothing is lost on the way to oneself, and a sender that paces itself (BBR) only adds timers: measured
        // 10 % of the processor time. Not every system allows the choice; then its default serves.
        let _ = rustix::net::sockopt::set_tcp_congestion(&stream, "reno");
    }
    Ok(stream)
}

/// Whether both ends are this host.
pub fn is_near(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(here), Ok(there)) => here.ip() == there.ip(),
        _ => false,
    }
}
