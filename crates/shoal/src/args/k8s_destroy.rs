//! `shoal k8s destroy`'s command line.

use super::k8s::Common;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// End a launch: return only when no pod, Job or set of it is left, or say what is and why.
///
/// Use it when you are done, so that GPUs are free for others. Only objects that `shoal k8s launch` made under this name are touched. What runs have
/// saved on the volume stays.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The template, for the launch's name and namespace; --name does without it.
    #[arg(short = 'f', long = "file", value_name = "TEMPLATE", required_unless_present = "name")]
    pub template: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,

    /// Do not ask.
    #[arg(short, long)]
    pub yes: bool,

    /// Print what would be removed, and go.
    #[arg(long)]
    pub dry_run: bool,

    /// Seconds that pods have to end after the signal. Without it, what the template gives them.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub grace: Option<u32>,

    /// Take pods off the list whose node is gone or does not answer. What runs there may still run.
    #[arg(long)]
    pub force: bool,

    /// Seconds until what is left is said to be stuck.
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,

    /// Print the outcome as one JSON object.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  nothing is left
  1  nothing was done
  2  the command line or the template is wrong
  3  the cluster cannot be reached, or does not let you
  4  something is left; the last lines on stderr say what and why

Examples:
  shoal k8s destroy -f multi-seed-template.yaml
  shoal k8s destroy --name worker-pods -y --grace 5";
