//! Takes a cluster down, or what is in the namespaces of pools.

use super::run::NotBegun;
use crate::args::down::Args;
use crate::cluster::confirm::confirm;
use crate::cluster::down::down;
use crate::cluster::file;
use crate::cluster::provider::End;
use crate::pools;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if let Some(pools) = pools::choose::all(&args.cluster, args.pool.as_deref())? {
        return pools::clear::run(args, &pools);
    }
    let cluster = file::read(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    let what = if args.workers_only || args.keep_min_workers { "workers of " } else { "" };
    confirm(&format!("take down {what}cluster {}: what runs there is ended?", cluster.name), args.yes)?;
    let how = End {
        workers_only: args.workers_only,
        keep_min_workers: args.keep_min_workers,
        keep_stopped: args.keep_stopped,
    };
    down(&cluster, how, args.json)
}
