//! The machine that receives: what it does for each order. It runs on nodes (`shoal host files`), and here when files come down.
//!
//! It ends with its input. Whatever is under way then is given up; files that were whole before stay.

use super::manifest::Manifest;
use super::neighbours::{Calls, Next};
use super::place::{Place, Problem};
use super::rules::Rules;
use super::seal::{self, HEAD, Key, Opener};
use super::unpack::Unpack;
use super::words::{Answer, LONGEST, LONGEST_LIST, Order, VERSION, ranges, unhex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often progress is told, and how often at least a sign of life.
const TICK: Duration = Duration::from_millis(250);
const SIGN: u32 = 8;

pub trait Input: Read + AsFd {}
impl<T: Read + AsFd> Input for T {}

/// What came of it.
#[derive(Debug, Default)]
pub struct Served {
    /// The sender said that all is done.
    pub finished: bool,
    pub failed: Option<(String, String)>,
    pub changed: Vec<String>,
    pub files: u64,
    pub bytes: u64,
    pub deleted: u64,
}

/// Serves one sender until its words end. `told` hears the bytes so far and in all. `room`: what does not fit is refused as a whole.
pub fn serve(
    mut input: impl Input,
    output: impl Write + Send,
    home: &Path,
    room: bool,
    told: &(dyn Fn(u64, u64) + Sync),
) -> io::Result<Served> {
    let output = Mutex::new(output);
    let (bytes, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let say = |answer: &Answer| -> io::Result<()> {
        let mut out = output.lock().unwrap_or_else(|e| e.into_inner());
        out.write_all(answer.line().as_bytes())?;
        out.flush()
    };
    let (alive, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let (bytes, total, say) = (&bytes, &total, &say);
        scope.spawn(move || {
            let (mut said, mut quiet) = (0, 0);
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let now = bytes.load(Ordering::Relaxed);
                quiet += 1;
                told(now, total.load(Ordering::Relaxed));
                if now != said || quiet >= SIGN {
                    (said, quiet) = (now, 0);
                    let _ = say(&Answer::Busy { bytes: now });
                }
            }
        });
        let outcome = say(&Answer::Hello { version: VERSION }).and_then(|()| {
            let served = Served::default();
            let mut receiver = Receiver { input: &mut input, say, bytes, total, home, room, state: None, served };
            let Err(over) = receiver.orders();
            let mut served = receiver.served;
            if let Over::Failed(what, hint) = over {
                say(&Answer::Failed { what: what.clone(), hint: hint.clone() })?;
                served.failed = Some((what, hint));
            }
            Ok(served)
        });
        drop(alive);
        outcome
    })
}

/// Why there are no more orders.
enum Over {
    Gone,
    Failed(String, String),
}

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over::Gone
    }
}

impl From<Problem> for Over {
    fn from(problem: Problem) -> Over {
        Over::Failed(problem.text(), problem.hint())
    }
}

fn nonsense(what: &str) -> Over {
    Over::Failed(format!("the sender's words make no sense: {what}"), "is it another version of shoal?".into())
}

struct State {
    place: Place,
    key: Key,
    token: [u8; 32],
    calls: Option<Calls>,
    next: Option<Next>,
}

struct Receiver<'a, I> {
    input: &'a mut I,
    say: &'a (dyn Fn(&Answer) -> io::Result<()> + Sync),
    bytes: &'a AtomicU64,
    total: &'a AtomicU64,
    home: &'a Path,
    room: bool,
    state: Option<State>,
    served: Served,
}

