//! `shoal attach`'s command line.

use super::cluster::Common;
use super::reaching::Reaching;
use clap::Args as ClapArgs;

/// Open a shell on the head of a cluster, or on another node.
///
/// Use it to work there by hand, to come back to a tmux or screen session, or to reach a port of the node from here (-p).
///
/// With a fleet file that has `pools`, the shell is in a pod with the pool's image and volumes, which goes when the shell ends.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// On this node instead of the head: its name or address.
    #[arg(long, visible_alias = "node-ip", value_name = "ADDRESS")]
    pub node: Option<String>,

    /// In a pod of this pool of a fleet file, which has the pool's volumes; not needed where there is only one pool.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["node", "start", "tmux", "screen", "forwards", "new"])]
    pub pool: Option<String>,

    #[command(flatten)]
    pub reaching: Reaching,

    /// A new session, with --tmux or --screen; without it, the last one is joined if there is one.
    #[arg(short = 'N', long)]
    pub new: bool,
}

const HELP: &str = "\
Exit codes:
  that of the shell
  2    the command line or the cluster file is wrong, or stdin is no terminal
  3    no pod could be had that reaches the pool's volume
  255  the node could not be reached, or the connection broke

Examples:
  shoal attach cluster.yaml
  shoal attach cluster.yaml --tmux -p 8265
  shoal attach cluster.yaml --node 10.0.0.12
  shoal attach lab.yaml --pool phoebe";
