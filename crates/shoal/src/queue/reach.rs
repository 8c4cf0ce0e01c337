//! How does the daemon get to the agent of another machine? Over the system's ssh, with our program put there if it is missing.

use super::pool;
use crate::commands::run::{NotBegun, parcel_for};
use crate::later::launched::Launched;
use crate::launch::program;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use shoal_core::fleet::Fleet;
use shoal_core::queue::host::{HostPolicy, Reached};
use shoal_daemon::queue::serve::{LineStream, Reacher};
use shoal_hosts::Process;
use shoal_hosts::process::End;
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

pub struct Ssh {
    settings: Settings,
    /// Our own file and its digest, which a daemon of this machine alone never needs.
    parcel: OnceLock<Parcel>,
    /// The store's folder.
    store: Option<PathBuf>,
}

impl Ssh {
    pub fn new() -> Ssh {
        Ssh { settings: Settings::from_env(), parcel: OnceLock::new(), store: None }
    }

    /// For the daemon of this store.
    pub fn of(store: &Path) -> Ssh {
        Ssh { store: Some(store.into()), ..Ssh::new() }
    }

    fn parcel(&self) -> Result<&Parcel, String> {
        if let Some(parcel) = self.parcel.get() {
            return Ok(parcel);
        }
        let made = parcel_for(true).map_err(NotBegun::why)?;
        Ok(self.parcel.get_or_init(|| made))
    }
}

impl Default for Ssh {
    fn default() -> Ssh {
        Ssh::new()
    }
}

impl Reacher for Ssh {
    fn open(&self, policy: &HostPolicy, store: &str) -> Result<LineStream, String> {
        if let Some(Reached::Pool { pool, .. }) = &policy.reach {
            let process = pool::start(policy, pool, store, self.store.as_deref())?;
            return line(process).map_err(|e| format!("no line to {}: {e}", policy.name));
        }
        let Some(Reached::Ssh { fleet: text, base }) = &policy.reach else {
            return Err(format!("{} is not reached over ssh", policy.name));
        };
        let fleet = read_way(text).map_err(|e| format!("how {} is reached cannot be read: {e}", policy.name))?;
        let host =
            fleet.host(&policy.name).ok_or_else(|| format!("{base} does not say how {} is reached", policy.name))?;
        let words = format!("host agent --store {store}");
        let started = program::start(&fleet, &self.settings, self.parcel()?, host, &words);
        let process = started.map_err(|broken| match broken.hint.as_str() {
            "" => broken.what,
            hint => format!("{} ({hint})", broken.what),
        })?;
        line(process).map_err(|e| format!("no line to {}: {e}", policy.name))
    }
}

/// The way to a host as the journal keeps it: lossless, and with a version (WIRE-1).
pub fn write_way(part: &Fleet) -> String {
    let hosts: Vec<String> = part.hosts.iter().take(1).map(|host| host.name.clone()).collect();
    serde_json::to_string(&Launched::new("queue", None, part, &hosts)).unwrap_or_default()
}

fn read_way(text: &str) -> serde_json::Result<Fleet> {
    serde_json::from_str::<Launched>(text).map(|launched| launched.fleet())
}

/// A process's pipes, such that both can be cut while somebody waits at them.
fn line(process: Process) -> io::Result<LineStream> {
    let Process { to, from, errors, end } = process;
    let (reading, writing) = (Scissors::new()?, Scissors::new()?);
    let flags = rustix::fs::fcntl_getfl(&to)?;
    // A pipe that is full must not hold us: we wait beside the scissors.
    rustix::fs::fcntl_setfl(&to, flags | OFlags::NONBLOCK)?;
    // Read and dropped: a pipe that nobody empties would stop the agent. It keeps a log of its own.
    std::thread::spawn(move || drop(io::copy(&mut { errors }, &mut io::sink())));
    // With the process's end goes the session: ssh closes it, and the agent sees the end of its stdin.
    let end: Arc<Mutex<Option<Box<dyn End>>>> = Arc::new(Mutex::new(Some(end)));
    let (cut_reading, cut_writing) = (reading.handle(), writing.handle());
    let cut = move || {
        cut_reading.cut();
        cut_writing.cut();
        drop(end.lock().ok().and_then(|mut end| end.take()));
    };
    Ok(LineStream {
        to: Box::new(To { pipe: to, scissors: writing }),
        from: Box::new(From { pipe: from, scissors: reading }),
        cut: Box::new(cut),
    })
}

/// A pipe whose writing end is dropped to cut.
struct Scissors {
    ear: PipeReader,
    hand: Arc<Mutex<Option<PipeWriter>>>,
}

struct Handle(Arc<Mutex<Option<PipeWriter>>>);

impl Scissors {
    fn new() -> io::Result<Scissors> {
        let (ear, hand) = io::pipe()?;
        Ok(Scissors { ear, hand: Arc::new(Mutex::new(Some(hand))) })
    }

    fn handle(&self) -> Handle {
        Handle(self.hand.clone())
    }

    /// Until the pipe is ready; false if it was cut.
    fn wait(&self, pipe: &impl std::os::fd::AsFd, for_what: PollFlags) -> io::Result<bool> {
        let mut fds = [PollFd::new(pipe, for_what), PollFd::new(&self.ear, PollFlags::IN)];
        loop {
            match poll(&mut fds, None) {
                Ok(_) => return Ok(fds[1].revents().is_empty()),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl Handle {
    fn cut(&self) {
        drop(self.0.lock().ok().and_then(|mut hand| hand.take()));
    }
}

struct From {
    pipe: PipeReader,
    scissors: Scissors,
}

impl Read for From {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.scissors.wait(&self.pipe, PollFlags::IN)? { self.pipe.read(buf) } else { Ok(0) }
    }
}

struct To {
    pipe: PipeWriter,
    scissors: Scissors,
}

impl Write for To {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !self.scissors.wait(&self.pipe, PollFlags::OUT)? {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_hosts::local;
    use std::process::Command;

    #[test]
    fn a_line_carries_both_ways_and_can_be_cut_while_somebody_waits() {
        let LineStream { mut to, mut from, cut } =
            line(local::start(Command::new("cat")).expect("cat")).expect("a line");
        to.write_all(b"hello").expect("written");
        let mut back = [0u8; 5];
        from.read_exact(&mut back).expect("read");
        assert_eq!(&back, b"hello");
        let reader = std::thread::spawn(move || from.read(&mut [0u8; 1]).expect("the end"));
        cut();
        cut();
        assert_eq!(reader.join().expect("a reader"), 0);
    }

    #[test]
    fn the_way_to_a_host_reads_back_as_it_was_written() {
        let text =
            "hosts:\n  - {name: gate, user: me, port: 2222}\n  - {name: in, address: 10.0.0.2, key: /k, jump: gate}\n";
        let fleet = shoal_core::fleet::read("lab.yaml", text).expect("a fleet").fleet;
        let again = read_way(&write_way(&fleet)).expect("a fleet");
        for (a, b) in fleet.hosts.iter().zip(&again.hosts) {
            assert_eq!((&a.name, &a.address, &a.reach), (&b.name, &b.address, &b.reach));
        }
    }

    #[test]
    fn a_writer_at_a_full_pipe_is_cut_too() {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("5");
        let LineStream { mut to, cut, .. } = line(local::start(sleeper).expect("sleep")).expect("a line");
        let writer = std::thread::spawn(move || to.write_all(&vec![0; 1 << 20]).expect_err("cut").kind());
        cut();
        assert_eq!(writer.join().expect("a writer"), io::ErrorKind::BrokenPipe);
    }
}
