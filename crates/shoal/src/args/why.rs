//! `shoal why`'s command line.

use clap::Args as ClapArgs;

/// Say why a run waits, failed or was stopped, and when it will probably start.
///
/// Use it when something does not start and you wonder whom to ask. The answer comes from the function that places runs, so it is the reason,
/// not a guess. Times to wait are estimates from runs that are over.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// A run (mlp:17.2), a configuration (mlp:17) or a sweep (mlp).
    #[arg(value_name = "RUN")]
    pub target: String,

    /// Print JSON, with a code for each reason.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  the reasons were printed
  1  the queue refused
  2  the command line is wrong, or there is no such run
  3  the queue could not be reached

Examples:
  shoal why mlp
  shoal why mlp:17.2";
