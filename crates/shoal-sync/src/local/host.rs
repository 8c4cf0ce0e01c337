//! The lowest rank of a host makes the shared memory and hands it to the others who prove the secret.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use rustix::time::Timespec;

use super::area::Area;
use super::enter::{enter, position, random};
use super::error::{LocalError, Result};
use super::group::LocalGroup;
use super::layout::{MAX_MEMBERS, Shape};
use super::proof;

/// Connections that have not proved anything yet; more push out the oldest.
const STRANGERS: usize = 4 * MAX_MEMBERS;

/// How the shared memory is made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The most a rank can [`alloc`](LocalGroup::alloc). Address space, not memory: only what is used counts.
    pub heap_bytes: usize,
    /// Whether to put huge pages under large tensors that come again and again from the same ordinary memory.
    pub huge_pages: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { heap_bytes: 16 << 30, huge_pages: true }
    }
}

/// A socket at which the other ranks of the host can join.
pub struct Hosting {
    listener: UnixListener,
    name: String,
}

/// Somebody who has connected and not yet proved who it is.
struct Stranger {
    stream: UnixStream,
    challenge: [u8; proof::CHALLENGE],
    message: [u8; proof::JOIN],
    filled: usize,
}

impl Hosting {
    /// Binds a random abstract name, to be told to the others.
    pub fn bind() -> Result<Hosting> {
        let random = u128::from_ne_bytes(random()?);
        let name = format!("shoal-{random:032x}");
        let failed = |e| LocalError::io(format!("binding @{name}"), e);
        let addr = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let listener = UnixListener::bind_addr(&addr).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Hosting { listener, name })
    }

    /// What the others give to [`LocalGroup::connect`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for all other members and makes the group. A peer that says nothing or the wrong thing is dropped and
    /// keeps nobody waiting.
    pub fn accept_all(
        self,
        members: &[u32],
        me: u32,
        secret: &[u8; 32],
        options: Options,
        deadline: Instant,
    ) -> Result<LocalGroup> {
        let me = position(members, me)?;
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let heap_bytes = options.heap_bytes.next_multiple_of(2 << 20);
        let area = Area::create(Shape { members: members.len(), heap_bytes }, cpus)?;
        area.header().huge_pages.store(options.huge_pages.into(), Relaxed);
        let mut admitted = vec![false; members.len()];
        admitted[me] = true;
        let mut strangers: Vec<Stranger> = vec![];
        while admitted.contains(&false) {
            if !self.poll(&strangers, deadline)? {
                let ranks = members.iter().zip(&admitted).filter(|(_, a)| !**a).map(|(&m, _)| m).collect();
                return Err(LocalError::Missing { ranks, what: "connected" });
            }
            while let Ok((stream, _)) = self.listener.accept() {
                if strangers.len() == STRANGERS {
                    strangers.remove(0);
                }
                strangers.extend(greet(stream));
            }
            strangers = strangers
                .into_iter()
                .filter_map(|mut stranger| match stranger.listen() {
                    Heard::More => Some(stranger),
                    Heard::Nothing => None,
                    Heard::All => {
                        admit(&stranger, &area, members, &mut admitted, secret);
                        None
                    }
                })
                .collect();
        }
        drop(strangers);
        enter(area, members, me, deadline)
    }

    /// False if the deadline has passed.
    fn poll(&self, strangers: &[Stranger], deadline: Instant) -> Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(strangers.iter().map(|s| PollFd::new(&s.stream, PollFlags::IN)));
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0 || !left.is_zero()),
            Err(rustix::io::Errno::INTR) => Ok(!left.is_zero()),
            Err(e) => Err(LocalError::io(format!("waiting at @{}", self.name), e)),
        }
    }
}

/// Challenges a newcomer of the same user; others are not answered.
fn greet(mut stream: UnixStream) -> Option<Stranger> {
    if !same_user(&stream) {
        tracing::warn!("another user connected to the local group's socket; dropped");
        return None;
    }
    let challenge = random().ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.write_all(&challenge).ok()?;
    Some(Stranger { stream, challenge, message: [0; proof::JOIN], filled: 0 })
}

pub(super) fn same_user(stream: &UnixStream) -> bool {
    sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

enum Heard {
    More,
    All,
    Nothing,
}

impl Stranger {
    fn listen(&mut self) -> Heard {
        match self.stream.read(&mut self.message[self.filled..]) {
            Ok(0) => Heard::Nothing,
            Ok(n) => {
                self.filled += n;
                if self.filled == proof::JOIN { Heard::All } else { Heard::More }
            }
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {
                Heard::More
            }
            Err(_) => Heard::Nothing,
        }
    }
}

/// Hands the memory to a rank that has proved the secret and is awaited.
fn admit(stranger: &Stranger, area: &Area, members: &[u32], admitted: &mut [bool], secret: &[u8; 32]) {
    let Some((rank, counter)) = proof::check_join(secret, &stranger.challenge, &stranger.message) else {
        tracing::warn!("a process connected to the local group's socket without the run's secret; dropped");
        return;
    };
    let Some(i) = members.iter().position(|&m| m == rank).filter(|&i| !admitted[i]) else {
        tracing::warn!(rank, ?members, "a rank that is not awaited wants to join the local group; dropped");
        return;
    };
    let reply = proof::welcome(secret, &stranger.challenge, &counter);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [area.fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    match sendmsg(stranger.stream.as_fd(), &[IoSlice::new(&reply)], &mut ancillary, SendFlags::NOSIGNAL) {
        Ok(n) if n == reply.len() => admitted[i] = true,
        Ok(_) => tracing::warn!(rank, "a joining rank took only part of the welcome"),
        Err(e) => tracing::warn!(rank, error = %e, "a joining rank went away"),
    }
}
