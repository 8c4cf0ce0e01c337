//! The loop: events in, frames out, for whichever thread drives it.

use super::conn::{Conn, End};
use super::master_line::Master;
use crate::control::ToMaster;
use crate::engine::handle::Handle;
use crate::engine::timeline::{Record, Timeline, Way};
use crate::error::SyncError;
use crate::node::Node;
use crate::node::admit::Newcomer;
use crate::node::op::{OpId, Request, Times};
use crate::node::world::NodeId;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a lost connection waits for a better explanation before it is called a death: the peer may have left
/// because of somebody else's death, and the word of that may still be on its way.
const GRACE: Duration = Duration::from_millis(400);

/// How often a waiting thread looks again before it sleeps.
const YIELDS: u32 = 24;
const LONG_YIELD: Duration = Duration::from_micros(500);

/// What other threads ask of the loop.
pub enum Event {
    Submit {
        request: Request,
        handle: Arc<Handle>,
    },
    /// Only tells the shards what a key is.
    Introduce {
        request: Request,
    },
    Finish {
        handle: Arc<Handle>,
    },
    /// Completes when nothing is left to send and nobody needs this node's shard.
    Drained {
        handle: Arc<Handle>,
    },
    Ask {
        handle: Arc<Handle>,
    },
    /// The master's word of a death; `incarnation` says of which holder of the number.
    Lost {
        node: NodeId,
        how: String,
        incarnation: u32,
    },
    /// Somebody waits at all doors to be let in.
    Joining {
        newcomer: Newcomer,
    },
    /// A proven newcomer at this server's door.
    Arrived {
        node: NodeId,
        incarnation: u32,
        stream: TcpStream,
    },
    /// The vote of a step boundary: alone, or not at all.
    Admit {
        request: Request,
        handle: Arc<Handle>,
    },
    LostMaster {
        how: String,
        host: String,
    },
    Fail {
        error: SyncError,
    },
}

/// The loop's letter box. Bounded by the callers: each has at most one operation per key in it.
pub struct Inbox {
    events: Mutex<Vec<Event>>,
    sleeping: AtomicBool,
    wake: OwnedFd,
    /// Threads that want a look at the loop's state (see `Driver::reactor`).
    pub visitors: AtomicUsize,
}

impl Inbox {
    pub fn post(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.nudge();
    }

    /// Wakes the loop if it sleeps.
    pub fn nudge(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // The counter can only be full if the loop is already certain to wake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

const WAKE: u64 = u64::MAX;

/// Totals over all connections, and the last phases of each key.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub frames_sent: u64,
    pub frames_received: u64,
    pub chunks_summed: u64,
    pub operations: u64,
    pub buffer_bytes_peak: u64,
    pub keys: HashMap<Arc<str>, KeyTimes>,
}

/// Sums over all steps of a key, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyTimes {
    pub count: u64,
    /// From the call to the first byte sent.
    pub queue: u64,
    /// From the first to the last byte sent.
    pub wire: u64,
    /// From the last byte sent to the last byte back: the others.
    pub wait: u64,
}

pub struct Reactor {
    pub node: Node,
    conns: Vec<Option<Conn>>,
    lost_bytes: (u64, u64),
    epoll: OwnedFd,
    inbox: Arc<Inbox>,
    handles: HashMap<OpId, Arc<Handle>>,
    drained: Vec<Arc<Handle>>,
    suspects: Vec<(NodeId, String, Instant)>,
    /// Told when this node gives up, so that its leaving is not taken for a death of its own.
    pub master: Option<Arc<Master>>,
    let_go: bool,
    pub timeline: Arc<Timeline>,
    next: usize,
    keys: HashMap<Arc<str>, KeyTimes>,
    when_failed: Option<FailureHook>,
    /// All peers are on this host. Across a network the next bytes are far away, and looking for them costs more than sleep.
    near: bool,
    /// Waits that will not yield first, because the last yield cost too much.
    crowded: u32,
}

/// What is told when the run has failed, once.
pub type FailureHook = Box<dyn FnOnce(&SyncError) + Send>;

