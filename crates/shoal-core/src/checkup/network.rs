//! The ways between hosts: what they say about them, and who is measured when, so that no host is in two measurements at once.

use serde::{Deserialize, Serialize};

/// Changes whenever the meaning of a message does (WIRE-1).
pub const PEER_VERSION: u32 = 1;
/// Begins every line that a host says, so that what a noisy shell says before it can be told apart.
pub const PEER_MARK: &str = "shoal-peer ";

/// What a host is told, one line each, by stdin: the token may be in no argv (SEC-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToPeer {
    /// The first line.
    Hello { version: u32, token: String },
    /// Dial all of them, at once.
    Reach { targets: Vec<Target> },
    /// Let that one send for so long.
    Load { target: Target, milliseconds: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    pub address: String,
    pub port: u16,
}

/// What it answers, one line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromPeer {
    Listening {
        version: u32,
        port: u16,
    },
    /// In the order of the targets: the quickest of several round trips, or why there was none.
    Reached {
        round_trip_ns: Vec<Result<u64, String>>,
    },
    Loaded {
        bits_per_s: Result<u64, String>,
    },
    /// It could not do its part at all.
    Failed {
        why: String,
    },
}

/// A line of a host, if it is one of these.
pub fn read(line: &str) -> Option<Result<FromPeer, String>> {
    let json = line.trim_end().split_once(PEER_MARK)?.1;
    Some(serde_json::from_str(json).map_err(|e| format!("it said something odd: {e}")))
}

pub fn line(said: &FromPeer) -> String {
    format!("{PEER_MARK}{}\n", serde_json::to_string(said).unwrap_or_default())
}

/// The way from one host to another: who dialled, who listened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub from: String,
    pub to: String,
    /// The quickest of several round trips in nanoseconds, or why there was none.
    #[serde(flatten, serialize_with = "flat")]
    pub round_trip_ns: Result<u64, String>,
    /// Not of all pairs: see `rounds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_s: Option<u64>,
}

/// As one of two fields, so that programs need not take apart a nested object.
fn flat<S: serde::Serializer>(result: &Result<u64, String>, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(Some(1))?;
    match result {
        Ok(ns) => map.serialize_entry("round_trip_ns", ns)?,
        Err(why) => map.serialize_entry("error", why)?,
    }
    map.end()
}

/// At most this many pairs carry a load: the rest of a large fleet is only dialled.
pub const MOST_LOADS: usize = 64;

/// Rounds of pairs of `0..hosts`: every pair once, no host twice in a round (the circle method of tournaments).
pub fn rounds(hosts: usize) -> Vec<Vec<(usize, usize)>> {
    let seats = hosts + hosts % 2;
    let seat = |round: usize, place: usize| match place {
        0 => 0,
        // All but the first move on by one seat a round.
        place => (place - 1 + round) % (seats - 1) + 1,
    };
    let round = |round: usize| -> Vec<(usize, usize)> {
        let pairs = (0..seats / 2).map(|place| (seat(round, place), seat(round, seats - 1 - place)));
        pairs.filter(|(a, b)| a.max(b) < &hosts).map(|(a, b)| (a.min(b), a.max(b))).collect()
    };
    (0..seats.saturating_sub(1)).map(round).filter(|pairs| !pairs.is_empty()).collect()
}

/// The rounds that carry a load: as `rounds`, of pairs that `may`, cut off at `MOST_LOADS`.
pub fn loads(hosts: usize, may: impl Fn(usize, usize) -> bool) -> Vec<Vec<(usize, usize)>> {
    let mut left = MOST_LOADS;
    let mut chosen = Vec::new();
    for round in rounds(hosts) {
        let pairs: Vec<_> = round.into_iter().filter(|(a, b)| may(*a, *b)).take(left).collect();
        left -= pairs.len();
        if !pairs.is_empty() {
            chosen.push(pairs);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_meets_once_and_nobody_is_in_two_places() {
        for hosts in 0..40 {
            let rounds = rounds(hosts);
            let mut all = BTreeSet::new();
            for round in &rounds {
                let mut busy = BTreeSet::new();
                for (a, b) in round {
                    assert!(a < b && *b < hosts);
                    assert!(busy.insert(*a) && busy.insert(*b), "{hosts}: {round:?}");
                    assert!(all.insert((*a, *b)), "{hosts}: {a} {b} twice");
                }
            }
            assert_eq!(all.len(), hosts * hosts.saturating_sub(1) / 2, "{hosts}");
        }
    }

    #[test]
    fn loads_are_few_and_touch_everyone() {
        for hosts in [2, 3, 16, 100, 128] {
            let loads = loads(hosts, |_, _| true);
            let pairs: Vec<_> = loads.iter().flatten().collect();
            assert!(pairs.len() <= MOST_LOADS);
            let touched: BTreeSet<_> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
            assert_eq!(touched.len(), hosts, "{hosts}");
        }
        assert!(loads(4, |a, _| a != 0).iter().flatten().all(|(a, _)| *a != 0));
    }

    /// WIRE-1: samples of version 1.
    #[test]
    fn the_kept_samples_are_still_what_is_said() {
        let target = Target { address: "10.0.0.2".into(), port: 4000 };
        for (message, sample) in [
            (ToPeer::Hello { version: 1, token: "t".into() }, r#"{"hello":{"version":1,"token":"t"}}"#),
            (
                ToPeer::Reach { targets: vec![target.clone()] },
                r#"{"reach":{"targets":[{"address":"10.0.0.2","port":4000}]}}"#,
            ),
            (
                ToPeer::Load { target, milliseconds: 400 },
                r#"{"load":{"target":{"address":"10.0.0.2","port":4000},"milliseconds":400}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&message).ok().as_deref(), Some(sample));
            assert_eq!(serde_json::from_str::<ToPeer>(sample).ok(), Some(message));
        }
        for (message, sample) in [
            (FromPeer::Listening { version: 1, port: 7 }, "shoal-peer {\"listening\":{\"version\":1,\"port\":7}}\n"),
            (
                FromPeer::Reached { round_trip_ns: vec![Ok(5), Err("no".into())] },
                "shoal-peer {\"reached\":{\"round_trip_ns\":[{\"Ok\":5},{\"Err\":\"no\"}]}}\n",
            ),
            (FromPeer::Loaded { bits_per_s: Ok(9) }, "shoal-peer {\"loaded\":{\"bits_per_s\":{\"Ok\":9}}}\n"),
            (FromPeer::Failed { why: "x".into() }, "shoal-peer {\"failed\":{\"why\":\"x\"}}\n"),
        ] {
            assert_eq!(line(&message), sample);
            assert_eq!(read(&format!("noise {sample}")), Some(Ok(message)));
        }
        assert_eq!(read("noise"), None);
    }
}
