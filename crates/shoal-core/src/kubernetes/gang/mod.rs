//! A gang of `shoal run` on a pool: master, servers and workers as pods that start together, or not at all.
//!
//! Everything of a run hangs on the Job of its workers: whoever deletes that deletes the others with it, and so does the server some time after
//! its end. What ranks are told, print and leave lies in a folder of the run's own on the pool's volume, which pods see under the same path.
//! A pod says there that it is up and where; it starts its rank when all have.
//!
//! | file | question |
//! |---|---|
//! | `stand_in` | which hosts would its pods be, so that a gang is planned as everywhere |
//! | `objects` | which objects is it at the server |
//! | `script` | what happens inside its pods |

pub mod objects;
pub mod script;
pub mod stand_in;

use crate::rank::Rank;

/// Below the pool's folder on the volume: a folder a run.
pub const GANGS: &str = "gangs";
/// In a run's folder. Its content changes as long as somebody follows the run.
pub const HEART: &str = "heart";
/// All are up: what every rank runs is there, and it may.
pub const GO: &str = "go";
/// Nothing may start any more, and what runs is to end.
pub const STOP: &str = "stop";
/// The source as it was.
pub const SOURCE: &str = "src";
/// In a rank's folder: what its pod executes, and what it executes of that once all are up. The rest is as in a sweep's
/// ([`super::pool::BEGUN`] holds the pod's address).
pub const SCRIPT: &str = "sh";
pub const PROGRAM: &str = "run";

/// The folder of a rank within the run's.
pub fn folder(rank: Rank) -> String {
    rank.to_string()
}
