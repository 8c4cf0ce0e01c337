//! What sender and receiver say to each other (pure, WIRE-1). Orders go one way, framed; answers come back as marked lines, because a
//! login may print things of its own.

use serde::{Deserialize, Serialize};

/// Changes whenever the meaning of a word does.
pub const VERSION: u32 = 1;
/// In front of every answer.
pub const MARK: &str = "@shoal-files ";
/// No order is longer; a list of files, pressed, may be.
pub const LONGEST: usize = 1 << 20;
pub const LONGEST_LIST: usize = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// The pressed manifest follows. Secrets are hexadecimal.
    Prepare { version: u32, list: usize, unpressed: usize, key: String, token: String, listen: bool },
    /// Dial the next of the chain.
    Link { next: String },
    /// Take a stream: from here, or from whoever dialled; pass it on to whom was dialled.
    Receive { stream: u32, from_peer: bool, forward: bool, write_ms: u64, read_ms: u64 },
    /// Stop waiting for the peer. At any other time it means nothing.
    Cut,
    /// Somebody else (rsync) has put files there: look again.
    Look,
    /// Times and modes of folders; with `delete`, what is not of the tree goes, unless these rules leave it out. `under`: the name under
    /// which they see the folder, as on the sending side.
    Finish {
        delete: bool,
        exclude: Vec<String>,
        filter: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        under: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    Hello {
        version: u32,
    },
    /// Still at it.
    Busy {
        bytes: u64,
    },
    Prepared {
        lacking: Vec<(u32, u32)>,
        stale: u64,
        port: Option<u16>,
        rsync: bool,
        roots: Vec<String>,
    },
    Linked {
        problem: Option<String>,
    },
    /// The next of the chain takes no more.
    ForwardLost {
        why: String,
    },
    /// What is still not there. `problem`: the stream did not come to its end. `changed`: files that were not what the list says.
    Received {
        lacking: Vec<(u32, u32)>,
        problem: Option<String>,
        changed: Vec<String>,
    },
    Finished {
        deleted: u64,
    },
    /// This side cannot go on.
    Failed {
        what: String,
        hint: String,
    },
}

impl Answer {
    /// The answer in a line, if it is one.
    pub fn read(line: &str) -> Option<Result<Answer, String>> {
        let at = line.find(MARK)?;
        Some(serde_json::from_str(&line[at + MARK.len()..]).map_err(|e| format!("an odd answer: {e}")))
    }

    pub fn line(&self) -> String {
        format!("{MARK}{}\n", serde_json::to_string(self).unwrap_or_default())
    }
}

/// Sorted numbers as ranges: first and how many.
pub fn ranges(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match out.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => out.push((number, 1)),
        }
    }
    out
}

/// The numbers again; those past `limit` are none of ours.
pub fn numbers(ranges: &[(u32, u32)], limit: usize) -> Vec<u32> {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    ranges.iter().flat_map(|(first, count)| *first..first.saturating_add(*count).min(limit)).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

pub fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_samples_read_and_write() {
        let orders = include_str!("samples/orders-1.jsonl");
        for line in orders.lines() {
            let order: Order = serde_json::from_str(line).expect(line);
            assert_eq!(serde_json::to_string(&order).expect("json"), line);
        }
        let answers = include_str!("samples/answers-1.jsonl");
        for line in answers.lines() {
            let answer = Answer::read(&format!("motd {MARK}{line}")).expect("marked").expect(line);
            assert_eq!(answer.line(), format!("{MARK}{line}\n"));
        }
        assert_eq!((orders.lines().count(), answers.lines().count()), (7, 8));
    }

    #[test]
    fn numbers_and_ranges() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10]), [(1, 3), (7, 1), (9, 2)]);
        assert_eq!(numbers(&[(1, 3), (7, 1), (9, 2)], 10), [1, 2, 3, 7, 9]);
        assert_eq!(numbers(&[(0, u32::MAX)], 2), [0, 1]);
        let key: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!(unhex(&hex(&key)), Some(key));
        assert_eq!(unhex("zz"), None);
    }
}
