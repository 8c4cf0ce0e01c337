//! `shoal up`'s command line: Ray's flags, and a few of our own.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Bring a cluster up: machines, files, set-up and start commands, on all nodes at once.
///
/// Use it to make a cluster from its file, after an edit of the file or of what it mounts, and after a failure: it goes on at the
/// step that changed or failed, and says what it skips and why. It reads Ray's cluster files.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,

    /// Print what would run where, and why, and do nothing.
    #[arg(long, conflicts_with = "yes")]
    pub plan: bool,

    /// Set nodes up, but do not run start commands where they have run before.
    #[arg(long, conflicts_with_all = ["restart_only", "restart"])]
    pub no_restart: bool,

    /// Run start commands only, also where what they started runs; new nodes are still set up.
    #[arg(long)]
    pub restart_only: bool,

    /// Run start commands also where nothing changed and what they started runs. Otherwise that is left alone.
    #[arg(long, conflicts_with = "restart_only")]
    pub restart: bool,

    /// Of all types of workers together, at least so many.
    #[arg(long, value_name = "N")]
    pub min_workers: Option<u32>,

    /// And at most so many.
    #[arg(long, value_name = "N")]
    pub max_workers: Option<u32>,

    /// Seconds that one step may take; without it, as long as it likes.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub step_timeout: Option<u64>,

    /// Do not show what commands print; it is in logs on the nodes.
    #[arg(long)]
    pub redirect_command_output: bool,

    /// Tell Ray not to report its use.
    #[arg(long)]
    pub disable_usage_stats: bool,

    /// Run commands without the start-up files of a login (~/.bashrc and the like).
    #[arg(long)]
    pub use_normal_shells: bool,

    /// Accepted for Ray's sake: that is what they are run in.
    #[arg(long, hide = true, conflicts_with = "use_normal_shells")]
    pub use_login_shells: bool,

    /// Accepted for Ray's sake: there is no cache of configurations.
    #[arg(long)]
    pub no_config_cache: bool,

    /// Print events as JSON, one a line; with --plan the plan.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0    all nodes are up
  1    no node is up, or this machine is at fault
  2    the command line or the file is wrong
  3    it cannot start: somebody else works on this cluster
  4    some nodes are up, others are not; the summary names them
  130  stopped by Ctrl-C or SIGTERM; the next `up` goes on from there

Environment:
  SHOAL_UP_PATIENCE_S  how long a node that goes away during set-up is waited for (300)

Examples:
  shoal up cluster.yaml -y
  shoal up cluster.yaml --plan
  shoal up cluster.yaml -y --restart";
