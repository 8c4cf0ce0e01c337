//! What can go wrong between the ranks of one host, each naming the rank it went wrong with.

use std::io;

/// In what two ranks differ who meet in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The caller's hash of name, dtype and shape.
    Fingerprint,
    /// The length in bytes.
    Bytes,
    /// The operation, its element type, scaling or root.
    Operation,
    /// The step.
    Step,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Difference::Fingerprint => "different tensors",
            Difference::Bytes => "tensors of different lengths",
            Difference::Operation => "different operations",
            Difference::Step => "different steps",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("local group: {why}")]
    BadGroup { why: String },
    #[error("local group: {what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("local group: rank(s) {ranks:?} had not {what} when the deadline passed")]
    Missing { ranks: Vec<u32>, what: &'static str },
    #[error("local group: {by} at @{socket} refused rank {rank}: {why}")]
    Refused { socket: String, rank: u32, by: &'static str, why: &'static str },
    /// This host does not let one rank reach another's memory: use the network instead.
    #[error("local group: rank {rank} may not {call} rank {peer}'s memory (errno {errno})")]
    NotPermitted { rank: u32, peer: u32, call: &'static str, errno: i32 },
    #[error("slot {slot}, step {step}: ranks {rank} and {other} brought {what}")]
    Mismatch { slot: u32, step: u64, rank: u32, other: u32, what: Difference },
    #[error("rank {rank} is dead")]
    Dead { rank: u32 },
    #[error("slot {slot}, step {step}: rank {by} could not reach rank {rank}'s memory (errno {errno})")]
    Memory { slot: u32, step: u64, rank: u32, by: u32, errno: i32 },
    #[error("slot {slot}, step {step}: the root of the broadcast, rank {root}, has finished")]
    RootFinished { slot: u32, step: u64, root: u32 },
    /// The one error after which the tensor's memory must not be freed or reused yet.
    #[error(
        "slot {slot}, step {step}: rank {rank} (pid {pid}) is alive and stuck in the middle of a chunk: \
         it may write to this tensor as long as it lives"
    )]
    Stuck { slot: u32, step: u64, rank: u32, pid: i32 },
    #[error("slot {slot}: step {step} was submitted while the step before it is still in flight")]
    Busy { slot: u32, step: u64 },
    #[error("this rank has finished and takes part in nothing more")]
    Finished,
    #[error("this rank has {tickets} operation(s) in flight and cannot finish yet")]
    InFlight { tickets: usize },
    #[error("slot {slot}, step {step}: {why}")]
    BadOperation { slot: u32, step: u64, why: String },
    #[error("shared memory of this rank: {wanted} bytes asked for, the largest free piece has {free}")]
    HeapFull { wanted: usize, free: usize },
}

impl LocalError {
    pub(super) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> LocalError {
        LocalError::Io { what: what.into(), source: source.into() }
    }
}

pub type Result<T, E = LocalError> = std::result::Result<T, E>;
