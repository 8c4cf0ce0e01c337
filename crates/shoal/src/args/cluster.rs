//! What every verb on a cluster file is asked: which file, and what fills it in.

use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct Common {
    /// The cluster file: Ray's YAML, of today or of 2020; for files, shells, `down` and `status` also a fleet file with `pools`.
    #[arg(value_name = "CLUSTER")]
    pub file: PathBuf,
    /// The cluster's name, instead of the file's.
    #[arg(short = 'n', long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Fill in a slot of the file: --set 'AMI ID=ami-0123' for { AMI ID }. May be given several times.
    #[arg(long, value_name = "SLOT=VALUE", value_parser = shoal_core::cluster::read::values::assignment)]
    pub set: Vec<(String, String)>,
    /// Fill in slots from a file: a YAML map of names and values. --set comes before it.
    #[arg(long, value_name = "FILE")]
    pub values: Option<PathBuf>,
}
