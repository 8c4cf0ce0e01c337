//! Which nodes of the pool take nothing, since when, and who is told? What the server says of them counts; where nobody may look, a node that
//! takes no pod for long is avoided for a while.

use serde_json::Value;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::pool::nodes::{self, AVOIDED, Advice, Waiting, advice};
use shoal_daemon::queue::agent::pods::Shut;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub struct Nodes {
    /// Why, and since when.
    shut: BTreeMap<String, (String, Instant)>,
    avoided: HashMap<String, Instant>,
    /// What goes to the queue with the pool's facts.
    told: Shut,
}

impl Nodes {
    pub fn new(told: Shut) -> Nodes {
        Nodes { shut: BTreeMap::new(), avoided: HashMap::new(), told }
    }

    /// `seen`: the cluster's; none: the server is away, and what was known holds.
    pub fn look(&mut self, pool: &Pool, seen: Option<&[Arc<Value>]>) {
        let Some(seen) = seen else { return };
        let now = Instant::now();
        self.avoided.retain(|_, until| now < *until);
        let avoided = self.avoided.keys().map(|node| (node.clone(), "has taken no pod for a while".to_string()));
        let mut shut: nodes::Shut = avoided.collect();
        shut.extend(nodes::shut(pool, seen.iter().map(AsRef::as_ref)));
        if shut.keys().ne(self.shut.keys()) {
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = shut.keys().cloned().collect();
        }
        let since = |node: &String| self.shut.get(node).map_or(now, |(_, since)| *since);
        self.shut = shut.into_iter().map(|(node, why)| (node.clone(), (why, since(&node)))).collect();
    }

    /// Why a pod that is pinned to this node, and that no node has taken for so long, goes back to the queue.
    pub fn gives_up(&mut self, pool: &Pool, node: &str, since: Duration) -> Option<String> {
        let shut = self.shut.get(node).map(|(why, at)| (why.as_str(), at.elapsed()));
        let elsewhere = pool.kubernetes.nodes.iter().any(|other| other != node && !self.shut.contains_key(other));
        match advice(&Waiting { node, since, shut, elsewhere }) {
            Advice::Wait => None,
            Advice::Avoid => {
                self.avoided.insert(node.into(), Instant::now() + AVOIDED);
                None
            }
            Advice::GiveUp(why) => Some(why),
        }
    }

    pub fn words(&self) -> Option<String> {
        nodes::words(&self.shut.iter().map(|(node, (why, _))| (node.clone(), why.clone())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_may_look_a_node_that_takes_nothing_is_avoided_and_the_queue_told() {
        const POOL: &str = r#"{"name":"p","slots":1,"kubernetes":{"image":"i","volumes":[],"nodes":["n1","n2"],"gpus":{"share":"pinned","count":2,"runs":1,"resource":"r"}}}"#;
        let pool: Pool = serde_json::from_str(POOL).expect("a pool");
        let told = Shut::default();
        let mut nodes = Nodes::new(told.clone());
        let long = Duration::from_secs(3600);
        assert_eq!(nodes.gives_up(&pool, "n1", Duration::ZERO), None);
        nodes.look(&pool, Some(&[]));
        assert!(told.lock().expect("a lock").is_empty());
        // It is avoided first: else the queue would choose the same one again.
        assert_eq!(nodes.gives_up(&pool, "n1", long), None);
        nodes.look(&pool, None);
        assert!(told.lock().expect("a lock").is_empty(), "the server is away");
        nodes.look(&pool, Some(&[]));
        assert!(told.lock().expect("a lock").contains("n1"));
        assert!(nodes.words().expect("words").contains("node n1 has taken no pod"));
        // The last node that is open stays.
        assert_eq!(nodes.gives_up(&pool, "n2", long), None);
        nodes.look(&pool, Some(&[]));
        assert_eq!(told.lock().expect("a lock").len(), 1);
    }
}
