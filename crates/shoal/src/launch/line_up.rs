//! Before a gang starts: every host has answered, ports are known, and each host gets its job. Nobody starts before all can.

use super::link::News;
use super::{Run, TURN};
use serde_json::json;
use shoal_core::follow::{Phase, Seen};
use shoal_core::plan::{Port, Reserved};
use shoal_daemon::protocol::{Hello, ToWarden};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

impl Run {
    /// Waits until all hosts have answered (each line has its own limits) and hands out the jobs.
    pub(super) fn line_up(&mut self, inbox: &Receiver<(String, News)>, signal: &dyn Fn() -> u32) {
        let mut hellos: BTreeMap<String, Hello> = BTreeMap::new();
        while hellos.len() < self.plan.hosts.len() && self.follow.phase() == Phase::Running {
            match inbox.recv_timeout(TURN) {
                Ok((host, News::Hello { hello, noise })) => {
                    self.welcome(&host, &hello, &noise);
                    hellos.insert(host, hello);
                }
                Ok((host, news)) => self.hear(&host, news),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if signal() > 0 {
                // Nothing has been started; hanging up is all there is to do.
                let hosts = self.plan.hosts.clone();
                hosts.into_iter().for_each(|host| self.see(Seen::HostLost { host, why: "interrupted".into() }));
                return;
            }
            self.screen.draw(&self.follow, &self.common.gather, self.now());
        }
        if self.follow.phase() == Phase::Running {
            self.hand_out(&hellos);
        } else {
            // A host failed before anything ran: the others have nothing to do.
            let hosts = self.plan.hosts.clone();
            for host in hosts {
                self.see(Seen::HostLost { host, why: "not started, because another host failed".into() });
            }
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
                    if let Some(line) = self.lines.get(&job.host) {
                        line.send(ToWarden::Start(job));
                    }
                }
            }
            Err(error) => {
                let hosts = self.plan.hosts.clone();
                hosts.into_iter().for_each(|host| self.see(Seen::HostLost { host, why: error.to_string() }));
            }
        }
    }

    /// What hosts are called by others, where the file only has a name: it may mean something to our ssh alone.
    fn addresses(&self, hellos: &BTreeMap<String, Hello>) -> BTreeMap<String, String> {
        let named = self.common.fleet.hosts.iter().filter(|host| host.address.parse::<std::net::IpAddr>().is_err());
        named.filter_map(|host| Some((host.address.clone(), hellos.get(&host.name)?.server.clone()?))).collect()
    }

    /// This machine's address as the other hosts see it: what they say the connection comes from, else what leads to them.
    fn this_machine(&self, hellos: &BTreeMap<String, Hello>) -> Option<String> {
        if !self.plan.needs_this_machine() {
            return None;
        }
        let seen = hellos.values().find_map(|hello| hello.client.clone());
        seen.or_else(|| {
            let other = self.common.fleet.hosts.iter().find(|h| h.reach != shoal_core::fleet::Reach::Local)?;
            // A datagram socket that is only connected sends nothing; it shows which address would be used.
            let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
            socket.connect((other.address.as_str(), 9)).ok()?;
            Some(socket.local_addr().ok()?.ip().to_string())
        })
    }
}
