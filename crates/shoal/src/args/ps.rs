//! `shoal ps`'s command line.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// List runs: which live, which have ended and how.
///
/// Use it to see what became of `shoal run --detach`, from any machine that reaches the hosts. Without --fleet it looks on this
/// machine and on the hosts of detached runs that were launched from it.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// Look on the hosts of this fleet: shoal.yaml, a Poseidon JSON or a Ray cluster file.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,

    /// Also runs that ended more than a day ago.
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object, with every rank, its host, state and log.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
States:
  running   some rank lives
  finished  all workers ended with code 0
  failed    the first failure ended the run; it is named
  stopped   somebody stopped it
  lost      ranks are gone and nobody recorded how: the host was restarted, or their keeper killed
  unknown   hosts of the run did not answer

Exit codes:
  0    all hosts answered
  2    the command line or the fleet file is wrong
  255  some host could not be asked; it is named on stderr, and the others are listed

Examples:
  shoal ps
  shoal ps --fleet shoal.yaml --all";
