//! Runs the queue's daemon, ends one, or prints a unit for one.

use super::fleet_file;
use super::run::NotBegun;
use crate::args::serve::Args;
use crate::exit::Exit;
use crate::queue::connect::{self, Queue};
use crate::queue::reach::{Ssh, write_way};
use crate::queue::unit;
use shoal_core::fleet::queue;
use shoal_core::queue::host::HostPolicy;
use shoal_core::queue::request::Request;
use shoal_daemon::queue::places::Store;
use shoal_daemon::queue::serve::{self, Options};
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if args.unit {
        crate::say::out(unit::text(args)?);
        return Ok(Exit::Success.into());
    }
    let store = store(args)?;
    if args.stop {
        return stop(args, &store);
    }
    let mut options = Options::new(store);
    options.listen = args.listen.iter().cloned().collect();
    options.names = args.name.iter().cloned().collect();
    options.auto = args.auto;
    options.foreground = !args.auto;
    options.hosts = match &args.fleet {
        Some(file) => policies(file)?,
        None => Vec::new(),
    };
    if !args.auto {
        take_over(&options.store)?;
    }
    let ended = serve::main(options, Ssh::new());
    ended.map_err(connect::serving)?;
    Ok(Exit::Success.into())
}

/// A daemon that a client started because none was there must not keep away the one that somebody means to run. Its runs go on, and the
/// next daemon finds them.
fn take_over(store: &Store) -> Result<(), NotBegun> {
    if !serve::holder(store).is_some_and(|holder| holder.auto && holder.host == shoal_daemon::proc::node_name()) {
        return Ok(());
    }
    if let Some(mut queue) = Queue::of(store)? {
        eprintln!("shoal serve: takes over from the daemon that shoal had started by itself");
        queue.done(&Request::Shutdown { stop_runs: false })?;
    }
    connect::until_gone(store)
}

fn store(args: &Args) -> Result<Store, NotBegun> {
    match &args.store {
        Some(folder) => Ok(Store::at(folder)),
        None => connect::usual_store(),
    }
}

fn stop(args: &Args, store: &Store) -> Result<ExitCode, NotBegun> {
    let Some(mut queue) = Queue::of(store)? else {
        return Err(NotBegun::CannotStart(format!("no daemon has {}", store.root.display())));
    };
    queue.done(&Request::Shutdown { stop_runs: args.stop_runs })?;
    connect::until_gone(store)?;
    let rest = if args.stop_runs { "all runs were ended" } else { "runs go on, and the next daemon finds them" };
    eprintln!("shoal serve: the daemon of {} has ended; {rest}", store.root.display());
    Ok(Exit::Success.into())
}

fn policies(file: &Path) -> Result<Vec<HostPolicy>, NotBegun> {
    let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
    let text = fleet_file::text_of(file).map_err(NotBegun::Wrong)?;
    let found = queue::policies(&file.display().to_string(), &text, &fleet, write_way);
    let policies = found.map_err(|errors| NotBegun::Wrong(errors.to_string()))?;
    if policies.is_empty() {
        return Err(NotBegun::Wrong(format!("{} has no host with slots", file.display())));
    }
    Ok(policies)
}
