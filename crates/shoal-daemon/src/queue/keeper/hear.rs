//! What is the keeper asked, and by whom?

use super::diary::note;
use super::keep::{Keeper, Leaving};
use super::launch::Environment;
use super::line::Line;
use super::records;
use super::run::Why;
use super::words::{Alive, FromKeeper, KEEPER_VERSION, Over, PAGE, Run, ToKeeper};
use crate::proc;
use std::io;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::rc::Rc;
use std::time::Duration;

/// After SIGTERM: the machine goes down, and waits no longer for us.
const GRACE_OF_THE_HOST: Duration = Duration::from_secs(5);

/// Parents that are asked for theirs.
const DEEPEST: usize = 64;

impl Keeper {
    /// A new agent takes the place of the one before.
    pub(super) fn welcome(&mut self, came: io::Result<(UnixStream, SocketAddr)>) {
        let Ok((stream, _)) = came else { return };
        // The folder is closed to others already; the name that is no file is not (SEC-1).
        let peer = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid);
        if peer.is_ok_and(|uid| uid == rustix::process::geteuid()) {
            self.line = Line::new(stream).ok();
        }
    }

    pub(super) fn drop_broken_line(&mut self) {
        if self.line.as_ref().is_some_and(|line| line.broken) {
            self.line = None;
        }
    }

    pub(super) fn hear_agent(&mut self) {
        let Some(line) = &mut self.line else { return };
        for message in line.pull() {
            self.obey(message);
        }
        self.drop_broken_line();
    }

    fn obey(&mut self, message: ToKeeper) {
        let greeted = self.line.as_ref().is_some_and(|line| line.greeted);
        match message {
            ToKeeper::Hello { .. } => self.greet(),
            _ if !greeted => self.line = None,
            ToKeeper::Start { environments, runs } => self.accept(&environments, runs),
            ToKeeper::Stop { name, checkpoint_first, grace_ms } => {
                self.stop(&name, checkpoint_first, Duration::from_millis(grace_ms));
            }
            ToKeeper::TakeBack { name } => {
                self.cancel(&name);
            }
            ToKeeper::Forget { names } => self.forget(names),
            ToKeeper::Ping => self.say(&FromKeeper::Pong),
            ToKeeper::Leave { stop_runs, grace_ms } => {
                self.leave(
                    stop_runs.then_some(Why::Asked),
                    Duration::from_millis(grace_ms),
                    Leaving::Agent { told: false },
                );
            }
        }
    }

    fn greet(&mut self) {
        if let Some(line) = &mut self.line {
            line.greeted = true;
        }
        // An agent let it go, and another wants it: it stays.
        if matches!(self.leaving, Some(Leaving::Agent { .. })) {
            self.leaving = None;
        }
        self.say(&FromKeeper::Hello { version: KEEPER_VERSION, pid: std::process::id() });
        let waiting = self.book.waiting();
        let mut alive: Vec<Alive> =
            waiting.map(|(name, what)| Alive { name: name.into(), note: what.0.note.clone(), began: None }).collect();
        for live in self.live.values_mut() {
            live.told = true;
            alive.push(live.alive());
        }
        // Over, and not on disk yet: told when they are. Until then they are not nothing, or they would be started again (QUEUE-2).
        let written_soon = self.untold.iter().filter_map(|(_, name)| self.over.get(name));
        alive.extend(written_soon.map(|over| Alive { name: over.name.clone(), note: over.note.clone(), began: None }));
        let (mut page, mut bytes) = (Vec::new(), 0);
        for run in alive {
            bytes += 200 + run.note.len() * 2;
            page.push(run);
            if bytes > PAGE {
                self.say(&FromKeeper::Alive { runs: std::mem::take(&mut page) });
                bytes = 0;
            }
        }
        self.say(&FromKeeper::Alive { runs: page });
        let untold: std::collections::HashSet<&String> = self.untold.iter().map(|(_, name)| name).collect();
        let over: Vec<Over> = self.over.values().filter(|over| !untold.contains(&over.name)).cloned().collect();
        self.tell_over(over);
        for what in self.troubles.values().cloned().collect::<Vec<String>>() {
            self.say(&FromKeeper::Trouble { what, over: false });
        }
        self.say(&FromKeeper::Ready);
    }

    fn accept(&mut self, environments: &[Vec<(String, String)>], runs: Vec<Run>) {
        // One with a zero byte in it cannot be had; its runs find that their own words cannot either.
        let environments: Vec<Option<Rc<Environment>>> =
            environments.iter().map(|env| Environment::new(env).ok().map(Rc::new)).collect();
        let mut known = Vec::new();
        for mut run in runs {
            if let Some(over) = self.over.get(&run.name) {
                // Told again, unless that comes anyway.
                if !self.untold.iter().any(|(_, name)| *name == run.name) {
                    known.push(over.clone());
                }
                continue;
            }
            let environment = environments.get(run.environment as usize).cloned().flatten();
            if environment.is_none() && run.refused.is_none() {
                run.refused = Some("its environment has a zero byte in it".into());
            }
            let environment = environment.unwrap_or_else(|| Rc::new(Environment::default()));
            let (name, after) = (run.name.clone(), run.after.clone());
            self.book.accept(&name, Box::new((run, environment)), after);
        }
        self.tell_over(known);
    }

    fn forget(&mut self, mut names: Vec<String>) {
        names.retain(|name| self.over.remove(name).is_some());
        if !names.is_empty() {
            // Written with whatever comes next: to be told of an end twice does no harm.
            self.records.add(&records::Line::Forgotten { names });
        }
    }

    /// The machine may go down, or somebody wants it. A run has no say in it: what it tells its parent must not end its neighbours.
    fn asked_to_end(&mut self, signal: i32, sender: u32) {
        let (mut at, me) = (sender, std::process::id());
        for _ in 0..DEEPEST {
            match proc::stat(at) {
                Some(stat) if stat.parent == me => {
                    let what =
                        format!("process {sender} of a run asked its keeper to end (signal {signal}); it does not");
                    return note("queue-keeper", what);
                }
                Some(stat) if stat.parent > 1 => at = stat.parent,
                _ => break,
            }
        }
        let felled = proc::stat(sender).is_none();
        let why = format!("the keeper of its host was asked to end (signal {signal})");
        self.leave(Some(Why::Leaving { why, felled }), GRACE_OF_THE_HOST, Leaving::Host);
    }

    pub(super) fn hear_signals(&mut self) {
        let mut info = [0u8; std::mem::size_of::<libc::signalfd_siginfo>() * 8];
        while let Ok(n) = rustix::io::read(&self.signals, &mut info) {
            for one in info[..n].chunks_exact(std::mem::size_of::<libc::signalfd_siginfo>()) {
                // The number of the signal comes first.
                let number = |at: usize| u32::from_ne_bytes([one[at], one[at + 1], one[at + 2], one[at + 3]]);
                let (signal, sender) = (number(0) as i32, number(12));
                if signal == libc::SIGTERM || signal == libc::SIGINT {
                    self.asked_to_end(signal, sender);
                }
            }
            if n < info.len() {
                break;
            }
        }
    }
}
