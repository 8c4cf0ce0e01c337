//! `shoal k8s status`'s command line.

use super::k8s::Common;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Show how the runs of a launch are, and why those that do not run do not.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The template, for the launch's name and namespace; --name does without it.
    #[arg(short = 'f', long = "file", value_name = "TEMPLATE", required_unless_present = "name")]
    pub template: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Exit codes:
  0  shown
  1  nothing of this launch is there
  2  the command line or the template is wrong
  3  the cluster cannot be reached, or does not let you

Examples:
  shoal k8s status -f multi-seed-template.yaml
  shoal k8s status --name worker-pods --json | jq '.runs[] | select(.state == \"stuck\")'";
