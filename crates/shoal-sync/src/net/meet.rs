//! Meeting the peers: one connection per pair that talks, made while listening to the master for who has died meanwhile.

use super::join::{Joining, readable, tune};
use crate::control::{self, FromMaster, Roster};
use crate::error::SyncError;
use crate::handshake::{self, Refusal};
use crate::node::world::{NodeId, World};
use crate::settings::OnDeath;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Strangers at once.
const MAX_UNPROVEN: usize = 64;

/// A node on its way to its peers.
pub(super) struct Meeting<'a> {
    pub world: &'a World,
    pub me: NodeId,
    pub roster: &'a Roster,
    pub master: &'a mut TcpStream,
    pub joining: &'a Joining<'a>,
    /// Who died on the way, where the run goes on without them.
    pub dead: Vec<(NodeId, String)>,
    pub master_gone: bool,
}

impl Meeting<'_> {
    /// Connects to all peers: the higher number dials the lower.
    pub fn meet(&mut self, listener: &TcpListener) -> Result<Vec<(NodeId, TcpStream)>, SyncError> {
        let peers: Vec<NodeId> = (0..self.world.nodes()).filter(|p| self.world.linked(self.me, *p)).collect();
        let mut links = Vec::new();
        let (lower, mut expected): (Vec<NodeId>, Vec<NodeId>) = peers.into_iter().partition(|p| *p < self.me);
        for peer in lower {
            if let Some(stream) = self.reach(peer)? {
                links.push((peer, tune(stream)?));
            }
        }
        let (tx, rx): (SyncSender<(NodeId, TcpStream)>, Receiver<_>) = sync_channel(self.world.nodes() as usize + 1);
        listener.set_nonblocking(true).map_err(|e| SyncError::system("cannot set up the listener", e))?;
        let unproven = Arc::new(AtomicUsize::new(0));
        loop {
            self.look()?;
            expected.retain(|p| !self.is_dead(*p));
            if expected.is_empty() {
                return Ok(links);
            }
            if Instant::now() > self.joining.deadline {
                let names: Vec<String> = expected.iter().map(|p| self.world.name(*p).to_string()).collect();
                let seconds = self.joining.timeout.as_secs();
                return Err(SyncError::Timeout { what: format!("a connection from {}", names.join(", ")), seconds });
            }
            self.accept(listener, &tx, &unproven);
            if let Ok((peer, stream)) = rx.recv_timeout(Duration::from_millis(5))
                && let Some(at) = expected.iter().position(|p| *p == peer)
            {
                expected.swap_remove(at);
                links.push((peer, tune(stream)?));
            }
        }
    }

    fn is_dead(&self, peer: NodeId) -> bool {
        self.dead.iter().any(|(node, _)| *node == peer)
    }

    /// Hears what the master has to say, without waiting for it: a peer may die before it was ever met (GRAD-5).
    fn look(&mut self) -> Result<(), SyncError> {
        self.joining.go_on()?;
        while !self.master_gone && readable(self.master, Duration::ZERO) {
            let fails = self.roster.common.on_death == OnDeath::Fail;
            match control::receive::<FromMaster>(self.master) {
                Ok(FromMaster::Dead { node, how }) if fails || self.world.shard_of(node).is_some() => {
                    return Err(SyncError::Dead { who: self.world.name(node), how });
                }
                Ok(FromMaster::Dead { node, how }) => self.dead.push((node, how)),
                Ok(FromMaster::Abort { error }) => return Err(error),
                Ok(_) => {}
                Err(_) if fails => {
                    let who = self.roster.master.clone();
                    return Err(SyncError::Dead { who, how: "its connection closed".into() });
                }
                Err(_) => self.master_gone = true,
            }
        }
        Ok(())
    }

    /// Dials a peer until it answers, the master says that it is dead (`None`), or the time is up.
    fn reach(&mut self, peer: NodeId) -> Result<Option<TcpStream>, SyncError> {
        let rows = if self.world.is_worker(peer) { &self.roster.workers } else { &self.roster.servers };
        let row = &rows[(if self.world.is_worker(peer) { peer } else { peer - self.world.workers }) as usize];
        let mut introduction = [0u8; 12];
        introduction[..4].copy_from_slice(&self.me.to_le_bytes());
        introduction[4..8].copy_from_slice(&self.world.run.to_le_bytes());
        introduction[8..].copy_from_slice(&self.world.generation.to_le_bytes());
        let name = row.who.to_string();
        let mut pause = Duration::from_millis(20);
        loop {
            self.look()?;
            if self.is_dead(peer) {
                return Ok(None);
            }
            let greeted = self.joining.dial_once(&row.address).and_then(|mut stream| {
                stream.write_all(&introduction).map_err(|e| Refusal::Broken(e.to_string()))?;
                Ok(stream)
            });
            match greeted {
                Ok(stream) => return Ok(Some(stream)),
                Err(refusal) => self.joining.pause(&mut pause, refusal, &name, &row.address)?,
            }
        }
    }

    /// Lets those who dialled prove themselves, each in a thread: a stranger may say nothing for a while, and must not
    /// keep the others waiting.
    fn accept(&self, listener: &TcpListener, tx: &SyncSender<(NodeId, TcpStream)>, unproven: &Arc<AtomicUsize>) {
        while let Ok((stream, from)) = listener.accept() {
            if unproven.load(Ordering::Relaxed) >= MAX_UNPROVEN {
                tracing::warn!(%from, "too many connections; turned away");
                continue;
            }
            unproven.fetch_add(1, Ordering::Relaxed);
            let (tx, token, count) = (tx.clone(), self.joining.token.to_string(), unproven.clone());
            let (run, generation) = (self.world.run, self.world.generation);
            let spawned = std::thread::Builder::new().name("greet".into()).spawn(move || {
                match greet(stream, &token, run, generation) {
                    Ok(found) => drop(tx.try_send(found)),
                    Err(refusal) => tracing::warn!(%from, "turned away: {refusal}"),
                }
                count.fetch_sub(1, Ordering::Relaxed);
            });
            if let Err(error) = spawned {
                unproven.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!(%from, %error, "no thread for a connection; turned away");
            }
        }
    }
}

fn greet(mut stream: TcpStream, token: &str, run: u32, generation: u32) -> Result<(NodeId, TcpStream), Refusal> {
    let broken = |e: std::io::Error| Refusal::Broken(e.to_string());
    stream.set_nonblocking(false).map_err(broken)?;
    handshake::answer(&mut stream, token)?;
    let mut introduction = [0u8; 12];
    stream.set_read_timeout(Some(handshake::PATIENCE)).map_err(broken)?;
    stream.read_exact(&mut introduction).map_err(broken)?;
    let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| introduction[i + k]));
    if (word(4), word(8)) != (run, generation) {
        return Err(Refusal::Broken("it belongs to another run".into()));
    }
    Ok((word(0), stream))
}
