//! Before a gang starts: every host has answered, ports are known, and each host gets its job. Nobody starts before all can.

use super::link::News;
use super::{Run, TURN};
use serde_json::json;
use shoal_core::fleet::Reach;
use shoal_core::follow::{Phase, Seen};
use shoal_core::job::Program;
use shoal_core::outcome::Ending;
use shoal_core::plan::{Port, Reserved};
use shoal_core::quote::join;
use shoal_core::rank::Rank;
use shoal_daemon::protocol::{Hello, ToWarden};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

/// How long hosts may take to fail after the first that did.
const OTHERS_MS: u64 = 2_000;

impl Run {
    /// Waits until all hosts have answered (each line has its own limits) and hands out the jobs.
    pub(super) fn line_up(&mut self, inbox: &Receiver<(String, News)>, signal: &dyn Fn() -> u32) {
        let mut hellos: BTreeMap<String, Hello> = BTreeMap::new();
        while hellos.len() + self.closed.len() < self.plan.hosts.len() && self.is_worth_waiting() {
            match inbox.recv_timeout(TURN) {
                Ok((host, News::Hello { hello, noise })) => {
                    self.welcome(&host, &hello, &noise);
                    hellos.insert(host, hello);
                }
                // It leaves because another one failed.
                Ok((host, News::Closed { .. })) if hellos.contains_key(&host) && !self.is_running() => {}
                Ok((host, news)) => self.hear(&host, news),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if signal() > 0 {
                self.see(Seen::Interrupted);
                break;
            }
            let now = self.now();
            self.look_for_the_silent(now);
            self.screen.draw(&self.follow, &self.common.gather, now);
        }
        if self.is_running() {
            self.hand_out(&hellos);
        } else {
            // Nothing has been started; hanging up is all there is to do.
            self.closed.extend(self.plan.hosts.iter().cloned());
            self.see(Seen::Abandoned);
        }
    }

    fn is_running(&self) -> bool {
        self.follow.phase() == Phase::Running
    }

    /// While nobody has failed, and a moment longer: whoever else fails is worth naming in the same message.
    fn is_worth_waiting(&self) -> bool {
        match self.follow.phase() {
            Phase::Running => true,
            Phase::Stopping { since_ms } => self.now().saturating_sub(since_ms) < OTHERS_MS,
            Phase::Killing { .. } | Phase::Over => false,
        }
    }

    fn welcome(&mut self, host: &str, hello: &Hello, noise: &str) {
        self.record.note(&format!("{host}: {} as {}, warden {}", hello.host, hello.user, hello.pid));
        self.screen.event("connected", json!({ "host": host, "machine": hello.host, "user": hello.user }));
        if let Some(line) = noise.lines().next() {
            self.screen.say(&format!(
                "{host}: its shell prints text at login (\"{line}\"); keep ~/.bashrc quiet for programs"
            ));
        }
    }

    fn hand_out(&mut self, hellos: &BTreeMap<String, Hello>) {
        let mut ports: BTreeMap<Port, u16> = BTreeMap::new();
        for (host, hello) in hellos {
            let wanted = self.plan.ports.iter().filter(|port| port.host == *host);
            ports.extend(wanted.cloned().zip(hello.ports.iter().copied()));
        }
        let reserved = Reserved { ports, this_machine: self.this_machine(hellos), addresses: self.addresses(hellos) };
        match self.plan.bind(&reserved) {
            Ok(jobs) => {
                for job in jobs {
                    self.commands.extend(job.ranks.iter().map(|rank| (rank.rank, shown(&rank.program))));
                    if let Some(line) = self.lines.get(&job.host) {
                        line.send(ToWarden::Start(job));
                    }
                }
            }
            Err(error) => {
                let ending = Ending::NotStarted { why: error.to_string() };
                let ranks: Vec<Rank> = self.plan.ranks.iter().map(|r| r.rank).collect();
                for rank in ranks {
                    self.see(Seen::Ended { rank, ending: ending.clone(), ran_ms: 0 });
                }
            }
        }
    }

    /// What hosts are called by others, where the file only has a name: it may mean something to our ssh alone.
    fn addresses(&self, hellos: &BTreeMap<String, Hello>) -> BTreeMap<String, String> {
        let hosts = self.common.fleet.hosts.iter().map(|host| (host.among_hosts(), host));
        let named = hosts.filter(|(called, _)| called.parse::<std::net::IpAddr>().is_err());
        named.filter_map(|(called, host)| Some((called.into(), hellos.get(&host.name)?.server.clone()?))).collect()
    }

    /// This machine's address as the other hosts see it: what they say the connection comes from, else what leads to them.
    fn this_machine(&self, hellos: &BTreeMap<String, Hello>) -> Option<String> {
        if !self.plan.needs_this_machine() {
            return None;
        }
        // Only of hosts that we reach by ourselves: another one's visitor is the host in between, and this machine's own may be
        // the laptop from which somebody has logged in here.
        let direct = |name: &String| {
            let host = self.common.fleet.host(name);
            host.is_some_and(|host| matches!(host.reach, Reach::Ssh { jump: None, .. }))
        };
        let seen = hellos.iter().filter(|(name, _)| direct(name)).find_map(|(_, hello)| hello.client.clone());
        seen.or_else(|| {
            let other = self.common.fleet.hosts.iter().find(|h| h.reach != Reach::Local)?;
            // A datagram socket that is only connected sends nothing; it shows which address would be used.
            let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
            socket.connect((other.address.as_str(), 9)).ok()?;
            Some(socket.local_addr().ok()?.ip().to_string())
        })
    }
}

/// As one line for a shell. Secrets are in no argument (SEC-2).
fn shown(program: &Program) -> String {
    match program {
        Program::Argv(words) => join(words),
        Program::Shell { line, append } if append.is_empty() => line.clone(),
        Program::Shell { line, append } => format!("{line} {}", join(append)),
        Program::Own { name, args } => format!("{name} {}", join(args)),
    }
}
