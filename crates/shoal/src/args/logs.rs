//! `shoal logs`'s command line.

use clap::Args as ClapArgs;
use shoal_core::rank::Rank;
use std::path::PathBuf;

/// Show what a run has written, or follow it while it writes.
///
/// Use it for a run of a sweep (mlp:17.2), wherever it runs; and for a run that was started with `shoal run --detach`. Those that are over are
/// shown too: the hosts keep the logs. Ctrl-C leaves the run alone.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// A run of a sweep: mlp:17.2 (mlp:17 is its first rep); or the id of a detached run, as `shoal run --detach` printed it.
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Go on until the run is over.
    #[arg(short = 'f', long)]
    pub follow: bool,

    /// Of a run of a sweep: this attempt, from 1 [default: the last].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,

    /// Only this rank, byte for byte: of a detached run master, server0, worker1, ...; of a gang of the queue worker0 (the default), worker1, ...
    #[arg(long, value_name = "RANK")]
    pub rank: Option<Rank>,

    /// Of a detached run: look on the hosts of this fleet; not needed on the machine that launched the run.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
}

const HELP: &str = "\
A run of a sweep is shown byte for byte. Of a detached run without --rank, all ranks are shown, each line with its rank in front.

Exit codes:
  0    all of it was shown
  1    some log could not be read
  2    the command line is wrong, or nobody knows this run
  3    the queue could not be reached
  255  some host could not be asked, or was lost

Examples:
  shoal logs -f mlp:17.2
  shoal logs gang:0.0 --rank worker1
  shoal logs -f 261116-020304-a1b2c3
  shoal logs 261116-020304-a1b2c3 --rank worker1 > worker1.log";
