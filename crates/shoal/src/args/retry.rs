//! `shoal retry`'s command line.

use clap::Args as ClapArgs;

/// Run again what failed or was stopped, and only that.
///
/// Use it after you have mended what made runs fail outside your code: a full disk, a missing package. With changed code, submit again under another
/// name, or stop and submit: a run starts with the code of its sweep's last submit.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// Sweeps (mlp), configurations (mlp:17) or runs (mlp:17.2).
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  done, also if nothing had failed
  1  the queue refused
  2  the command line is wrong, or there is no such sweep or run
  3  the queue could not be reached

Examples:
  shoal retry mlp
  shoal retry mlp:17 mlp:20.1";
