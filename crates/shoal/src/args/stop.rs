//! `shoal stop`'s command line.

use clap::Args as ClapArgs;
use shoal_core::rank::Rank;
use std::path::PathBuf;

/// End a run, wherever it runs, with everything it has started; or all runs of a sweep.
///
/// Use it for sweeps, their configurations and runs (mlp, mlp:17, mlp:17.2), and for runs that were started with `shoal run --detach`. They are
/// asked to end (SIGTERM) and, after the grace, made to. For a detached run it returns when nothing is left, or says what is stuck and where.
/// Stopping a run that is over does nothing; `shoal retry` starts stopped runs of a sweep again.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// Sweeps, configurations or runs of the queue, or ids of detached runs.
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,

    /// Kill at once, without a grace.
    #[arg(long, conflicts_with = "grace")]
    pub now: bool,

    /// Of a detached run: only this rank: master, server0, worker1, ... The others go on.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<Rank>,

    /// Seconds between asking to end and ending [default: the sweep's own grace; 5 for a detached run].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub grace: Option<u32>,

    /// Of a detached run: look on the hosts of this fleet; not needed on the machine that launched the run.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,

    /// Print JSON: how many runs of the queue were stopped.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0    nothing of it is left; of a sweep: no more of it starts, and what runs was asked to end
  1    something is stuck; it is named
  2    the command line is wrong, or nobody knows this run
  3    the queue could not be reached
  255  some host could not be asked; hosts of one run tell each other, so it may have ended there all the same

Examples:
  shoal stop mlp
  shoal stop mlp:17.2 mlp:18
  shoal stop mlp --grace 120
  shoal stop 261116-020304-a1b2c3 --grace 60
  shoal stop 261116-020304-a1b2c3 --rank worker3";
