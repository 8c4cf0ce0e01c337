//! What the programs do, one file a verb.

pub mod doctor;
pub mod fleet;
pub(crate) mod fleet_file;
pub mod host;
pub mod logs;
pub mod plan;
pub mod ps;
pub mod ps_master;
pub mod ps_server;
pub mod psd_run;
pub mod run;
pub mod stop;
