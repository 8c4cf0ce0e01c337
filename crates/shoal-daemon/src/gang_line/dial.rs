//! A member's socket: dials the head, proves the token, hears its words, and dials again when that ends.

use super::words::{self, Word};
use super::{News, WRITE};
use crate::frame::FrameError;
use shoal_core::job::GangLine;
use shoal_sync::handshake;
use std::io::{self, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// For one attempt.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Dials until the process ends. `tell` says whether anybody still wants to know.
pub fn dial(line: &GangLine, tell: impl Fn(News) -> bool + Send + 'static) -> io::Result<()> {
    let line = line.clone();
    std::thread::Builder::new().name("gang-dial".into()).spawn(move || {
        loop {
            let news = match connect(&line) {
                Ok(stream) => News::Disconnected { why: hear(stream, &line, &tell) },
                Err(e) => {
                    let why = format!("{}:{}: {e}", line.address, line.port);
                    News::Failed { why, nobody: e.kind() == io::ErrorKind::ConnectionRefused }
                }
            };
            if !tell(news) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

fn connect(line: &GangLine) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such address");
    for address in (line.address.as_str(), line.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ATTEMPT) {
            Ok(stream) => return Ok(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Until the connection is over; why it is.
fn hear(mut stream: TcpStream, line: &GangLine, tell: &impl Fn(News) -> bool) -> String {
    // The head proves itself too: orders are taken from nobody else (SEC-1).
    if let Err(refusal) = handshake::prove(&mut stream, &line.token) {
        return format!("{}:{}: {refusal}", line.address, line.port);
    }
    let _ = stream.set_nodelay(true);
    // The head speaks every second. After a cut the kernel would try this connection again ever more rarely; a new one is
    // there as soon as the network is.
    let quiet = Duration::from_millis((line.silence_ms / 4).clamp(2_500, 5_000));
    if let Err(e) = stream.set_read_timeout(Some(quiet)).and_then(|()| stream.set_write_timeout(Some(WRITE))) {
        return e.to_string();
    }
    let stream = Arc::new(stream);
    if !tell(News::Connected { stream: stream.clone() }) {
        return String::new();
    }
    let mut from = BufReader::new(&*stream);
    let mut body = Vec::new();
    let why = loop {
        match words::read::<Word>(&mut from, &mut body) {
            Ok(Some(word)) => {
                if !tell(News::Word(word)) {
                    return String::new();
                }
            }
            Ok(None) => break "it closed the connection".to_string(),
            Err(FrameError::Io(e)) if e.kind() == io::ErrorKind::WouldBlock => break "it said nothing".to_string(),
            Err(e) => break e.to_string(),
        }
    };
    let _ = stream.shutdown(std::net::Shutdown::Both);
    why
}
