//! What can be done with tensors, and which way each goes: through memory where there is such a way, over sockets otherwise.

use super::handle::Handle;
use super::tensor::{Key, Op, TensorSpec};
use super::wait::{Course, Patience, Pending};
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

impl Engine {
    /// Names a tensor. The same name must mean the same type and shape on every worker, which is checked at its
    /// first use; registering it again is fine as long as it stays the same.
    pub fn register(&self, name: &str, spec: TensorSpec) -> Result<Key, SyncError> {
        let usage = |why: String| SyncError::Usage { key: name.chars().take(80).collect(), why };
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(usage(format!("a name needs 1 to {MAX_NAME} bytes, this one has {}", name.len())));
        }
        let bytes = spec.bytes().ok_or_else(|| usage("its size overflows".into()))?;
        let mut keys = self.inner.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = keys.get(name) {
            if (old.dtype, &old.shape) != (spec.dtype, &spec.shape) {
                return Err(usage(format!(
                    "registered before as {} {:?}, now as {} {:?}",
                    old.dtype, old.shape, spec.dtype, spec.shape
                )));
            }
        } else {
            keys.insert(name.to_string(), spec.clone());
        }
        Ok(Key { name: name.into(), key: key_of(name), bytes, spec })
    }

    /// Replaces the tensor by its sum or mean over all workers.
    ///
    /// # Safety
    /// `at` must point to the key's bytes, aligned to its element type, and stay valid and untouched until the returned
    /// operation has been waited for.
    pub unsafe fn push_pull(&self, key: &Key, at: *mut u8, op: Op) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        let layout = Layout::shared(key.key, key.bytes, self.inner.settings.block_size, world.shards());
        self.submit(key, at, op.combine(), op.weight(), layout)
    }

    /// Replaces the tensor by the root's.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn broadcast(&self, key: &Key, at: *mut u8, root: u32) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        if root >= world.workers {
            let why = format!("root {root}, but there are {} workers, numbered from 0", world.workers);
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let layout = Layout::from_root(key.key, key.bytes, block, world.shards(), root, world.colocated());
        self.submit(key, at, Combine::Copy, 1.0, layout)
    }

    /// Fills the tensor, whose first dimension is the number of workers, with every worker's row; the own row must be in place.
    ///
    /// # Safety
    /// As for [`Engine::push_pull`].
    pub unsafe fn all_gather(&self, key: &Key, at: *mut u8) -> Result<Pending, SyncError> {
        let world = &self.inner.world;
        let workers = world.workers as usize;
        if key.spec.shape.first() != Some(&workers) {
            let why = format!("its first dimension must be the number of workers, {workers}");
            return Err(SyncError::Usage { key: key.name.to_string(), why });
        }
        let block = self.inner.settings.block_size;
        let part = key.bytes / workers;
        let layout = Layout::gathered(key.key, part, block, world.shards(), workers, world.colocated());
        self.submit(key, at, Combine::Copy, 1.0, layout)
    }

    pub(super) fn submit(
        &self,
        key: &Key,
        at: *mut u8,
        combine: Combine,
        weight: f64,
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
        };
        if let Some(pending) = self.submit_in_memory(&request, key)? {
            return Ok(pending);
        }
        if let Some(pending) = self.submit_with_team(&request, key)? {
            return Ok(pending);
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
                let whole = request.combine == Combine::Copy && local_path::sole_root(&request.layout).is_none();
                Ok(Some(self.pending(Arc::new(Handle::default()), Course::Memory { ticket, whole }, key)))
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

    /// A gather that a finished worker took no part in has a hole where its row should be: an error, as on the network.
    pub(super) fn check_gathered(
        &self,
        group: &LocalGroup,
        ticket: &Ticket,
        whole: bool,
        key: &str,
    ) -> Result<(), SyncError> {
        if !whole {
            return Ok(());
        }
        let there = group.contributors(ticket);
        match group.members().iter().find(|m| !there.contains(m)) {
            Some(finished) => Err(SyncError::Finished { who: self.inner.world.name(*finished), key: key.to_string() }),
            None => Ok(()),
        }
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
