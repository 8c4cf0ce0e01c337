//! What a key is, as each worker says it once, and whether all say the same (CORE-1: pure).

use super::Node;
use super::op::Request;
use super::world::{Members, NodeId};
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
    /// Who takes part, in order; nothing: all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<u32>>,
    /// A gather that goes on without those who are gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// What a shard has been told of a key.
#[derive(Debug)]
pub(super) struct Known {
    /// Who told it: named if the next one differs.
    first: NodeId,
    spec: Arc<Spec>,
    group: Option<Members>,
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
            members: request.members.as_ref().map(|m| m.to_vec()),
            partial: request.partial,
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
        if self.members != other.members {
            return Some(("members", among(&self.members), among(&other.members)));
        }
        if self.combine != other.combine {
            return Some(("operation", self.combine.clone(), other.combine.clone()));
        }
        (self.partial != other.partial).then(|| ("partial", self.partial.to_string(), other.partial.to_string()))
    }
}

fn among(members: &Option<Vec<u32>>) -> String {
    members.as_ref().map_or_else(|| "all workers".into(), |m| format!("{m:?}"))
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
        let Some(Known { first, spec: seen, .. }) = self.specs.get(&key) else {
            let group = spec.members.as_ref().map(|members| members.iter().copied().collect());
            self.specs.insert(key, Known { first: from, spec: Arc::new(spec), group });
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
        self.specs.get(&key).map_or_else(|| format!("#{key:016x}"), |known| known.spec.name.clone())
    }

    /// Who takes part in a key, if it is not all workers.
    pub(super) fn group(&self, key: u64) -> Option<&Members> {
        self.specs.get(&key).and_then(|known| known.group.as_ref())
    }

    /// The workers that take part in a key.
    pub(super) fn workers_of(&self, key: u64) -> impl Iterator<Item = NodeId> + use<'_> {
        let group = self.group(key);
        (0..self.world.workers).filter(move |w| group.is_none_or(|g| g.contains(*w)))
    }

    /// Whether a spec's members can be: in order, each once, workers of this run, and the one who says it among them.
    pub(super) fn is_possible(&self, from: NodeId, spec: &Spec) -> bool {
        let Some(members) = &spec.members else { return true };
        let known = members.iter().all(|w| self.world.is_worker(*w));
        known && members.contains(&from) && members.is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: a kept sample of the words of `Spec`, without and with what only some keys have.
    #[test]
    fn kept_sample_of_version_3() {
        let plain = r#"{"name":"w","dtype":"f32","shape":[2,3],"combine":"mean"}"#;
        let group = r#"{"name":"g","dtype":"bf16","shape":[2],"combine":"copy from every worker","members":[1,4],"partial":true}"#;
        for text in [plain, group] {
            let read: Spec = serde_json::from_str(text).expect("kept words are read");
            assert_eq!(serde_json::to_string(&read).expect("written"), text);
        }
    }

    #[test]
    fn who_takes_part_is_part_of_a_key() {
        let text = |members: &str| format!(r#"{{"name":"w","dtype":"f32","shape":[2],"combine":"sum"{members}}}"#);
        let read = |members: &str| serde_json::from_str::<Spec>(&text(members)).expect("a spec");
        let (all, some) = (read(""), read(r#","members":[0,2]"#));
        assert_eq!(all.difference(&some), Some(("members", "all workers".into(), "[0, 2]".into())));
        assert_eq!(some.difference(&some), None);
    }
}
