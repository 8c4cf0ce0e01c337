//! The queue's processes.
//!
//! | part | question |
//! |---|---|
//! | `again` | when a line that ended is tried again |
//! | `framing` | how messages are cut out of a stream of bytes |
//! | `keeper` | who owns the runs of a host, whatever becomes of everybody else |
//! | `agent` | how a host does what the daemon says |
//! | `places` | where a queue lives: its store, its socket |
//! | `drive` | what an error of a drive means |
//! | `mark` | whether a folder for results is the one that was meant |
//! | `journal` | what has happened, durable (QUEUE-1) |
//! | `trees` | files that runs need, by content |
//! | `serve` | the daemon: from messages to events to what hosts are told |
//! | `door` | who comes in, and what they may do (SEC-1) |
//! | `client` | how a program asks the daemon, and starts one |

pub mod again;
pub mod agent;
pub mod client;
pub mod door;
mod drive;
pub mod framing;
pub mod journal;
pub mod keeper;
pub mod mark;
pub mod places;
pub mod serve;
pub mod trees;
