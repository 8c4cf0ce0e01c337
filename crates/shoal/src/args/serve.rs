//! `shoal serve`'s command line.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Keep a queue of sweeps for several machines, or several people.
///
/// Use it to share machines: on the lab's file server, or any machine that is always on, with a fleet file that names the others. Alone on one
/// machine you do not need it: `shoal sweep` starts a queue by itself. What was submitted is on disk before it is acknowledged; runs go on while
/// the daemon is away, and it finds them again.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The machines: shoal.yaml, a Poseidon JSON or a Ray cluster file. Without it, this machine alone.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,

    /// Where the queue lives [default: $SHOAL_STORE, else ~/.local/share/shoal/queue].
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,

    /// Also for people and agents elsewhere, over TLS, each with a token (see `shoal token`): 0.0.0.0:7420.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,

    /// A further name of this machine, for its certificate.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// As `shoal sweep` starts it: in the background, ending by itself when there is nothing to do.
    #[arg(long, conflicts_with_all = ["fleet", "listen"])]
    pub auto: bool,

    /// End the daemon of this store. Runs go on, and the next daemon finds them.
    #[arg(long, conflicts_with_all = ["auto", "fleet", "listen"])]
    pub stop: bool,

    /// With --stop: end all runs too, on all hosts. They are stopped, not lost: `shoal retry` starts them again.
    #[arg(long, requires = "stop")]
    pub stop_runs: bool,

    /// Print a systemd unit for this command line, and how to install it.
    #[arg(long, conflicts_with_all = ["stop", "auto"])]
    pub unit: bool,

    /// With --unit: for the agent on a host that calls this queue (shoal://host:port#fingerprint); users then need no shell there.
    #[arg(long, value_name = "QUEUE", requires = "unit", conflicts_with_all = ["fleet", "listen", "store"])]
    pub agent: Option<String>,
}

const HELP: &str = "\
What a fleet file can say for the queue, beside what `shoal run` reads, is its section `queue:`:
  queue:
    lost_after: 10m                  # a host silent for so long is lost; its runs start elsewhere
    results: /nfs/results            # where results go, unless a sweep says otherwise
    quotas: {bob: 8}                 # processes at once, at most
    hosts:
      big: {slots: 8, cpus: 32, memory: 64GiB}
      desk: {owner: alice, idle: 15m, grace: 60s}

Exit codes:
  0  it was told to end (SIGTERM, Ctrl-C, --stop)
  1  it failed; the last line says why
  2  the command line or the fleet file is wrong
  3  another daemon has this store, or nobody answers there (--stop)

Examples:
  shoal serve -f lab.yaml
  shoal serve -f lab.yaml --listen 0.0.0.0:7420
  shoal serve --stop
  shoal serve --unit -f /etc/shoal/lab.yaml --listen 0.0.0.0:7420 > shoal-queue.service";
