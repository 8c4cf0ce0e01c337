//! Prints the address of the head.

use super::run::NotBegun;
use crate::args::get_head_ip::Args;
use crate::cluster::crew::not_begun;
use crate::cluster::{file, provider};
use shoal_core::cluster::Role;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let cluster = file::read(&args.cluster.file, &args.cluster).map_err(NotBegun::Wrong)?;
    let nodes = provider::of(&cluster).and_then(|provider| provider.nodes()).map_err(not_begun)?;
    match nodes.iter().find(|node| node.role == Role::Head) {
        Some(head) => {
            crate::say::line(&head.host.address);
            Ok(ExitCode::SUCCESS)
        }
        None => Err(NotBegun::Here(format!("cluster {} has no head; is it up?", cluster.name))),
    }
}
