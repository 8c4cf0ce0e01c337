//! `shoal k8s doctor`'s command line.

use super::k8s::Common;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Check a cluster before it hurts: reach, rights, namespace, quotas, volume claims and nodes.
///
/// Use it on a new cluster, with a new kubeconfig, or when a launch was refused. It changes nothing.
#[derive(Debug, ClapArgs)]
#[command(after_help = HELP)]
pub struct Args {
    /// The template, for its namespace and its volume claims.
    #[arg(short = 'f', long = "file", value_name = "TEMPLATE")]
    pub template: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,

    /// Print all findings as one JSON object.
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
In the list: `!!` is red (launches will fail), `!` is yellow (works, but may surprise), `?` could not be looked at.

Exit codes:
  0  nothing is red
  1  something is red
  2  the command line or the template is wrong
  3  the cluster cannot be reached, or does not know you

Examples:
  shoal k8s doctor
  shoal k8s doctor -f multi-seed-template.yaml --json";
