//! What nodes and the master tell each other: few, small messages, each a length and JSON.

use crate::error::{Role, SyncError, Who};
use crate::node::admit::Newcomer;
use crate::settings::OnDeath;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// No message is longer: a table of a thousand nodes is a fifth of this.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Settings that must be the same on every node, because the bytes depend on them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    pub block_size: usize,
    pub deterministic: bool,
    pub on_death: OnDeath,
}

impl Common {
    /// The first setting that differs: name and both values.
    pub fn difference(&self, other: &Common) -> Option<(&'static str, String, String)> {
        if self.block_size != other.block_size {
            return Some(("block_size", self.block_size.to_string(), other.block_size.to_string()));
        }
        if self.deterministic != other.deterministic {
            return Some(("deterministic", self.deterministic.to_string(), other.deterministic.to_string()));
        }
        let word = |policy: OnDeath| String::from(if policy == OnDeath::Fail { "fail" } else { "continue" });
        (self.on_death != other.on_death).then(|| ("on_death", word(self.on_death), word(other.on_death)))
    }
}

/// A node introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    pub role: Role,
    /// `None` lets the master choose.
    pub id: Option<u32>,
    pub host: String,
    pub pid: u32,
    /// Where this node listens for its peers; an address only if it insists on one.
    pub address: Option<String>,
    pub port: u16,
    /// The same for all processes that can reach each other's memory, and only for them.
    pub memory_domain: Option<String>,
    /// Where the first of such processes hands out the shared area.
    pub meeting: Option<String>,
    /// How many workers this node believes there will be; 0 if it does not know.
    pub num_workers: u32,
    /// Workers only: servers take what the workers have.
    pub common: Option<Common>,
    pub version: String,
}

/// One row of the master's table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    pub who: Who,
    pub address: String,
    pub memory_domain: Option<String>,
    pub meeting: Option<String>,
}

/// Everyone there is, as of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    pub run: u32,
    pub generation: u32,
    pub master: Who,
    pub common: Common,
    pub workers: Vec<NodeRow>,
    pub servers: Vec<NodeRow>,
    /// Set for a worker that comes when the run is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Late>,
}

/// What a newcomer is told beyond the roster, in which its own row stands in place of the dead one's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Tells it from all who have held its number before.
    pub incarnation: u32,
    /// Workers that are dead already.
    pub dead: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum ToMaster {
    Register(Register),
    /// I am done; nobody needs to wait for me.
    Finish,
    /// I end the run, for this reason.
    Abort {
        error: SyncError,
    },
    /// A thread of mine waits for this key, and a shard says these workers are missing.
    Blocked {
        key: String,
        missing: Vec<u32>,
    },
    /// I move again.
    Moving,
    /// A newcomer: every server knows me; tell the workers that I wait to be let in.
    AtTheDoor,
    /// A newcomer has been let in (said by those who let it in, and by itself).
    Admitted {
        node: u32,
        incarnation: u32,
    },
    /// Tell me the state of the run (for people and tools; the connection ends after it).
    Status,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum FromMaster {
    /// You are in, under this number.
    Welcome {
        id: u32,
    },
    Refused {
        error: SyncError,
    },
    /// Not complete yet; this is who is missing.
    Gathering {
        missing: String,
    },
    Complete(Roster),
    /// A node is no more. `node` counts workers first, then servers.
    Dead {
        node: u32,
        how: String,
        /// Which holder of the number: 0 is who was there from the start.
        #[serde(default)]
        incarnation: u32,
    },
    /// A newcomer waits to be let in at a step boundary.
    Joining(Newcomer),
    /// The run is over.
    Abort {
        error: SyncError,
    },
    Status(serde_json::Value),
}

/// Writes one message.
pub fn send<T: Serialize>(stream: &mut impl Write, message: &T) -> std::io::Result<()> {
    let body = serde_json::to_vec(message).map_err(std::io::Error::other)?;
    if body.len() > MAX_MESSAGE {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "message over the limit"));
    }
    let mut out = Vec::with_capacity(4 + body.len());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&body);
    stream.write_all(&out)
}

/// Reads one message; blocks as long as the stream's own time-out lets it.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> std::io::Result<T> {
    let mut len = [0u8; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_MESSAGE {
        return Err(std::io::Error::new(ErrorKind::InvalidData, format!("a message of {len} bytes, over the limit")));
    }
    let mut body = vec![0u8; len];
    stream.read_exact(&mut body)?;
    serde_json::from_slice(&body).map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e))
}

/// Lets the kernel find out when the other *host* is gone, whatever its processes do: a stopped or busy process
/// still has a kernel that answers. Silence is noticed after about seven seconds.
pub fn watch_host(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    use std::time::Duration;
    sockopt::set_tcp_nodelay(stream, true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(3))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, 7000)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_and_long_ones_are_refused_before_they_are_read() {
        let message = ToMaster::Blocked { key: "fc1".into(), missing: vec![1, 2] };
        let mut bytes = Vec::new();
        send(&mut bytes, &message).expect("sent");
        assert_eq!(receive::<ToMaster>(&mut bytes.as_slice()).expect("received"), message);

        let long = u32::MAX.to_le_bytes();
        let error = receive::<ToMaster>(&mut long.as_slice()).expect_err("too long");
        assert!(error.to_string().contains("over the limit"), "{error}");
    }

    /// WIRE-1: a kept sample of a registration.
    #[test]
    fn kept_sample_of_version_1() {
        let text = r#"{"say":"register","role":"worker","id":1,"host":"h","pid":7,"address":null,"port":9,"memory_domain":"d","meeting":null,"num_workers":2,"common":{"block_size":4194304,"deterministic":false,"on_death":"fail"},"version":"0.1.0"}"#;
        let read: ToMaster = serde_json::from_str(text).expect("an old message is read");
        assert_eq!(serde_json::to_string(&read).expect("written"), text);
    }

    /// WIRE-1: kept samples of what is said about newcomers.
    #[test]
    fn kept_samples_of_a_late_arrival() {
        let who = r#"{"role":"worker","id":2,"host":"h","pid":7}"#;
        for text in [r#"{"say":"at_the_door"}"#, r#"{"say":"admitted","node":2,"incarnation":1}"#] {
            let read: ToMaster = serde_json::from_str(text).expect("an old message is read");
            assert_eq!(serde_json::to_string(&read).expect("written"), text);
        }
        let roster = r#""run":1,"generation":1,"master":{"role":"master","id":0,"host":"m","pid":1},"common":{"block_size":4096,"deterministic":false,"on_death":"continue"},"workers":[],"servers":[]"#;
        for text in [
            format!(r#"{{"say":"joining","node":2,"incarnation":1,"who":{who}}}"#),
            r#"{"say":"dead","node":2,"how":"gone","incarnation":1}"#.to_string(),
            format!(r#"{{"say":"complete",{roster},"late":{{"incarnation":1,"dead":[2]}}}}"#),
            format!(r#"{{"say":"complete",{roster}}}"#),
        ] {
            let read: FromMaster = serde_json::from_str(&text).expect("an old message is read");
            assert_eq!(serde_json::to_string(&read).expect("written"), text);
        }
        let before: FromMaster = serde_json::from_str(r#"{"say":"dead","node":2,"how":"gone"}"#).expect("version 1");
        assert!(matches!(before, FromMaster::Dead { incarnation: 0, .. }));
    }
}
