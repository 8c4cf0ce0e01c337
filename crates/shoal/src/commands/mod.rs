//! What the programs do, one file a verb.

pub mod attach;
pub mod doctor;
pub mod down;
pub mod exec;
pub mod fleet;
pub(crate) mod fleet_file;
pub mod get_head_ip;
pub mod get_worker_ips;
pub mod host;
pub mod image;
pub mod logs;
pub mod plan;
pub mod ps;
pub mod ps_master;
pub mod ps_server;
pub mod psd_run;
pub mod rsync_down;
pub mod rsync_up;
pub mod run;
pub mod status;
pub mod stop;
pub mod submit;
pub mod up;
