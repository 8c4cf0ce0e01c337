//! Joining a group another rank of this host has made.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::area::Area;
use super::enter::{enter, position, random};
use super::error::{LocalError, Result};
use super::group::LocalGroup;
use super::host::same_user;
use super::proof;

impl LocalGroup {
    /// Joins the group hosted at `socket` (from [`Hosting::name`](super::Hosting::name)).
    pub fn connect(socket: &str, members: &[u32], me: u32, secret: &[u8; 32], deadline: Instant) -> Result<LocalGroup> {
        let pos = position(members, me)?;
        let failed = |what: &str| {
            let what = format!("rank {me} {what} @{socket}");
            move |e: std::io::Error| LocalError::io(what, e)
        };
        let refused = |by, why| LocalError::Refused { socket: socket.into(), rank: me, by, why };
        let addr = SocketAddr::from_abstract_name(socket).map_err(failed("naming"))?;
        let mut stream = UnixStream::connect_addr(&addr).map_err(failed("connecting to"))?;
        if !same_user(&stream) {
            return Err(refused("this rank", "the host belongs to another user"));
        }
        let mut challenge = [0; proof::CHALLENGE];
        bound(&stream, deadline).map_err(failed("timing"))?;
        stream.read_exact(&mut challenge).map_err(failed("reading the challenge from"))?;
        let counter = random()?;
        stream.write_all(&proof::join(secret, &challenge, &counter, me)).map_err(failed("answering"))?;
        bound(&stream, deadline).map_err(failed("timing"))?;
        let Some((reply, fd)) = receive(&stream).map_err(failed("waiting for the welcome of"))? else {
            return Err(refused("the host", "it closed the connection: another secret, or not awaited"));
        };
        if !proof::check_welcome(secret, &challenge, &counter, &reply) {
            return Err(refused("this rank", "the host did not prove the secret"));
        }
        let fd = fd.ok_or_else(|| refused("this rank", "the host sent no memory"))?;
        enter(Area::open(fd, members.len())?, members, pos, deadline)
    }
}

/// Bounds the next read and write by what is left of the deadline.
fn bound(stream: &UnixStream, deadline: Instant) -> std::io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}

/// The welcome and the descriptor that came with it. None if the host closed the connection.
fn receive(stream: &UnixStream) -> std::io::Result<Option<([u8; proof::WELCOME], Option<OwnedFd>)>> {
    let mut reply = [0; proof::WELCOME];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(
            stream.as_fd(),
            &mut [IoSliceMut::new(&mut reply)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            // A host that drops a connection it has not read to the end resets it.
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    if got.bytes != reply.len() {
        return Ok(None);
    }
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(Some((reply, fd)))
}
