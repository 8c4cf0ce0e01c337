//! What do warden and keeper say to each other, over the keeper's stdin and stdout?
//!
//! Both are the same executable, so these shapes need no version. The job comes by this pipe and not in argv: its
//! environment holds secrets (SEC-2).

use crate::ending::Ending;
use crate::frame::{self, FROM_WARDEN_LIMIT, FrameError, JSON, OUTPUT, TO_WARDEN_LIMIT};
use crate::protocol::{decode_json, json};
use serde::{Deserialize, Serialize};
use shoal_core::job::RankJob;
use std::io::{self, Read, Write};
use std::path::PathBuf;

#[derive(Debug, Serialize, Deserialize)]
pub enum ToKeeper {
    Start(Box<KeeperJob>),
    /// `why`: for the record.
    Stop {
        grace_ms: u64,
        why: Option<String>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct KeeperJob {
    pub run: String,
    pub host: String,
    pub detached: bool,
    /// Nobody else is in the run: it needs no warden to go on.
    pub is_all: bool,
    pub grace_ms: u64,
    /// Where the record goes.
    pub folder: PathBuf,
    /// Its working folder was not there when the run came here; since then, a log of the run may have made it.
    pub lacks_cwd: bool,
    pub job: RankJob,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum FromKeeper {
    /// Where the log is, once it could be opened and can be read back.
    Log {
        path: PathBuf,
        start: u64,
    },
    Started {
        pid: u32,
    },
    /// Output that is in the log: its place in the output, in the file, and how much.
    Filed {
        offset: u64,
        at: u64,
        len: u64,
    },
    /// Output that could not be written to the log; a frame of its own kind.
    #[serde(skip)]
    Bytes {
        offset: u64,
        bytes: Vec<u8>,
    },
    Trouble {
        what: String,
        hint: Option<String>,
    },
    Ended {
        ending: Ending,
        after_ms: u64,
        log_bytes: u64,
        tail: String,
    },
}

pub fn send_to_keeper(to: &mut impl Write, message: &ToKeeper) -> io::Result<()> {
    frame::write(to, JSON, &json(message), &[])
}

pub fn send_from_keeper(to: &mut impl Write, message: &FromKeeper) -> io::Result<()> {
    frame::write(to, JSON, &json(message), &[])
}

pub fn send_bytes(to: &mut impl Write, offset: u64, bytes: &[u8]) -> io::Result<()> {
    frame::write(to, OUTPUT, &offset.to_le_bytes(), bytes)
}

pub fn read_to_keeper(from: &mut impl Read, body: &mut Vec<u8>) -> Result<Option<ToKeeper>, FrameError> {
    match frame::read(from, TO_WARDEN_LIMIT, body)? {
        None => Ok(None),
        Some(JSON) => decode_json(body).map(Some),
        Some(kind) => Err(FrameError::Kind(kind)),
    }
}

pub fn read_from_keeper(from: &mut impl Read, body: &mut Vec<u8>) -> Result<Option<FromKeeper>, FrameError> {
    match frame::read(from, FROM_WARDEN_LIMIT, body)? {
        None => Ok(None),
        Some(JSON) => decode_json(body).map(Some),
        Some(OUTPUT) => {
            let (offset, bytes) = body.split_first_chunk::<8>().ok_or(FrameError::Cut)?;
            Ok(Some(FromKeeper::Bytes { offset: u64::from_le_bytes(*offset), bytes: bytes.into() }))
        }
        Some(kind) => Err(FrameError::Kind(kind)),
    }
}
