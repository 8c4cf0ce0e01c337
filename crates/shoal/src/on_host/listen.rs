//! The end that is dialled: proves the token and has it proved (SEC-1), echoes, and sends for a while when asked to.

use shoal_sync::handshake;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A request to send back one byte.
pub const ECHO: u8 = b'e';
/// A request to send for a time: four bytes of milliseconds follow.
pub const SEND: u8 = b's';
pub const LONGEST: Duration = Duration::from_secs(1);
/// A dialler that asks nothing for so long has gone.
const IDLE: Duration = Duration::from_secs(5);
/// Dialled by at most so many at once; a stranger who holds lines open takes none of the memory.
const MOST: usize = 256;

/// Listens at a free port on all addresses until the process ends; gives the port.
pub fn start(token: &str) -> std::io::Result<u16> {
    let listener =
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    let port = listener.local_addr()?.port();
    let token: Arc<str> = token.into();
    let busy = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            if busy.load(Ordering::Relaxed) >= MOST {
                continue;
            }
            busy.fetch_add(1, Ordering::Relaxed);
            let (token, busy) = (token.clone(), busy.clone());
            std::thread::spawn(move || {
                // A dialler that breaks off, or is none of ours, is told nothing and told of nowhere.
                let _ = serve(stream, &token);
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(port)
}

fn serve(mut stream: TcpStream, token: &str) -> std::io::Result<()> {
    handshake::answer(&mut stream, token).map_err(|refusal| std::io::Error::other(refusal.to_string()))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE))?;
    stream.set_write_timeout(Some(IDLE))?;
    let mut word = [0u8; 1];
    loop {
        stream.read_exact(&mut word)?;
        match word[0] {
            ECHO => stream.write_all(&word)?,
            SEND => {
                let mut milliseconds = [0u8; 4];
                stream.read_exact(&mut milliseconds)?;
                let time = Duration::from_millis(u32::from_le_bytes(milliseconds).into()).min(LONGEST);
                let (chunk, until) = (vec![0u8; 256 << 10], Instant::now() + time);
                while Instant::now() < until {
                    stream.write_all(&chunk)?;
                }
                return Ok(());
            }
            _ => return Ok(()),
        }
    }
}