impl<I: Input> Receiver<'_, I> {
    fn orders(&mut self) -> Result<std::convert::Infallible, Over> {
        loop {
            let mut length = [0; 4];
            self.input.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length > LONGEST {
                return Err(nonsense("an order of impossible length"));
            }
            let mut text = vec![0; length];
            self.input.read_exact(&mut text)?;
            let order: Order = serde_json::from_slice(&text).map_err(|e| nonsense(&e.to_string()))?;
            match (order, self.state.take()) {
                (Order::Prepare { version, list, unpressed, key, token, listen }, _) => {
                    if version != VERSION {
                        return Err(nonsense(&format!("version {version}, this side has {VERSION}")));
                    }
                    let state = self.prepare(list, unpressed, &key, &token, listen)?;
                    self.state = Some(state);
                }
                (Order::Cut, state) => self.state = state,
                (_, None) => return Err(nonsense("nothing is prepared")),
                (order, Some(state)) => {
                    let state = self.state.insert(state);
                    let answer = match order {
                        Order::Link { next } => {
                            let dialled = Next::dial(&next, &state.token);
                            let problem = dialled.as_ref().err().cloned();
                            state.next = dialled.ok();
                            Answer::Linked { problem }
                        }
                        Order::Receive { stream, from_peer, forward, write_ms, read_ms } => {
                            let limits = (Duration::from_millis(write_ms), Duration::from_millis(read_ms));
                            let next = state.next.take().filter(|_| forward);
                            let Some(mut state) = self.state.take() else { return Err(Over::Gone) };
                            let answer = self.receive(&mut state, stream, from_peer, next, limits);
                            self.state = Some(state);
                            answer?
                        }
                        Order::Look => {
                            state.place.look(&mut || {})?;
                            Answer::Received { lacking: lacking(&state.place), problem: None, changed: Vec::new() }
                        }
                        Order::Finish { delete, exclude, filter, under } => {
                            let rules = Rules { exclude, filter };
                            let deleted = state.place.finish(delete.then_some(&rules), under.as_deref())?;
                            (self.served.finished, self.served.deleted) = (true, deleted);
                            Answer::Finished { deleted }
                        }
                        Order::Prepare { .. } | Order::Cut => continue,
                    };
                    (self.say)(&answer)?;
                }
            }
        }
    }

    fn prepare(&mut self, list: usize, unpressed: usize, key: &str, token: &str, listen: bool) -> Result<State, Over> {
        if list > LONGEST_LIST || unpressed > LONGEST_LIST {
            return Err(nonsense("a list of impossible length"));
        }
        let mut pressed = vec![0; list];
        self.input.read_exact(&mut pressed)?;
        let bytes = zstd::bulk::decompress(&pressed, unpressed).map_err(|e| nonsense(&e.to_string()))?;
        let manifest = Manifest::decode(&bytes).map_err(|e| nonsense(&e))?;
        let (Some(key), Some(token)) = (unhex(key), unhex(token)) else { return Err(nonsense("a key that is none")) };
        let place = Place::prepare(manifest, self.home, &mut || {})?;
        if let Some((what, hint)) = if self.room { super::space::fault(&place) } else { None } {
            return Err(Over::Failed(what, hint));
        }
        let wanted = || place.lacking.iter().zip(place.manifest.entries()).filter(|(lacks, _)| **lacks);
        self.served.files = wanted().count() as u64;
        self.served.bytes = wanted().map(|(_, (_, entry))| entry.size()).sum();
        self.total.store(self.served.bytes, Ordering::Relaxed);
        // Where nobody can call, files come over this line.
        let calls = if listen { Calls::wait(token).ok() } else { None };
        (self.say)(&Answer::Prepared {
            lacking: lacking(&place),
            stale: place.stale,
            port: calls.as_ref().map(|calls| calls.port),
            rsync: super::rsync::is_here(),
            roots: place.roots.iter().map(|root| root.display().to_string()).collect(),
        })?;
        Ok(State { place, key, token, calls, next: None })
    }

    fn receive(
        &mut self,
        state: &mut State,
        stream: u32,
        from_peer: bool,
        mut next: Option<Next>,
        (write, read): (Duration, Duration),
    ) -> Result<Answer, Over> {
        self.bytes.store(0, Ordering::Relaxed);
        let mut opener = Opener::new(&state.key, stream)?;
        let peer = match from_peer {
            true => match state.calls.as_ref().and_then(|calls| calls.take(read)) {
                Some(peer) => Some(peer),
                None => return Ok(cut(&state.place, "the neighbour did not call", Vec::new())),
            },
            false => None,
        };
        let mut source = match &peer {
            Some(peer) => Source::Peer { peer, orders: &*self.input, limit: read },
            None => Source::Line(self.input),
        };
        let mut unpack = Unpack { current: None, changed: Vec::new(), bytes: self.bytes };
        let mut failed: Option<Problem> = None;
        let mut piece = vec![0; HEAD];
        if let Some(next) = &next {
            next.limit(write);
        }
        loop {
            piece.resize(HEAD, 0);
            let got = source.read(&mut piece).and_then(|()| {
                let head = piece.first_chunk::<HEAD>().ok_or(io::ErrorKind::UnexpectedEof)?;
                let length = seal::length(head)?;
                piece.resize(HEAD + length, 0);
                source.read(&mut piece[HEAD..])
            });
            if let Err(e) = got {
                if !from_peer {
                    return Err(Over::Gone);
                }
                return match failed {
                    Some(problem) => Err(problem.into()),
                    None => Ok(cut(&state.place, &e.to_string(), unpack.changed)),
                };
            }
            if let Some(Err(why)) = next.as_mut().map(|next| next.pass_on(&piece)) {
                next = None;
                (self.say)(&Answer::ForwardLost { why })?;
            }
            let (head, body) = piece.split_at_mut(HEAD);
            let (plain, last) = match opener.open(head[4], body) {
                Ok(opened) => opened,
                Err(e) if from_peer => return Ok(cut(&state.place, &e.to_string(), unpack.changed)),
                Err(e) => return Err(nonsense(&e.to_string())),
            };
            if failed.is_none()
                && let Err(problem) = unpack.take(&mut state.place, plain)
            {
                // Those behind us are not to suffer from our full disk.
                failed = Some(problem);
                unpack.current = None;
            }
            if let (Some(_), None) = (&failed, &next) {
                break;
            }
            if last {
                break;
            }
        }
        match failed {
            Some(problem) => Err(problem.into()),
            None => {
                self.served.changed.clone_from(&unpack.changed);
                Ok(Answer::Received { lacking: lacking(&state.place), problem: None, changed: unpack.changed })
            }
        }
    }
}

