//! The line to one host: opened, our program put there if it is missing, its warden started, and everything it says passed on.

use super::gather::Gather;
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_daemon::frame::{self, FROM_WARDEN_LIMIT, OUTPUT};
use shoal_daemon::protocol::{self, FromWarden, Hello, ToWarden};
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::deliver::{self, Parcel};
use shoal_hosts::ssh::{Connection, Settings};
use shoal_hosts::{Process, local};
use std::io::{BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a warden may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// Messages for one host that may wait to be written; it takes a stuck line to fill them.
const OUTGOING: usize = 64;

/// What a line tells the launcher.
pub enum News {
    Hello {
        hello: Hello,
        noise: String,
    },
    Said(FromWarden),
    /// The end of the line: why, and what could be done about it.
    Closed {
        what: String,
        hint: String,
    },
}

/// What all lines of a run share.
pub struct Common {
    pub fleet: Fleet,
    pub ssh: Settings,
    pub parcel: Parcel,
    pub gather: Gather,
    pub began: Instant,
}

/// The launcher's end of a line.
pub struct Line {
    outgoing: SyncSender<ToWarden>,
    /// When the host was last heard, in milliseconds since the start.
    heard: Arc<AtomicU64>,
}

impl Line {
    /// Opens the line in a thread of its own. News come through `news`, the last of them `Closed`.
    pub fn open(common: &Arc<Common>, host: Host, words: String, news: SyncSender<(String, News)>) -> Line {
        let (outgoing, inbox) = sync_channel(OUTGOING);
        let heard = Arc::new(AtomicU64::new(u64::MAX));
        let (shared, ear) = (common.clone(), heard.clone());
        std::thread::spawn(move || {
            let name = host.name.clone();
            let tell = |item: News| {
                // A launcher that no longer listens has ended the run.
                let _ = news.send((name.clone(), item));
            };
            let (what, hint) = match attend(&shared, &host, &words, inbox, &ear, &tell) {
                Ok(()) => ("its warden ended the conversation".to_string(), String::new()),
                Err(Broken { what, hint }) => (what, hint),
            };
            tell(News::Closed { what, hint });
        });
        Line { outgoing, heard }
    }

    /// Never waits: a line that is stuck will be found by its silence.
    pub fn send(&self, message: ToWarden) {
        // Full or closed: either way it will not be heard from.
        let _ = self.outgoing.try_send(message);
    }

    /// Milliseconds since the host was heard; zero as long as it has never been.
    pub fn silence(&self, now_ms: u64) -> u64 {
        match self.heard.load(Ordering::Relaxed) {
            u64::MAX => 0,
            at => now_ms.saturating_sub(at),
        }
    }
}

struct Broken {
    what: String,
    hint: String,
}

impl From<shoal_hosts::ssh::Failure> for Broken {
    fn from(failure: shoal_hosts::ssh::Failure) -> Broken {
        Broken { what: failure.what, hint: failure.hint }
    }
}

fn broken(what: impl Into<String>, hint: impl Into<String>) -> Broken {
    Broken { what: what.into(), hint: hint.into() }
}

fn attend(
    common: &Common,
    host: &Host,
    words: &str,
    inbox: Receiver<ToWarden>,
    heard: &AtomicU64,
    tell: &dyn Fn(News),
) -> Result<(), Broken> {
    let Process { to, from, errors, end: _end } = start_warden(common, host, words)?;
    let complaints = listen(errors);
    std::thread::spawn(move || write_all(to, inbox));
    let mut from = BufReader::with_capacity(256 << 10, from);
    let hear = || heard.store(common.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    let noise = protocol::read_preamble(&mut from).map_err(|e| {
        let said = complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        broken(format!("its warden did not start: {e}{}", with(&said)), "try `shoal doctor` on this fleet")
    })?;
    let mut body = Vec::new();
    let mut greeted = false;
    loop {
        let kind = frame::read(&mut from, FROM_WARDEN_LIMIT, &mut body);
        hear();
        let message = match kind {
            Ok(None) => return Ok(()),
            Ok(Some(OUTPUT)) => {
                let (rank, offset, bytes) = protocol::decode_output(&body).map_err(nonsense)?;
                common.gather.take(rank, offset, bytes);
                continue;
            }
            Ok(Some(kind)) => protocol::decode_from_warden(kind, &body).map_err(nonsense)?,
            Err(e) => {
                let said = complaints.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
                return Err(broken(format!("the connection broke: {e}{}", with(&said)), "is the host up?"));
            }
        };
        match message {
            FromWarden::Hello(hello) if !greeted => {
                greeted = true;
                if hello.version != protocol::PROTOCOL_VERSION {
                    let what = format!(
                        "its warden speaks version {} of the protocol, not {}",
                        hello.version,
                        protocol::PROTOCOL_VERSION
                    );
                    return Err(broken(what, "remove ~/.cache/shoal there; it will be delivered anew"));
                }
                tell(News::Hello { hello, noise: String::from_utf8_lossy(&noise).trim().to_string() });
            }
            FromWarden::Pong => {}
            FromWarden::Bye => {
                tell(News::Said(FromWarden::Bye));
                return Ok(());
            }
            other => tell(News::Said(other)),
        }
    }
}

fn nonsense(error: frame::FrameError) -> Broken {
    broken(format!("its warden said something odd: {error}"), "another program answers in its place")
}

fn with(said: &str) -> String {
    if said.trim().is_empty() { String::new() } else { format!("; it said: {}", said.trim()) }
}

/// The first complaint on stderr, for whoever wants to know why nothing came.
fn listen(mut errors: std::io::PipeReader) -> Receiver<String> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.by_ref().take(8 << 10).read_to_end(&mut text);
        let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        let _ = std::io::copy(&mut errors, &mut std::io::sink());
    });
    receive
}

