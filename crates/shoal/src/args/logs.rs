//! `shoal logs`'s command line.

use clap::Args as ClapArgs;
use shoal_core::rank::Rank;
use std::path::PathBuf;

/// Show what the ranks of a run have written, or follow it while they write.
///
/// Use it for a run that was started with --detach, or for one that is over: the hosts keep the logs. Ctrl-C leaves the run alone.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The run's id, as `shoal run --detach` printed it and `shoal ps` lists it.
    #[arg(value_name = "ID")]
    pub run: String,

    /// Go on until the run is over.
    #[arg(short = 'f', long)]
    pub follow: bool,

    /// Only this rank, byte for byte: master, server0, worker1, ...
    #[arg(long, value_name = "RANK")]
    pub rank: Option<Rank>,

    /// Look on the hosts of this fleet; not needed on the machine that launched the run.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
}

const HELP: &str = "\
Without --rank, all ranks are shown, each line with its rank in front.

Exit codes:
  0    all of it was shown
  1    some log could not be read
  2    the command line is wrong, or nobody knows this run
  255  some host could not be asked, or was lost

Examples:
  shoal logs -f 261116-020304-a1b2c3
  shoal logs 261116-020304-a1b2c3 --rank worker1 > worker1.log";
