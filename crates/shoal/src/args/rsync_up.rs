//! `shoal rsync-up`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Put files of this machine onto a cluster's nodes.
///
/// Use it after changing code or data, instead of a whole `shoal up`. Without SRC and DST it sends all `file_mounts` of the cluster file; with them, as
/// `rsync SRC NODE:DST` does: a slash behind SRC means what is in it. Only what a node lacks is sent. With -A, large files travel from node to node,
/// so that your uplink carries them once.
///
/// With a fleet file that has `pools`, DST is a path on a persistent volume of the pool: below one of its `at`, or relative to the first. The files go
/// through a pod that lives as long as this command; what does not fit is refused before anything is sent.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,

    /// A file or folder of this machine.
    #[arg(value_name = "SRC", requires = "target")]
    pub source: Option<PathBuf>,

    /// Where it goes on the nodes; `~` is the home of who logs in.
    #[arg(value_name = "DST")]
    pub target: Option<String>,

    /// To the head and all workers; else to the head alone.
    #[arg(short = 'A', long)]
    pub all_nodes: bool,

    /// To this node alone, by its name or address.
    #[arg(long, value_name = "NODE", conflicts_with = "all_nodes")]
    pub node: Option<String>,

    /// The pool of a fleet file whose volume is meant; not needed where there is only one.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["all_nodes", "node"])]
    pub pool: Option<String>,

    /// Remove what is in the target folder and not in the source, as rsync's --delete; what is excluded stays.
    #[arg(long)]
    pub delete: bool,

    /// Leave out what matches, in rsync's patterns, besides the file's rsync_exclude. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,

    /// Stay, and send again whatever changes, until Ctrl-C.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,

    /// Send to every node from here; nodes pass nothing on to each other.
    #[arg(long)]
    pub direct: bool,

    /// Print one JSON object about all nodes.
    #[arg(long)]
    pub json: bool,
}

pub const HELP: &str = "\
Exit codes:
  0    everything is where it belongs
  1    no node got it
  2    the command line or the file is wrong
  3    no pod could be had that reaches the pool's volume
  4    some nodes got it, others did not; they are named
  130  stopped by Ctrl-C or SIGTERM

Examples:
  shoal rsync-up cluster.yaml
  shoal rsync-up cluster.yaml ./src/ '~/src/' -A --exclude '*.pyc'
  shoal rsync-up cluster.yaml -A --watch
  shoal rsync-up lab.yaml ./data/ /mnt/data/ --pool phoebe";
