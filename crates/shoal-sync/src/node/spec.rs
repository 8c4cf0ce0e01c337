//! What a key is, as each worker says it once, and whether all say the same (CORE-1: pure).

use super::Node;
use super::op::Request;
use super::world::NodeId;
use crate::error::SyncError;
use crate::wire::{Combine, Header, Kind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A key in full. Workers whose specs differ cannot train one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub name: String,
    pub dtype: crate::dtype::DType,
    pub shape: Vec<usize>,
    pub combine: String,
}

impl Spec {
    pub fn of(request: &Request) -> Spec {
        Spec {
            name: request.name.to_string(),
            dtype: request.dtype,
            shape: request.shape.to_vec(),
            combine: match request.combine {
                Combine::Copy => format!("copy from {}", contributor(request)),
                other => other.name().to_string(),
            },
        }
    }

    /// The first field in which two specs differ: its name and both values.
    fn difference(&self, other: &Spec) -> Option<(&'static str, String, String)> {
        if self.name != other.name {
            return Some(("name", self.name.clone(), other.name.clone()));
        }
        if self.shape != other.shape {
            return Some(("shape", format!("{:?}", self.shape), format!("{:?}", other.shape)));
        }
        if self.dtype != other.dtype {
            return Some(("dtype", self.dtype.to_string(), other.dtype.to_string()));
        }
        (self.combine != other.combine).then(|| ("operation", self.combine.clone(), other.combine.clone()))
    }
}

fn contributor(request: &Request) -> String {
    let mut owners = request.layout.blocks.iter().map(|b| b.only);
    let first = owners.next().flatten();
    match first {
        Some(worker) if owners.all(|o| o == Some(worker)) => format!("worker {worker}"),
        _ => "every worker".into(),
    }
}

impl Node {
    /// Tells every shard what the key is, the first time it is used.
    pub(crate) fn introduce(&mut self, request: &Request) {
        if !self.told.insert(request.key) {
            return;
        }
        let spec = Spec::of(request);
        // A spec is a few short fields; only an absurd name could pass the limit, and that is refused earlier.
        let words: Arc<[u8]> = serde_json::to_vec(&spec).unwrap_or_default().into();
        for shard in 0..self.world.shards() {
            let node = self.world.shard_node(shard);
            if node == self.me {
                self.hear_spec(self.me, request.key, spec.clone());
            } else {
                let header = Header { key: request.key, ..self.header(Kind::Spec) };
                self.tell(node, header, Some(words.clone()));
            }
        }
    }

    pub(super) fn hear_spec(&mut self, from: NodeId, key: u64, spec: Spec) {
        let Some((first, seen)) = self.specs.get(&key) else {
            self.specs.insert(key, (from, Arc::new(spec)));
            return;
        };
        if let Some((field, a_value, b_value)) = seen.difference(&spec) {
            let error = SyncError::Mismatch {
                key: seen.name.clone(),
                field: field.into(),
                a: Box::new(self.world.name(*first)),
                a_value,
                b: Box::new(self.world.name(from)),
                b_value,
            };
            self.fail(error);
        }
    }

    /// A key's name where it is known.
    pub(super) fn key_name(&self, key: u64) -> String {
        self.specs.get(&key).map_or_else(|| format!("#{key:016x}"), |(_, spec)| spec.name.clone())
    }
}