fn lacking(place: &Place) -> Vec<(u32, u32)> {
    ranges(place.lacking.iter().enumerate().filter(|(_, lacks)| **lacks).map(|(i, _)| i as u32))
}

fn cut(place: &Place, why: &str, changed: Vec<String>) -> Answer {
    Answer::Received { lacking: lacking(place), problem: Some(why.into()), changed }
}

enum Source<'a, I> {
    Line(&'a mut I),
    /// An order that comes meanwhile means that nothing more will come from the peer.
    Peer {
        peer: &'a TcpStream,
        orders: &'a I,
        limit: Duration,
    },
}

impl<I: Input> Source<'_, I> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Source::Line(line) => line.read_exact(bytes),
            Source::Peer { peer, orders, limit } => {
                let mut done = 0;
                while done < bytes.len() {
                    let mut fds = [PollFd::new(peer, PollFlags::IN), PollFd::new(*orders, PollFlags::IN)];
                    let bound = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
                    if poll(&mut fds, Some(&bound))? == 0 {
                        return Err(io::Error::other(format!("the neighbour sent nothing for {} s", limit.as_secs())));
                    }
                    if fds[0].revents().is_empty() {
                        return Err(io::Error::other("the neighbour is gone"));
                    }
                    match (&mut &**peer).read(&mut bytes[done..])? {
                        0 => return Err(io::Error::other("the neighbour closed the connection")),
                        n => done += n,
                    }
                }
                Ok(())
            }
        }
    }
}
