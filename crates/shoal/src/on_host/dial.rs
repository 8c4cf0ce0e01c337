//! The end that dials: can the other be reached, how long is a round trip, how much comes through?

use super::listen::{ECHO, SEND};
use shoal_core::checkup::network::Target;
use shoal_sync::handshake;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const CONNECTING: Duration = Duration::from_secs(3);
const ANSWERING: Duration = Duration::from_secs(5);
const ROUND_TRIPS: usize = 20;
/// Dialled together; more wait for their turn.
const TOGETHER: usize = 32;

/// The quickest round trip to each.
pub fn reach(targets: &[Target], token: &str) -> Vec<Result<u64, String>> {
    let mut all = Vec::new();
    for some in targets.chunks(TOGETHER) {
        std::thread::scope(|scope| {
            let dialled: Vec<_> = some.iter().map(|target| scope.spawn(move || round_trip(target, token))).collect();
            all.extend(dialled.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it failed".into()))));
        });
    }
    all
}

fn round_trip(target: &Target, token: &str) -> Result<u64, String> {
    let mut stream = open(target, token)?;
    let mut trip = || -> std::io::Result<u64> {
        let (began, mut word) = (Instant::now(), [ECHO]);
        stream.write_all(&word)?;
        stream.read_exact(&mut word)?;
        Ok(began.elapsed().as_nanos() as u64)
    };
    let trips: std::io::Result<Vec<u64>> = (0..ROUND_TRIPS).map(|_| trip()).collect();
    trips.map_err(|e| e.to_string())?.into_iter().min().ok_or_else(|| "no round trip".into())
}

/// Bits a second that come from the other end, without the slow beginning of every connection.
pub fn load(target: &Target, milliseconds: u32, token: &str) -> Result<u64, String> {
    let mut stream = open(target, token)?;
    let mut request = vec![SEND];
    request.extend(milliseconds.to_le_bytes());
    stream.write_all(&request).map_err(|e| e.to_string())?;
    let warm_up = Duration::from_millis(u64::from(milliseconds) / 4);
    let mut buffer = vec![0u8; 256 << 10];
    let began = Instant::now();
    let (mut since, mut last, mut bytes) = (None, began, 0u64);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                last = Instant::now();
                match since {
                    None if last.duration_since(began) >= warm_up => since = Some(last),
                    None => {}
                    Some(_) => bytes += n as u64,
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("the stream broke: {e}")),
        }
    }
    let time = since.map_or(0.0, |since| last.duration_since(since).as_secs_f64());
    if time <= 0.0 || bytes == 0 {
        Err("hardly anything came through".into())
    } else {
        Ok((bytes as f64 * 8.0 / time) as u64)
    }
}

fn open(target: &Target, token: &str) -> Result<TcpStream, String> {
    let named = (target.address.as_str(), target.port).to_socket_addrs();
    let addresses: Vec<_> = named.map_err(|e| format!("{}: {e}", target.address))?.collect();
    let mut why = format!("{} has no address", target.address);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(mut stream) => {
                handshake::prove(&mut stream, token).map_err(|refusal| format!("{address} answers, but {refusal}"))?;
                let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(ANSWERING)));
                set.map_err(|e| e.to_string())?;
                return Ok(stream);
            }
            Err(e) => why = explain(&address.ip().to_string(), &e),
        }
    }
    Err(why)
}

/// Without ports and numbers, so that the same trouble reads the same.
fn explain(address: &str, error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("{address} does not answer within {} s", CONNECTING.as_secs())
        }
        ErrorKind::ConnectionRefused => format!("{address} refuses the connection"),
        // The last one is how a black hole among the routes looks.
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::InvalidInput => {
            format!("no way leads to {address}")
        }
        _ => format!("{address}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::listen;
    use super::*;

    #[test]
    fn both_ends_know_the_token_or_nothing_is_said() {
        let port = listen::start("secret").expect("a port");
        let target = Target { address: "127.0.0.1".into(), port };
        let reached = reach(&[target.clone(), target.clone()], "secret");
        assert!(reached.iter().all(Result::is_ok), "{reached:?}");
        assert!(load(&target, 100, "secret").is_ok_and(|bits| bits > 0));
        let strange = reach(std::slice::from_ref(&target), "guess");
        assert!(matches!(&strange[..], [Err(why)] if why.contains("token is wrong")), "{strange:?}");
        // Somebody who proves nothing gets nothing.
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        stranger.write_all(&[SEND; 72]).expect("write");
        let mut got = Vec::new();
        let _ = stranger.read_to_end(&mut got);
        assert!(got.is_empty(), "{} bytes", got.len());
    }

    #[test]
    fn a_closed_port_is_named() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let reached = reach(&[Target { address: "127.0.0.1".into(), port: closed }], "t");
        assert_eq!(reached, [Err("127.0.0.1 refuses the connection".into())]);
    }
}
