//! Stays until a sweep is done.

use super::run::NotBegun;
use crate::args::wait::Args;
use crate::queue::connect::{Queue, Start};
use crate::queue::{target, wait};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut queue = Queue::open(Start::IfStore)?;
    let found = target::find(&mut queue, &args.sweep)?;
    drop(queue);
    wait::wait(target::name_of(&found), args.json)
}
