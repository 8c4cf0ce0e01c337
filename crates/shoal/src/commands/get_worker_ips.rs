//! Prints the addresses of the workers.

use super::run::NotBegun;
use crate::args::get_worker_ips::Args;
use crate::cluster::crew::not_begun;
use crate::cluster::{file, provider};
use shoal_core::cluster::Role;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let cluster = file::read(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    let nodes = provider::of(&cluster).and_then(|provider| provider.nodes()).map_err(not_begun)?;
    let workers = nodes.iter().filter(|node| node.role == Role::Worker);
    workers.for_each(|worker| crate::say::line(&worker.host.address));
    Ok(ExitCode::SUCCESS)
}
