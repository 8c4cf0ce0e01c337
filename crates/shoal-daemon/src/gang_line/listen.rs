//! The head's sockets: who dials is let in when it has proved the token (SEC-1), and heard from then on.

use super::words::{self, Report};
use super::{News, WRITE};
use shoal_core::job::GangLine;
use shoal_sync::handshake;
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at a time, strangers included: each costs a thread. Hosts of a run beyond it would wait their turn.
const MOST: usize = 1024;

/// Listens until the process ends. `tell` says whether anybody still wants to know.
pub fn listen(line: &GangLine, tell: impl Fn(News) -> bool + Clone + Send + 'static) -> std::io::Result<()> {
    let everywhere = if line.address.contains(':') { "::" } else { "0.0.0.0" };
    let listener = TcpListener::bind((everywhere, line.port))?;
    let (token, silence) = (line.token.clone(), Duration::from_millis(line.silence_ms));
    std::thread::Builder::new().name("gang-listen".into()).spawn(move || {
        let open = Arc::new(AtomicUsize::new(0));
        for (connection, stream) in (0u64..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                // Out of descriptors, most likely: others may close some.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if open.fetch_add(1, Ordering::AcqRel) >= MOST {
                open.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let (open, token, tell) = (open.clone(), token.clone(), tell.clone());
            let hear = move || {
                hear(connection, stream, &token, silence, &tell);
                open.fetch_sub(1, Ordering::AcqRel);
            };
            // If no thread can be started the connection closes, and is dialled again.
            let _ = std::thread::Builder::new().name("gang-hear".into()).stack_size(256 << 10).spawn(hear);
        }
    })?;
    Ok(())
}

fn hear(connection: u64, mut stream: TcpStream, token: &str, silence: Duration, tell: &impl Fn(News) -> bool) {
    // Whoever it was, the run is not touched by it.
    if handshake::answer(&mut stream, token).is_err() {
        return;
    }
    let _ = stream.set_nodelay(true);
    let limits = stream.set_read_timeout(Some(silence)).and_then(|()| stream.set_write_timeout(Some(WRITE)));
    if limits.is_err() {
        return;
    }
    let stream = Arc::new(stream);
    let mut from = BufReader::new(&*stream);
    let mut body = Vec::new();
    while let Ok(Some(report)) = words::read::<Report>(&mut from, &mut body) {
        if !tell(News::Report { connection, stream: stream.clone(), report }) {
            return;
        }
    }
    // The warden may hold it too; to the other side it must be over.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    tell(News::Closed { connection });
}

#[cfg(test)]
mod tests {
    use super::super::dial::dial;
    use super::super::say;
    use super::super::words::{LINE_VERSION, Order, Word, encode};
    use super::*;
    use std::collections::BTreeMap;
    use std::io::{Read, Write};
    use std::sync::mpsc::{Receiver, channel};

    const SOON: Duration = Duration::from_secs(20);

    fn line() -> GangLine {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        GangLine {
            head: "a".into(),
            address: "127.0.0.1".into(),
            port: free,
            token: "the token".into(),
            silence_ms: 30_000,
            ranks: BTreeMap::new(),
        }
    }

    fn listening(line: &GangLine) -> Receiver<News> {
        let (tell, news) = channel();
        listen(line, move |item| tell.send(item).is_ok()).unwrap();
        news
    }

    #[test]
    fn strangers_are_not_heard() {
        // SEC-1: neither garbage, nor a report without proof, nor the wrong token.
        let line = line();
        let news = listening(&line);
        let report =
            Report { version: LINE_VERSION, run: "r".into(), host: "b".into(), ended: Vec::new(), stop_ms: Some(0) };
        for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec().repeat(4), encode(&report).repeat(4)] {
            let mut stream = TcpStream::connect(("127.0.0.1", line.port)).unwrap();
            stream.write_all(&bytes).unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            // Closed, however it is put.
            assert!(!matches!(stream.read(&mut [0; 64]), Ok(1..)), "an answer to a stranger");
        }
        let mut stream = TcpStream::connect(("127.0.0.1", line.port)).unwrap();
        assert!(handshake::prove(&mut stream, "a guess").is_err());
        assert!(news.recv_timeout(Duration::from_millis(200)).is_err());
    }

    #[test]
    fn a_member_is_heard_and_hears_and_comes_again_when_it_was_cut_off() {
        let line = line();
        let news = listening(&line);
        let (tell, words) = channel();
        dial(&line, move |item| tell.send(item).is_ok()).unwrap();
        for round in 0..2 {
            let up = loop {
                match words.recv_timeout(SOON).unwrap() {
                    News::Connected { stream } => break stream,
                    News::Disconnected { .. } => {}
                    _ => panic!("round {round}"),
                }
            };
            let report =
                Report { version: LINE_VERSION, run: "r".into(), host: "b".into(), ended: Vec::new(), stop_ms: None };
            assert!(say(&up, &encode(&report)));
            let News::Report { stream, report: heard, .. } = news.recv_timeout(SOON).unwrap() else { panic!() };
            assert_eq!(heard, report);
            let word = Word { version: LINE_VERSION, order: Order::GoOn, heard: round };
            assert!(say(&stream, &encode(&word)));
            assert!(matches!(words.recv_timeout(SOON).unwrap(), News::Word(w) if w == word));
            stream.shutdown(std::net::Shutdown::Both).unwrap();
            assert!(matches!(news.recv_timeout(SOON).unwrap(), News::Closed { .. }));
        }
    }
}
