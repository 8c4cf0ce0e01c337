//! How do objects go, and what is left of them?

use super::connection::Connection;
use super::explain::{Failure, Trouble};
use super::request::{self, Selection};
use super::resource::{self, Resource};
use futures_util::{StreamExt, stream};
use kube::api::DeleteParams;
use serde_json::Value;
use shoal_core::kubernetes::end::NodeState;
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::template::Kind;
use std::collections::BTreeMap;

const AT_ONCE: usize = 16;

impl Connection {
    /// All objects of the four kinds that bear the labels.
    pub fn find(&self, labels: &str) -> Result<Vec<There>, Failure> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let of = resource::of_kind(kind, &self.namespace);
            let (objects, _) = self.block_on(request::list(self, &of, &Selection::labels(labels)))?;
            found.extend(objects.into_iter().map(|object| There { kind, object }));
        }
        Ok(found)
    }

    /// All objects of one kind, whosever they are: names, labels and annotations.
    pub fn all_of(&self, kind: Kind) -> Result<Vec<There>, Failure> {
        let of = resource::of_kind(kind, &self.namespace);
        let which = Selection { metadata_only: true, ..Selection::default() };
        let (objects, _) = self.block_on(request::list(self, &of, &which))?;
        Ok(objects.into_iter().map(|object| There { kind, object }).collect())
    }

    /// Asks for the end of all of them: each stays until what it has made is gone. Failures, by name.
    pub fn remove(&self, objects: &[&There]) -> Vec<(String, Failure)> {
        self.deleting(objects, &DeleteParams::foreground())
    }

    /// Asks for the end of pods within so many seconds; 0 takes them off the list at once, whether they have ended or not.
    pub fn end_pods(&self, pods: &[&There], grace_s: u32) -> Vec<(String, Failure)> {
        self.deleting(pods, &DeleteParams::background().grace_period(grace_s))
    }

    fn deleting(&self, objects: &[&There], params: &DeleteParams) -> Vec<(String, Failure)> {
        let one = |there: &&There| {
            let of: Resource = resource::of_kind(there.kind, &self.namespace);
            let (name, object) = (there.name().to_string(), there.object.clone());
            async move { (name, request::delete(self, &of, &object, params).await) }
        };
        let asking: Vec<_> = objects.iter().map(one).collect();
        let all: Vec<_> = self.block_on(stream::iter(asking).buffer_unordered(AT_ONCE).collect());
        all.into_iter().filter_map(|(name, outcome)| Some((name, outcome.err()?))).collect()
    }

    /// How the nodes are that these pods are on.
    pub fn nodes_of(&self, pods: &[&Value]) -> BTreeMap<String, NodeState> {
        let names = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).map(String::from);
        let mut states: BTreeMap<String, NodeState> = names.map(|name| (name, NodeState::Unknown)).collect();
        for (name, state) in &mut states {
            *state = match self.block_on(request::get(self, &resource::nodes(), name)) {
                Ok(None) => NodeState::Gone,
                Ok(Some(node)) if is_ready(&node) => NodeState::Ready,
                Ok(Some(_)) => NodeState::NotReady,
                Err(failure) if failure.trouble == Trouble::Forbidden => NodeState::Unknown,
                Err(_) => NodeState::Unknown,
            };
        }
        states
    }
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}
