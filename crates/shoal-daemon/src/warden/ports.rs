//! How does a run get ports that nobody else takes before its ranks do?
//!
//! A socket that is bound but does not listen: the kernel gives its port to nobody who asks for any port, and to no other
//! run's warden, while a rank that asks for this port with `SO_REUSEADDR` (as servers do) gets it and can listen.

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Held as long as this lives.
#[derive(Debug, Default)]
pub struct Ports {
    held: Vec<(u16, OwnedFd)>,
}

impl Ports {
    pub fn reserve(count: usize) -> io::Result<Ports> {
        (0..count).map(|_| reserve_one()).collect::<io::Result<_>>().map(|held| Ports { held })
    }

    pub fn numbers(&self) -> Vec<u16> {
        self.held.iter().map(|(port, _)| *port).collect()
    }
}

fn reserve_one() -> io::Result<(u16, OwnedFd)> {
    // Not inherited: a rank must not hold it beyond the run.
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
    let name: SocketAddr = getsockname(&socket)?.try_into().map_err(|_| io::Error::other("a socket without a port"))?;
    Ok((name.port(), socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::TcpListener;
    use std::process::Command;

    #[test]
    fn a_rank_gets_its_port_and_nobody_else_does() {
        let (one, two) = (Ports::reserve(50).unwrap(), Ports::reserve(50).unwrap());
        let all: HashSet<u16> = one.numbers().into_iter().chain(two.numbers()).collect();
        assert_eq!(all.len(), 100);
        // The kernel's own choice is never one of them.
        let others: Vec<TcpListener> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|l| !all.contains(&l.local_addr().unwrap().port())));
        // std sets SO_REUSEADDR, Python's socketserver when told to.
        let port = one.numbers()[0];
        let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert!(TcpListener::bind(("0.0.0.0", port)).is_err(), "held by the listener now");
        drop(listener);
        let python = "import socketserver, sys\nclass S(socketserver.TCPServer): allow_reuse_address = True\nS(('0.0.0.0', int(sys.argv[1])), None).server_close()";
        let ran = Command::new("python3").args(["-c", python, &one.numbers()[1].to_string()]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}
