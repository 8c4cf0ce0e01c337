//! Prometheus text on an address of the user's choice: one page, no framework.

use shoal_sync::SyncError;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

/// A scrape that takes longer is abandoned; scrapers come one after the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers `GET /metrics` with what `render` gives, from a thread of its own.
pub fn serve(address: &str, render: impl Fn() -> String + Send + 'static) -> Result<std::net::SocketAddr, SyncError> {
    let fault = |e: std::io::Error| SyncError::Unreachable {
        what: "a place to serve metrics".into(),
        address: address.into(),
        why: format!("{e}; is the port taken, or the address not of this host?"),
    };
    let listener = TcpListener::bind(address).map_err(fault)?;
    let local = listener.local_addr().map_err(fault)?;
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                if let Err(error) = answer(&mut stream, &render) {
                    tracing::debug!(%error, "a scrape failed");
                }
            }
        })
        .map_err(fault)?;
    Ok(local)
}

fn answer(stream: &mut std::net::TcpStream, render: &impl Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0u8; 1024];
    let n = stream.read(&mut request)?;
    let wanted = request[..n].starts_with(b"GET /metrics ");
    let (status, body) = if wanted { ("200 OK", render()) } else { ("404 Not Found", "see /metrics\n".into()) };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
