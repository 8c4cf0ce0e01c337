//! `shoal pause`'s and `shoal resume`'s command lines.

use clap::Args as ClapArgs;

/// Start no more runs of a sweep, or on a host. What runs goes on.
///
/// Use it to let others go first, or to keep a machine for yourself for an hour. `shoal resume` undoes it.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    #[command(flatten)]
    pub what: What,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// One of two things.
#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub struct What {
    /// The sweep.
    #[arg(value_name = "SWEEP")]
    pub sweep: Option<String>,

    /// The host, as `shoal hosts` calls it.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

const HELP: &str = "\
Exit codes:
  0  done
  1  the queue refused
  2  the command line is wrong, or there is no such sweep or host
  3  the queue could not be reached

Examples:
  shoal pause mlp
  shoal pause --host node3";
