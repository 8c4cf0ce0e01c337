//! Goes on with what was paused or drained.

use super::pause;
use super::run::NotBegun;
use crate::args::resume::Args;
use crate::exit::Exit;
use serde_json::json;
use shoal_core::queue::event::Pausable;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let (mut queue, what) = pause::find(&args.what)?;
    queue.done(&Request::Resume { what: what.clone() })?;
    let (Pausable::Sweep(name) | Pausable::Host(name)) = &what;
    match args.json {
        true => crate::say::line(json!({ "resumed": name })),
        false => eprintln!("shoal resume: {name} goes on"),
    }
    Ok(Exit::Success.into())
}
