//! `shoal status`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;

/// Show the nodes of a cluster: which are as the file wants them, which step failed, which cannot be reached, what it costs.
///
/// Use it after an `up` that somebody else ran, or before one, to see whether the cluster is what its file says. It changes nothing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes:
  0  all nodes are up to date
  1  none is
  2  the command line or the file is wrong
  4  some are

Examples:
  shoal status cluster.yaml
  shoal status cluster.yaml --json | jq '.nodes[].state'")]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}
