//! The node's sockets: one connection per peer, one loop for all of them.

pub mod conn;
pub mod join;
mod knock;
pub mod master_line;
mod meet;
pub mod reactor;
pub mod welcome;
