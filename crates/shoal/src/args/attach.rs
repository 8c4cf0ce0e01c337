//! `shoal attach`'s command line.

use super::cluster::Common;
use super::reaching::Reaching;
use clap::Args as ClapArgs;
use shoal_core::rank::Rank;

/// Open a shell on the head of a cluster, on another node, or in the pod of a run.
///
/// Use it to work there by hand, to come back to a tmux or screen session, or to reach a port of the node from here (-p).
///
/// With a run on a pool in place of CLUSTER (mlp:17.2 of a sweep, or the id of `shoal run`, as for `shoal logs`) it is in the run's own pod, with its
/// folder, variables and GPUs; a command behind `--` is executed there instead of a shell. Where stdin and stdout are a terminal it has one,
/// elsewhere they are passed on byte for byte. The run goes on meanwhile; when it ends, so does what was begun in its pod.
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

    /// Of a run: in the pod of this rank [default: worker0]: master, server0, worker1, ...
    #[arg(long, value_name = "RANK", conflicts_with_all = ["node", "start", "tmux", "screen", "forwards", "new", "pool"])]
    pub rank: Option<Rank>,

    #[command(flatten)]
    pub reaching: Reaching,

    /// A new session, with --tmux or --screen; without it, the last one is joined if there is one.
    #[arg(short = 'N', long)]
    pub new: bool,

    /// Of a run: this command instead of a shell.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

const HELP: &str = "\
Exit codes:
  that of the shell or the command
  2    the command line or the cluster file is wrong, nobody knows this run, it is on a host, or stdin is no terminal (of a run it need not be)
  3    no pod could be had that reaches the pool's volume; the run does not run, or the queue or the cluster could not be reached
  255  the node could not be reached, or the connection broke

Examples:
  shoal attach cluster.yaml
  shoal attach cluster.yaml --tmux -p 8265
  shoal attach cluster.yaml --node 10.0.0.12
  shoal attach lab.yaml --pool phoebe
  shoal attach mlp:17.2
  shoal attach mlp:17.2 -- nvidia-smi
  shoal attach 261116-020304-a1b2c3 --rank worker1";
