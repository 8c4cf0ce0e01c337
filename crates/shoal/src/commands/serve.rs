//! Runs the queue's daemon, ends one, or prints a unit for one.

use super::fleet_file;
use super::run::NotBegun;
use crate::args::serve::Args;
use crate::exit::Exit;
use crate::queue::connect::{self, Queue};
use crate::queue::reach::{Ssh, write_way};
use crate::queue::unit;
use shoal_core::fleet::queue::{self, OfAll};
use shoal_core::queue::host::HostPolicy;
use shoal_core::queue::request::Request;
use shoal_daemon::queue::places::Store;
use shoal_daemon::queue::serve::{self, Options};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// As long as a client may take to start one.
const STARTING: Duration = Duration::from_secs(30);

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
    if let Some(file) = &args.fleet {
        let (hosts, of_all) = said(file)?;
        if let Some(folder) = of_all.results.as_deref() {
            super::sweep::look_at_results("shoal serve", folder)?;
        }
        (options.hosts, options.of_all) = (hosts, Some(of_all));
    }
    // Held as long as we serve: who finds no daemon meanwhile waits for this one, instead of starting another in its place.
    let _starting = if args.auto { None } else { take_over(&options.store)? };
    let ssh = Ssh::of(&options.store.root);
    let ended = serve::main(options, ssh);
    ended.map_err(connect::serving)?;
    Ok(Exit::Success.into())
}

/// A daemon that a client started because none was there must not keep away the one that somebody means to run. Its runs go on, and the
/// next daemon finds them. The lock is that of whoever starts one.
fn take_over(store: &Store) -> Result<Option<File>, NotBegun> {
    let cannot = |e: std::io::Error| NotBegun::Here(format!("{}: {e}", store.starting().display()));
    store.make().map_err(cannot)?;
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(store.starting());
    let starting = open.map_err(cannot)?;
    let end = Instant::now() + STARTING;
    let is_meant = |holder: serve::Holder| !holder.auto || holder.host != shoal_daemon::proc::node_name();
    while let Err(TryLockError::WouldBlock) = starting.try_lock() {
        // That one holds it as long as it serves; whoever comes second is told by whom.
        if serve::holder(store).is_some_and(is_meant) {
            return Ok(None);
        }
        if Instant::now() > end {
            let why = "somebody else is starting a daemon there and does not get on";
            return Err(NotBegun::CannotStart(format!("{}: {why}", store.root.display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if serve::holder(store).is_some_and(|holder| !is_meant(holder)) {
        if let Some(mut queue) = Queue::of(store)? {
            eprintln!("shoal serve: takes over from the daemon that shoal had started by itself");
            queue.done(&Request::Shutdown { stop_runs: false })?;
        }
        connect::until_gone(store)?;
    }
    Ok(Some(starting))
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

/// What a fleet file says of its hosts, and of the queue as a whole.
fn said(file: &Path) -> Result<(Vec<HostPolicy>, OfAll), NotBegun> {
    let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
    let text = fleet_file::text_of(file).map_err(NotBegun::Wrong)?;
    let name = file.display().to_string();
    let found = queue::policies(&name, &text, &fleet, write_way);
    let policies = found.map_err(|errors| NotBegun::Wrong(errors.to_string()))?;
    let of_all = queue::of_all(&name, &text, &fleet).map_err(|errors| NotBegun::Wrong(errors.to_string()))?;
    if policies.is_empty() {
        return Err(NotBegun::Wrong(format!("{} has no host with slots, and no pool", file.display())));
    }
    Ok((policies, of_all))
}
