//! `shoal down`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Take a cluster down: end what it runs, remove what was put there, give machines back, and prove that nothing is left.
///
/// Use it when you are done with a cluster, or to begin anew. An `up` that is under way on this machine is told to stop first. Machines of
/// a `local` cluster stay as they are, but for what `up` started and put there; mounted files stay too.
///
/// With a fleet file that has `pools`: end and remove all that is yours in their namespaces (sweeps of your queue, gangs of `shoal run`, pods for files
/// and shells), and come back when it is gone, or say what is stuck and why. The queue starts nothing more there until `shoal resume --host POOL`;
/// runs that are not done wait for that. What others have there stays, and so does what is on the volumes.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// Of a fleet file with several pools: this one alone.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,

    /// The head stays.
    #[arg(long)]
    pub workers_only: bool,

    /// The head and as many workers as the file wants at least stay.
    #[arg(long)]
    pub keep_min_workers: bool,

    /// Stop rented machines instead of terminating them.
    #[arg(long)]
    pub keep_stopped: bool,

    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  everything is down, and nothing is left
  1  nothing could be taken down, or this machine is at fault
  2  the command line or the file is wrong
  3  it cannot start: somebody else works on this cluster; the pool's cluster or the queue cannot be reached
  4  some nodes are down; others could not be reached, or something is left there (of pools: after three minutes)

Examples:
  shoal down cluster.yaml -y
  shoal down cluster.yaml --workers-only
  shoal down lab.yaml --pool phoebe";
