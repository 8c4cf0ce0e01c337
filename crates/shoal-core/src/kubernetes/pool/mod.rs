//! Runs of the queue as Indexed Jobs: from what a run asks for to the objects of the server, and from what the server says back to an end.
//!
//! A run's attempt is one index of one Job. What a run needs lies in a folder of its own on the pool's volume, which pods see under the same
//! path as the queue's machine: so nothing is translated, and what a run leaves is where its agent looks for it.
//!
//! | file | question |
//! |---|---|
//! | `ask` | what is to be run, and which runs can be of one Job |
//! | `job` | which Job is that |
//! | `script` | what happens inside its pods |
//! | `echo` | how does what it prints get to the pod's own log, too |
//! | `nodes` | which nodes take nothing now, and who is given back for it |
//! | `seen` | how is a run, by what the server has of it |

pub mod ask;
pub mod echo;
pub mod job;
pub mod nodes;
pub mod script;
pub mod seen;

/// The folder of a run's own, below the agent's; its name is the run's.
pub const PODS: &str = "pods";
/// In it: what is asked ([`ask::Ask`], JSON), and what the pod executes.
pub const ASK: &str = "ask";
pub const SCRIPT: &str = "sh";
/// Held locked as long as somebody waits for the run; its presence says that somebody did.
pub const GO: &str = "go";
/// Made by the pod: that it began, what it printed, its exit code.
pub const BEGUN: &str = "begun";
pub const OUT: &str = "out";
pub const CODE: &str = "code";
/// Made by the pod: it was told to end, and its program ended with 0.
pub const TOLD: &str = "told";
/// Made by the pod: its time was over.
pub const LIMIT: &str = "limit";
/// Somebody wants it to end; the content is the grace in seconds.
pub const STOP: &str = "stop";
/// How it ended ([`ask::End`], JSON): the last word.
pub const END: &str = "end";
/// Beside the runs' folders: which run is which index, a folder for each Job.
pub const JOBS: &str = ".jobs";
/// A pod that could not begin; a program's own code is not mistaken for it, since that is in [`CODE`].
pub const NOT_BEGUN: i64 = 125;
