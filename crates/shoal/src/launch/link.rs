//! The line to one host: opened, our program put there if it is missing, its warden started, and everything it says passed on.

use super::gather::Gather;
use super::program::{self, Broken, broken, with};
use rustix::event::{PollFd, PollFlags, poll};
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_daemon::frame::{self, FROM_WARDEN_LIMIT, OUTPUT};
use shoal_daemon::protocol::{self, FromWarden, Hello, ToWarden};
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::{self, Parcel};
use shoal_hosts::{Process, local};
use std::io::{BufReader, PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a warden may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// How long a program that closed its stdout may take to be over.
const ENDING: Duration = Duration::from_secs(2);
/// Wardens that hear nothing for a few seconds take us for dead.
const PING_EVERY: Duration = Duration::from_millis(500);
const BUSY: u64 = u64::MAX;
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
    /// Since when we wait for a word of the host, in milliseconds since the start; [`BUSY`] while we have something to do.
    waiting: Arc<AtomicU64>,
}

impl Line {
    /// Opens the line in a thread of its own. News come through `news`, the last of them `Closed`.
    pub fn open(common: &Arc<Common>, host: Host, words: String, news: SyncSender<(String, News)>) -> Line {
        let (outgoing, inbox) = sync_channel(OUTGOING);
        let waiting = Arc::new(AtomicU64::new(BUSY));
        let (shared, ear) = (common.clone(), waiting.clone());
        std::thread::spawn(move || {
            let name = host.name.clone();
            let tell = |item: News| {
                // A launcher that no longer listens has ended the run.
                let _ = news.send((name.clone(), item));
            };
            let (what, hint) = match attend(&shared, &host, &words, inbox, &ear, &tell) {
                Ok(()) => (
                    "its connection ended without a word".to_string(),
                    "did it go down, or was shoal killed there? its system log may know".to_string(),
                ),
                Err(Broken { what, hint }) => (what, hint),
            };
            tell(News::Closed { what, hint });
        });
        Line { outgoing, waiting }
    }

    /// Never waits: a line that is stuck will be found by its silence.
    pub fn send(&self, message: ToWarden) {
        // Full or closed: either way it will not be heard from.
        let _ = self.outgoing.try_send(message);
    }

    /// Milliseconds that we have waited for the host to say something. Time that we take ourselves, such as for a terminal
    /// that is held, is not its silence.
    pub fn silence(&self, now_ms: u64) -> u64 {
        match self.waiting.load(Ordering::Relaxed) {
            BUSY => 0,
            at => now_ms.saturating_sub(at),
        }
    }
}

fn attend(
    common: &Common,
    host: &Host,
    words: &str,
    inbox: Receiver<ToWarden>,
    waiting: &AtomicU64,
    tell: &dyn Fn(News),
) -> Result<(), Broken> {
    let Greeted { process: Process { to, from, errors, end: _end }, noise } = start_warden(common, host, words)?;
    let complaints = listen(errors);
    std::thread::spawn(move || write_all(to, inbox));
    let mut from = BufReader::with_capacity(256 << 10, from);
    let mut body = Vec::new();
    let mut greeted = false;
    loop {
        waiting.store(common.began.elapsed().as_millis() as u64, Ordering::Relaxed);
        let kind = frame::read(&mut from, FROM_WARDEN_LIMIT, &mut body);
        waiting.store(BUSY, Ordering::Relaxed);
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

/// The first complaint on stderr, for whoever wants to know why nothing came.
fn listen(mut errors: PipeReader) -> Receiver<String> {
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
/// In between it says that we are here, whatever the launcher is busy with.
fn write_all(mut to: PipeWriter, inbox: Receiver<ToWarden>) {
    loop {
        let message = match inbox.recv_timeout(PING_EVERY) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => ToWarden::Ping,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if to.write_all(&protocol::encode_to_warden(&message)).is_err() {
            return;
        }
    }
}

/// A warden that has said its first word, and what the login printed before it.
struct Greeted {
    process: Process,
    noise: Vec<u8>,
}

/// A program that ended, or said nothing, instead of being a warden.
struct NoWarden {
    exit: Option<Exit>,
    said: String,
}

impl NoWarden {
    fn broken(self) -> Broken {
        let Some(exit) = self.exit else {
            let what = format!("no word from its warden within {} s{}", FIRST_WORD.as_secs(), with(&self.said));
            return broken(what, "is the host overloaded, or does its login wait for something?");
        };
        let how = match exit {
            Exit::Code(code) => format!("it ended at once with code {code}"),
            Exit::Cut => "it was cut off".into(),
        };
        broken(format!("its warden did not start: {how}{}", with(&self.said)), "try `shoal doctor` on this fleet")
    }
}

fn start_warden(common: &Common, host: &Host, words: &str) -> Result<Greeted, Broken> {
    if host.reach == Reach::Local {
        let mut command = std::process::Command::new(&common.parcel.path);
        command.args(words.split(' '));
        // Ctrl-C at our terminal is for us: the warden hears of it from us, in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let process = local::start(command)
            .map_err(|e| broken(format!("{} cannot be run: {e}", common.parcel.path.display()), "reinstall shoal"))?;
        return greet(process).map_err(NoWarden::broken);
    }
    let line = common.parcel.line(words);
    let (connection, process) = program::connect(&common.fleet, &common.ssh, host, &line)?;
    match greet(process) {
        Ok(greeted) => return Ok(greeted),
        Err(none) if none.exit.is_none() => return Err(none.broken()),
        // Missing, or not what it was when it was delivered: either way, anew.
        Err(_) => deliver::deliver(&connection, &host.name, &common.parcel)?,
    }
    greet(connection.start_next(&line)?).map_err(NoWarden::broken)
}

/// Waits for a warden's first word.
fn greet(mut process: Process) -> Result<Greeted, NoWarden> {
    let mut patient = Patient { pipe: &mut process.from, until: Instant::now() + FIRST_WORD };
    match protocol::read_preamble(&mut patient) {
        Ok(noise) => Ok(Greeted { process, noise }),
        Err(_) if Instant::now() >= patient.until => Err(NoWarden { exit: None, said: String::new() }),
        Err(_) => {
            let exit = process.end.wait(ENDING);
            let said = listen(process.errors).recv_timeout(ENDING).unwrap_or_default();
            Err(NoWarden { exit: Some(exit.unwrap_or(Exit::Cut)), said })
        }
    }
}

/// A pipe that is at its end when the time is.
struct Patient<'p> {
    pipe: &'p mut PipeReader,
    until: Instant,
}

impl Read for Patient<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        let limit = rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&*self.pipe, PollFlags::IN)];
        match poll(&mut fds, Some(&limit))? {
            0 => Ok(0),
            _ => self.pipe.read(buf),
        }
    }
}
