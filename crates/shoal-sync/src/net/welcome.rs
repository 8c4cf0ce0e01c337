//! A server's door while the run is under way: newcomers prove the token (SEC-1), say who they are, and their
//! connection goes to the loop, which decides.

use super::join::tune;
use super::meet::Introduction;
use super::reactor::{Event, Inbox};
use crate::error::SyncError;
use crate::handshake::{self, Refusal};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Strangers at once; each has [`handshake::PATIENCE`] to prove itself.
const MAX_UNPROVEN: usize = 64;
const TICK: Duration = Duration::from_millis(100);

/// Open as long as this lives.
pub struct Door {
    shut: Arc<AtomicBool>,
}

impl Door {
    pub fn open(listener: TcpListener, token: &str, run: u32, inbox: Arc<Inbox>) -> Result<Door, SyncError> {
        let fault = |e: std::io::Error| SyncError::system("cannot listen for newcomers", e);
        listener.set_nonblocking(true).map_err(fault)?;
        let shut = Arc::new(AtomicBool::new(false));
        let (seen, token): (_, Arc<str>) = (shut.clone(), token.into());
        let watch = move || {
            let unproven = Arc::new(AtomicUsize::new(0));
            while !seen.load(Ordering::Relaxed) {
                accept(&listener, &token, run, &inbox, &unproven);
                let mut fds = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
                let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
                // Interrupted or not: the loop looks at everything again.
                let _ = rustix::event::poll(&mut fds, Some(&tick));
            }
        };
        std::thread::Builder::new().name("door".into()).stack_size(256 * 1024).spawn(watch).map_err(fault)?;
        Ok(Door { shut })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut.store(true, Ordering::Relaxed);
    }
}

/// Lets those who dialled prove themselves, each in a thread: one that says nothing must not keep the others waiting.
fn accept(listener: &TcpListener, token: &Arc<str>, run: u32, inbox: &Arc<Inbox>, unproven: &Arc<AtomicUsize>) {
    while let Ok((stream, from)) = listener.accept() {
        if unproven.load(Ordering::Relaxed) >= MAX_UNPROVEN {
            tracing::warn!(%from, "too many connections; turned away");
            continue;
        }
        unproven.fetch_add(1, Ordering::Relaxed);
        let (token, inbox, count) = (token.clone(), inbox.clone(), unproven.clone());
        let spawned = std::thread::Builder::new().name("greet".into()).stack_size(256 * 1024).spawn(move || {
            match greet(stream, &token, run) {
                Ok(arrived) => inbox.post(arrived),
                Err(refusal) => tracing::warn!(%from, "turned away: {refusal}"),
            }
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = spawned {
            unproven.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%from, %error, "no thread for a connection; turned away");
        }
    }
}

fn greet(mut stream: TcpStream, token: &str, run: u32) -> Result<Event, Refusal> {
    let broken = |e: std::io::Error| Refusal::Broken(e.to_string());
    stream.set_nonblocking(false).map_err(broken)?;
    handshake::answer(&mut stream, token)?;
    let Introduction { node, run: theirs, incarnation, .. } = Introduction::read(&mut stream).map_err(broken)?;
    if theirs != run {
        return Err(Refusal::Broken("it belongs to another run".into()));
    }
    if incarnation == 0 {
        return Err(Refusal::Broken("the run is under way, and it is no newcomer".into()));
    }
    let stream = tune(stream).map_err(|e| Refusal::Broken(e.to_string()))?;
    Ok(Event::Arrived { node, incarnation, stream })
}
