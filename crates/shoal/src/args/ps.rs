//! `shoal ps`'s command line.

use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// List what runs: the sweeps of the queue, and runs that were started with `shoal run --detach`.
///
/// Use it to see how far a sweep is and when it will be done, and what became of a detached run. With a sweep's name it lists the sweep's
/// runs. Without --fleet it looks for detached runs on this machine and on the hosts of those that were launched from it.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The runs of this sweep (mlp), of one configuration (mlp:17), or one run (mlp:17.2).
    #[arg(value_name = "SWEEP")]
    pub target: Option<String>,

    /// Only runs of the queue in this state.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<State>,

    /// Only runs of the queue that are on this host; with a sweep, --state or --all also those that ended there.
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,

    /// Only sweeps and runs of this user.
    #[arg(long, value_name = "USER")]
    pub owner: Option<String>,

    /// Count the queue's runs instead of listing them; by host only those that run, unless a sweep, --state or --all is given.
    #[arg(long, value_name = "WHAT")]
    pub group_by: Option<Group>,

    /// Only the queue's sweeps: no host is asked for detached runs.
    #[arg(long, conflicts_with_all = ["target", "state", "host", "group_by", "fleet"])]
    pub sweeps: bool,

    /// Look on the hosts of this fleet for detached runs: shoal.yaml, a Poseidon JSON or a Ray cluster file.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,

    /// Also sweeps and runs that ended more than a day ago, and of long lists everything.
    #[arg(long)]
    pub all: bool,

    /// Print one JSON object, with everything that is known.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    Waiting,
    Running,
    Finished,
    Failed,
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Group {
    Sweep,
    Host,
    State,
}

const HELP: &str = "\
States of detached runs:
  running   some rank lives
  finished  all workers ended with code 0
  failed    the first failure ended the run; it is named
  stopped   somebody stopped it
  lost      ranks are gone and nobody recorded how: the host was restarted, or their keeper killed
  unknown   hosts of the run did not answer

Without a sweep's name it starts no daemon; with one, or with --all, it does. Where none answers, `queue` of --json says why: `state` is
`answers`, `none` (there never was one here), `asleep` (it went with nothing left to do), `stopped` (it was told to end while there was work),
`gone` (it was killed) or `unreached`. In the last three cases nobody knows what there is: `sweeps` is null, and the exit code 3.

Exit codes:
  0    the queue, if there is one, and all hosts answered
  2    the command line or the fleet file is wrong, or there is no such sweep
  3    the queue does not answer: its daemon was killed, or stopped while there was work, or cannot be reached
  255  some host could not be asked; it is named on stderr, and the others are listed

Examples:
  shoal ps
  shoal ps mlp --state failed
  shoal ps --group-by host
  shoal ps --fleet shoal.yaml --all";
