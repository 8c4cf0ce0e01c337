//! What the programs do, one file each.

pub mod ps_master;
pub mod ps_server;
