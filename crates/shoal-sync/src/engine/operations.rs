//! What can be done with tensors, and which way each goes: through memory where there is such a way, over sockets otherwise.

use super::handle::Handle;
use super::tensor::{Group, Key, Op, TensorSpec};
use super::wait::{Course, Holes, Patience, Pending};
use super::{Engine, Inner, local_path};
use crate::error::SyncError;
use crate::layout::{Layout, key_of};
use crate::local::{LocalError, LocalGroup, Ticket};
use crate::net::reactor::Event;
use crate::node::op::Request;
use crate::wire::Combine;
use std::sync::{Arc, PoisonError};

/// Names longer than this would not fit the frame that introduces them.
const MAX_NAME: usize = 4096;
/// And neither would more members than this.
const MAX_GROUP: usize = 1000;

impl Engine {
    /// Names a tensor. The same name must mean the same type and shape on every worker, which is checked at its
    /// first use; registering it again is fine as long as it stays the same.
    pub fn register(&self, name: &str, spec: TensorSpec) -> Result<Key, SyncError> {
        self.register_among(name, spec, None)
    }

    /// The same for a tensor that only some of the workers have to do with: `members`, of which this one is one. Who they are is
    /// part of what the name means. Their order is that of their ranks.
    pub fn register_among(&self, name: &str, spec: TensorSpec, members: Option<&[u32]>) -> Result<Key, SyncError> {
        let usage = |why: String| SyncError::Usage { key: name.chars().take(80).collect(), why };
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(usage(format!("a name needs 1 to {MAX_NAME} bytes, this one has {}", name.len())));
        }
        let bytes = spec.bytes().ok_or_else(|| usage("its size overflows".into()))?;
        let members = self.group_of(members).map_err(usage)?;
        let mut keys = self.inner.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = keys.get(name) {
            let (old, old_members) = old;
            if *old_members != members {
                return Err(usage(format!("registered before among {old_members:?}, now among {members:?}")));
            }
            if (old.dtype, &old.shape) != (spec.dtype, &spec.shape) {
                return Err(usage(format!(
                    "registered before as {} {:?}, now as {} {:?}",
                    old.dtype, old.shape, spec.dtype, spec.shape
                )));
            }
        } else {
            keys.insert(name.to_string(), (spec.clone(), members.clone()));
        }
        Ok(Key { name: name.into(), key: key_of(name), bytes, spec, members })
    }

    /// The members in order, or nothing if they are all there are.
    fn group_of(&self, members: Option<&[u32]>) -> Result<Group, String> {
        let Some(members) = members else { return Ok(None) };
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != members.len() {
            return Err(format!("members {members:?}, some of them twice"));
        }
        if let Some(stranger) = sorted.iter().find(|w| **w >= self.size()) {
            return Err(format!("member {stranger}, but there are {} workers, numbered from 0", self.size()));
        }
        if !sorted.contains(&self.rank()) {
            return Err(format!("members {sorted:?}, but this is worker {}", self.rank()));
        }
        if sorted.len() == self.size() as usize {
            return Ok(None);
        }
        if sorted.len() > MAX_GROUP {
            return Err(format!("{} members; {MAX_GROUP} is the most for a part of the workers", sorted.len()));
        }
        Ok(Some(sorted.into()))
    }

    /// Replaces the tensor by its sum or mean over all workers.
    ///
    /// # Safety
    /// `at` must point to the key's bytes, aligned to its element type, and stay valid and untouched until the returned
    /// operation has been waited for.
    pub unsafe fn push_pull(&self, key: &Key, at: *mut u8, op: Op) -> Result<Pending, SyncError> {
        let (world, block) = (&self.inner.world, self.inner.settings.block_size);
        let layout = match &key.members {
            Some(members) if world.colocated() => Layout::shared_by(key.key, key.bytes, block, world.shards(), members),
            _ => Layout::shared(key.key, key.bytes, block, world.shards()),
        };
        self.submit(key, at, (op.combine(), op.weight(), false), layout)
    }

    /// Replaces the tensor by the root's.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn broadcast(&self, key: &Key, at: *mut u8, root: u32) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        if root >= world.workers || key.members.as_ref().is_some_and(|m| !m.contains(&root)) {
            let why = match &key.members {
                Some(members) => format!("root {root}, but its members are {members:?}"),
                None => format!("root {root}, but there are {} workers, numbered from 0", world.workers),
            };
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let layout = Layout::from_root(key.key, key.bytes, block, world.shards(), root, world.colocated());
        self.submit(key, at, (Combine::Copy, 1.0, false), layout)
    }

    /// Fills the tensor, whose first dimension is the number of workers that take part, with each one's row, in the order of ranks; the own row must be in place.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn all_gather(&self, key: &Key, at: *mut u8) -> Result<Pending, SyncError> {
        self.gather(key, at, false)
    }

    /// The same, but the rows of workers that have finished, or died where the run goes on without them, are left as they are;
    /// [`Pending::absent`] then says whose. One who died while its row was under way may have left a part of it.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn all_gather_partial(&self, key: &Key, at: *mut u8) -> Result<Pending, SyncError> {
        self.gather(key, at, true)
    }

    fn gather(&self, key: &Key, at: *mut u8, partial: bool) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        let givers = key.members.as_ref().map_or_else(|| (0..world.workers).collect(), |m| m.to_vec());
        if key.spec.shape.first() != Some(&givers.len()) {
            let why = format!("its first dimension must be the number of workers that take part, {}", givers.len());
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let part = key.bytes / givers.len().max(1);
        let layout = Layout::gathered(key.key, part, block, world.shards(), &givers, world.colocated());
        self.submit(key, at, (Combine::Copy, 1.0, partial), layout)
    }

    pub(super) fn submit(
        &self,
        key: &Key,
        at: *mut u8,
        (combine, weight, partial): (Combine, f64, bool),
        layout: Layout,
    ) -> Result<Pending, SyncError> {
        if self.inner.is_forked() {
            let why = "this process was forked after the engine connected; only the process that connected may use it";
            return Err(SyncError::Usage { key: key.name.to_string(), why: why.into() });
        }
        if at.align_offset(key.spec.dtype.size()) != 0 {
            let why = format!("its memory is not aligned for {}", key.spec.dtype);
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let request = Request {
            key: key.key,
            name: key.name.clone(),
            dtype: key.spec.dtype,
            shape: key.spec.shape.clone().into(),
            combine,
            weight,
            priority: key.spec.priority,
            layout: Arc::new(layout),
            at,
            team_step: None,
            members: key.members.clone(),
            partial,
        };
        // The memory's way is laid for all workers of a host together.
        if request.members.is_none() {
            if let Some(pending) = self.submit_in_memory(&request, key)? {
                return Ok(pending);
            }
            if let Some(pending) = self.submit_with_team(&request, key)? {
                return Ok(pending);
            }
        }
        let handle = Arc::new(Handle::default());
        self.inner.driver.inbox.post(Event::Submit { request, handle: handle.clone() });
        self.inner.driver.push_along();
        Ok(self.pending(handle, Course::Network, key))
    }

    fn pending(&self, handle: Arc<Handle>, course: Course, key: &Key) -> Pending {
        Pending { engine: self.clone(), handle, course, name: key.name.clone(), patience: Patience::new() }
    }

    /// Takes the short way if there is one.
    pub(super) fn submit_in_memory(&self, request: &Request, key: &Key) -> Result<Option<Pending>, SyncError> {
        let Some(local) = &self.inner.local else { return Ok(None) };
        self.inner.introduce(request)?;
        check_weight(request)?;
        // SAFETY: the callers of `push_pull` and its like vouch for the memory.
        match unsafe { local.submit(request, self.inner.rank) } {
            None => Ok(None),
            Some(Ok(ticket)) => {
                let gather = request.combine == Combine::Copy && local_path::sole_root(&request.layout).is_none();
                let holes = match (gather, request.partial) {
                    (false, _) => Holes::None,
                    (true, false) => Holes::Refused,
                    (true, true) => Holes::Told,
                };
                Ok(Some(self.pending(Arc::new(Handle::default()), Course::Memory { ticket, holes }, key)))
            }
            Some(Err(error)) => Err(self.explain_local(error, &key.name)),
        }
    }

    /// Sums with the neighbours first, if there are any and the tensor is worth it.
    fn submit_with_team(&self, request: &Request, key: &Key) -> Result<Option<Pending>, SyncError> {
        let Some(team) = &self.inner.team else { return Ok(None) };
        let Some(slots) = team.takes(request) else { return Ok(None) };
        self.inner.introduce(request)?;
        check_weight(request)?;
        let handle = Arc::new(Handle::default());
        // SAFETY: the callers of `push_pull` and its like vouch for the memory.
        match unsafe { team.submit(request, slots, &handle) } {
            Ok(op) => Ok(Some(self.pending(handle, Course::Team(op), key))),
            Err(error) => Err(self.explain_local(error, &key.name)),
        }
    }

    /// A gather that a finished worker took no part in has a hole where its row should be: an error, or told, as on the network.
    pub(super) fn end_in_memory(&self, group: &LocalGroup, ticket: &Ticket, holes: Holes, key: &str, handle: &Handle) {
        let there = group.contributors(ticket);
        let absent: Vec<u32> = match holes {
            Holes::None => Vec::new(),
            Holes::Refused | Holes::Told => group.members().iter().copied().filter(|m| !there.contains(m)).collect(),
        };
        handle.end(match absent.first() {
            Some(finished) if holes == Holes::Refused => {
                Err(SyncError::Finished { who: self.inner.world.name(*finished), key: key.to_string() })
            }
            _ => {
                handle.set_absent(absent);
                Ok(())
            }
        });
    }

    pub(super) fn explain_local(&self, error: LocalError, key: &str) -> SyncError {
        if matches!(error, LocalError::Busy { .. } | LocalError::Finished) {
            return local_path::explain(error, &self.inner.world, key);
        }
        local_path::word_of_the_run(&self.inner.driver, &self.inner.world, error, key)
    }

    /// Returns when every worker has called it.
    pub fn barrier(&self) -> Result<(), SyncError> {
        self.start_barrier()?.wait()
    }

    /// The same, to be waited for.
    pub fn start_barrier(&self) -> Result<Pending, SyncError> {
        let count = self.inner.barriers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let key = self.register(
            &format!("barrier {}", count % 2),
            TensorSpec { dtype: crate::dtype::DType::F32, shape: vec![0], priority: 0 },
        )?;
        // SAFETY: no bytes are touched at an aligned address.
        unsafe { self.push_pull(&key, std::ptr::without_provenance_mut(64), Op::Sum) }
    }
}

fn check_weight(request: &Request) -> Result<(), SyncError> {
    if request.weight.is_finite() && request.weight >= 0.0 {
        return Ok(());
    }
    let why = format!("a weight of {} (must be finite and not negative)", request.weight);
    Err(SyncError::Usage { key: request.name.to_string(), why })
}

impl Inner {
    /// Tells the shards what a key is, although its bytes will not pass them: only they can say in words how two workers differ.
    pub(super) fn introduce(&self, request: &Request) -> Result<(), SyncError> {
        if self.introduced.lock().unwrap_or_else(PoisonError::into_inner).insert(request.key) {
            self.driver.inbox.post(Event::Introduce { request: request.clone() });
            self.driver.push_along();
        }
        match self.driver.fatal() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
