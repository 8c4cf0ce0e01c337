//! How do the hosts of a detached run keep together when nobody watches? (GANG-1: no rank outlives its gang)
//!
//! One warden is the head; it listens on a port that was reserved for it. The others dial it and prove the run's token
//! (SEC-1). From then on each side repeats what it knows, every second and at once when it changes: a member which of its
//! ranks have ended ([`words::Report`]), the head what all shall do ([`words::Word`]). Both are whole states, so nothing has
//! to be counted, acknowledged or sent again, and a broken connection is simply replaced.
//!
//! | file | question |
//! |---|---|
//! | `words` | what do they say (pure, WIRE-1) |
//! | `head` | what shall all do (pure) |
//! | `member` | is the head still there (pure) |
//! | `listen`, `dial` | the sockets |
//!
//! | lost | noticed by | after |
//! |---|---|---|
//! | a member's host, or its network | the head | the silence (30 s) |
//! | a member's warden (killed) | the head: its connection closes and no other comes | 5 s |
//! | the head's host, or its network | each member | the silence |
//! | the head's warden (killed) | each member: nobody listens there | 5 s |
//!
//! In each case the gang ends, and the records of its ranks name the lost host.

pub mod dial;
pub mod head;
pub mod listen;
pub mod member;
pub mod words;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use words::{Report, Word};

/// How often both sides speak when there is nothing new.
pub const BEAT: Duration = Duration::from_millis(1000);
/// A connection that was closed by a living host is replaced at once; after this long it will not be.
pub const GONE_MS: u64 = 5_000;
/// What is written fits into the socket's buffer; if it does not, the other side has not read for a long time.
const WRITE: Duration = Duration::from_millis(200);

/// What the sockets tell the warden.
pub enum News {
    /// The head's: a member has spoken, on this connection.
    Report {
        connection: u64,
        stream: Arc<TcpStream>,
        report: Report,
    },
    Closed {
        connection: u64,
    },
    /// A member's: the head has taken us in.
    Connected {
        stream: Arc<TcpStream>,
    },
    Word(Word),
    Disconnected {
        why: String,
    },
    /// The head could not be reached; `nobody`: its host is there, and nobody listens.
    Failed {
        why: String,
        nobody: bool,
    },
}

/// Says it, or finds that the connection is of no use any more.
pub fn say(stream: &TcpStream, frame: &[u8]) -> bool {
    use std::io::Write;
    let mut stream = stream;
    if stream.write_all(frame).is_ok() {
        return true;
    }
    // Half a frame may be on its way: nothing sensible can follow it.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    false
}
