//! How does the agent get to the keeper? It connects; if there is none, it starts one.

use super::Event;
use crate::queue::framing::{self, FramingError};
use crate::queue::keeper::connect;
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::words::{FromKeeper, KEEPER_VERSION, ToKeeper};
use std::ffi::OsString;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

const COMES_WITHIN: Duration = Duration::from_secs(20);
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(2);
const LOOK_LATER: Duration = Duration::from_millis(50);

/// How a keeper is started.
#[derive(Debug, Clone)]
pub struct Start {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

pub struct Link {
    stream: UnixStream,
    pub pid: u32,
}

impl Link {
    /// Says hello; what the keeper says from then on goes to `events`, marked with `number`. One that dies meanwhile is replaced.
    pub fn open(folder: &Folder, start: &Start, number: u64, events: &SyncSender<Event>) -> Result<Link, String> {
        let end = Instant::now() + COMES_WITHIN;
        let (stream, mut from, pid) = loop {
            let stream = meet(folder, start, end)?;
            match greet(&stream) {
                Ok((from, pid)) => break (stream, from, pid),
                Err(Greeting::Gone(_)) if Instant::now() < end => std::thread::sleep(LOOK),
                Err(Greeting::Gone(why) | Greeting::Wrong(why)) => return Err(why),
            }
        };
        let events = events.clone();
        let hear = move || {
            while let Ok(Some((message, _))) = framing::read_message(&mut from) {
                if events.send(Event::Keeper(number, message)).is_err() {
                    return;
                }
            }
            let _ = events.send(Event::KeeperGone(number));
        };
        std::thread::Builder::new().name("keeper".into()).spawn(hear).map_err(|e| e.to_string())?;
        Ok(Link { stream, pid })
    }

    /// A keeper that takes nothing is gone; its end is heard by the reader.
    pub fn say(&self, message: &ToKeeper) {
        if framing::write_message(&mut &self.stream, message, &[]).is_err() {
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

enum Greeting {
    /// It went before it had answered.
    Gone(String),
    Wrong(String),
}

fn greet(stream: &UnixStream) -> Result<(BufReader<UnixStream>, u32), Greeting> {
    let wrong = |e: std::io::Error| Greeting::Wrong(e.to_string());
    // One that is stopped, or hangs on its disk, must not hold us too.
    stream.set_write_timeout(Some(ANSWERS_WITHIN)).map_err(wrong)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).map_err(wrong)?;
    let gone = |e: FramingError| Greeting::Gone(format!("the keeper does not answer: {e}"));
    let mut from = BufReader::with_capacity(256 << 10, stream.try_clone().map_err(wrong)?);
    let mut to = stream;
    framing::write_message(&mut to, &ToKeeper::Hello { version: KEEPER_VERSION }, &[]).map_err(gone)?;
    let hello = framing::read_message(&mut from).map_err(gone)?;
    stream.set_read_timeout(None).map_err(wrong)?;
    match hello {
        Some((FromKeeper::Hello { version: KEEPER_VERSION, pid }, _)) => Ok((from, pid)),
        Some((FromKeeper::Hello { version, .. }, _)) => Err(Greeting::Wrong(format!(
            "the keeper of this queue on this host speaks version {version}, this agent {KEEPER_VERSION}; it leaves a minute after its last run"
        ))),
        Some(_) => Err(Greeting::Wrong("the keeper's first word was not hello".into())),
        None => Err(Greeting::Gone("the keeper went before it answered".into())),
    }
}

fn meet(folder: &Folder, start: &Start, end: Instant) -> Result<UnixStream, String> {
    let mut started = None::<Instant>;
    loop {
        match connect(folder) {
            Ok(stream) => return Ok(stream),
            Err(e) if Instant::now() > end => {
                let log = folder.keeper_log();
                let last = std::fs::read_to_string(&log).unwrap_or_default();
                let last = last.lines().last().unwrap_or("nothing").to_string();
                return Err(format!(
                    "no keeper came to {}: {e}; its log {} says: {last}",
                    folder.root().display(),
                    log.display()
                ));
            }
            Err(_) => {}
        }
        // One that is on its way ends what an earlier one left first, which takes a moment; one that failed is started again.
        if started.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
            started = Some(Instant::now());
            run(start)?;
        }
        let soon = started.is_some_and(|at| at.elapsed() < Duration::from_millis(200));
        std::thread::sleep(if soon { LOOK } else { LOOK_LATER });
    }
}

/// The process that is started ends at once; the keeper is its child.
fn run(start: &Start) -> Result<(), String> {
    let mut command = Command::new(&start.program);
    command.args(&start.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let failed = |e: std::io::Error| format!("{} cannot be started: {e}", start.program.display());
    let output = command.spawn().map_err(failed)?.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(format!("no keeper could be started ({}): {said}", output.status))
}
