//! Command lines, one file a program.

pub mod attach;
pub mod cluster;
pub mod doctor;
pub mod down;
pub mod drain;
pub mod exec;
pub mod fleet;
pub mod forget;
pub mod get_head_ip;
pub mod get_worker_ips;
pub mod host;
pub mod hosts;
pub mod image;
pub mod k8s;
pub mod k8s_destroy;
pub mod k8s_doctor;
pub mod k8s_launch;
pub mod k8s_status;
pub mod logs;
pub mod ludwig;
pub mod pause;
pub mod plan;
pub mod ps;
pub mod ps_master;
pub mod ps_server;
pub mod psd_run;
pub mod reaching;
pub mod results;
pub mod resume;
pub mod retry;
pub mod rsync_down;
pub mod rsync_up;
pub mod run;
pub mod serve;
pub mod shoal;
pub mod status;
pub mod stop;
pub mod submit;
pub mod sweep;
pub mod token;
pub mod up;
pub mod wait;
pub mod why;

/// Shown at the end of every program's help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  the run ended well, or this program was told to stop
  1  the run failed; the last line on stderr says whose fault it was
  2  the command line or a setting is wrong
  3  the run could not start: nobody to reach, a wrong token, another version

Environment:
  SHOAL_TOKEN  the run's secret, the same for all its nodes; never given on the command line";
