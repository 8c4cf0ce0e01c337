//! `shoal resume`'s command line.

use super::pause::What;
use clap::Args as ClapArgs;

/// Go on with a sweep or a host that was paused, or with a host that was drained.
///
/// Use it after `shoal pause`, after `shoal drain`, and when a host that failed everything it got has been mended.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub what: What,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  done
  1  the queue refused
  2  the command line is wrong, or there is no such sweep or host
  3  the queue could not be reached

Examples:
  shoal resume mlp
  shoal resume --host node3";
