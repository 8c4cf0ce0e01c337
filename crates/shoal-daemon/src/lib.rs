//! The host side of a run.
//!
//! * [`warden`]: one process per host and run, started over ssh by the launcher. Starts the keepers, sends what they
//!   write and how they end to the launcher, and ends everything when the launcher is gone.
//! * [`keeper`]: one process per rank. Owns everything the rank starts, its log and its record.
//! * [`protocol`]: what launcher and warden say to each other, over the warden's stdin and stdout.
//! * [`gang_line`]: what the wardens of a detached run say to each other, so that it ends as one.
//! * [`records`]: what later invocations on the host know of runs: list them, follow a log, stop them.
//!
//! No async runtime: a warden must be there in a few milliseconds on every host of a gang.
//!
//! Who ends a rank when somebody dies (GANG-1: no rank outlives its gang):
//!
//! | dies | who notices | how |
//! |---|---|---|
//! | the launcher, the network | warden | stdin at its end, or silence |
//! | the warden, by SIGKILL | each keeper | its stdin, a pipe only the warden holds, is at its end |
//! | a keeper, by SIGKILL | kernel and warden | the rank has `PR_SET_PDEATHSIG`; what it left behind becomes the warden's child (subreaper) |
//! | a host of a detached run, its network or its warden | the wardens of the others | silence, or a closed connection ([`gang_line`]) |
//! | the rank itself | keeper | what it left behind is the keeper's child (subreaper) |

mod ending;
pub mod frame;
pub mod gang_line;
mod inner;
pub mod keeper;
pub mod proc;
pub mod protocol;
pub mod queue;
pub mod records;
mod signals;
mod sweep;
pub mod warden;

pub use ending::{Ending, How};
