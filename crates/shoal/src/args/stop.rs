//! `shoal stop`'s command line.

use clap::Args as ClapArgs;
use shoal_core::rank::Rank;
use std::path::PathBuf;

/// End a run, on all its hosts, with everything its ranks have started.
///
/// Use it for a run that was started with --detach. Ranks are asked to end (SIGTERM) and, after the grace, made to. It returns when
/// nothing is left, or says what is stuck and where. Stopping a run that is over does nothing.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The run's id, as `shoal run --detach` printed it and `shoal ps` lists it.
    #[arg(value_name = "ID")]
    pub run: String,

    /// Only this rank: master, server0, worker1, ... The others go on.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<Rank>,

    /// Seconds between asking a rank to end and ending it.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub grace: u64,

    /// Look on the hosts of this fleet; not needed on the machine that launched the run.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
}

const HELP: &str = "\
Exit codes:
  0    nothing of it is left
  1    something is stuck; it is named
  2    the command line is wrong, or nobody knows this run
  255  some host could not be asked; hosts of one run tell each other, so it may have ended there all the same

Examples:
  shoal stop 261116-020304-a1b2c3
  shoal stop 261116-020304-a1b2c3 --grace 60
  shoal stop 261116-020304-a1b2c3 --rank worker3";
