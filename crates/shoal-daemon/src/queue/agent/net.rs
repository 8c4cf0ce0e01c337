//! How do other hosts reach this one, and at which ports can a gang meet here?

use crate::warden::ports::Ports;
use std::net::UdpSocket;

/// Gangs whose first rank is here, at a time; more of them use ports that nobody holds.
const PORTS: usize = 8;

#[derive(Debug, Default)]
pub struct Net {
    /// Of this host, as whoever reached it called it.
    pub address: Option<String>,
    /// Where that came from.
    pub caller: Option<String>,
    /// Bound and not listening: nobody else gets them by chance, and a program that asks for one with `SO_REUSEADDR` does.
    kept: Ports,
}

impl Net {
    /// Of an agent that was started over ssh: sshd says both ends of the connection.
    pub fn of_login() -> Net {
        let told = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let (caller, address) = ends(&told);
        Net { address, caller, kept: kept() }
    }

    /// Of one that calls: the address that leads to the daemon. A socket of datagrams that is only connected sends nothing.
    pub fn toward(daemon: &str, port: u16) -> Net {
        let any = if daemon.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let own = UdpSocket::bind(any).and_then(|socket| {
            socket.connect((daemon, port))?;
            socket.local_addr()
        });
        Net { address: own.ok().map(|own| own.ip().to_string()), caller: None, kept: kept() }
    }

    pub fn ports(&self) -> Vec<u16> {
        self.kept.numbers()
    }
}

/// Without them gangs do as well as they can.
fn kept() -> Ports {
    Ports::reserve(PORTS).unwrap_or_default()
}

/// Client and server of `client port server port`. Pure.
fn ends(told: &str) -> (Option<String>, Option<String>) {
    let words: Vec<&str> = told.split(' ').collect();
    match words[..] {
        [client, _, server, _] => (Some(client.into()), Some(server.into())),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_and_ports_of_its_own() {
        assert_eq!(ends("10.0.0.1 5022 10.0.0.7 22"), (Some("10.0.0.1".into()), Some("10.0.0.7".into())));
        assert_eq!(ends(""), (None, None));
        let net = Net::toward("127.0.0.1", 9);
        assert_eq!((net.address.as_deref(), net.ports().len()), (Some("127.0.0.1"), PORTS));
    }
}
