//! Before anything else, both ends prove that they know the run's token (SEC-1).
//!
//! Three messages of fixed size: hello (version and nonce) each way, the dialler's proof, the listener's verdict and
//! proof. A proof is an HMAC over both nonces and the side, so nothing can be replayed or reflected. Nothing of
//! variable length is read, and nothing allocated, before the other end has proved itself.

use crate::error::SyncError;
use crate::wire::PROTOCOL_VERSION;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MAGIC: [u8; 6] = *b"SHOAL\0";
const HELLO: usize = 40;
const PROOF: usize = 32;
type Nonce = [u8; 32];

/// How long a stranger may take to prove itself.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Why a connection was turned away. The run is not touched by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it does not speak this protocol")]
    NotShoal,
    #[error("it speaks protocol version {0}, this side speaks {PROTOCOL_VERSION}")]
    Version(u8),
    #[error("its token is wrong")]
    Token,
    #[error("it said nothing for {} s", PATIENCE.as_secs())]
    Silent,
    #[error("{0}")]
    Broken(String),
}

#[derive(Clone, Copy)]
enum Side {
    Dialler,
    Listener,
}

fn hello(nonce: &Nonce) -> [u8; HELLO] {
    let mut out = [0u8; HELLO];
    out[..6].copy_from_slice(&MAGIC);
    out[6] = PROTOCOL_VERSION;
    out[8..].copy_from_slice(nonce);
    out
}

/// The nonce of a hello, or why it is not one (pure: fuzzed).
pub fn read_hello(bytes: &[u8; HELLO]) -> Result<Nonce, Refusal> {
    if bytes[..6] != MAGIC {
        return Err(Refusal::NotShoal);
    }
    if bytes[6] != PROTOCOL_VERSION {
        return Err(Refusal::Version(bytes[6]));
    }
    Ok(std::array::from_fn(|i| bytes[8 + i]))
}

fn keyed(token: &str, side: Side, dialler: &Nonce, listener: &Nonce) -> Hmac<Sha256> {
    let mut mac = match Hmac::<Sha256>::new_from_slice(token.as_bytes()) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    };
    mac.update(match side {
        Side::Dialler => b"shoal dialler",
        Side::Listener => b"shoal listener",
    });
    mac.update(dialler);
    mac.update(listener);
    mac
}

fn nonce() -> Result<Nonce, Refusal> {
    let mut out = [0u8; 32];
    rustix::rand::getrandom(&mut out[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Refusal::Broken(format!("no random numbers: {e}")))?;
    Ok(out)
}

fn read(stream: &mut TcpStream, bytes: &mut [u8], deadline: Instant) -> Result<(), Refusal> {
    let mut done = 0;
    while done < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Silent);
        }
        stream.set_read_timeout(Some(left)).map_err(|e| Refusal::Broken(e.to_string()))?;
        match stream.read(&mut bytes[done..]) {
            Ok(0) => return Err(Refusal::Broken("it closed the connection".into())),
            Ok(n) => done += n,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Refusal::Broken(e.to_string())),
        }
    }
    Ok(())
}

fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), Refusal> {
    stream.set_write_timeout(Some(PATIENCE)).map_err(|e| Refusal::Broken(e.to_string()))?;
    stream.write_all(bytes).map_err(|e| Refusal::Broken(e.to_string()))
}

impl Refusal {
    /// Whether it may go better next time: the other end was busy, stopped, or on its way out.
    pub fn may_pass(&self) -> bool {
        matches!(self, Refusal::Silent | Refusal::Broken(_))
    }

    /// The same for whoever dialled `peer` at `address`.
    pub fn of(self, peer: &str, address: &str) -> SyncError {
        match self {
            Refusal::Version(theirs) => SyncError::Version { peer: peer.into(), ours: PROTOCOL_VERSION, theirs },
            Refusal::Token => SyncError::Token { peer: peer.into() },
            other => SyncError::Unreachable { what: peer.into(), address: address.into(), why: other.to_string() },
        }
    }
}

