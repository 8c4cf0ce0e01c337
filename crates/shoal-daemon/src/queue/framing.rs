//! How are the queue's messages cut out of a stream of bytes?
//!
//! A message is `u32` (little endian: bytes of JSON), `u32` (bytes of body), JSON, body. Both lengths are checked against the limits of
//! `line` before anything is allocated.

use serde::{Serialize, de::DeserializeOwned};
use shoal_core::queue::line::{BODY_LIMIT, JSON_LIMIT};
use std::io::{self, IoSlice, Read, Write};
use thiserror::Error;

/// Bytes in front of every message.
pub const HEAD: usize = 8;
/// The first bytes of an agent on its stdout: a login that prints something before it runs us must not be taken for messages.
pub const PREAMBLE: &[u8] = b"\0shoal-agent\0\n";
/// How much a login may print before it.
pub const NOISE_LIMIT: usize = 64 << 10;
/// Room is made in such steps, so that an announced length costs no memory before its bytes come.
const STEP: usize = 64 << 10;

#[derive(Debug, Error)]
pub enum FramingError {
    #[error(
        "a message of {json} bytes and a body of {body} was announced; the limits are {JSON_LIMIT} and {BODY_LIMIT}"
    )]
    TooLong { json: usize, body: usize },
    #[error("the stream ended within a message")]
    Cut,
    #[error("a message that cannot be understood: {0}")]
    Message(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FramingError {
    /// Nothing came within the time that the stream's owner set for a read.
    pub fn is_timeout(&self) -> bool {
        matches!(self, FramingError::Io(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

fn lengths(head: &[u8; HEAD]) -> Result<(usize, usize), FramingError> {
    let [a, b, c, d, e, f, g, h] = *head;
    let (json, body) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if json > JSON_LIMIT || body > BODY_LIMIT { Err(FramingError::TooLong { json, body }) } else { Ok((json, body)) }
}

fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, FramingError> {
    serde_json::from_slice(json).map_err(|e| FramingError::Message(e.to_string()))
}

/// The message as bytes. An error if it is longer than the other side would take.
pub fn encode<T: Serialize>(message: &T, body: &[u8]) -> Result<Vec<u8>, FramingError> {
    let mut out = head_and_json(message, body.len())?;
    out.extend_from_slice(body);
    Ok(out)
}

fn head_and_json<T: Serialize>(message: &T, body: usize) -> Result<Vec<u8>, FramingError> {
    let mut out = vec![0; HEAD];
    serde_json::to_writer(&mut out, message).map_err(|e| FramingError::Message(e.to_string()))?;
    let json = out.len() - HEAD;
    if json > JSON_LIMIT || body > BODY_LIMIT {
        return Err(FramingError::TooLong { json, body });
    }
    out[..4].copy_from_slice(&(json as u32).to_le_bytes());
    out[4..HEAD].copy_from_slice(&(body as u32).to_le_bytes());
    Ok(out)
}

/// JSON, body, and how many bytes they took.
pub type Split<'a> = (&'a [u8], &'a [u8], usize);

/// Where the JSON and the body of the first message of `bytes` are, and where it ends; nothing if more bytes are needed. Pure.
pub fn split(bytes: &[u8]) -> Result<Option<Split<'_>>, FramingError> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
    let (json, body) = lengths(head)?;
    let end = HEAD + json + body;
    Ok(bytes.get(HEAD..end).map(|rest| (&rest[..json], &rest[json..], end)))
}

/// The first message of `bytes` and how many of them it took; nothing if more are needed. Pure.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, Vec<u8>, usize)>, FramingError> {
    match split(bytes)? {
        None => Ok(None),
        Some((json, body, end)) => Ok(Some((parse(json)?, body.to_vec(), end))),
    }
}

/// The next message and its body; nothing at the clean end of the stream.
pub fn read_message<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<(T, Vec<u8>)>, FramingError> {
    let mut head = [0u8; HEAD];
    let mut have = 0;
    while have < HEAD {
        match from.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(FramingError::Cut),
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    let (json, body) = lengths(&head)?;
    let json = take(from, json)?;
    Ok(Some((parse(&json)?, take(from, body)?)))
}

fn take(from: &mut impl Read, len: usize) -> Result<Vec<u8>, FramingError> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let have = bytes.len();
        bytes.resize(len.min(have + STEP.max(have)), 0);
        from.read_exact(&mut bytes[have..]).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => FramingError::Cut,
            _ => e.into(),
        })?;
    }
    Ok(bytes)
}

