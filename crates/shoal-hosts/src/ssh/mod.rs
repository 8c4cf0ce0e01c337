//! Other machines, over the system's own ssh: `~/.ssh/config`, agents, jump hosts and hardware keys work as people know them.
//!
//! | file | question |
//! |---|---|
//! | `options` | which arguments does ssh get for a host (pure) |
//! | `explain` | what does ssh's complaint mean, and what can be done about it (pure) |
//! | `guard` | may this address be dialled at all |
//! | `connection` | how is the one connection of a host opened, shared and used |
//! | `deliver`, `digest_cache` | how does our program get to a host, and under which name |

pub mod connection;
pub mod deliver;
pub mod digest_cache;
pub mod explain;
pub mod guard;
pub mod options;

pub use connection::{Connection, Settings};
pub use explain::{Failure, Trouble};
