//! Shows the queue's hosts, or takes one out.

use super::run::NotBegun;
use crate::args::hosts::Args;
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::{host, lists, table, times};
use serde_json::json;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    if let Some(name) = &args.remove {
        let row = host::find(&mut queue, name)?;
        queue.done(&Request::RemoveHost { name: row.name.clone(), lost: args.lost })?;
        match args.json {
            true => crate::say::line(json!({ "removed": row.name })),
            false => eprintln!("shoal hosts: {} is no host of the queue any more", row.name),
        }
        return Ok(Exit::Success.into());
    }
    let rows = queue.hosts()?;
    match args.json {
        true => crate::say::line(json!({ "hosts": rows })),
        false => crate::say::out(lists::hosts(&rows, times::now(), table::width())),
    }
    Ok(Exit::Success.into())
}
