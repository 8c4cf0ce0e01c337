//! What one worker's user does: submits tensors in any order, takes results, finishes.

use super::plan::{Plan, What};
use super::tensor::Tensor;
use shoal_sync::error::SyncError;
use shoal_sync::layout::key_of;
use shoal_sync::node::op::{OpId, Request};
use shoal_sync::wire::Combine;
use std::collections::BTreeMap;

pub struct Open {
    pub key: usize,
    pub step: u64,
    pub tensor: Tensor,
}

#[derive(Default)]
pub struct Script {
    pub worker: u32,
    /// By key: its next step.
    pub next: Vec<u64>,
    pub open: BTreeMap<OpId, Open>,
    pub finished: bool,
    pub error: Option<SyncError>,
    /// Tensors that were given back with an error, and what they held then.
    pub given_back: Vec<(Tensor, u64)>,
}

impl Script {
    pub fn new(plan: &Plan, worker: u32) -> Script {
        Script { worker, next: vec![0; plan.keys.len()], ..Script::default() }
    }

    /// Keys that may be submitted now.
    pub fn ready(&self, plan: &Plan) -> Vec<usize> {
        if self.error.is_some() {
            return Vec::new();
        }
        let left = |k: usize| self.next[k] < plan.keys[k].steps[self.worker as usize];
        let busy = |k: usize| self.open.values().any(|o| o.key == k);
        // The barrier: nobody runs ahead of the slowest open or outstanding key.
        let open = self.open.values().map(|o| o.step);
        let outstanding = (0..self.next.len()).filter(|k| left(*k)).map(|k| self.next[k]);
        let now = open.chain(outstanding).min().unwrap_or(0);
        (0..self.next.len()).filter(|&k| left(k) && !busy(k) && (!plan.barrier || self.next[k] == now)).collect()
    }

    pub fn may_finish(&self, plan: &Plan) -> bool {
        !self.finished
            && self.error.is_none()
            && self.open.is_empty()
            && (0..self.next.len()).all(|k| self.next[k] == plan.keys[k].steps[self.worker as usize])
    }

    pub fn is_over(&self) -> bool {
        self.finished || self.error.is_some()
    }

    /// The next step of a key, with this worker's contents in place.
    pub fn request(&mut self, plan: &Plan, key: usize) -> (Request, Open) {
        let spec = &plan.keys[key];
        let step = self.next[key];
        self.next[key] += 1;
        let layout = plan.layout(key);
        let mut tensor = Tensor::new(layout.total);
        let source = plan.source(key, step, self.worker);
        match spec.what {
            What::Reduce(_) => tensor.fill(spec.dtype, source, 0, spec.elements),
            What::Broadcast { root } if root == self.worker => tensor.fill(spec.dtype, source, 0, spec.elements),
            What::Broadcast { .. } => {}
            What::Gather | What::PartialGather => {
                let from = plan.row(key, self.worker);
                tensor.fill(spec.dtype, source, from, from + spec.elements);
            }
        }
        let request = Request {
            key: key_of(&spec.name),
            name: spec.name.as_str().into(),
            dtype: spec.dtype,
            shape: vec![plan.total_elements(key)].into(),
            combine: if let What::Reduce(combine) = spec.what { combine } else { Combine::Copy },
            weight: plan.weight(key, step, self.worker),
            priority: spec.priority,
            layout,
            at: tensor.at(),
            team_step: None,
            members: spec.members.clone().map(Into::into),
            partial: spec.what == What::PartialGather,
        };
        (request, Open { key, step, tensor })
    }
}
