//! Removes sweeps from the queue.

use super::run::NotBegun;
use crate::args::forget::Args;
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::target;
use serde_json::json;
use shoal_core::queue::Target;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let mut names = Vec::new();
    // All are looked up before any is forgotten: a slip in the last must not leave half of it done.
    for word in &args.sweeps {
        match target::find(&mut queue, word)? {
            Target::Sweep(name) => names.push(name),
            other => {
                let why =
                    format!("{other} is one of many runs; a whole sweep is forgotten: {}", target::name_of(&other));
                return Err(NotBegun::Wrong(why));
            }
        }
    }
    for name in &names {
        queue.done(&Request::Forget { sweep: name.clone() })?;
        if !args.json {
            eprintln!("shoal forget: {name}: the queue does not know it any more; its results stay");
        }
    }
    if args.json {
        crate::say::line(json!({ "forgotten": names }));
    }
    Ok(Exit::Success.into())
}
