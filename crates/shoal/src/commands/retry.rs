//! Lets runs that failed or were stopped start again.

use super::run::NotBegun;
use crate::args::retry::Args;
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::dry_run::count;
use crate::queue::target;
use serde_json::json;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    // All are looked up before any is touched: a slip in the last must not leave half of it done.
    let targets = args.targets.iter().map(|word| target::find(&mut queue, word)).collect::<Result<Vec<_>, _>>()?;
    let mut total = 0;
    for target in targets {
        let runs = queue.counted(&Request::Retry { target: target.clone() })?;
        if !args.json {
            eprintln!("shoal retry: {target}: {} will run again", count(runs, "run"));
        }
        total += runs;
    }
    if args.json {
        crate::say::line(json!({ "runs": total }));
    }
    Ok(Exit::Success.into())
}
