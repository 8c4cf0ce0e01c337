//! What do launcher and warden say to each other? (pure; WIRE-1)
//!
//! The warden's stdout begins with [`PREAMBLE`]: a login that prints something before it runs us must not be taken for
//! frames. Then [`FromWarden::Hello`], and what happens. Its stdin takes [`ToWarden`]. `Ended` is sent at once, before
//! the rank's output that is still on its way, so that a failure stops the gang however slow the launcher reads; its
//! `log_bytes` says how much output there is. `Bye` comes after the last byte of it.

use crate::ending::Ending;
use crate::frame::{self, CHUNK, FROM_WARDEN_LIMIT, FrameError, JSON, OUTPUT, TO_WARDEN_LIMIT};
use serde::{Deserialize, Serialize};
use shoal_core::job::HostJob;
use shoal_core::rank::Rank;
use std::io::Read;

/// Changes whenever a message does (WIRE-1).
pub const PROTOCOL_VERSION: u32 = 1;
/// The first bytes of a warden.
pub const PREAMBLE: &[u8] = b"\0shoal-warden\0\n";
/// How much a login may print before it.
pub const NOISE_LIMIT: usize = 64 << 10;
/// Rank and offset in front of a piece of output.
pub const OUTPUT_HEAD: usize = 13;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWarden {
    /// Start these ranks. Once.
    Start(HostJob),
    /// Ask all ranks to end; end them after the grace.
    Stop { grace_ms: u64 },
    /// End all ranks now.
    Kill,
    /// I am here. Anything else says so too.
    Ping,
    /// Only for a detached job: go on without me. Answered by `Detached`, the last message.
    Detach,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub shoal_version: String,
    /// What the machine calls itself.
    pub host: String,
    pub pid: u32,
    pub user: String,
    /// Free ports of this host, held for this run.
    pub ports: Vec<u16>,
    /// Where the connection comes from, as this host sees it.
    #[serde(default)]
    pub client: Option<String>,
    /// Where it arrives: an address by which this host is known to others.
    #[serde(default)]
    pub server: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWarden {
    Hello(Hello),
    Started {
        rank: Rank,
        pid: u32,
    },
    /// What the rank wrote, byte for byte, without gaps; a frame of its own kind.
    #[serde(skip)]
    Output {
        rank: Rank,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Of the rank's processes together.
    Usage {
        rank: Rank,
        rss_bytes: u64,
        cpu_ms: u64,
        processes: u32,
    },
    Ended {
        rank: Rank,
        ending: Ending,
        after_ms: u64,
        /// All it ever wrote; `Output` goes up to here.
        log_bytes: u64,
        /// Its last lines.
        tail: String,
    },
    /// Something went wrong that does not end the rank, or is about no rank.
    Trouble {
        rank: Option<Rank>,
        what: String,
        hint: Option<String>,
    },
    Pong,
    /// The ranks go on alone; nothing more is said.
    Detached,
    /// All ranks are over and all their output was sent.
    Bye,
}

/// A message for the warden, as a frame.
pub fn encode_to_warden(message: &ToWarden) -> Vec<u8> {
    frame::encode(JSON, &json(message))
}

/// A message for the launcher, as a frame.
pub fn encode_from_warden(message: &FromWarden) -> Vec<u8> {
    match message {
        FromWarden::Output { rank, offset, bytes } => {
            let mut body = output_head(*rank, *offset).to_vec();
            body.extend_from_slice(bytes);
            frame::encode(OUTPUT, &body)
        }
        other => frame::encode(JSON, &json(other)),
    }
}

pub(crate) fn json(message: &impl Serialize) -> Vec<u8> {
    // Serializing these shapes cannot fail: all keys are strings. An empty body is refused by the other side.
    serde_json::to_vec(message).unwrap_or_default()
}

pub(crate) fn output_head(rank: Rank, offset: u64) -> [u8; OUTPUT_HEAD] {
    let (role, k) = match rank {
        Rank::Master => (0, 0),
        Rank::Server(k) => (1, k),
        Rank::Worker(k) => (2, k),
    };
    let mut head = [0u8; OUTPUT_HEAD];
    head[0] = role;
    head[1..5].copy_from_slice(&k.to_le_bytes());
    head[5..].copy_from_slice(&offset.to_le_bytes());
    head
}

/// Rank, offset and bytes of a frame of output, borrowed.
pub fn decode_output(body: &[u8]) -> Result<(Rank, u64, &[u8]), FrameError> {
    let bad = |what: &str| FrameError::Message(format!("output {what}"));
    let (head, bytes) = body.split_first_chunk::<OUTPUT_HEAD>().ok_or_else(|| bad("without a head"))?;
    if bytes.len() > CHUNK {
        return Err(bad("of more bytes than a chunk has"));
    }
    let k = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    let rank = match head[0] {
        0 => Rank::Master,
        1 => Rank::Server(k),
        2 => Rank::Worker(k),
        _ => return Err(bad("of no known role")),
    };
    let mut offset = [0u8; 8];
    offset.copy_from_slice(&head[5..]);
    Ok((rank, u64::from_le_bytes(offset), bytes))
}

pub(crate) fn decode_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, FrameError> {
    serde_json::from_slice(body).map_err(|e| FrameError::Message(e.to_string()))
}

pub fn decode_to_warden(kind: u8, body: &[u8]) -> Result<ToWarden, FrameError> {
    if kind == JSON { decode_json(body) } else { Err(FrameError::Kind(kind)) }
}

pub fn decode_from_warden(kind: u8, body: &[u8]) -> Result<FromWarden, FrameError> {
    match kind {
        JSON => decode_json(body),
        OUTPUT => {
            decode_output(body).map(|(rank, offset, bytes)| FromWarden::Output { rank, offset, bytes: bytes.into() })
        }
        kind => Err(FrameError::Kind(kind)),
    }
}

/// The next message of a launcher; nothing when it closed.
pub fn read_to_warden(from: &mut impl Read, body: &mut Vec<u8>) -> Result<Option<ToWarden>, FrameError> {
    frame::read(from, TO_WARDEN_LIMIT, body)?.map(|kind| decode_to_warden(kind, body)).transpose()
}

/// The next message of a warden; nothing when it closed.
pub fn read_from_warden(from: &mut impl Read, body: &mut Vec<u8>) -> Result<Option<FromWarden>, FrameError> {
    frame::read(from, FROM_WARDEN_LIMIT, body)?.map(|kind| decode_from_warden(kind, body)).transpose()
}

/// Where the frames begin in what a login printed so far, and what came before. Pure.
pub fn after_preamble(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let at = bytes.windows(PREAMBLE.len()).position(|w| w == PREAMBLE)?;
    Some((&bytes[..at], at + PREAMBLE.len()))
}

/// Reads up to the frames and returns what the login printed before them. Byte by byte, so that nothing after it is taken.
pub fn read_preamble(from: &mut impl Read) -> Result<Vec<u8>, FrameError> {
    let mut seen = Vec::new();
    let mut byte = [0u8];
    while !seen.ends_with(PREAMBLE) {
        if seen.len() > NOISE_LIMIT {
            return Err(FrameError::Message(format!("no warden within the first {NOISE_LIMIT} bytes")));
        }
        match from.read(&mut byte) {
            Ok(0) => {
                let said = String::from_utf8_lossy(&seen).into_owned();
                return Err(FrameError::Message(format!("no warden was started; the host said: {said:?}")));
            }
            Ok(_) => seen.push(byte[0]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    seen.truncate(seen.len() - PREAMBLE.len());
    Ok(seen)
}
