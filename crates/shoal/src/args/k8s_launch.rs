//! `shoal k8s launch`'s command line.

use super::k8s::Common;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Start one run per name, GPU and seed from a template.
///
/// Use it instead of copying a YAML file for every GPU. Each run becomes a Job of its own (a finished run stays finished) with a seed in SHOAL_SEED
/// and a folder of its own in SHOAL_SAVE_PATH. It says how many pods and GPUs it will take and asks first. Nothing is ever overwritten, and launching
/// the same files again is harmless: what is there stays, what is missing is made.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The template: a ReplicaSet, Deployment, Job or Pod.
    #[arg(short = 'f', long = "file", value_name = "TEMPLATE")]
    pub template: PathBuf,

    /// The runs: names, nodes, GPUs and seeds.
    #[arg(short, long, value_name = "RUNS")]
    pub runs: PathBuf,

    #[command(flatten)]
    pub common: Common,

    /// Make objects of the template's own kind instead of Jobs. ReplicaSets and Deployments start their pods again for ever.
    #[arg(long)]
    pub keep_kind: bool,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,

    /// Print the YAML that would be applied, and go. No cluster is asked.
    #[arg(long)]
    pub dry_run: bool,

    /// How far to follow the runs.
    #[arg(long, value_enum, default_value_t = Wait::Started)]
    pub wait: Wait,

    /// Seconds to wait at most; the runs go on either way.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=2_592_000))]
    pub timeout: u64,

    /// Print the outcome as one JSON object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// Until every pod runs.
    Started,
    /// Until every run is over.
    Finished,
    /// Not at all.
    None,
}

const HELP: &str = "\
Exit codes:
  0  all runs have come as far as --wait says
  1  runs have failed
  2  the command line, the template or the runs are wrong, or something else is there under the same name
  3  the cluster cannot be reached, or does not let you
  4  some runs could not be made, or have not come that far; the last lines on stderr say which and why

Examples:
  shoal k8s launch -f multi-seed-template.yaml --runs runs.yaml --dry-run
  shoal k8s launch -f multi-seed-template.yaml --runs runs.yaml
  shoal k8s launch -f multi-seed-template.yaml --runs runs.yaml -y --wait finished --timeout 86400 --json";