/// The dialler's half, with the refusal in words.
pub fn dial(stream: &mut TcpStream, token: &str, peer: &str) -> Result<(), SyncError> {
    let address = stream.peer_addr().map_or_else(|_| "?".into(), |a| a.to_string());
    prove(stream, token).map_err(|refusal| refusal.of(peer, &address))
}

/// The dialler's half.
pub fn prove(stream: &mut TcpStream, token: &str) -> Result<(), Refusal> {
    let deadline = Instant::now() + PATIENCE;
    let mine = nonce()?;
    write(stream, &hello(&mine))?;
    let mut theirs = [0u8; HELLO];
    read(stream, &mut theirs, deadline)?;
    let theirs = read_hello(&theirs)?;
    write(stream, &keyed(token, Side::Dialler, &mine, &theirs).finalize().into_bytes())?;
    let mut verdict = [0u8; 1 + PROOF];
    read(stream, &mut verdict, deadline)?;
    if verdict[0] != 1 {
        return Err(Refusal::Token);
    }
    keyed(token, Side::Listener, &mine, &theirs).verify_slice(&verdict[1..]).map_err(|_| Refusal::Token)
}

/// The listener's half.
pub fn answer(stream: &mut TcpStream, token: &str) -> Result<(), Refusal> {
    let deadline = Instant::now() + PATIENCE;
    let mut theirs = [0u8; HELLO];
    read(stream, &mut theirs, deadline)?;
    let mine = nonce()?;
    let their_nonce = read_hello(&theirs);
    if !matches!(their_nonce, Err(Refusal::NotShoal)) {
        // Even a peer of another version is told ours, so that it can say what is wrong.
        write(stream, &hello(&mine))?;
    }
    let their_nonce = their_nonce?;
    let mut proof = [0u8; PROOF];
    read(stream, &mut proof, deadline)?;
    let mut verdict = [0u8; 1 + PROOF];
    if keyed(token, Side::Dialler, &their_nonce, &mine).verify_slice(&proof).is_err() {
        write(stream, &verdict)?;
        return Err(Refusal::Token);
    }
    verdict[0] = 1;
    verdict[1..].copy_from_slice(&keyed(token, Side::Listener, &their_nonce, &mine).finalize().into_bytes());
    write(stream, &verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(listener_token: &str, dialler_token: &str) -> (Result<(), Refusal>, Result<(), SyncError>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let token = listener_token.to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            answer(&mut stream, &token)
        });
        let mut stream = TcpStream::connect(address).expect("connect");
        let dialled = dial(&mut stream, dialler_token, "the master");
        (thread.join().expect("no panic"), dialled)
    }

    #[test]
    fn the_same_token_on_both_sides() {
        assert_eq!(pair("secret", "secret"), (Ok(()), Ok(())));
    }

    #[test]
    fn a_wrong_token_is_refused_by_name() {
        let (listener, dialler) = pair("secret", "guess");
        assert_eq!(listener, Err(Refusal::Token));
        assert_eq!(dialler, Err(SyncError::Token { peer: "the master".into() }));
    }

    #[test]
    fn another_version_is_told_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            answer(&mut stream, "t")
        });
        let mut stream = TcpStream::connect(address).expect("connect");
        let mut bytes = hello(&[7; 32]);
        bytes[6] = 99;
        stream.write_all(&bytes).expect("write");
        let mut reply = [0u8; HELLO];
        stream.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[6], PROTOCOL_VERSION);
        assert_eq!(thread.join().expect("no panic"), Err(Refusal::Version(99)));
    }

    #[test]
    fn garbage_is_turned_away() {
        let mut bytes = [0u8; HELLO];
        bytes[..4].copy_from_slice(b"GET ");
        assert_eq!(read_hello(&bytes), Err(Refusal::NotShoal));
    }
}
