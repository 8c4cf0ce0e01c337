//! `shoal doctor`'s command line.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Check a fleet before it hurts: every host, and the ways between them.
///
/// Use it on a new fleet file, after something changed in the lab, and before a long run. It looks at the way in (address, host
/// key, your key, shell, sessions), at each host (shoal, clock, Python, disk, memory, GPUs, ports, limits) and at every pair of hosts (reach, round
/// trip, bandwidth), at each pool (cluster, rights, quota, volume, nodes), and says what to do about whatever is red. It changes nothing on hosts; shoal itself is put into ~/.cache/shoal where it is missing.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The fleet: shoal.yaml, a Poseidon JSON or a Ray cluster file. Without it, this machine alone.
    #[arg(value_name = "FLEET")]
    pub fleet: Option<PathBuf>,

    /// Seconds that one host may take, apart from the ways between hosts.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,

    /// Start a short-lived pod in each pool: is the image there, does it run, and is `here` the claim's volume?
    #[arg(long)]
    pub pods: bool,

    /// Print all findings and what hosts said about themselves as one JSON object.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
In the table: `!!` is red (runs will fail), `!` is yellow (works, but may surprise), `-` could not be looked at.

Exit codes:
  0    nothing is red
  1    something is red
  2    the command line or the fleet file is wrong
  130  stopped by Ctrl-C or SIGTERM

Examples:
  shoal doctor
  shoal doctor shoal.yaml
  shoal doctor shoal.yaml --json | jq '.hosts[].findings[] | select(.level == \"red\")'";
