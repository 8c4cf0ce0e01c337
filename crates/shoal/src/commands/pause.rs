//! Starts no more runs of a sweep or on a host; or again.

use super::run::NotBegun;
use crate::args::pause::{Args, What};
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::{host, target};
use serde_json::json;
use shoal_core::queue::Target;
use shoal_core::queue::event::Pausable;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let (mut queue, what) = find(&args.what)?;
    queue.done(&Request::Pause { what: what.clone() })?;
    let (name, undo) = match &what {
        Pausable::Sweep(name) => (name, name.clone()),
        Pausable::Host(name) => (name, format!("--host {name}")),
    };
    match args.json {
        true => crate::say::line(json!({ "paused": name })),
        false => {
            eprintln!("shoal pause: {name}: nothing more starts; what runs goes on; `shoal resume {undo}` undoes it")
        }
    }
    Ok(Exit::Success.into())
}

/// What is meant, looked up in the queue.
pub fn find(what: &What) -> Result<(Queue, Pausable), NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let found = match (&what.sweep, &what.host) {
        (Some(word), _) => match target::find(&mut queue, word)? {
            Target::Sweep(name) => Pausable::Sweep(name),
            other => {
                let why = format!("{other} is one of many runs; a whole sweep is paused: {}", target::name_of(&other));
                return Err(NotBegun::Wrong(why));
            }
        },
        (None, Some(name)) => Pausable::Host(host::find(&mut queue, name)?.name),
        (None, None) => return Err(NotBegun::Wrong("neither a sweep nor a host is named".into())),
    };
    Ok((queue, found))
}
