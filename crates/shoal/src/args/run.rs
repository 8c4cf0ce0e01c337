//! `shoal run`'s command line.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Run one command as a gang: workers, servers and a master over the hosts of a fleet.
///
/// Use it to train one model on several machines. Every worker gets SHOAL_MASTER_ADDRESS, SHOAL_CLIENT_ID and SHOAL_NUM_WORKERS
/// for `import shoal`, and RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT for torchrun-style scripts. The first failure ends
/// all of them; nothing is left on any host.
#[derive(Debug, ClapArgs)]
#[command(after_help = RUN_HELP)]
pub struct Args {
    /// The fleet: shoal.yaml, a Poseidon JSON or a Ray cluster file. Without it, this machine alone.
    #[arg(short = 'f', long = "fleet", value_name = "FILE")]
    pub fleet: Option<PathBuf>,

    /// Fill in a slot of a cluster file: --set 'AMI ID=ami-0123' for { AMI ID }. May be given several times.
    #[arg(long, value_name = "SLOT=VALUE", requires = "fleet", value_parser = shoal_core::cluster::read::values::assignment)]
    pub set: Vec<(String, String)>,

    /// Fill in slots of a cluster file from a file: a YAML map of names and values. --set comes before it.
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub values: Option<PathBuf>,

    /// Number of workers [default: one for every slot of the fleet].
    #[arg(short = 'n', long = "workers", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: Option<u32>,

    /// Number of parameter servers [default: none, the workers sum by themselves].
    #[arg(long, value_name = "N")]
    pub servers: Option<u32>,

    /// Only on these hosts or groups, or on this pool: a part of a Kubernetes cluster. A fleet of one pool alone needs no --on.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub on: Vec<String>,

    /// Set a variable for every worker.
    #[arg(long, value_name = "K=V", value_parser = key_value)]
    pub env: Vec<(String, String)>,

    /// Where workers run [default: the fleet's shared folder, else this folder].
    #[arg(long, value_name = "FOLDER")]
    pub cwd: Option<String>,

    /// Where logs go, here and on every host.
    #[arg(short = 'o', long, value_name = "FOLDER", default_value = "logs")]
    pub out: PathBuf,

    /// Start no ps_master: for programs that do not use shoal.
    #[arg(long)]
    pub no_master: bool,

    /// Append --distributed, --master_address and --client_id to the command, as psd_run does.
    #[arg(long, conflicts_with = "no_master")]
    pub flags: bool,

    /// Allow more workers on a host than it has slots.
    #[arg(long)]
    pub oversubscribe: bool,

    /// On a pool: GPUs of each worker.
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,

    /// On a pool: memory that each worker may use, such as 16G.
    #[arg(long, value_name = "SIZE", value_parser = crate::queue::amounts::bytes)]
    pub memory: Option<u64>,

    /// On a pool: seconds until all pods have to be up; else none of them is started.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub wait: u64,

    /// Seconds between asking a rank to end and ending it.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub grace: u64,

    /// Print the whole plan and start nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// Return once all ranks have started, and print the run's id for `shoal ps`, `shoal logs` and `shoal stop`. The run survives
    /// this machine, unless this machine is one of its hosts.
    #[arg(long)]
    pub detach: bool,

    /// Show all output, each line with its rank in front.
    #[arg(short, long)]
    pub verbose: bool,

    /// Print events as JSON, one object a line.
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,

    /// The command and its arguments, after `--`.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub const RUN_HELP: &str = "\
Exit codes:
  0        all ranks finished
  1..255   the exit code of the first rank that failed
  126      a rank could not be started
  128+N    a rank was ended by signal N (137: often out of memory)
  130      stopped by Ctrl-C or SIGTERM
  255      a host could not be reached, or was lost
  3        a pool's cluster could not be reached, or refuses it
  2        the command line or the fleet file is wrong

Ctrl-C once ends the ranks in order, twice kills them.

Examples:
  shoal run -n 4 -- python train.py
  shoal run -f shoal.yaml --servers 2 -- python train.py --epochs 10
  shoal run -f shoal.yaml --dry-run -- python train.py
  shoal run -f lab.yaml --on POOL -n 4 --gpus 1 -- python train.py";

pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
