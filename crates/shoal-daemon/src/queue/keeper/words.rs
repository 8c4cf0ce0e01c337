//! What do agent and keeper say to each other? (WIRE-1)
//!
//! Framed as the line is, over the keeper's socket. The keeper knows nothing of sweeps: a run has a name, and a note that comes back
//! with everything that is said of it, so that an agent need remember nothing.

use serde::{Deserialize, Serialize};
use shoal_core::queue::Moment;
use shoal_core::queue::work::Ending;

/// Changes whenever the meaning of a message does. A keeper lives as long as its runs: agents meet older ones.
pub const KEEPER_VERSION: u32 = 1;
/// Bytes of JSON after which lists go on in a further message.
pub const PAGE: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// The first word. Answered by `Hello`, then all that lives and all that is over in pages, then `Ready`.
    Hello {
        version: u32,
    },
    /// Idempotent: a name that is known, alive or over, is not started again; one that is over is told again (QUEUE-2).
    Start {
        /// Environments that many runs share; `Run::environment` is a place in this list.
        environments: Vec<Vec<(String, String)>>,
        runs: Vec<Run>,
    },
    Stop {
        name: String,
        checkpoint_first: bool,
        grace_ms: u64,
    },
    /// Stops it if it still waits for its turn.
    TakeBack {
        name: String,
    },
    /// Their endings are known where it matters.
    Forget {
        names: Vec<String>,
    },
    Ping,
    /// No more starts; with `stop_runs`, end all there are. Answered by `Left` when nothing lives.
    Leave {
        stop_runs: bool,
        grace_ms: u64,
    },
}

/// Everything that is needed to execute it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Safe as a file's name.
    pub name: String,
    pub note: String,
    /// An absolute path, and what the program is told its name and arguments are.
    pub program: String,
    pub argv: Vec<String>,
    pub environment: u32,
    /// Beside the shared ones, and instead of those of the same name.
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// Starts when that one is over; at once if nobody of that name is here.
    pub after: Option<String>,
    pub time_limit_ms: Option<u64>,
    pub grace_ms: u64,
    pub memory_bytes: Option<u64>,
    /// It is a wrapper, which says on descriptor 9 how far its preparation is.
    pub prepared: Option<Prepared>,
    /// A process of ours stands between it and the keeper.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
    /// It cannot be started, and why. It takes its turn like any other, so that those after it find their seat free.
    pub refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// What the steps are called.
    pub steps: Vec<String>,
    /// What comes after them.
    pub program: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromKeeper {
    Hello {
        version: u32,
        pid: u32,
    },
    /// Told at hello, and of runs that have lived for a moment: most short ones are only heard of when they are over.
    Alive {
        runs: Vec<Alive>,
    },
    /// On disk before it is said.
    Over {
        runs: Vec<Over>,
    },
    Ready,
    /// Something is wrong that ends no run by itself; `over`: no more.
    Trouble {
        what: String,
        over: bool,
    },
    Pong,
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    pub name: String,
    pub note: String,
    /// `None`: waits for its turn.
    pub began: Option<Begun>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    pub at: Moment,
    pub pid: u32,
    /// Its output is in `live/<number>.log`.
    pub log: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    pub name: String,
    pub note: String,
    pub ending: Ending,
    pub began: Moment,
    pub ended: Moment,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    /// Where its output is, if there was any.
    pub output: Option<Place>,
}

/// A stretch of a pack of logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub pack: u64,
    pub at: u64,
    pub len: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: keepers of this version are alive somewhere.
    const TO: [&str; 4] = [
        r#"{"hello":{"version":1}}"#,
        r#"{"start":{"environments":[[["A","b"]]],"runs":[{"name":"s_0.0_1","note":"{}","program":"/bin/true","argv":["true"],"environment":0,"env":[],"cwd":"/","after":"s_0.1_1","time_limit_ms":5,"grace_ms":6,"memory_bytes":null,"prepared":{"steps":["x"],"program":"y"},"refused":null}]}}"#,
        r#"{"stop":{"name":"s_0.0_1","checkpoint_first":true,"grace_ms":7}}"#,
        r#"{"leave":{"stop_runs":true,"grace_ms":8}}"#,
    ];
    const FROM: [&str; 4] = [
        r#"{"hello":{"version":1,"pid":5}}"#,
        r#"{"alive":{"runs":[{"name":"a","note":"n","began":{"at":1,"pid":2,"log":3}},{"name":"b","note":"","began":null}]}}"#,
        r#"{"over":{"runs":[{"name":"a","note":"n","ending":{"exited":3},"began":1,"ended":2,"cpu_ms":3,"peak_memory_bytes":4,"output":{"pack":1,"at":2,"len":3}}]}}"#,
        r#"{"trouble":{"what":"full","over":false}}"#,
    ];

    #[test]
    fn the_kept_samples_read_and_write() {
        for sample in TO {
            let message: ToKeeper = serde_json::from_str(sample).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), sample);
        }
        for sample in FROM {
            let message: FromKeeper = serde_json::from_str(sample).unwrap();
            assert_eq!(serde_json::to_string(&message).unwrap(), sample);
        }
    }
}
