//! The line to one node: opened, our program put there if it is missing, and asked line by line.

use super::provider::Trouble;
use shoal_core::cluster::steps::Known;
use shoal_core::cluster::steps::wire::{self, Ask, Container, Holder, Say, WIRE_VERSION};
use shoal_core::fleet::{Fleet, Host, Reach};
use shoal_hosts::process::End;
use shoal_hosts::ssh::deliver::{self, Parcel};
use shoal_hosts::ssh::{Connection, Failure, Settings, Trouble as Reason};
use shoal_hosts::{Process, lines, local};
use std::collections::BTreeSet;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Our program's first word, once it is there.
const FIRST_WORD: Duration = Duration::from_secs(20);
/// The node's record; it may ask docker first.
const ANSWER: Duration = Duration::from_secs(45);
const ENDING: Duration = Duration::from_secs(2);
const PING_EVERY: Duration = Duration::from_secs(1);
/// No line of ours is longer.
const LONGEST_LINE: u64 = 8 << 20;
const MOST_COMPLAINTS: u64 = 8 << 10;
/// Connections to a host beyond the first, where it allows few sessions for each.
const MOST_CONNECTIONS: u32 = 16;

/// What all lines of a command share.
pub struct Common {
    pub cluster: String,
    pub fleet: Fleet,
    pub ssh: Settings,
    pub parcel: Parcel,
    /// None: we only look.
    pub holder: Option<Holder>,
    pub container: Option<Container>,
    /// A node that hears nothing from us for this long ends what it does for us.
    pub silence_s: u64,
}

pub struct Session {
    to: Arc<Mutex<PipeWriter>>,
    says: Receiver<Say>,
    end: Box<dyn End>,
    pub known: Known,
    /// Changes when the node starts anew.
    pub boot: String,
    /// What was wrong with its record.
    pub trouble: Option<String>,
}

/// Why there is no line.
#[derive(Debug, Clone)]
pub enum NoLine {
    /// ssh did not get there; later it may.
    Unreachable(Trouble),
    /// It got there, and is not wanted: waiting does not help.
    Refused(Trouble),
    /// The same, for the key: a machine that has only just started may not know it yet.
    KeyRefused(Trouble),
    Locked(Option<Holder>),
}

impl NoLine {
    pub fn trouble(&self, cluster: &str) -> Trouble {
        match self {
            NoLine::Unreachable(trouble) | NoLine::Refused(trouble) | NoLine::KeyRefused(trouble) => trouble.clone(),
            NoLine::Locked(holder) => Trouble {
                what: super::lock::held(cluster, holder.as_ref()),
                hint: "wait for it, or end it there".into(),
            },
        }
    }
}

/// What a node says next.
pub enum Heard {
    Said(Say),
    Nothing,
    /// The line is at its end.
    Cut,
}

impl Session {
    pub fn open(common: &Common, host: &Host) -> Result<Session, NoLine> {
        let (process, spoke) = start(common, host)?;
        let Process { to, from, errors, end } = process;
        // What is not ours, such as what a login prints, is left out.
        let says = lines::lines(from, LONGEST_LINE, |line| serde_json::from_slice::<Say>(line).ok());
        let complaints = lines::complaints(errors, MOST_COMPLAINTS);
        let to = Arc::new(Mutex::new(to));
        keep_alive(Arc::downgrade(&to));
        let blank = shoal_core::cluster::steps::record::NodeRecord::new(&common.cluster);
        let known = Known { record: blank, container: None, alive: BTreeSet::new() };
        let mut session = Session { to, says, end, known, boot: String::new(), trouble: None };
        let hello = Ask::Hello {
            version: WIRE_VERSION,
            cluster: common.cluster.clone(),
            holder: common.holder.clone().map(Box::new),
            container: common.container.clone(),
            silence_s: common.silence_s,
        };
        session.ask(&hello);
        let deadline = Instant::now() + ANSWER;
        loop {
            match session.hear(deadline.saturating_duration_since(Instant::now())) {
                Heard::Said(Say::Hello { record, trouble, boot, container, alive }) => {
                    session.known = Known { record, container, alive };
                    session.boot = boot;
                    session.trouble = trouble;
                    return Ok(session);
                }
                Heard::Said(Say::Locked { holder }) => return Err(NoLine::Locked(holder)),
                Heard::Said(Say::Trouble { what, hint }) => return Err(NoLine::Refused(Trouble { what, hint })),
                Heard::Said(_) => {}
                Heard::Nothing => {
                    let what = format!("shoal said nothing there within {} s", ANSWER.as_secs());
                    return Err(unreachable(what, "is the host overloaded, or a file system of it hanging?"));
                }
                Heard::Cut => {
                    let exit = session.end.wait(ENDING);
                    let said = complaints.recv_timeout(ENDING).unwrap_or_default();
                    let last = said.trim().lines().last().map(|line| format!(": {line}")).unwrap_or_default();
                    let how = exit.map_or("cut off".into(), |exit| format!("{exit:?}"));
                    let hint = if spoke { "is the host going down?" } else { "try `shoal doctor` on this file" };
                    return Err(unreachable(format!("shoal ended there at once ({how}){last}"), hint));
                }
            }
        }
    }

