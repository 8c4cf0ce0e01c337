//! `shoal forget`'s command line.

use clap::Args as ClapArgs;

/// Remove a sweep from the queue. Its results stay where they are.
///
/// Use it when a list gets long, or to start a sweep anew under the same name: what had finished is not known any more, and runs again when it is
/// submitted. Nothing of it may run (`shoal stop`). Numbers of configurations begin at 0 again, so move old results away first.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The sweeps.
    #[arg(value_name = "SWEEP", required = true)]
    pub sweeps: Vec<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  forgotten
  1  the queue refused: something of it runs
  2  the command line is wrong, or there is no such sweep
  3  the queue could not be reached

Examples:
  shoal stop mlp && shoal forget mlp";
