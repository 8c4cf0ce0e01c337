//! `shoal down`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Take a cluster down: end what it runs, remove what was put there, give machines back, and prove that nothing is left.
///
/// Use it when you are done with a cluster, or to begin anew. An `up` that is under way on this machine is told to stop first. Machines of
/// a `local` cluster stay as they are, but for what `up` started and put there; mounted files stay too.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

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
  3  it cannot start: somebody else works on this cluster
  4  some nodes are down; others could not be reached, or something is left there

Examples:
  shoal down cluster.yaml -y
  shoal down cluster.yaml --workers-only";