    /// A node that no longer listens is found when its answer is missing.
    pub fn ask(&self, ask: &Ask) {
        if let Ok(mut to) = self.to.lock() {
            let _ = to.write_all(wire::line(ask).as_bytes());
        }
    }

    pub fn hear(&self, limit: Duration) -> Heard {
        match self.says.recv_timeout(limit) {
            Ok(say) => Heard::Said(say),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::Cut,
        }
    }

    /// Whether the line is known to be at its end. Who went without a word is not found by this.
    pub fn has_ended(&self) -> bool {
        matches!(self.hear(Duration::ZERO), Heard::Cut)
    }

    /// Says goodbye and waits a little, so that the node is free for the next one when we are gone.
    pub fn close(mut self) {
        self.ask(&Ask::Bye);
        let _ = self.end.wait(ENDING);
    }
}

fn unreachable(what: String, hint: &str) -> NoLine {
    NoLine::Unreachable(Trouble { what, hint: hint.into() })
}

fn no_line(failure: Failure) -> NoLine {
    let trouble = Trouble { what: failure.what, hint: failure.hint };
    match failure.trouble {
        Reason::KeyRefused => NoLine::KeyRefused(trouble),
        Reason::KeyUnusable | Reason::HostKeyChanged | Reason::HostKeyUnknown | Reason::NoSsh | Reason::Forbidden => {
            NoLine::Refused(trouble)
        }
        _ => NoLine::Unreachable(trouble),
    }
}

/// Starts our program there; whether its first word came.
fn start(common: &Common, host: &Host) -> Result<(Process, bool), NoLine> {
    const WORDS: [&str; 2] = ["host", "setup"];
    if host.reach == Reach::Local {
        let mut command = std::process::Command::new(&common.parcel.path);
        command.args(WORDS);
        // Ctrl-C at our terminal is for us: it hears of it from us, in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let started = local::start(command);
        return started.map(|process| (process, true)).map_err(|e| {
            let what = format!("{} cannot be run: {e}", common.parcel.path.display());
            NoLine::Refused(Trouble { what, hint: "reinstall shoal".into() })
        });
    }
    let line = common.parcel.line(&WORDS.join(" "));
    let mut n = 0;
    let (connection, mut first) = loop {
        let connection = Connection::open_nth(&common.fleet, host, &common.ssh, n).map_err(no_line)?;
        match connection.start(&line) {
            Ok(process) => break (connection, process),
            Err(full) if full.trouble == Reason::TooManySessions && n < MOST_CONNECTIONS => n += 1,
            Err(failure) => return Err(no_line(failure)),
        }
    };
    if is_speaking(&first) {
        return Ok((first, true));
    }
    // It ended without a word: it is missing, or not what was delivered.
    if first.end.wait(FIRST_WORD).is_none() {
        let what = format!("no word from shoal there within {} s", FIRST_WORD.as_secs());
        return Err(unreachable(what, "is the host overloaded, or does its login wait for something?"));
    }
    deliver::deliver(&connection, &host.name, &common.parcel).map_err(no_line)?;
    let process = connection.start_next(&line).map_err(no_line)?;
    let spoke = is_speaking(&process);
    Ok((process, spoke))
}

/// Whether there is something to read; false at its end.
fn is_speaking(process: &Process) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&process.from, PollFlags::IN)];
    let limit = Timespec { tv_sec: FIRST_WORD.as_secs() as i64, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
}

/// Says that we are here for as long as the session is, whatever else we do.
fn keep_alive(to: Weak<Mutex<PipeWriter>>) {
    std::thread::spawn(move || {
        let ping = wire::line(&Ask::Ping);
        loop {
            std::thread::sleep(PING_EVERY);
            let Some(to) = to.upgrade() else { return };
            let Ok(mut to) = to.lock() else { return };
            if to.write_all(ping.as_bytes()).is_err() {
                return;
            }
        }
    });
}
