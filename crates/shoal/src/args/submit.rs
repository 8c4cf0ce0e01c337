//! `shoal submit`'s command line.

use super::cluster::Common;
use super::reaching::Reaching;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Copy a Python script to the head of a cluster and run it there.
///
/// Use it for one script that needs nothing but what the cluster has already: it arrives as ~/NAME and runs as `python ~/NAME ARGS`. For a folder of code use `file_mounts`
/// or `shoal rsync-up`; for a gang on many machines, `shoal run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub cluster: Common,

    /// The script on this machine.
    #[arg(value_name = "SCRIPT")]
    pub script: PathBuf,

    #[command(flatten)]
    pub reaching: Reaching,

    /// Take the cluster down when the script has ended (`shoal down CLUSTER --yes`).
    #[arg(long, conflicts_with_all = ["tmux", "screen"])]
    pub stop: bool,

    /// Arguments as one text for the node's shell: Ray's older way.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "script_args")]
    pub args: Option<String>,

    /// Arguments of the script.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub script_args: Vec<String>,
}

const HELP: &str = "\
Exit codes:
  the script's own (128 + n if signal n ended it)
  2    the command line or the cluster file is wrong, or there is no such script
  255  the node could not be reached, or the connection broke

Examples:
  shoal submit cluster.yaml train.py -- --lr 0.1 --out ~/runs
  shoal submit cluster.yaml --start --stop train.py
  shoal submit cluster.yaml --tmux train.py     # later: shoal attach cluster.yaml --tmux";
