//! Gives a host nothing more.

use super::run::NotBegun;
use crate::args::drain::Args;
use crate::exit::Exit;
use crate::queue::connect::{Queue, Start};
use crate::queue::dry_run::count;
use crate::queue::host;
use serde_json::json;
use shoal_core::queue::request::Request;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let row = host::find(&mut queue, &args.host)?;
    queue.done(&Request::Drain { host: row.name.clone() })?;
    if args.json {
        crate::say::line(json!({ "drained": row.name, "running": row.running }));
        return Ok(Exit::Success.into());
    }
    let rest = match row.running {
        0 => "it is empty".to_string(),
        1 => "1 run goes on there".into(),
        running => format!("{} go on there", count(running.into(), "run")),
    };
    eprintln!(
        "shoal drain: {}: nothing more starts; {rest}; `shoal resume --host {}` takes it back",
        row.name, row.name
    );
    Ok(Exit::Success.into())
}
