//! What is the server asked, and what does it mean that it does not answer? Where it is away each try takes its time, and there may be hundreds: one
//! failure is that of all others, until a while is over.

use super::{AGAIN, SHOWN, Seen, Steward, Table, ended};
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::pool::job;
use shoal_core::kubernetes::template::Kind;
use shoal_core::queue::work::Ending;
use shoal_hosts::kubernetes::{Connection, Failure, Trouble, request, resource};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

impl Steward<'_> {
    /// Jobs that were decided and that the server has not taken. One that is refused keeps no other from being asked for; a server that is
    /// away, or refuses all of it, is asked once.
    pub(super) fn apply(&mut self) {
        self.refusals.retain(|job| self.tables.get(job).is_some_and(|table| !table.applied));
        let is_due = |(job, table): &(&String, &Table)| !table.applied && self.refusals.is_due(job, Instant::now());
        let waiting: Vec<String> = self.tables.iter().filter(is_due).map(|(job, _)| job.clone()).collect();
        for job in waiting {
            let Some(table) = self.tables.get(&job).cloned() else { continue };
            let Ok(asks) = self.asks_of(&table) else { continue };
            let object = job::of(&self.place, &asks);
            let applied = self.with_server(|connection| {
                let of = resource::of_kind(Kind::Job, &connection.namespace);
                connection.block_on(request::apply(connection, &of, &object, false))
            });
            match applied {
                None => return,
                Some(Ok(_)) => {
                    self.refusals.forget(&job);
                    if self.disk.applied(&job).is_ok() {
                        self.unseen.insert(job.clone(), Instant::now());
                        self.tables.entry(job).and_modify(|table| table.applied = true);
                    }
                }
                // It never will take it.
                Some(Err(failure)) if failure.trouble == Trouble::Invalid => {
                    for run in &table.runs {
                        let _ = self.disk.end(run, ended(Ending::NotStarted { why: failure.to_string() }), || ());
                    }
                }
                Some(Err(failure)) => self.refusals.refused(job, failure.to_string(), Instant::now()),
            }
        }
    }

    /// Asks the server, unless it is away: then nobody waits for it again before a while is over. A failure that is not this request's own is one of
    /// all of them.
    fn with_server<T>(&mut self, ask: impl FnOnce(&Connection) -> Result<T, Failure>) -> Option<Result<T, Failure>> {
        if self.again_at.is_some() {
            return None;
        }
        let began = Instant::now();
        let answer = self.connected().and_then(ask);
        match answer {
            Err(failure) if concerns_all(&failure) => {
                self.connection = None;
                self.again_at = Some(Instant::now() + began.elapsed().max(AGAIN));
                self.in_trouble(Some(format!("runs of the pool {} wait: {failure}", self.pool.name)));
                None
            }
            answer => {
                self.again_at = None;
                Some(answer)
            }
        }
    }

    /// Asks for the end of objects; whether all of it was taken.
    pub(super) fn remove(&mut self, there: &[&There]) -> bool {
        self.with_server(|connection| first(connection.remove(there))).is_some_and(|done| done.is_ok())
    }

    fn connected(&mut self) -> Result<&Connection, Failure> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.wanted)?);
        }
        let none = || Failure::new(Trouble::Unreachable, "no connection", "try again");
        self.connection.as_ref().ok_or_else(none)
    }

    /// Those of all runs at once: many requests are under way together, and none waits for the one before.
    pub(super) fn take_pods_away(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        let graces: BTreeSet<u32> = leaving.iter().map(|(_, grace, _)| *grace).collect();
        for grace in graces {
            let of_it = || leaving.iter().filter(|(_, of, _)| *of == grace);
            let pods: Vec<&There> = of_it().flat_map(|(_, _, pods)| pods).collect();
            let mut failed = BTreeSet::new();
            let asked = self.with_server(|connection| {
                let failures = connection.end_pods(&pods, grace);
                failed = failures.iter().map(|(pod, _)| pod.clone()).collect();
                first(failures.into_iter().filter(|(_, failure)| concerns_all(failure)).collect())
            });
            if asked.is_none() {
                return;
            }
            for (run, ..) in of_it().filter(|(_, _, pods)| !pods.iter().any(|pod| failed.contains(pod.name()))) {
                if let Some(last) = self.last.get_mut(run) {
                    last.taken_away = Some(Instant::now());
                }
            }
        }
    }

    /// Whether nothing of it is left to be done.
    pub(super) fn take_job_away(&mut self, job: &str, seen: &Seen) -> bool {
        match seen.jobs.get(job) {
            Some(object) if object["metadata"]["deletionTimestamp"].is_null() => {
                let there = There { kind: Kind::Job, object: object.as_ref().clone() };
                self.remove(&[&there])
            }
            Some(_) => true,
            None => seen.is_whole && self.unseen.get(job).is_none_or(|at| at.elapsed() > SHOWN),
        }
    }

    /// Jobs of this pool that nobody here knows: their folder was removed.
    pub(super) fn clear(&mut self, seen: &Seen) {
        let unknown = |(name, object): &(&String, &Arc<serde_json::Value>)| {
            !self.tables.contains_key(*name) && object["metadata"]["deletionTimestamp"].is_null()
        };
        let strays: Vec<There> = seen
            .jobs
            .iter()
            .filter(unknown)
            .map(|(_, object)| There { kind: Kind::Job, object: object.as_ref().clone() })
            .collect();
        if !strays.is_empty() && seen.is_whole {
            self.remove(&strays.iter().collect::<Vec<_>>());
        }
    }
}

