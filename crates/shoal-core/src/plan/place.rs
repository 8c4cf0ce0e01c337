//! Which rank goes on which host?
//!
//! Workers go where the fleet's file lists them, in that order; else each host is filled to its slots before the next, so
//! that neighbours in number are neighbours in space. Slots bound workers: the master and the servers sit beside them.

use super::gang::PlanError;
use super::spec::RunSpec;
use crate::fleet::{Fleet, Host, Reach, Slots};
use crate::suggest::closest;
use std::collections::BTreeMap;

/// As many as the engine can number.
pub const MOST_WORKERS: u32 = 65_534;

pub(super) struct Placed<'f> {
    pub master: Option<&'f Host>,
    pub servers: Vec<&'f Host>,
    pub workers: Vec<&'f Host>,
}

pub(super) fn place<'f>(fleet: &'f Fleet, spec: &RunSpec) -> Result<Placed<'f>, PlanError> {
    for wanted in &spec.on {
        let known = || fleet.hosts.iter().map(|host| host.name.as_str()).chain(fleet.groups());
        if !known().any(|name| name == wanted) {
            let suggestion = closest(wanted, known()).map(Into::into);
            return Err(PlanError::UnknownGroup { name: wanted.clone(), suggestion });
        }
    }
    let chosen = |host: &&Host| {
        spec.on.is_empty() || spec.on.iter().any(|wanted| *wanted == host.name || host.groups.contains(wanted))
    };
    let hosts: Vec<&Host> = fleet.hosts.iter().filter(chosen).collect();
    let by_name: BTreeMap<&str, &'f Host> = fleet.hosts.iter().map(|host| (host.name.as_str(), host)).collect();
    let find = |name: &String| by_name.get(name.as_str()).copied().ok_or_else(|| PlanError::UnknownHost(name.clone()));
    let listed = |names: &[String]| -> Result<Vec<&'f Host>, PlanError> {
        let found = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        Ok(found.into_iter().filter(chosen).collect())
    };

    let workers = workers(spec, &hosts, listed(&fleet.placement.workers)?, has_no_bound(fleet))?;
    let listed_servers = listed(&fleet.placement.servers)?;
    let count = spec.servers.map_or(listed_servers.len(), |n| n as usize);
    if count > MOST_WORKERS as usize {
        return Err(PlanError::TooMany { what: "servers", wanted: count as u64, most: MOST_WORKERS.into() });
    }
    let with_slots: Vec<&Host> = hosts.into_iter().filter(|host| host.slots.ranks > 0).collect();
    // Workers sit on at least one host, so there is always somewhere to put a server.
    let candidates = [listed_servers, with_slots, workers.clone()].into_iter().find(|hosts| !hosts.is_empty());
    let servers = candidates.unwrap_or_default().into_iter().cycle().take(count).collect();
    let master = match &fleet.placement.master {
        _ if !spec.master => None,
        Some(name) => Some(find(name)?),
        // The others can surely reach the host that they have to reach anyway.
        None => workers.first().copied(),
    };
    Ok(Placed { master, servers, workers })
}

/// Whoever starts processes on the machine in front of them knows how many it takes.
fn has_no_bound(fleet: &Fleet) -> bool {
    matches!(fleet.hosts.as_slice(), [host] if host.reach == Reach::Local && host.slots == Slots::default())
}

fn workers<'f>(
    spec: &RunSpec,
    hosts: &[&'f Host],
    listed: Vec<&'f Host>,
    unbounded: bool,
) -> Result<Vec<&'f Host>, PlanError> {
    let by_slots: Vec<&Host> =
        hosts.iter().flat_map(|host| std::iter::repeat_n(*host, host.slots.ranks as usize)).collect();
    let is_listed = !listed.is_empty();
    let slots = if is_listed { listed } else { by_slots };
    if slots.is_empty() {
        return Err(PlanError::NoHosts { on: spec.on.join(", ") });
    }
    let wanted = spec.workers.map_or(slots.len(), |n| n as usize);
    if wanted == 0 {
        return Err(PlanError::NoWorkers);
    }
    if wanted > MOST_WORKERS as usize {
        return Err(PlanError::TooMany { what: "workers", wanted: wanted as u64, most: MOST_WORKERS.into() });
    }
    if wanted > slots.len() && !spec.oversubscribe && !unbounded {
        return Err(PlanError::NotEnoughSlots { wanted, slots: slots.len() });
    }
    let mut placed: Vec<&Host> = slots.iter().copied().cycle().take(wanted).collect();
    if !is_listed {
        // Going round again has scattered the numbers; bring those of one host together.
        let positions: BTreeMap<&str, usize> = hosts.iter().map(|host| host.name.as_str()).zip(0..).collect();
        placed.sort_by_key(|host| positions.get(host.name.as_str()));
    }
    Ok(placed)
}
