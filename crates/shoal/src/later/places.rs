//! Which hosts are asked about runs? Those of `--fleet`; else those a run was launched on from here; else this machine.

use super::launched;
use crate::commands::fleet_file;
use crate::commands::run::NotBegun;
use shoal_core::fleet::{Fleet, Host};
use shoal_hosts::ssh::options;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A host to ask, and the fleet that says how it is reached.
#[derive(Debug, Clone)]
pub struct Place {
    pub fleet: Arc<Fleet>,
    pub host: Host,
}

/// For one run.
pub fn of_run(run: &str, fleet: Option<&Path>) -> Result<Vec<Place>, NotBegun> {
    if let Some(file) = fleet {
        return of_file(file);
    }
    Ok(launched::read(run).map_or_else(here, |launched| of_launched(&launched)))
}

/// For all runs: this machine and, without a fleet, where runs were launched from here. `all`: also those known to be over.
pub fn of_all(fleet: Option<&Path>, all: bool) -> Result<Vec<Place>, NotBegun> {
    if let Some(file) = fleet {
        return of_file(file);
    }
    let launched = launched::list().into_iter().filter(|l| all || !l.over);
    let places = here().into_iter().chain(launched.flat_map(|l| of_launched(&l)));
    let mut seen = BTreeSet::new();
    Ok(places.filter(|p| seen.insert(options::identity(&p.fleet, &p.host, None))).collect())
}

pub fn here() -> Vec<Place> {
    all_of(Fleet::local())
}

/// The hosts of these names.
pub fn named(fleet: &Fleet, names: &[String]) -> Vec<Place> {
    let fleet = Arc::new(fleet.clone());
    names.iter().filter_map(|name| Some(Place { host: fleet.host(name)?.clone(), fleet: fleet.clone() })).collect()
}

fn of_launched(launched: &launched::Launched) -> Vec<Place> {
    named(&launched.fleet(), &launched.hosts)
}

fn of_file(file: &Path) -> Result<Vec<Place>, NotBegun> {
    fleet_file::read(file).map(all_of).map_err(NotBegun::Wrong)
}

/// All but those that others are only reached through.
fn all_of(fleet: Fleet) -> Vec<Place> {
    let placed = &fleet.placement;
    let named = |name: &String| placed.master.iter().chain(&placed.servers).chain(&placed.workers).any(|n| n == name);
    let hosts: Vec<Host> = fleet.hosts.iter().filter(|h| h.slots.ranks > 0 || named(&h.name)).cloned().collect();
    let fleet = Arc::new(fleet);
    hosts.into_iter().map(|host| Place { fleet: fleet.clone(), host }).collect()
}