/// Writes one message, without putting it and its body together first. Does not flush.
pub fn write_message<T: Serialize>(to: &mut impl Write, message: &T, body: &[u8]) -> Result<(), FramingError> {
    let start = head_and_json(message, body.len())?;
    let total = start.len() + body.len();
    let mut done = 0;
    while done < total {
        let wrote = if done < start.len() {
            to.write_vectored(&[IoSlice::new(&start[done..]), IoSlice::new(body)])
        } else {
            to.write(&body[done - start.len()..])
        };
        match wrote {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Reads up to the messages and returns what a login printed before them. Byte by byte, so that nothing after it is taken.
pub fn read_preamble(from: &mut impl Read) -> Result<Vec<u8>, FramingError> {
    let mut seen = Vec::new();
    let mut byte = [0u8];
    while !seen.ends_with(PREAMBLE) {
        if seen.len() > NOISE_LIMIT {
            return Err(FramingError::Message(format!("no agent within the first {NOISE_LIMIT} bytes")));
        }
        match from.read(&mut byte) {
            Ok(0) => {
                let said = String::from_utf8_lossy(&seen).into_owned();
                return Err(FramingError::Message(format!("no agent was started; the host said: {said:?}")));
            }
            Ok(_) => seen.push(byte[0]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    seen.truncate(seen.len() - PREAMBLE.len());
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shoal_core::queue::line::ToHost;

    #[test]
    fn a_length_beyond_a_limit_is_refused_before_anything_is_allocated() {
        for head in [[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], [2, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f]] {
            assert!(matches!(read_message::<ToHost>(&mut &head[..]), Err(FramingError::TooLong { .. })));
            assert!(matches!(split(&head), Err(FramingError::TooLong { .. })));
        }
        let long = "x".repeat(JSON_LIMIT);
        assert!(matches!(encode(&long, &[]), Err(FramingError::TooLong { .. })));
        assert!(matches!(encode(&ToHost::Ping, &vec![0; BODY_LIMIT + 1]), Err(FramingError::TooLong { .. })));
    }

    #[test]
    fn streams_that_end_early_or_speak_otherwise() {
        let whole = encode(&ToHost::Ping, b"body").unwrap();
        assert!(matches!(read_message::<ToHost>(&mut &[][..]), Ok(None)));
        for end in 1..whole.len() {
            assert!(matches!(read_message::<ToHost>(&mut &whole[..end]), Err(FramingError::Cut)), "{end}");
            assert!(matches!(decode::<ToHost>(&whole[..end]), Ok(None)), "{end}");
        }
        let wrong = encode(&"hello", &[]).unwrap();
        assert!(matches!(read_message::<ToHost>(&mut &wrong[..]), Err(FramingError::Message(_))));
    }

    #[test]
    fn what_a_login_prints_is_told_apart() {
        let mut bytes = b"Welcome\n".to_vec();
        bytes.extend_from_slice(PREAMBLE);
        bytes.extend_from_slice(b"rest");
        let mut from = &bytes[..];
        assert_eq!(read_preamble(&mut from).unwrap(), b"Welcome\n");
        assert_eq!(from, b"rest");
        assert!(read_preamble(&mut &b"command not found\n"[..]).unwrap_err().to_string().contains("command not found"));
    }

    /// Takes and gives a few bytes at a time.
    struct Slow(Vec<u8>, usize);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let n = to.len().min(self.1).min(self.0.len());
            to[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in(
            messages in proptest::collection::vec(("[a-z ]{0,40}", proptest::collection::vec(any::<u8>(), 0..300)), 0..6),
            step in 1usize..50,
        ) {
            let mut stream = Slow(Vec::new(), step);
            for (text, body) in &messages {
                write_message(&mut stream, text, body).unwrap();
            }
            let flat = stream.0.clone();
            let mut at = 0;
            for (text, body) in &messages {
                let (read, with): (String, Vec<u8>) = read_message(&mut stream).unwrap().unwrap();
                prop_assert_eq!((&read, &with), (text, body));
                let (read, with, took) = decode::<String>(&flat[at..]).unwrap().unwrap();
                prop_assert_eq!((&read, &with), (text, body));
                at += took;
            }
            prop_assert!(read_message::<String>(&mut stream).unwrap().is_none());
            prop_assert_eq!(at, flat.len());
        }
    }
}
