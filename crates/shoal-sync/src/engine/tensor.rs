//! What a program says about a tensor.

use crate::dtype::DType;
use crate::wire::Combine;
use std::sync::Arc;

/// Type, shape and urgency of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// Position in the forward pass: lower is needed sooner and comes back sooner.
    pub priority: u16,
}

impl TensorSpec {
    pub fn bytes(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.dtype.size(), |n, d| n.checked_mul(*d))
    }
}

/// Who takes part in an operation, in order; nothing: all workers.
pub(crate) type Group = Option<Arc<[u32]>>;

/// A registered tensor.
#[derive(Debug, Clone)]
pub struct Key {
    pub(crate) name: Arc<str>,
    pub(crate) key: u64,
    pub(crate) bytes: usize,
    pub(crate) spec: TensorSpec,
    pub(crate) members: Group,
}

impl Key {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What `push_pull` makes of the workers' tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    Sum,
    /// Divided by the number of workers that took part.
    Mean,
    /// Weighted by each worker's number of samples.
    WeightedMean(f64),
}

impl Op {
    pub(crate) fn combine(self) -> Combine {
        match self {
            Op::Sum => Combine::Sum,
            Op::Mean => Combine::Mean,
            Op::WeightedMean(_) => Combine::WeightedMean,
        }
    }

    pub(crate) fn weight(self) -> f64 {
        match self {
            Op::Sum | Op::Mean => 1.0,
            Op::WeightedMean(weight) => weight,
        }
    }
}
