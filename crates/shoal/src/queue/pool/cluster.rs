//! What has the server of this pool, whatever happens to the line? One thread follows Jobs and pods; whoever asks gets what was seen last.

use serde_json::Value;
use shoal_core::kubernetes::pool::job::POOL;
use shoal_core::kubernetes::template::Kind;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::watch::{Followed, Look, View};
use shoal_hosts::kubernetes::{Connection, Failure, Wanted, resource};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A connection is made anew now and then: who we are may have changed in the kubeconfig.
const LIFE: Duration = Duration::from_secs(3600);
/// Between tries to get a connection that is refused.
const PAUSE: Duration = Duration::from_secs(2);

/// What is known of the pool's objects.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub jobs: BTreeMap<String, Arc<Value>>,
    /// By Job and index.
    pods: HashMap<String, BTreeMap<usize, Vec<Arc<Value>>>>,
    /// Why the controller could not make pods of a Job.
    refused: HashMap<String, String>,
    /// Those of the cluster, where they matter and we may look.
    pub nodes: Vec<Arc<Value>>,
    /// All of it is known, and is not old.
    pub is_whole: bool,
    /// Why it is not.
    pub trouble: Option<String>,
    changes: u64,
}

impl Seen {
    pub fn pods(&self, job: &str, index: usize) -> Vec<&Value> {
        let its = self.pods.get(job).and_then(|pods| pods.get(&index));
        its.into_iter().flatten().map(AsRef::as_ref).collect()
    }

    pub fn refused(&self, job: &str) -> Option<&str> {
        self.refused.get(job).map(String::as_str)
    }

    fn of(view: &View) -> Seen {
        let name = |object: &Arc<Value>| object["metadata"]["name"].as_str().unwrap_or_default().to_string();
        let jobs = view.kept(0).map(|job| (name(job), job.clone())).collect();
        let mut pods: HashMap<String, BTreeMap<usize, Vec<Arc<Value>>>> = HashMap::new();
        for pod in view.kept(1) {
            let label = |key: &str| pod["metadata"]["labels"][key].as_str().unwrap_or_default();
            let index = label("batch.kubernetes.io/job-completion-index").parse();
            if let Ok(index) = index {
                let job = pods.entry(label("batch.kubernetes.io/job-name").into()).or_default();
                job.entry(index).or_default().push(pod.clone());
            }
        }
        let refused = view.of(2).filter_map(|event| {
            let of = event["involvedObject"]["name"].as_str()?;
            Some((of.to_string(), event["message"].as_str()?.to_string()))
        });
        let refused = refused.collect();
        let trouble = view.away.as_ref().map(|failure| failure.what.clone());
        let nodes = view.kept(3).cloned().collect();
        Seen { jobs, pods, refused, nodes, is_whole: view.complete && view.away.is_none(), trouble, changes: 0 }
    }
}

#[derive(Clone)]
pub struct Cluster(Arc<(Mutex<Seen>, Condvar)>);

impl Cluster {
    /// Follows what bears the pool's label, as long as this process lives.
    /// And the nodes, where it matters which there are.
    pub fn follow(wanted: Wanted, owner: &str, nodes: bool) -> io::Result<Cluster> {
        Cluster::following(wanted, format!("{POOL}={owner}"), nodes)
    }

    /// Follows Jobs and pods that bear these labels.
    pub fn follow_labels(wanted: Wanted, labels: String) -> io::Result<Cluster> {
        Cluster::following(wanted, labels, false)
    }

    fn following(wanted: Wanted, labels: String, nodes: bool) -> io::Result<Cluster> {
        let cluster = Cluster(Arc::default());
        let mine = cluster.clone();
        std::thread::Builder::new().name("watch".into()).spawn(move || {
            loop {
                if let Err(failure) = mine.once(&wanted, &labels, nodes) {
                    mine.put(Seen { trouble: Some(failure.to_string()), ..mine.now() });
                    std::thread::sleep(PAUSE);
                }
            }
        })?;
        Ok(cluster)
    }

    fn once(&self, wanted: &Wanted, labels: &str, nodes: bool) -> Result<(), Failure> {
        let connection = Connection::open(wanted)?;
        let follow = |resource| Followed { resource, which: Selection::labels(labels), optional: false };
        let (jobs, pods) = (resource::of_kind(Kind::Job, &connection.namespace), resource::pods(&connection.namespace));
        let end = Instant::now() + LIFE;
        // Who may not read events is told where to look.
        let refused = Followed {
            resource: resource::events(&connection.namespace),
            which: Selection {
                fields: Some("reason=FailedCreate,involvedObject.kind=Job".into()),
                ..Selection::default()
            },
            optional: true,
        };
        let mut all = vec![follow(jobs), follow(pods), refused];
        // Few may: then it is learned from pods that no node takes.
        all.extend(nodes.then(|| Followed {
            resource: resource::nodes(),
            which: Selection::default(),
            optional: true,
        }));
        connection.follow(&all, end, |view| {
            self.put(Seen::of(view));
            Look::GoOn
        })?;
        Ok(())
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, seen: Seen) {
        let mut held = self.held();
        let is_whole = seen.is_whole && seen.trouble.is_none();
        *held = Seen { changes: held.changes + 1, is_whole, ..seen };
        self.0.1.notify_all();
    }

    fn now(&self) -> Seen {
        self.held().clone()
    }

    /// What there is when something has changed since `last`, or at the latest after so long.
    pub fn next(&self, last: &Seen, long: Duration) -> Seen {
        let held = self.held();
        let waited = self.0.1.wait_timeout_while(held, long, |seen| seen.changes == last.changes);
        waited.map_or_else(|e| e.into_inner().0.clone(), |(seen, _)| seen.clone())
    }
}
