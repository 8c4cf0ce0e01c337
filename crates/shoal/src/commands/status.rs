//! Shows the nodes of a cluster, or what is in the namespaces of pools.

use super::run::NotBegun;
use crate::args::status::Args;
use crate::cluster::{file, status};
use crate::pools;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if let Some(pools) = pools::choose::all(&args.cluster, args.pool.as_deref())? {
        return pools::show::run(args, &pools);
    }
    let cluster = file::read_aloud(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    status::status(&cluster, args.json)
}
