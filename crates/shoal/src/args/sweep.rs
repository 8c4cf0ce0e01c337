//! `shoal sweep`'s command line.

use super::run::key_value;
use crate::queue::amounts;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Run one program with many configurations: a grid, a list, each as often as you like.
///
/// Use it for experiments: every configuration becomes a run in a queue that keeps your machines busy, survives restarts and loses nothing.
/// Your code is copied when you submit, so you may go on editing. Submitting the same again tops up: only what is missing runs, what failed or was stopped included. On one
/// machine there is nothing to set up; for a lab see `shoal serve`.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The sweep's file (YAML): parameters, command, resources.
    #[arg(value_name = "FILE", conflicts_with_all = ["grid", "zip", "set", "when", "from_json"])]
    pub file: Option<PathBuf>,

    /// A parameter and its values; several make a grid: --grid lr=0.1,0.01 --grid width=64,256.
    #[arg(long, value_name = "NAME=V,V,...")]
    pub grid: Vec<String>,

    /// Parameters that move together: --zip width=64,256 --zip depth=2,4 makes two configurations, not four.
    #[arg(long, value_name = "NAME=V,V,...")]
    pub zip: Vec<String>,

    /// A parameter that is the same in all configurations: --set dropout=0.1.
    #[arg(long, value_name = "NAME=V")]
    pub set: Vec<String>,

    /// Leave out configurations for which this is not so: --when 'width < 128 or lr == 0.01'.
    #[arg(long, value_name = "CONDITION")]
    pub when: Vec<String>,

    /// The fields of a sweep's file as JSON, from a program; `-` reads stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grid", "zip", "set", "when"])]
    pub from_json: Option<PathBuf>,

    /// The sweep's name [default: the file's, if it says something; else the folder's].
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<String>,

    /// Until every configuration has finished so often; rep k gets the seed `seed + k`.
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub reps: Option<u32>,

    /// The first seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// From -1000 to 1000; higher goes first [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1000..=1000))]
    pub priority: Option<i32>,

    /// GPUs for one run; parts of one are allowed: 0.25 puts four runs on a device.
    #[arg(long, value_name = "N", value_parser = amounts::gpus)]
    pub gpus: Option<u32>,

    /// Memory on the GPU for one run: 4G.
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    pub gpu_memory: Option<u64>,

    /// CPUs for one run [default: 1].
    #[arg(long, value_name = "N", value_parser = amounts::cpus)]
    pub cpus: Option<u32>,

    /// Memory for one run: 2G.
    #[arg(long, value_name = "SIZE", value_parser = amounts::bytes)]
    pub memory: Option<u64>,

    /// A run may take so long: 90s, 30m, 12h, 2d.
    #[arg(long, value_name = "TIME", value_parser = amounts::seconds)]
    pub time_limit: Option<u64>,

    /// From asking a run to end (SIGTERM) to ending it [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = amounts::seconds)]
    pub grace: Option<u64>,

    /// Further attempts for a run that fails. A host that dies costs none.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub retries: Option<u32>,

    /// Only on these hosts or groups.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub on: Vec<String>,

    /// Start when these sweeps are complete.
    #[arg(long, value_name = "SWEEP", value_delimiter = ',')]
    pub after: Vec<String>,

    /// Where complete results go: a folder that all hosts see [default: the queue's store].
    #[arg(long, value_name = "FOLDER")]
    pub results: Option<String>,

    /// How parameters reach the program, beside {name} in its arguments: flags, env, file, none.
    #[arg(long, value_name = "WAY", value_delimiter = ',')]
    pub pass: Vec<Way>,

    /// Set a variable for every run.
    #[arg(long, value_name = "K=V", value_parser = key_value)]
    pub env: Vec<(String, String)>,

    /// The source to copy, instead of this folder; may be given several times.
    #[arg(long, value_name = "PATH", conflicts_with = "no_source")]
    pub source: Vec<PathBuf>,

    /// Copy nothing: runs start in this folder as it is then. For one machine, or a folder that all hosts see.
    #[arg(long)]
    pub no_source: bool,

    /// Data that runs find under the same name in their folder; may be given several times. Nothing is left out by .gitignore.
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,

    /// Print the configurations and what would be sent; submit nothing.
    #[arg(long, conflicts_with = "wait")]
    pub dry_run: bool,

    /// With --dry-run: all configurations, not only the first 20.
    #[arg(long, requires = "dry_run")]
    pub all: bool,

    /// With --dry-run: the Jobs that the pools of this fleet file would run it as, in YAML.
    #[arg(long, value_name = "FLEET", requires = "dry_run", conflicts_with = "json")]
    pub pool: Option<PathBuf>,

    /// Stay until everything is done. Ctrl-C leaves the sweep running.
    #[arg(short = 'w', long)]
    pub wait: bool,

    /// Print the JSON Schema of a sweep's file, for editors, and do nothing else.
    #[arg(long, exclusive = true)]
    pub schema: bool,

    /// Print JSON: one object, or with --wait one object a line.
    #[arg(long)]
    pub json: bool,

    /// The command and its arguments, after `--`. A file says its own.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["file", "from_json"])]
    pub command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// --name value behind the command.
    Flags,
    /// SHOAL_PARAM_name.
    Env,
    /// param2val.yaml and params.json in the run's folder.
    File,
    /// Only {name} in the command.
    None,
}

const HELP: &str = "\
Without --pass, parameters go as flags unless the command has a {name} of one of them. A run also finds {seed}, {rep}, {run} and {run_dir},
and SHOAL_SEED, SHOAL_REP, SHOAL_RUN, SHOAL_RUN_DIR in its environment. What it leaves in its folder is its result.

Exit codes:
  0  submitted; with --wait: every configuration has its reps
  1  the queue refused it; with --wait: something failed or was stopped, and nothing runs any more
  2  the command line or the file is wrong
  3  the queue could not be reached or started
  4  with --wait: nothing runs, and what is left cannot start as things are (no host has what it needs, or what it comes after has failed);
     it is said why, and it stays in the queue
  130  with --wait: Ctrl-C; the sweep goes on

Examples:
  shoal sweep --grid lr=0.1,0.01 --grid width=64,256 --reps 3 -- python train.py
  shoal sweep --grid lr=0.1,0.01 -- python train.py --rate {lr} --seed {seed}
  shoal sweep sweep.yaml --dry-run
  shoal sweep sweep.yaml --wait
  shoal sweep --schema > sweep.schema.json";