impl Reactor {
    /// Calls `hook` when the run fails; at once if it already has.
    pub fn when_failed(&mut self, hook: FailureHook) {
        match self.node.fatal() {
            Some(error) => hook(error),
            None => self.when_failed = Some(hook),
        }
    }

    pub fn new(mut node: Node, links: Vec<(NodeId, TcpStream)>) -> Result<(Reactor, Arc<Inbox>), SyncError> {
        let fault = |e: rustix::io::Errno| SyncError::system("cannot set up the event loop", e);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fault)?;
        let wake =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC)
                .map_err(fault)?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN | epoll::EventFlags::ET)
            .map_err(fault)?;
        let mut near = true;
        let mut conns: Vec<Option<Conn>> = (0..node.world.nodes()).map(|_| None).collect();
        for (peer, stream) in links {
            watch(&epoll, peer, &stream)?;
            if super::join::is_near(&stream) {
                node.is_near(peer);
            } else {
                near = false;
            }
            conns[peer as usize] = Some(Conn::new(peer, stream));
        }
        let inbox = Arc::new(Inbox {
            events: Mutex::new(Vec::new()),
            sleeping: AtomicBool::new(false),
            wake,
            visitors: AtomicUsize::new(0),
        });
        let reactor = Reactor {
            node,
            conns,
            lost_bytes: (0, 0),
            epoll,
            inbox: inbox.clone(),
            handles: HashMap::new(),
            drained: Vec::new(),
            suspects: Vec::new(),
            master: None,
            let_go: false,
            timeline: Arc::default(),
            next: 0,
            keys: HashMap::new(),
            when_failed: None,
            near,
            crowded: 0,
        };
        Ok((reactor, inbox))
    }

    /// The word of a death; a suspicion about who holds the number now remains one.
    fn hear_of_death(&mut self, node: NodeId, how: &str, incarnation: u32) {
        if self.node.lost_incarnation(node, incarnation, how) {
            self.suspects.retain(|s| s.0 != node);
        }
    }

    /// A newcomer's connection takes the place of the one of whoever had its number before.
    fn take_newcomer(&mut self, node: NodeId, incarnation: u32, stream: TcpStream) {
        if !self.node.arrive(node, incarnation) {
            return;
        }
        self.suspects.retain(|s| s.0 != node);
        if let Some(old) = self.conns.get_mut(node as usize).and_then(Option::take) {
            self.lost_bytes.0 += old.bytes_out;
            self.lost_bytes.1 += old.bytes_in;
            old.give_back(&mut self.node);
        }
        if let Err(error) = watch(&self.epoll, node, &stream) {
            tracing::warn!(%error, "worker {node} was turned away");
            return self.node.lost(node, "its connection could not be set up");
        }
        if super::join::is_near(&stream) {
            self.node.is_near(node);
        } else {
            self.near = false;
        }
        self.conns[node as usize] = Some(Conn::new(node, stream));
    }

    fn now(&self) -> u64 {
        self.timeline.now()
    }

    /// A round for somebody who waits: before it sleeps, it lets others run a few times and looks again. Where there
    /// are more ranks than cores that is what lets the missing one arrive; being put to sleep and woken costs more.
    pub fn turn_eagerly(&mut self, timeout: Duration) {
        if self.crowded > 0 {
            self.crowded -= 1;
        } else if self.near {
            for _ in 0..YIELDS {
                if self.turn(Duration::ZERO) {
                    return;
                }
                let before = Instant::now();
                std::thread::yield_now();
                if before.elapsed() > LONG_YIELD {
                    // Somebody computes on this core and takes whole time slices: who sleeps is woken sooner.
                    self.crowded = 200;
                    break;
                }
            }
        }
        self.turn(timeout);
    }

    /// One round: letters, output, then events for at most `timeout`, then their input and output. Says whether anything came.
    pub fn turn(&mut self, timeout: Duration) -> bool {
        self.read_letters();
        self.pump();
        let busy = self.conns.iter().flatten().any(|c| c.readable);
        let mut timeout = if busy { Duration::ZERO } else { timeout };
        if let Some(first) = self.suspects.iter().map(|s| s.2).min() {
            timeout = timeout.min(first.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        }
        if !timeout.is_zero() {
            self.inbox.sleeping.store(true, Ordering::SeqCst);
            let letters = !self.inbox.events.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if letters || self.inbox.visitors.load(Ordering::SeqCst) > 0 {
                timeout = Duration::ZERO;
            }
        }
        let came = self.poll(timeout);
        self.inbox.sleeping.store(false, Ordering::SeqCst);
        if came || busy {
            self.read_letters();
            self.pump();
        }
        self.check_suspects();
        self.settle();
        came || busy
    }

    /// Notes what the sockets have; false if nothing came.
    fn poll(&mut self, timeout: Duration) -> bool {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let spec =
            rustix::event::Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let Ok(count) = epoll::wait(&self.epoll, &mut events[..], Some(&spec)) else { return false };
        for event in &events[..count] {
            let (data, flags) = (event.data.u64(), event.flags);
            if data == WAKE {
                let mut drop = [0u8; 8];
                // Edge-triggered: reading only resets the counter.
                let _ = rustix::io::read(&self.inbox.wake, &mut drop);
                continue;
            }
            if let Some(conn) = self.conns.get_mut(data as usize).and_then(Option::as_mut) {
                let gone = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                conn.readable |= flags.intersects(epoll::EventFlags::IN | gone);
                conn.writable |= flags.contains(epoll::EventFlags::OUT);
            }
        }
        count > 0
    }

    fn read_letters(&mut self) {
        let letters = std::mem::take(&mut *self.inbox.events.lock().unwrap_or_else(PoisonError::into_inner));
        let now = self.now();
        for letter in letters {
            match letter {
                Event::Submit { request, handle } => match self.node.submit(request, now) {
                    Ok(id) => {
                        handle.set_op(id);
                        self.handles.insert(id, handle);
                    }
                    Err(error) => handle.end(Err(error)),
                },
                Event::Introduce { request } => self.node.introduce(&request),
                Event::Finish { handle } => handle.end(self.node.finish()),
                Event::Drained { handle } => self.drained.push(handle),
                Event::Ask { handle } => self.node.ask(handle.op()),
                Event::Lost { node, how, incarnation } => self.hear_of_death(node, &how, incarnation),
                Event::Joining { newcomer } => self.node.joining(newcomer),
                Event::Arrived { node, incarnation, stream } => self.take_newcomer(node, incarnation, stream),
                Event::Admit { request, handle } => match self.node.start_boundary(request, now) {
                    Ok(id) => {
                        handle.set_op(id);
                        self.handles.insert(id, handle);
                    }
                    Err(error) => handle.end(Err(error)),
                },
                Event::LostMaster { how, host } => self.node.lost_master(&how, &host),
                Event::Fail { error } => self.node.fail(error),
            }
        }
        self.settle();
    }

    /// Input and output of every connection that can move, starting with a different one each time.
    fn pump(&mut self) {
        let now = self.now();
        let count = self.conns.len();
        self.next = (self.next + 1) % count.max(1);
        for pass in 0..2 {
            for i in 0..count {
                let index = (self.next + i) % count;
                let Some(conn) = &mut self.conns[index] else { continue };
                let reading = pass == 0;
                let outcome = if reading && conn.readable {
                    conn.pump_in(&mut self.node, now).and_then(|()| conn.pump_out(&mut self.node, now))
                } else if conn.writable {
                    conn.pump_out(&mut self.node, now)
                } else {
                    Ok(())
                };
                if let Err(end) = outcome {
                    self.close(index, end);
                }
            }
        }
        self.settle();
    }

    fn close(&mut self, index: usize, end: End) {
        let Some(conn) = self.conns[index].take() else { return };
        self.lost_bytes.0 += conn.bytes_out;
        self.lost_bytes.1 += conn.bytes_in;
        conn.give_back(&mut self.node);
        match end {
            End::Closed(how) => self.suspects.push((index as NodeId, how, Instant::now() + GRACE)),
            End::Broke(error) => tracing::debug!(%error, "connection closed"),
        }
    }

    fn check_suspects(&mut self) {
        let now = Instant::now();
        let mut i = 0;
        while i < self.suspects.len() {
            if self.suspects[i].2 <= now {
                let (node, how, _) = self.suspects.swap_remove(i);
                self.node.lost(node, &how);
            } else {
                i += 1;
            }
        }
    }

    /// Hands ended operations back to those who wait for them.
    fn settle(&mut self) {
        if let Some(error) = self.node.fatal()
            && !self.let_go
        {
            self.let_go = true;
            if let Some(master) = self.master.as_ref().filter(|_| !self.node.is_outside()) {
                // Before anybody here hears of it and exits (GANG-2).
                master.tell(&ToMaster::Abort { error: error.clone() });
            }
            if let Some(hook) = self.when_failed.take() {
                hook(error);
            }
            for conn in self.conns.iter_mut().flatten() {
                conn.let_go(&mut self.node);
            }
        }
        if self.node.has_ended() {
            // Before anybody is told: what they do next is not part of it.
            let now = self.now();
            for (id, outcome) in self.node.take_ended() {
                let absent = self.node.take_absent(id);
                if let Some(handle) = self.handles.remove(&id) {
                    handle.set_absent(absent);
                    handle.end(outcome);
                }
            }
            for (name, step, bytes, times) in std::mem::take(&mut self.node.finished_times) {
                note_times(self.keys.entry(name.clone()).or_default(), times, now);
                if self.timeline.is_on() {
                    let Times { submitted, first_sent, last_sent, last, .. } = times;
                    let last = last.checked_sub(1).and_then(|rank| u32::try_from(rank).ok());
                    let way = Way::Network;
                    let done = now;
                    self.timeline.keep(Record { name, step, way, bytes, submitted, first_sent, last_sent, done, last });
                }
            }
        }
        for who in self.node.take_joined() {
            tracing::info!("{who} has joined the run");
        }
        if !self.drained.is_empty() {
            let idle = self.conns.iter().flatten().all(|c| !c.has_output() && !self.node.wants_to_send(c.peer));
            let needed = self.node.world.colocated() && !self.node.all_gone();
            if let Some(error) = self.node.fatal() {
                let error = error.clone();
                self.drained.drain(..).for_each(|h| h.end(Err(error.clone())));
            } else if idle && !needed {
                self.drained.drain(..).for_each(|h| h.end(Ok(())));
            }
        }
    }

    /// Whether everything that was to be said has been handed to the sockets.
    pub fn all_said(&self) -> bool {
        self.conns.iter().flatten().all(|c| !c.has_output() && !self.node.wants_to_send(c.peer))
    }

    /// The connections that are open.
    pub fn sockets(&self) -> Vec<RawFd> {
        self.conns.iter().flatten().map(|conn| conn.stream.as_raw_fd()).collect()
    }

    pub fn traffic(&self) -> Traffic {
        let (mut sent, mut received) = self.lost_bytes;
        for conn in self.conns.iter().flatten() {
            sent += conn.bytes_out;
            received += conn.bytes_in;
        }
        let counters = self.node.counters;
        Traffic {
            bytes_sent: sent,
            bytes_received: received,
            frames_sent: counters.frames_sent,
            frames_received: counters.frames_received,
            chunks_summed: counters.chunks_summed,
            operations: counters.operations,
            buffer_bytes_peak: self.node.memory().1 as u64,
            keys: self.keys.clone(),
        }
    }
}

fn watch(epoll: &OwnedFd, peer: NodeId, stream: &TcpStream) -> Result<(), SyncError> {
    stream.set_nonblocking(true).map_err(|e| SyncError::system("cannot set up a connection", e))?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    epoll::add(epoll, stream, epoll::EventData::new_u64(u64::from(peer)), flags)
        .map_err(|e| SyncError::system("cannot set up the event loop", e))
}

fn note_times(total: &mut KeyTimes, t: Times, now: u64) {
    total.count += 1;
    if t.first_sent > 0 {
        total.queue += t.first_sent.saturating_sub(t.submitted);
        total.wire += t.last_sent.saturating_sub(t.first_sent);
        total.wait += now.saturating_sub(t.last_sent);
    } else {
        total.wait += now.saturating_sub(t.submitted);
    }
}
