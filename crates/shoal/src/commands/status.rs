//! Shows the nodes of a cluster.

use super::run::NotBegun;
use crate::args::status::Args;
use crate::cluster::{file, status};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let cluster = file::read_aloud(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    status::status(&cluster, args.json)
}
