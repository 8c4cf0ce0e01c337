//! The short way: when all workers of a run share one host's memory, tensors do not touch a socket.
//!
//! The connections stay: they carry what a key is (so that a mismatch can be told in words), deaths and aborts.

use super::driver::Driver;
use super::handle::Handle;
use crate::control::Roster;
use crate::error::SyncError;
use crate::layout::Layout;
use crate::local::{Action, Hosting, LocalError, LocalGroup, LocalOp, Options, Scale, Ticket};
use crate::net::reactor::Event;
use crate::node::op::Request;
use crate::node::world::World;
use crate::wire::Combine;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the workers of a host may take to find each other; after it, the network serves.
const MEETING: Duration = Duration::from_secs(10);

pub struct LocalPath {
    group: LocalGroup,
    /// Uses so far, by key.
    steps: Mutex<HashMap<u64, u64>>,
    stop: AtomicBool,
}

/// Which ways the roster allows: none, memory alone, or memory first and the network for one sum a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Network,
    Memory,
    Teams,
}

/// Half-written memory cannot be un-summed, so only where nobody has to be outlived (see `World::teams`).
pub fn way(world: &World) -> Way {
    let teams = (0..world.workers).any(|w| world.team(w) != w);
    match (0..world.workers).all(|w| world.team(w) == 0) {
        true if teams && world.colocated() => Way::Memory,
        _ if teams => Way::Teams,
        _ => Way::Network,
    }
}

/// Meets the workers of this host; the lowest of them hosts. `None`: this one has no neighbours.
pub fn meet(
    roster: &Roster,
    world: &World,
    me: u32,
    token: &str,
    hosting: Option<Hosting>,
) -> Result<Option<LocalGroup>, LocalError> {
    let members: Vec<u32> = (0..world.workers).filter(|w| world.team(*w) == world.team(me)).collect();
    if members.len() < 2 {
        return Ok(None);
    }
    let deadline = Instant::now() + MEETING;
    let secret = secret(token, roster.run);
    let no_place = || LocalError::BadGroup { why: "the first worker offers no meeting place".into() };
    let group = if me == members[0] {
        hosting.ok_or_else(no_place)?.accept_all(&members, me, &secret, Options::default(), deadline)?
    } else {
        let name = roster.workers[members[0] as usize].meeting.as_deref().ok_or_else(no_place)?;
        LocalGroup::connect(name, &members, me, &secret, deadline)?
    };
    Ok(Some(group))
}

impl LocalPath {
    pub fn new(group: LocalGroup) -> LocalPath {
        LocalPath { group, steps: Mutex::default(), stop: AtomicBool::new(false) }
    }

    /// Brings this worker's tensor; `None` if the group has no room for another key.
    ///
    /// # Safety
    /// As for [`crate::Engine::push_pull`].
    pub unsafe fn submit(&self, request: &Request, me: u32) -> Option<Result<Ticket, LocalError>> {
        let slot = self.group.slot_of(request.key)?;
        let step = {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            let step = steps.entry(request.key).or_insert(0);
            *step += 1;
            *step - 1
        };
        let op = LocalOp { fingerprint: request.key, action: action(request, me) };
        // SAFETY: passed on to the caller.
        let outcome = unsafe { self.group.submit(slot, step, op) };
        if matches!(outcome, Err(LocalError::Busy { .. })) {
            let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.entry(request.key).and_modify(|s| *s -= 1);
        }
        Some(outcome)
    }

    pub fn group(&self) -> &LocalGroup {
        &self.group
    }

    /// The life of the helper thread: it works on what nobody waits for yet, so that sums are made while scripts compute.
    pub fn help(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            if !self.group.help() {
                self.group.wait_for_work(Duration::from_millis(100));
            }
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn secret(token: &str, run: u32) -> [u8; 32] {
    let mut mac = match Hmac::<Sha256>::new_from_slice(token.as_bytes()) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    };
    mac.update(b"shoal local group");
    mac.update(&run.to_le_bytes());
    mac.finalize().into_bytes().into()
}

fn action(request: &Request, me: u32) -> Action {
    let (addr, bytes, dtype) = (request.at, request.layout.total, request.dtype);
    let reduce = |scale| Action::Reduce { dtype, scale, addr, bytes };
    match request.combine {
        Combine::Sum => reduce(Scale::Sum),
        Combine::Mean => reduce(Scale::Mean),
        Combine::WeightedMean => reduce(Scale::WeightedMean { weight: request.weight }),
        Combine::Copy => match sole_root(&request.layout) {
            Some(root) => Action::Broadcast { root, addr, bytes },
            None => {
                let part = bytes / request.shape.first().copied().unwrap_or(1).max(1);
                Action::AllGather { part: addr.wrapping_add(part * me as usize), bytes: part, out: addr }
            }
        },
    }
}

/// The one worker whose bytes a copy takes, if it is one.
pub fn sole_root(layout: &Layout) -> Option<u32> {
    let mut owners = layout.blocks.iter().map(|b| b.only);
    let first = owners.next()??;
    owners.all(|o| o == Some(first)).then_some(first)
}

/// What a failure between the workers of a host means to the run.
pub fn explain(error: LocalError, world: &World, key: &str) -> SyncError {
    match error {
        LocalError::Dead { rank } => {
            SyncError::Dead { who: world.name(rank), how: "its process ended without a word".into() }
        }
        LocalError::Mismatch { rank, other, what, .. } => SyncError::Mismatch {
            key: key.into(),
            field: "tensor".into(),
            a: Box::new(world.name(other)),
            a_value: what.to_string(),
            b: Box::new(world.name(rank)),
            b_value: "the other".into(),
        },
        LocalError::Memory { rank, errno, .. } => SyncError::Dead {
            who: world.name(rank),
            how: format!("its memory cannot be reached: {}", std::io::Error::from_raw_os_error(errno)),
        },
        LocalError::RootFinished { root, .. } => SyncError::Finished { who: world.name(root), key: key.into() },
        LocalError::Busy { .. } => SyncError::Usage {
            key: key.into(),
            why: "still under way from an earlier call; wait for it first, or use another name".into(),
        },
        LocalError::Finished => SyncError::Usage {
            key: key.into(),
            why: "this worker has called finish() and takes no further part".into(),
        },
        other => SyncError::System { what: format!("key `{key}`"), why: other.to_string() },
    }
}

/// The run's own word for a failure in memory, if it comes soon; otherwise what the memory shows.
pub fn word_of_the_run(driver: &Driver, world: &World, error: LocalError, key: &str) -> SyncError {
    let deadline = Instant::now() + Duration::from_millis(800);
    let never = Handle::default();
    while Instant::now() < deadline {
        if let Some(fatal) = driver.reactor().node.fatal() {
            return fatal.clone();
        }
        driver.wait(&never, Instant::now() + Duration::from_millis(10));
    }
    let error = explain(error, world, key);
    driver.inbox.post(Event::Fail { error: error.clone() });
    driver.push_along();
    error
}
