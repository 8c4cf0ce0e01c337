//! `shoal exec`'s command line.

use super::cluster::Common;
use super::reaching::Reaching;
use clap::{Args as ClapArgs, ValueEnum};
use shoal_core::cluster::shell::RunEnv;

/// Run a command on the head of a cluster, on one node, or on all of them at once.
///
/// Use it to look at something (`nvidia-smi`), to start something, or to do the same everywhere. The command runs as in a terminal there: login files, PATH, conda,
/// aliases. From a terminal it gets a terminal; in a pipe it gets your stdin, and its output is exactly what it wrote, whatever logins print.
/// Ctrl-C ends it there; if this program dies, it ends too.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// The command, as one word for the node's shell.
    #[arg(value_name = "CMD")]
    pub command: String,

    /// On this node instead of the head: its name or address.
    #[arg(long, visible_alias = "node-ip", value_name = "ADDRESS", conflicts_with = "all")]
    pub node: Option<String>,

    /// On every node at the same time. There is no stdin; a table of exit codes follows.
    #[arg(long, conflicts_with_all = ["tmux", "screen", "forwards"])]
    pub all: bool,

    /// With --all: each node's output in one piece when all have ended, instead of line by line as it comes.
    #[arg(long, requires = "all")]
    pub gather: bool,

    /// Print how it ended, and what it wrote, as one JSON object.
    #[arg(long, conflicts_with_all = ["tmux", "screen"])]
    pub json: bool,

    #[command(flatten)]
    pub reaching: Reaching,

    /// Take the cluster down when the command has ended (`shoal down CLUSTER --yes`).
    #[arg(long, conflicts_with_all = ["tmux", "screen"])]
    pub stop: bool,

    /// On the node itself, or in its container.
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = Where::Auto)]
    pub run_env: Where,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// In the container, if the file has a `docker` block.
    Auto,
    Host,
    Docker,
}

impl From<Where> for RunEnv {
    fn from(place: Where) -> RunEnv {
        match place {
            Where::Auto => RunEnv::Auto,
            Where::Host => RunEnv::Host,
            Where::Docker => RunEnv::Docker,
        }
    }
}

const HELP: &str = "\
Exit codes:
  the command's own (128 + n if signal n ended it); with --all, that of the first node that failed
  1    no node runs, its provider cannot be asked, or --start or --stop failed
  2    the command line or the cluster file is wrong
  255  a node could not be reached, or the connection broke

Examples:
  shoal exec cluster.yaml 'nvidia-smi -L'
  shoal exec cluster.yaml --all 'df -h ~ | tail -1'
  tar c data | shoal exec cluster.yaml 'tar x -C /scratch'
  shoal exec cluster.yaml --tmux 'python train.py'     # later: shoal attach cluster.yaml --tmux
  shoal exec cluster.yaml -p 8888 'jupyter lab --no-browser --port 8888'";
