//! The line to the receiving side: our program there, orders to it within bounds, its answers as they come.

use super::Way;
use super::stop::{LOOK, STOPPED, Stop};
use super::words::{Answer, Order};
use crate::process::{End, Exit, Process};
use crate::ssh::{Connection, Trouble as Why, deliver};
use crate::{local, ssh};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shoal_core::fleet::Reach;
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What went wrong with one node, and what could be done about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{node}: {what}")]
pub struct Trouble {
    pub node: String,
    pub what: String,
    pub hint: String,
}

/// How long our program there may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// It says something every two seconds, whatever it is doing.
const SILENCE: Duration = Duration::from_secs(20);
/// How long it may take nothing of what we send. Longer than any node of a chain waits for its next one.
const DEAF: Duration = Duration::from_secs(40);
const MOST_CONNECTIONS: u32 = 16;

/// A pipe that does not hold us for ever.
pub struct Bounded {
    pipe: PipeWriter,
    stop: Stop,
}

impl Bounded {
    pub fn new(pipe: PipeWriter, stop: Stop) -> io::Result<Bounded> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        // Room for a piece or two; where there is none, it only takes more turns.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20);
        Ok(Bounded { pipe, stop })
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = Instant::now() + DEAF;
        loop {
            if self.stop.is_asked() {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, STOPPED));
            }
            match self.pipe.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => return other,
            }
            let bound = Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: LOOK.subsec_nanos().into() };
            let mut fds = [PollFd::new(&self.pipe, PollFlags::OUT)];
            if poll(&mut fds, Some(&bound))? == 0 && Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it took nothing for too long"));
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is heard of the other side; apart from what is said to it, so that two can use a line at once.
pub struct Ear {
    pub node: String,
    answers: Receiver<Result<Answer, String>>,
    complaints: Receiver<String>,
    end: Box<dyn End>,
    stop: Stop,
}

pub struct Line {
    pub mouth: Bounded,
    pub ear: Ear,
    /// Where rsync finds the open connection.
    pub control: Option<std::path::PathBuf>,
}

pub fn trouble(node: &str, what: impl Into<String>, hint: impl Into<String>) -> Trouble {
    Trouble { node: node.into(), what: what.into(), hint: hint.into() }
}

pub fn stopped(node: &str) -> Trouble {
    trouble(node, STOPPED, "what is there is not sent twice")
}

fn of(failure: ssh::Failure) -> Trouble {
    trouble(&failure.host, failure.what, failure.hint)
}

/// Says an order.
pub fn say(mouth: &mut impl Write, order: &Order) -> io::Result<()> {
    let text = serde_json::to_vec(order)?;
    mouth.write_all(&[&(text.len() as u32).to_le_bytes()[..], &text].concat())
}

/// Starts `shoal WORDS` on the node, over the first connection with a session to spare; delivered first if it is missing.
pub fn start(way: &Way, words: &str) -> Result<(Process, Option<std::path::PathBuf>), Trouble> {
    if let Some(through) = way.through {
        return through
            .start(words)
            .map(|process| (process, None))
            .map_err(|e| Trouble { node: way.host.name.clone(), ..e });
    }
    if way.host.reach == Reach::Local {
        let mut command = std::process::Command::new(&way.parcel.path);
        command.args(words.split(' '));
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let started = local::start(command).map(|process| (process, None));
        return started.map_err(|e| {
            trouble(&way.host.name, format!("{} cannot be run: {e}", way.parcel.path.display()), "reinstall shoal")
        });
    }
    let line = way.parcel.line(words);
    let mut n = 0;
    let (connection, mut first) = loop {
        let connection = Connection::open_nth(way.fleet, way.host, way.settings, n).map_err(of)?;
        match connection.start(&line) {
            Ok(process) => break (connection, process),
            Err(full) if full.trouble == Why::TooManySessions && n < MOST_CONNECTIONS => n += 1,
            Err(failure) => return Err(of(failure)),
        }
    };
    let control = Some(connection.control().to_path_buf());
    if is_speaking(&first) {
        return Ok((first, control));
    }
    if first.end.wait(FIRST_WORD).is_none() {
        let what = format!("no word from shoal there within {} s", FIRST_WORD.as_secs());
        return Err(trouble(&way.host.name, what, "is the host overloaded?"));
    }
    deliver::deliver(&connection, &way.host.name, way.parcel).map_err(of)?;
    Ok((connection.start_next(&line).map_err(of)?, control))
}

fn is_speaking(process: &Process) -> bool {
    let mut fds = [PollFd::new(&process.from, PollFlags::IN)];
    let limit = Timespec { tv_sec: FIRST_WORD.as_secs() as i64, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
}

impl Line {
    pub fn open(way: &Way, stop: &Stop) -> Result<Line, Trouble> {
        let (process, control) = start(way, if way.through.is_some() { "host files --room" } else { "host files" })?;
        let Process { to, from, mut errors, end } = process;
        let (send, answers) = channel();
        // Threads end with the connection: all they hold are pipes.
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut bytes = Vec::new();
            while from.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
                if let Some(answer) = Answer::read(&String::from_utf8_lossy(&bytes))
                    && send.send(answer).is_err()
                {
                    return;
                }
                bytes.clear();
            }
        });
        let (send, complaints) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.by_ref().take(64 << 10).read_to_end(&mut bytes);
            let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
            let _ = io::copy(&mut errors, &mut io::sink());
        });
        let mouth = Bounded::new(to, stop.clone())
            .map_err(|e| trouble(&way.host.name, format!("no pipe: {e}"), "too many open files?"))?;
        let ear = Ear { node: way.host.name.clone(), answers, complaints, end, stop: stop.clone() };
        Ok(Line { mouth, ear, control })
    }
}

impl Ear {
    /// The next answer that is one; signs of life go to `busy`. Every silence ends.
    pub fn hear(&mut self, busy: &mut dyn FnMut(u64)) -> Result<Answer, Trouble> {
        let mut heard = Instant::now();
        loop {
            if self.stop.is_asked() {
                return Err(stopped(&self.node));
            }
            let answer = self.answers.recv_timeout(LOOK);
            if answer.is_ok() {
                heard = Instant::now();
            }
            match answer {
                Ok(Ok(Answer::Busy { bytes })) => busy(bytes),
                Ok(Ok(Answer::Hello { .. })) => {}
                Ok(Ok(Answer::Failed { what, hint })) => return Err(trouble(&self.node, what, hint)),
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(what)) => return Err(trouble(&self.node, what, "is it another version of shoal?")),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() < SILENCE => {}
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("it said nothing for {} s", SILENCE.as_secs());
                    return Err(trouble(&self.node, what, "is it overloaded, or a file system of it hanging?"));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
            }
        }
    }

    fn lost(&mut self) -> Trouble {
        let exit = self.end.wait(Duration::from_secs(2));
        let said = self.complaints.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let words = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_string();
        let how = match exit {
            Some(Exit::Code(0)) => "shoal there ended early".to_string(),
            Some(Exit::Code(code)) => format!("shoal there ended with exit code {code}"),
            Some(Exit::Cut) | None => "the connection was lost".into(),
        };
        let what = if words.is_empty() { how } else { format!("{how}: {words}") };
        trouble(&self.node, what, "is the node up? run the same command again: what is there is not sent twice")
    }
}
