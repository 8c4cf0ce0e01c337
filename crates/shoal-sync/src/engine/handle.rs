//! The other end of an operation: something to wait on.

use crate::error::SyncError;
use crate::node::op::OpId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

/// The shared part of a wait; the engine's [`super::Pending`] is what users hold.
#[derive(Debug, Default)]
pub struct Handle {
    done: AtomicBool,
    outcome: Mutex<Option<Result<(), SyncError>>>,
    op: AtomicU64,
    /// Whose parts a partial gather did without.
    absent: Mutex<Vec<u32>>,
    /// Told of the end, where somebody sleeps elsewhere than in the loop.
    waker: Option<Waker>,
}

impl Handle {
    pub fn waking(waker: Waker) -> Handle {
        Handle { waker: Some(waker), ..Handle::default() }
    }

    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    pub fn end(&self, outcome: Result<(), SyncError>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.done.store(true, Ordering::Release);
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// How it ended; `None` while it has not.
    pub fn outcome(&self) -> Option<Result<(), SyncError>> {
        if !self.is_done() {
            return None;
        }
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// To be set before the end.
    pub fn set_absent(&self, absent: Vec<u32>) {
        *self.absent.lock().unwrap_or_else(PoisonError::into_inner) = absent;
    }

    pub fn absent(&self) -> Vec<u32> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_op(&self, op: OpId) {
        self.op.store(op, Ordering::Release);
    }

    pub fn op(&self) -> OpId {
        self.op.load(Ordering::Acquire)
    }
}
