//! Before one node takes anything from another, both prove that they know the transfer's token (SEC-1).
//!
//! Messages of fixed size: a nonce each way, then a proof each way, an HMAC over both nonces and the side, so that nothing can be replayed
//! or reflected.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a stranger may take for each message.
const PATIENCE: Duration = Duration::from_secs(3);
const MAGIC: &[u8; 8] = b"SHOALFL1";
type Nonce = [u8; 32];

fn proof(token: &[u8; 32], side: &[u8], dialler: &Nonce, listener: &Nonce) -> io::Result<Hmac<Sha256>> {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(token).map_err(|_| io::Error::other("no key"))?;
    [side, dialler, listener].iter().for_each(|part| mac.update(part));
    Ok(mac)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "its token is wrong")
}

pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

fn greet(stream: &mut TcpStream) -> io::Result<(Nonce, Nonce)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let ours: Nonce = random()?;
    stream.write_all(&[&MAGIC[..], &ours].concat())?;
    let mut hello = [0; 40];
    stream.read_exact(&mut hello)?;
    if hello[..8] != MAGIC[..] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak this protocol"));
    }
    Ok((ours, std::array::from_fn(|i| hello[8 + i])))
}

fn exchange(mut stream: TcpStream, token: &[u8; 32], dials: bool) -> io::Result<TcpStream> {
    let (ours, theirs) = greet(&mut stream)?;
    let (dialler, listener) = if dials { (ours, theirs) } else { (theirs, ours) };
    let mut said = [0; 32];
    let say = |stream: &mut TcpStream, side: &[u8]| -> io::Result<()> {
        stream.write_all(&proof(token, side, &dialler, &listener)?.finalize().into_bytes())
    };
    let check = |said: &[u8], side: &[u8]| -> io::Result<()> {
        proof(token, side, &dialler, &listener)?.verify_slice(said).map_err(|_| refused())
    };
    if dials {
        say(&mut stream, b"shoal files dialler")?;
        stream.read_exact(&mut said)?;
        check(&said, b"shoal files listener")?;
    } else {
        stream.read_exact(&mut said)?;
        check(&said, b"shoal files dialler")?;
        say(&mut stream, b"shoal files listener")?;
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

pub fn dial(stream: TcpStream, token: &[u8; 32]) -> io::Result<TcpStream> {
    exchange(stream, token, true)
}

pub fn listen(stream: TcpStream, token: &[u8; 32]) -> io::Result<TcpStream> {
    exchange(stream, token, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(one: [u8; 32], two: [u8; 32]) -> (bool, bool) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let dialler = std::thread::spawn(move || dial(TcpStream::connect(address)?, &one).map(drop));
        let (stream, _) = listener.accept().expect("a caller");
        let listened = listen(stream, &two).is_ok();
        (dialler.join().expect("no panic").is_ok(), listened)
    }

    #[test]
    fn only_who_knows_the_token_gets_in() {
        assert_eq!(meet([1; 32], [1; 32]), (true, true));
        assert_eq!(meet([1; 32], [2; 32]), (false, false));
    }
}
