//! The door for people and agents elsewhere: TLS, then as many bytes as a knock has, then words (SEC-1).
//!
//! Whoever knocks wrongly gets one answer, the same for every mistake, and a line in the log without what was said.

use super::knock::{self, Kind, Token};
use super::session::serve;
use super::tls::{Authority, lively, names};
use super::unix::Counted;
use super::{Caller, MOST_CLIENTS};
use crate::queue::framing;
use crate::queue::serve::line::talk;
use crate::queue::serve::reach::LineStream;
use crate::queue::serve::shared::Shared;
use crate::queue::serve::turn::refused;
use crate::records::unix_ms;
use shoal_core::queue::request::Role;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// From the connection to the end of the knock.
const KNOCK: Duration = Duration::from_secs(10);
/// Strangers at a time.
const MOST_KNOCKING: usize = 128;

struct Door {
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    knocking: AtomicUsize,
    refusals: Refusals,
}

/// Listens on all of them; returns when they are bound. Gives the fingerprint that clients need, and the addresses.
pub fn listen(shared: &Arc<Shared>, addresses: &[String], given: &[String]) -> io::Result<(String, Vec<SocketAddr>)> {
    let authority = Authority::of(&shared.store)?;
    let config = authority.server(&names(addresses, given))?;
    let mut sockets = Vec::new();
    for address in addresses {
        let socket = std::net::TcpListener::bind(address)
            .map_err(|e| io::Error::new(e.kind(), format!("{address} cannot be listened on: {e}")))?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let bound: Vec<SocketAddr> = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
    let door = Arc::new(Door {
        shared: shared.clone(),
        acceptor: TlsAcceptor::from(config),
        knocking: AtomicUsize::new(0),
        refusals: Refusals::default(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        runtime.block_on(async {
            let accept = |socket: std::net::TcpListener| tokio::spawn(accept(door.clone(), socket));
            let tasks: Vec<_> = sockets.into_iter().map(accept).collect();
            for task in tasks {
                let _ = task.await;
            }
        });
    };
    std::thread::Builder::new().name("tls-door".into()).spawn(run)?;
    Ok((authority.fingerprint(), bound))
}

async fn accept(door: Arc<Door>, socket: std::net::TcpListener) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    loop {
        let Ok((tcp, from)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if door.knocking.fetch_add(1, Ordering::AcqRel) >= MOST_KNOCKING {
            door.knocking.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let door = door.clone();
        tokio::spawn(async move {
            lively(&tcp);
            let heard = tokio::time::timeout(KNOCK, hear(&door, tcp)).await;
            door.knocking.fetch_sub(1, Ordering::AcqRel);
            match heard {
                Ok(Ok((tls, kind, token))) => admit(&door, tls, kind, &token, from).await,
                // A port scanner, or somebody who is too slow.
                Ok(Err(_)) | Err(_) => door.refusals.say(&door.shared, from),
            }
        });
    }
}

async fn hear(door: &Door, tcp: TcpStream) -> io::Result<(TlsStream<TcpStream>, Option<Kind>, Option<Token>)> {
    let mut tls = door.acceptor.accept(tcp).await?;
    let mut bytes = [0; knock::LENGTH];
    tls.read_exact(&mut bytes).await?;
    let (kind, token) = knock::hear(&bytes).unzip();
    Ok((tls, kind, token))
}

async fn admit(
    door: &Door,
    mut tls: TlsStream<TcpStream>,
    kind: Option<Kind>,
    token: &Option<Token>,
    from: SocketAddr,
) {
    let check = |token: &Token| {
        let tokens = door.shared.tokens.lock().unwrap_or_else(|e| e.into_inner());
        tokens.check(token, unix_ms())
    };
    let caller = token.as_ref().and_then(check);
    let fits = |kind: Kind, caller: &Caller| (kind == Kind::Agent) == (caller.role == Role::Host);
    let Some((kind, caller)) = kind.zip(caller).filter(|(kind, caller)| fits(*kind, caller)) else {
        door.refusals.say(&door.shared, from);
        // The same for an unknown, an expired and a misused one.
        if let Ok(answer) = framing::encode(&refused("not admitted", ""), &[]) {
            let _ = tokio::time::timeout(KNOCK, async {
                let _ = tls.write_all(&answer).await;
                let _ = tls.shutdown().await;
            })
            .await;
        }
        return;
    };
    let Ok((near, far)) = UnixStream::pair() else { return };
    let Ok(mut near) = near.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(near)) else { return };
    if inside(&door.shared, far, kind, caller).is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut tls, &mut near).await;
    }
}

/// Gives the connection to a thread of its own.
fn inside(shared: &Arc<Shared>, stream: UnixStream, kind: Kind, caller: Caller) -> io::Result<()> {
    let shared = shared.clone();
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    match kind {
        Kind::Client => {
            if shared.clients.fetch_add(1, Ordering::AcqRel) >= MOST_CLIENTS {
                shared.clients.fetch_sub(1, Ordering::AcqRel);
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let count = Counted(shared.clone());
            let run = move || {
                let _count = count;
                serve(&shared, &stream, caller);
            };
            thread.name("client".into()).spawn(run)?;
        }
        Kind::Agent => {
            let (to, cut) = (stream.try_clone()?, stream.try_clone()?);
            let cut = move || drop(cut.shutdown(std::net::Shutdown::Both));
            let line = LineStream { to: Box::new(to), from: Box::new(stream), cut: Box::new(cut) };
            let name = format!("line {}", caller.user);
            thread.name(name).spawn(move || drop(talk(&shared, &caller.user, line, false)))?;
        }
    }
    Ok(())
}

/// At most a line a second, and how many it stands for.
#[derive(Default)]
struct Refusals {
    last: Mutex<Option<Instant>>,
    more: AtomicU64,
}

impl Refusals {
    fn say(&self, shared: &Shared, from: SocketAddr) {
        let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
        if last.is_some_and(|at| at.elapsed() < Duration::from_secs(1)) {
            self.more.fetch_add(1, Ordering::Relaxed);
            return;
        }
        *last = Some(Instant::now());
        let more = match self.more.swap(0, Ordering::Relaxed) {
            0 => String::new(),
            more => format!(" (and {more} before)"),
        };
        shared.log.say(format!("somebody at {from} was not admitted{more}"));
    }
}
