//! What do the wardens of a detached run say to each other? (pure; WIRE-1)

use crate::ending::Ending;
use crate::frame::{self, FrameError, JSON};
use crate::protocol::{decode_json, json};
use serde::{Deserialize, Serialize};
use shoal_core::rank::Rank;
use std::io::Read;

/// Changes whenever a message does (WIRE-1).
pub const LINE_VERSION: u32 = 1;
/// All ranks of a host with the longest reasons fit; nothing larger is read.
pub const LIMIT: usize = 1 << 20;

/// A member to the head: everything that has happened on its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub version: u32,
    pub run: String,
    pub host: String,
    pub ended: Vec<EndedRank>,
    /// Somebody on this host asked for the whole run to end, with this grace.
    pub stop_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRank {
    pub rank: Rank,
    pub ending: Ending,
    pub ran_ms: u64,
}

/// The head to a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    pub version: u32,
    pub order: Order,
    /// How many of the member's ended ranks the head knows; when it knows all, the member may leave.
    pub heard: usize,
}

/// What all hosts shall do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    GoOn,
    /// `why`: the first failure; none when the run is over or somebody asked.
    Stop {
        grace_ms: u64,
        why: Option<String>,
    },
    Kill {
        why: Option<String>,
    },
}

pub fn encode(message: &impl Serialize) -> Vec<u8> {
    frame::encode(JSON, &json(message))
}

/// The next message; nothing when the other side closed.
pub fn read<T: for<'a> Deserialize<'a>>(from: &mut impl Read, body: &mut Vec<u8>) -> Result<Option<T>, FrameError> {
    match frame::read(from, LIMIT, body)? {
        None => Ok(None),
        Some(JSON) => decode_json(body).map(Some),
        Some(kind) => Err(FrameError::Kind(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample<T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug>(message: T, text: &str) {
        let bytes = encode(&message);
        assert_eq!(std::str::from_utf8(&bytes[5..]).unwrap(), text);
        assert_eq!(read::<T>(&mut &bytes[..], &mut Vec::new()).unwrap(), Some(message));
    }

    #[test]
    fn kept_samples() {
        assert_eq!(LINE_VERSION, 1);
        let ended = vec![EndedRank { rank: Rank::Worker(1), ending: Ending::Exited(3), ran_ms: 7 }];
        sample(
            Report { version: 1, run: "r".into(), host: "b".into(), ended, stop_ms: Some(5) },
            r#"{"version":1,"run":"r","host":"b","ended":[{"rank":"worker1","ending":{"exited":3},"ran_ms":7}],"stop_ms":5}"#,
        );
        let word = |order| Word { version: 1, order, heard: 2 };
        sample(word(Order::GoOn), r#"{"version":1,"order":"go_on","heard":2}"#);
        sample(
            word(Order::Stop { grace_ms: 5, why: Some("w".into()) }),
            r#"{"version":1,"order":{"stop":{"grace_ms":5,"why":"w"}},"heard":2}"#,
        );
        sample(word(Order::Kill { why: None }), r#"{"version":1,"order":{"kill":{"why":null}},"heard":2}"#);
    }

    #[test]
    fn garbage_and_large_frames_are_refused() {
        let large = [0xff, 0xff, 0xff, 0x7f, JSON];
        assert!(matches!(read::<Word>(&mut &large[..], &mut Vec::new()), Err(FrameError::TooLong { .. })));
        for bytes in [frame::encode(JSON, b"{}"), frame::encode(b'O', b"x"), vec![1, 0, 0]] {
            assert!(read::<Word>(&mut &bytes[..], &mut Vec::new()).is_err());
        }
    }
}
