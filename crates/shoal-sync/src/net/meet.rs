//! Meeting the peers: one connection per pair that talks, made while listening to the master for who has died meanwhile.

use super::join::{Joining, readable, tune};
use super::reactor::Event;
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
    /// What the master said on the way: who died, where the run goes on without them, and who came.
    pub news: Vec<Event>,
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
        self.news.iter().any(|event| matches!(event, Event::Lost { node, .. } if *node == peer))
    }

    /// Hears what the master has to say, without waiting for it: a peer may die before it was ever met (GRAD-5).
    pub(super) fn look(&mut self) -> Result<(), SyncError> {
        self.joining.go_on()?;
        while !self.master_gone && readable(self.master, Duration::ZERO) {
            let fails = self.roster.common.on_death == OnDeath::Fail;
            match control::receive::<FromMaster>(self.master) {
                Ok(FromMaster::Dead { node, how, .. }) if fails || self.world.shard_of(node).is_some() => {
                    return Err(SyncError::Dead { who: self.world.name(node), how });
                }
                Ok(FromMaster::Dead { node, how, incarnation }) => {
                    self.news.push(Event::Lost { node, how, incarnation });
                }
                Ok(FromMaster::Joining(newcomer)) => self.news.push(Event::Joining { newcomer }),
                Ok(FromMaster::Abort { error } | FromMaster::Refused { error }) => return Err(error),
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
        let introduction =
            Introduction { node: self.me, run: self.world.run, generation: self.world.generation, incarnation: 0 };
        let name = row.who.to_string();
        let mut pause = Duration::from_millis(20);
        loop {
            self.look()?;
            if self.is_dead(peer) {
                return Ok(None);
            }
            let greeted = self.joining.dial_once(&row.address).and_then(|mut stream| {
                stream.write_all(&introduction.encode()).map_err(|e| Refusal::Broken(e.to_string()))?;
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
    let introduction = Introduction::read(&mut stream).map_err(broken)?;
    if (introduction.run, introduction.generation) != (run, generation) {
        return Err(Refusal::Broken("it belongs to another run".into()));
    }
    if introduction.incarnation != 0 {
        return Err(Refusal::Broken("it comes late, and this node has still to meet the others".into()));
    }
    Ok((introduction.node, stream))
}

/// What a proven dialler says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Introduction {
    pub node: NodeId,
    pub run: u32,
    pub generation: u32,
    /// 0 for who is there from the start (see [`crate::node::admit`]).
    pub incarnation: u32,
}

impl Introduction {
    const LEN: usize = 16;

    pub fn encode(self) -> [u8; Introduction::LEN] {
        let words = [self.node, self.run, self.generation, self.incarnation].map(u32::to_le_bytes);
        std::array::from_fn(|i| words[i / 4][i % 4])
    }

    pub fn read(stream: &mut TcpStream) -> std::io::Result<Introduction> {
        let mut bytes = [0u8; Introduction::LEN];
        stream.set_read_timeout(Some(handshake::PATIENCE))?;
        stream.read_exact(&mut bytes)?;
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        Ok(Introduction { node: word(0), run: word(4), generation: word(8), incarnation: word(12) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: a kept sample; if this changes, PROTOCOL_VERSION must change with it.
    #[test]
    fn kept_sample_of_an_introduction_of_version_2() {
        let introduction = Introduction { node: 2, run: 0xdead_beef, generation: 1, incarnation: 258 };
        let hex: String = introduction.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "02000000efbeadde0100000002010000");
    }
}
