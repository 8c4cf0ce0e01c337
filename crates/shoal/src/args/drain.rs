//! `shoal drain`'s command line.

use clap::Args as ClapArgs;

/// Let a host finish what it runs and give it nothing more.
///
/// Use it before you switch a machine off. `shoal hosts` shows when it is empty; `shoal resume --host HOST` takes it back.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The host, as `shoal hosts` calls it.
    #[arg(value_name = "HOST")]
    pub host: String,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  done
  1  the queue refused
  2  the command line is wrong, or there is no such host
  3  the queue could not be reached

Examples:
  shoal drain node3";