/// Writes what the launcher says until it says no more; then the warden sees the end of its stdin, which ends the ranks.
fn write_all(mut to: std::io::PipeWriter, inbox: Receiver<ToWarden>) {
    for message in inbox {
        if to.write_all(&protocol::encode_to_warden(&message)).is_err() {
            return;
        }
    }
}

fn start_warden(common: &Common, host: &Host, words: &str) -> Result<Process, Broken> {
    if host.reach == Reach::Local {
        let mut command = std::process::Command::new(&common.parcel.path);
        command.args(words.split(' '));
        // Ctrl-C at our terminal is for us: the warden hears of it from us, in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        return local::start(command)
            .map_err(|e| broken(format!("{} cannot be run: {e}", common.parcel.path.display()), "reinstall shoal"));
    }
    let connection = Connection::open(&common.fleet, host, &common.ssh)?;
    let line = common.parcel.line(words);
    let mut first = connection.start(&line)?;
    // There: its first byte comes soon. Missing: the shell says so and ends.
    if is_speaking(&first) {
        return Ok(first);
    }
    match first.end.wait(FIRST_WORD) {
        Some(Exit::Code(127 | 126)) => {}
        Some(exit) => {
            let mut said = String::new();
            let _ = first.errors.by_ref().take(4096).read_to_string(&mut said);
            return Err(broken(
                format!("its warden ended at once ({exit:?}){}", with(&said)),
                "try `shoal doctor` on this fleet",
            ));
        }
        None => {
            return Err(broken(
                format!("no word from its warden within {} s", FIRST_WORD.as_secs()),
                "is the host overloaded?",
            ));
        }
    }
    deliver::deliver(&connection, &host.name, &common.parcel)?;
    Ok(connection.start(&line)?)
}

/// Whether the program's stdout has something to read; false at its end.
fn is_speaking(process: &Process) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&process.from, PollFlags::IN)];
    let limit = Timespec { tv_sec: FIRST_WORD.as_secs() as i64, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
}