/// Whether the next request would meet the same: the server is away, does not know us, or refuses us all of it.
fn concerns_all(failure: &Failure) -> bool {
    !matches!(
        failure.trouble,
        Trouble::Invalid | Trouble::Quota | Trouble::Conflict | Trouble::Faulty | Trouble::Other | Trouble::NotThere
    )
}

fn first(failures: Vec<(String, Failure)>) -> Result<(), Failure> {
    failures.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, Nodes, Place, Pool, Refusals, Wanted};
    use super::*;
    use serde_json::json;
    use shoal_daemon::queue::agent::pods::Shut;
    use std::collections::{BTreeMap, HashMap};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn what_one_request_is_refused_says_nothing_of_the_others() {
        for (trouble, all) in [
            (Trouble::Unreachable, true),
            (Trouble::Unknown, true),
            (Trouble::Forbidden, true),
            (Trouble::Busy, true),
            (Trouble::Quota, false),
            (Trouble::Faulty, false),
            (Trouble::Conflict, false),
        ] {
            assert_eq!(concerns_all(&Failure::new(trouble, "", "")), all, "{trouble:?}");
        }
    }

    /// A server that hangs up at once stands for one that never answers: it is asked once a round, and what the volume says is done all the same.
    #[test]
    fn a_server_that_is_away_is_asked_once_a_round() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || listener.incoming().for_each(|_| _ = count.fetch_add(1, Ordering::SeqCst)));
        let root = tempfile::tempdir().expect("a folder");
        let kubeconfig = root.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).expect("written");
        let pool = r#"{"name":"p","slots":1,"kubernetes":{"image":"i","volumes":[]}}"#;
        let pool: Pool = serde_json::from_str(pool).expect("a pool");
        let folder = root.path().to_string_lossy().into_owned();
        let (tell, _told) = channel();
        let disk = Disk::open(root.path()).expect("a disk");
        let mut seen = Seen::default();
        for job in ["a", "b", "c", "d"] {
            disk.decide(job, &["gone".into()]).expect("decided");
            disk.applied(job).expect("applied");
            seen.jobs.insert(job.into(), Arc::new(json!({"metadata": {"name": job, "uid": job}})));
        }
        disk.decide("late", &["unknown".into()]).expect("decided");
        seen.is_whole = true;
        let now = Instant::now();
        let mut steward = Steward {
            pool: &pool,
            place: Place { pool: &pool, owner: "o", folder: &folder, user: 0, group: 0 },
            tables: disk.tables().expect("tables"),
            disk,
            wanted: Wanted { kubeconfig: Some(kubeconfig), ..Wanted::default() },
            connection: None,
            tell: &tell,
            unseen: HashMap::new(),
            asks: HashMap::new(),
            last: HashMap::new(),
            due: (0, now, now),
            leaving: Vec::new(),
            again_at: None,
            refusals: Refusals::default(),
            nodes: Nodes::new(Shut::default()),
            left_at: now,
            trouble: None,
        };
        steward.look(&seen).expect("the volume is well");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // What never came to the server needs no server.
        let left: BTreeMap<_, _> = steward.disk.tables().expect("tables");
        assert_eq!(left.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert!(steward.refusal(&seen).expect("a reason").contains("cannot be reached"));
    }
}
