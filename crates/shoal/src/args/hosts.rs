//! `shoal hosts`'s command line.

use clap::Args as ClapArgs;

/// Show the queue's hosts: what they have, what runs there, who sits there.
///
/// Use it to see whether a machine is there at all, why it takes no runs, or how loaded it is.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// Take this host out of the queue. It has to be empty (`shoal drain`), unless --lost.
    #[arg(long, value_name = "HOST")]
    pub remove: Option<String>,

    /// With --remove: the machine will not come back; what ran there starts elsewhere. Only if you know that nothing of it lives.
    #[arg(long, requires = "remove")]
    pub lost: bool,

    /// Print JSON, with everything that is known.
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
  shoal hosts
  shoal hosts --remove node3 --lost";
