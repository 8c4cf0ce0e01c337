//! Everything that can end a call of the engine, in words that name the culprit.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Who a message is about: a role, its number, and where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub role: Role,
    pub id: u32,
    pub host: String,
    pub pid: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Master,
    Server,
    Worker,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Role::Master => "master",
            Role::Server => "server",
            Role::Worker => "worker",
        })
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.role {
            Role::Master => write!(f, "the master on {}", self.host),
            role => write!(f, "{role} {} on {} (pid {})", self.id, self.host, self.pid),
        }
    }
}

/// A failure of the engine. Serialisable, because the first to see it tells the others.
#[derive(Debug, Clone, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum SyncError {
    #[error("{who} died: {how}")]
    Dead { who: Who, how: String },
    #[error("{who} gave up: {why}")]
    Aborted { who: Who, why: String },
    #[error("key `{key}`: {field} differs: {a} has {a_value}, {b} has {b_value}")]
    Mismatch { key: String, field: String, a: Box<Who>, a_value: String, b: Box<Who>, b_value: String },
    #[error("{who} has called finish() and gives no part of key `{key}`")]
    Finished { who: Who, key: String },
    #[error("the workers wait for different keys and would wait for ever: {waits}")]
    Deadlock { waits: String },
    #[error("{who} broke the protocol: {why}")]
    Protocol { who: Who, why: String },
    #[error("{peer} speaks protocol version {theirs}, this side speaks {ours}; install the same shoal on all machines")]
    Version { peer: String, ours: u8, theirs: u8 },
    #[error("{peer} refused the token; all nodes of a run need the same SHOAL_TOKEN")]
    Token { peer: String },
    #[error("worker {id} is taken by {holder}; give each worker its own client_id")]
    DuplicateId { id: u32, holder: Who },
    #[error("the master refused this node: {why}")]
    Refused { why: String },
    #[error("cannot reach {what} at {address}: {why}")]
    Unreachable { what: String, address: String, why: String },
    #[error("waited {seconds} s for {what}")]
    Timeout { what: String, seconds: u64 },
    #[error("setting {name} is `{value}`; expected {expected}")]
    Setting { name: String, value: String, expected: String },
    #[error("key `{key}`: {why}")]
    Usage { key: String, why: String },
    #[error("this engine was shut down")]
    ShutDown,
    #[error("{what}: {why}")]
    System { what: String, why: String },
}

impl SyncError {
    pub(crate) fn system(what: impl Into<String>, source: impl std::fmt::Display) -> SyncError {
        SyncError::System { what: what.into(), why: source.to_string() }
    }
}
