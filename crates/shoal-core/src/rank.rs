//! One process of a run, named by its role: `master`, `server0`, `worker3`.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Ordered as they are started and listed: the master, the servers, the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rank {
    Master,
    Server(u32),
    Worker(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no rank; expected master, server<k> or worker<k>, such as worker0")]
pub struct NoRank(pub String);

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rank::Master => f.pad("master"),
            Rank::Server(k) => f.pad(&format!("server{k}")),
            Rank::Worker(k) => f.pad(&format!("worker{k}")),
        }
    }
}

impl FromStr for Rank {
    type Err = NoRank;

    fn from_str(text: &str) -> Result<Rank, NoRank> {
        let numbered = |prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
            digits.parse().ok().filter(|_| plain)
        };
        match text {
            "master" => Ok(Rank::Master),
            _ => None
                .or_else(|| numbered("server").map(Rank::Server))
                .or_else(|| numbered("worker").map(Rank::Worker))
                .ok_or_else(|| NoRank(text.into())),
        }
    }
}

impl TryFrom<String> for Rank {
    type Error = NoRank;

    fn try_from(text: String) -> Result<Rank, NoRank> {
        text.parse()
    }
}

impl From<Rank> for String {
    fn from(rank: Rank) -> String {
        rank.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_nonsense_is_refused() {
        for rank in [Rank::Master, Rank::Server(0), Rank::Worker(17)] {
            assert_eq!(rank.to_string().parse(), Ok(rank));
        }
        for text in ["", "worker", "worker-1", "worker01", "Worker1", "master0", "worker+1"] {
            assert!(text.parse::<Rank>().is_err(), "{text}");
        }
    }
}
