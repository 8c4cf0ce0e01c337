//! Nodes among themselves: waiting for a neighbour's call, and calling the next one. Nothing is read from anybody who has not proved the
//! transfer's token (SEC-1).

use super::proof;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

const DIALLING: Duration = Duration::from_secs(3);
/// Strangers that are heard at once.
const MOST: usize = 16;

/// The calls of neighbours.
pub struct Calls {
    pub port: u16,
    proved: Receiver<TcpStream>,
}

impl Calls {
    /// Listens on a free port until this process ends, which is with the transfer.
    pub fn wait(token: [u8; 32]) -> io::Result<Calls> {
        let listener = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0"))?;
        let port = listener.local_addr()?.port();
        let (send, proved) = sync_channel(1);
        let heard = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                if heard.load(Ordering::SeqCst) >= MOST {
                    continue;
                }
                heard.fetch_add(1, Ordering::SeqCst);
                let (send, heard) = (send.clone(), heard.clone());
                std::thread::spawn(move || {
                    if let Ok(stream) = proof::listen(stream, &token) {
                        let _ = send.try_send(stream);
                    }
                    heard.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Calls { port, proved })
    }

    pub fn take(&self, limit: Duration) -> Option<TcpStream> {
        self.proved.recv_timeout(limit).ok()
    }
}

/// The one that gets what we get.
pub struct Next(TcpStream);

impl Next {
    pub fn dial(address: &str, token: &[u8; 32]) -> Result<Next, String> {
        let words = |e: io::Error| match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => format!("no answer within {} s", DIALLING.as_secs()),
            _ => e.to_string().split(" (os error").next().unwrap_or_default().to_string(),
        };
        let all = address.to_socket_addrs().map_err(words)?;
        let mut last = "the name leads nowhere".to_string();
        for one in all {
            match TcpStream::connect_timeout(&one, DIALLING).and_then(|stream| proof::dial(stream, token)) {
                Ok(stream) => return Ok(Next(stream)),
                Err(e) => last = words(e),
            }
        }
        Err(last)
    }

    /// How long it may take nothing before it counts as lost.
    pub fn limit(&self, limit: Duration) {
        let _ = self.0.set_write_timeout(Some(limit));
    }

    pub fn pass_on(&mut self, piece: &[u8]) -> Result<(), String> {
        self.0.write_all(piece).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it takes nothing more".into(),
            _ => "it closed the connection".into(),
        })
    }
}
