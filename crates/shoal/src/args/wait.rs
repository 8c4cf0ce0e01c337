//! `shoal wait`'s command line.

use clap::Args as ClapArgs;

/// Stay until everything of a sweep is done.
///
/// Use it in scripts, or to look at a sweep that was submitted without --wait. Ctrl-C leaves the sweep running.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The sweep.
    #[arg(value_name = "SWEEP")]
    pub sweep: String,

    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0    every configuration has its reps
  1    something failed or was stopped, and nothing runs any more
  2    the command line is wrong, or there is no such sweep
  3    the queue could not be reached
  4    nothing runs, and what is left cannot start as things are; it is said why, and it stays in the queue
  130  Ctrl-C; the sweep goes on

Examples:
  shoal wait mlp && shoal results mlp";
