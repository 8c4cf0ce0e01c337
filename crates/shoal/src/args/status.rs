//! `shoal status`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Show the nodes of a cluster: which are as the file wants them, which step failed, which cannot be reached, what it costs.
///
/// Use it after an `up` that somebody else ran, or before one, to see whether the cluster is what its file says. It changes nothing.
///
/// With a fleet file that has `pools`: what Shoal has in their namespaces (sweeps, gangs, pods for files and shells), how much of it runs, and whose
/// it is.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes:
  0  all nodes are up to date; the pools have been asked
  1  none is
  2  the command line or the file is wrong
  3  the pool's cluster, or the queue, cannot be reached
  4  some are; some pools could not be asked

Examples:
  shoal status cluster.yaml
  shoal status lab.yaml
  shoal status cluster.yaml --json | jq '.nodes[].state'")]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// Of a fleet file with several pools: this one alone.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,

    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}
