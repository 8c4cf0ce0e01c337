//! `shoal rsync-down`'s command line.

use super::cluster::Common;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Fetch files from a cluster's nodes to this machine.
///
/// Use it for results and logs. Without SRC and DST it fetches all `file_mounts` of the cluster file back to where they come from; with them, as `rsync
/// NODE:SRC DST` does: a slash behind SRC means what is in it. It asks the head; with -A every node, each into a folder of its own, DST/NODE/.
///
/// With a fleet file that has `pools`, SRC is a path on a persistent volume of the pool.
#[derive(Debug, ClapArgs)]
#[command(after_help = super::rsync_up::HELP)]
pub struct Args {
    #[command(flatten)]
    pub common: Common,

    /// A file or folder of the node; `~` is the home of who logs in.
    #[arg(value_name = "SRC", requires = "target", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub source: Option<String>,

    /// Where it goes on this machine.
    #[arg(value_name = "DST")]
    pub target: Option<PathBuf>,

    /// From the head and all workers, each into DST/NODE/.
    #[arg(short = 'A', long, requires = "source")]
    pub all_nodes: bool,

    /// From this node, by its name or address, instead of the head.
    #[arg(long, value_name = "NODE", conflicts_with = "all_nodes")]
    pub node: Option<String>,

    /// The pool of a fleet file whose volume is meant; not needed where there is only one.
    #[arg(long, value_name = "POOL", conflicts_with_all = ["all_nodes", "node"])]
    pub pool: Option<String>,

    /// Remove what is in DST and not in SRC; what is excluded stays.
    #[arg(long, requires = "source")]
    pub delete: bool,

    /// Leave out what matches, in rsync's patterns, besides the file's rsync_exclude. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,

    /// Print one JSON object about all nodes.
    #[arg(long)]
    pub json: bool,
}
