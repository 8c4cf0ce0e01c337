//! The line to the master: a thread listens, anyone may speak.

use crate::control::{self, FromMaster, ToMaster};
use crate::error::SyncError;
use crate::net::reactor::{Event, Inbox};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Master {
    stream: Arc<TcpStream>,
    /// Who speaks has it.
    turn: Mutex<()>,
}

impl Master {
    /// Starts listening to the master; what it says goes to the loop.
    pub fn attend(stream: TcpStream, host: String, inbox: Arc<Inbox>) -> Result<(Master, JoinHandle<()>), SyncError> {
        let fault = |e: std::io::Error| SyncError::system("cannot attend to the master", e);
        stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(fault)?;
        let stream = Arc::new(stream);
        let heard = stream.clone();
        let listen = move || {
            let mut reader = &*heard;
            loop {
                match control::receive::<FromMaster>(&mut reader) {
                    Ok(FromMaster::Dead { node, how, incarnation }) => {
                        inbox.post(Event::Lost { node, how, incarnation })
                    }
                    Ok(FromMaster::Joining(newcomer)) => inbox.post(Event::Joining { newcomer }),
                    // Refused after all: a newcomer whom nobody is left to let in.
                    Ok(FromMaster::Abort { error } | FromMaster::Refused { error }) => {
                        inbox.post(Event::Fail { error })
                    }
                    Ok(_) => {}
                    Err(e) => {
                        let how = match e.kind() {
                            std::io::ErrorKind::UnexpectedEof => "its connection closed".to_string(),
                            std::io::ErrorKind::TimedOut => "its host has fallen silent".to_string(),
                            _ => format!("its connection broke: {e}"),
                        };
                        inbox.post(Event::LostMaster { how, host });
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("shoal-control".into()).spawn(listen).map_err(fault)?;
        Ok((Master { stream, turn: Mutex::default() }, thread))
    }

    /// Says something; a broken line is noticed by the listener.
    pub fn tell(&self, message: &ToMaster) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = control::send(&mut &*self.stream, message) {
            tracing::debug!(%error, "the master could not be told");
        }
    }

    pub fn socket(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub fn hang_up(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Already closed is as good as closed.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
