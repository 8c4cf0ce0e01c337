//! How does a program ask the daemon, and start one?
//!
//! | file | question |
//! |---|---|
//! | `place` | which queue is it: this machine's, or one elsewhere |
//! | `start` | where none runs, one is started |

mod place;
mod start;

pub use place::{PORT, Remote, Where};
pub use start::connect_or_start;

use super::door::knock::Kind;
use super::door::tls::{self, DialError};
use super::framing::{self, FramingError};
use super::places::Store;
use shoal_core::queue::request::{Answer, REQUEST_VERSION, Request};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Until a daemon has let us in.
const CONNECT: Duration = Duration::from_secs(5);
/// Longer than any answer takes.
const ANSWER: Duration = Duration::from_secs(3700);
/// In a stream something comes at least every 10 s, but for output of a run that prints nothing.
const STREAM: Duration = Duration::from_secs(60);

#[derive(Debug, Error)]
pub enum ClientError {
    #[error("no daemon serves {}", .0.display())]
    NotRunning(PathBuf),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{}: {why}", path.display())]
    Socket { path: PathBuf, why: io::Error },
    #[error("{why}")]
    Refused { why: String, hint: Option<String> },
    #[error(
        "the daemon speaks version {0} of requests, this shoal {REQUEST_VERSION}; use the same shoal on both sides"
    )]
    Version(u32),
    #[error("the daemon ended the connection")]
    Ended,
    #[error("the connection to the queue broke: {0}")]
    Broken(FramingError),
    #[error("{0}")]
    Wrong(String),
    #[error("a daemon was started and is not there after {seconds} s{}", shown(log))]
    NotStarted { seconds: u64, log: String },
}

fn shown(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; the last it said:\n{log}") }
}

impl From<FramingError> for ClientError {
    fn from(e: FramingError) -> ClientError {
        match e {
            FramingError::Cut => ClientError::Ended,
            FramingError::Io(e) if matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
                ClientError::Ended
            }
            FramingError::TooLong { .. } => ClientError::Wrong(format!("what was asked is too long: {e}")),
            e => ClientError::Broken(e),
        }
    }
}

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Whom the daemon takes us for, and the id of its store.
    pub user: String,
    pub store: String,
    local: bool,
}

impl Client {
    /// Bounded. Starts nothing.
    pub fn connect(place: &Where) -> Result<Client, ClientError> {
        let (stream, local) = match place {
            Where::Here(store) => (near(store)?, true),
            Where::There(Remote { host, port, fingerprint, token }) => {
                (tls::dial(host, *port, fingerprint, Kind::Client, token, CONNECT)?, false)
            }
        };
        let within = |time| {
            let set = stream.set_read_timeout(Some(time)).and_then(|()| stream.set_write_timeout(Some(time)));
            set.map_err(|e| ClientError::Broken(e.into()))
        };
        within(CONNECT)?;
        let mut client = Client {
            user: String::new(),
            store: String::new(),
            local,
            stream: stream.try_clone().map_err(FramingError::from)?,
        };
        match client.ask(&Request::Hello { version: REQUEST_VERSION }, &[])?.0 {
            Answer::Hello { version, .. } if version != REQUEST_VERSION => return Err(ClientError::Version(version)),
            Answer::Hello { user, store, .. } => (client.user, client.store) = (user, store),
            other => return Err(odd(&other)),
        }
        within(ANSWER)?;
        Ok(client)
    }

    /// Whether the daemon is of this machine, and so sees the same files.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// One request, one answer and its body. What the daemon refuses is an error.
    pub fn ask(&mut self, request: &Request, body: &[u8]) -> Result<(Answer, Vec<u8>), ClientError> {
        framing::write_message(&mut self.stream, request, body)?;
        self.hear()
    }

    fn hear(&mut self) -> Result<(Answer, Vec<u8>), ClientError> {
        match framing::read_message(&mut self.stream)? {
            Some((Answer::Refused { why, hint }, _)) => Err(ClientError::Refused { why, hint }),
            Some(heard) => Ok(heard),
            None => Err(ClientError::Ended),
        }
    }

    /// A request with many answers, until the daemon is done, or `take` has enough; then the connection is of no more use.
    pub fn stream(
        &mut self,
        request: &Request,
        mut take: impl FnMut(Answer, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        framing::write_message(&mut self.stream, request, &[])?;
        if matches!(request, Request::Wait { .. }) {
            self.stream.set_read_timeout(Some(STREAM)).map_err(FramingError::from)?;
        } else {
            // Output comes when the run writes some; a daemon that dies closes the socket.
            self.stream.set_read_timeout(None).map_err(FramingError::from)?;
        }
        loop {
            match self.hear()? {
                (Answer::Done, _) => break,
                (answer, body) => {
                    if take(answer, &body).is_break() {
                        let _ = self.stream.shutdown(std::net::Shutdown::Both);
                        return Ok(());
                    }
                }
            }
        }
        Ok(self.stream.set_read_timeout(Some(ANSWER)).map_err(FramingError::from)?)
    }
}

fn near(store: &Store) -> Result<UnixStream, ClientError> {
    let path = store.socket();
    UnixStream::connect(&path).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning(store.root.clone()),
        _ => ClientError::Socket { path, why },
    })
}

/// An answer to another question.
fn odd(answer: &Answer) -> ClientError {
    let text = format!("{answer:?}");
    let word = text.split([' ', '{', '(']).next().unwrap_or_default();
    ClientError::Wrong(format!("the daemon answered with {word}: it is of another version of shoal"))
}
