//! How does everything of one run go, and is it gone?

use super::connection::Connection;
use super::explain::Failure;
use super::request::{self, Selection};
use super::resource::{self, Resource};
use super::watch::{Followed, Look};
use kube::api::DeleteParams;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two looks at what is left, and at whether somebody still waits for it.
const TURN: Duration = Duration::from_secs(1);

impl Connection {
    /// Removes Jobs, Services and Secrets that bear the labels, and waits until they and all pods are gone: within the bound, and as long as
    /// somebody waits for it. What is left, by kind and name.
    pub fn clear(&self, labels: &str, bound: Duration, goes_on: &dyn Fn() -> bool) -> Result<Vec<String>, Failure> {
        let namespace = &self.namespace;
        let kinds = [
            resource::jobs(namespace),
            resource::services(namespace),
            resource::secrets(namespace),
            resource::pods(namespace),
        ];
        let end = Instant::now() + bound;
        loop {
            let failure = match self.ask_all_to_go(&kinds[..3], labels) {
                Ok(()) => None,
                Err(failure) if failure.passes() => Some(failure),
                Err(failure) => return Err(failure),
            };
            let follow = |of: &Resource| Followed {
                resource: of.clone(),
                which: Selection { metadata_only: true, ..Selection::labels(labels) },
                optional: false,
            };
            let all: Vec<Followed> = kinds.iter().map(follow).collect();
            let mut left = vec!["objects that could not be looked at in time".to_string()];
            let turn = (Instant::now() + TURN).min(end);
            let is_empty = self.follow(&all, turn, |view| {
                let names = kinds.iter().enumerate().flat_map(|(i, of)| view.of(i).map(|object| name(of, object)));
                left = names.collect();
                if left.is_empty() && view.complete && view.away.is_none() { Look::Done } else { Look::GoOn }
            });
            match (is_empty, failure) {
                (Ok(true), None) => return Ok(Vec::new()),
                (Err(failure), _) if !failure.passes() => return Err(failure),
                (Err(failure), _) | (Ok(_), Some(failure)) if Instant::now() >= end || !goes_on() => {
                    return Err(failure);
                }
                (Ok(_), None) if Instant::now() >= end || !goes_on() => return Ok(left),
                _ => {}
            }
        }
    }

    fn ask_all_to_go(&self, kinds: &[Resource], labels: &str) -> Result<(), Failure> {
        let which = Selection { metadata_only: true, ..Selection::labels(labels) };
        for of in kinds {
            let (objects, _) = self.block_on(request::list(self, of, &which))?;
            let lives = |object: &&Value| object["metadata"]["deletionTimestamp"].is_null();
            for object in objects.iter().filter(lives) {
                self.block_on(request::delete(self, of, object, &DeleteParams::foreground()))?;
            }
        }
        Ok(())
    }
}

fn name(of: &Resource, object: &Value) -> String {
    format!("{}/{}", of.plural.trim_end_matches('s'), object["metadata"]["name"].as_str().unwrap_or_default())
}
