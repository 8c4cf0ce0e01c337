//! What is to be done now for the runs of a pool? Looks at the volume and at what the server has, and brings both together.
//!
//! It remembers nothing that matters: killed at any moment, the next one finds what was asked and decided on the volume, and what runs at the
//! server. Jobs are named by the attempts they are of, so asking for one twice makes one (QUEUE-2).

use super::cluster::{Cluster, Seen};
use super::disk::{Disk, Run, Table};
use super::settle::{Known, Verdict, verdict};
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::pool::ask::{Ask, End, group};
use shoal_core::kubernetes::pool::job::{self, Place};
use shoal_core::kubernetes::pool::seen::{self, Stage};
use shoal_core::kubernetes::template::Kind;
use shoal_core::queue::work::Ending;
use shoal_daemon::queue::agent::pods::Word;
use shoal_hosts::kubernetes::{Connection, Failure, Trouble, Wanted, request, resource};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often the volume is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Runs that come together are of one Job: so long nobody else may have come; or the first has waited so long.
const CALM: Duration = Duration::from_millis(150);
const LONGEST: Duration = Duration::from_secs(1);
/// Of hundreds of pods one says something at any moment. A look at all of it is followed by a rest that is longer than the look.
const REST: u32 = 2;
/// A request that failed is made again after so long.
const AGAIN: Duration = Duration::from_secs(2);
/// How often it is asked whether somebody still waits for a run.
const LEFT: Duration = Duration::from_secs(2);
/// The watch shows what was applied within so long.
const SHOWN: Duration = Duration::from_secs(30);
/// What is usual at a start is not worth telling.
const USUAL: Duration = Duration::from_secs(5);

/// What was seen of a run, and since when it has been so.
struct Last {
    code: Option<i64>,
    stage: Option<Stage>,
    since: Instant,
    first: Instant,
    told: Option<String>,
    taken_away: Option<Instant>,
}

struct Steward<'a> {
    pool: &'a Pool,
    place: Place<'a>,
    disk: Disk,
    wanted: Wanted,
    connection: Option<Connection>,
    tell: &'a Sender<Word>,
    tables: BTreeMap<String, Table>,
    /// Jobs of this life, until they are shown.
    unseen: HashMap<String, Instant>,
    asks: HashMap<String, Ask>,
    last: HashMap<String, Last>,
    /// How many wait for a Job, since when they are as many, and since when any.
    due: (usize, Instant, Instant),
    /// Pods to be taken away at the end of this look, with their grace, by the run that they are of.
    leaving: Vec<(String, u32, Vec<There>)>,
    again_at: Option<Instant>,
    left_at: Instant,
    trouble: Option<String>,
}

/// Until the process ends.
pub fn run(pool: Pool, store: &str, root: &Path, tell: &Sender<Word>) {
    let (owner, folder) = (job::owner(store, &pool.name), root.to_string_lossy().into_owned());
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let place = Place { pool: &pool, owner: &owner, folder: &folder, user, group };
    let wanted = Wanted {
        kubeconfig: None,
        context: pool.kubernetes.context.clone(),
        namespace: pool.kubernetes.namespace.clone(),
    };
    let begun = (|| {
        let disk = Disk::open(root)?;
        disk.finish_ends()?;
        let tables = disk.tables()?;
        Ok::<_, io::Error>((disk, tables, Cluster::follow(wanted.clone(), &owner)?))
    })();
    let (disk, tables, cluster) = match begun {
        Ok(begun) => begun,
        Err(e) => {
            let trouble = Some(format!("runs of the pool {} wait: {folder}: {e}", pool.name));
            return drop(tell.send(Word { run: None, trouble }));
        }
    };
    // Of Jobs that somebody before us has decided.
    let decided = tables.values().flat_map(|table| &table.runs);
    let asks = decided.filter_map(|name| Some((name.clone(), disk.ask(name).ok()?))).collect();
    let now = Instant::now();
    let mut steward = Steward {
        pool: &pool,
        place,
        disk,
        wanted,
        connection: None,
        tell,
        tables,
        unseen: HashMap::new(),
        asks,
        last: HashMap::new(),
        due: (0, now, now),
        leaving: Vec::new(),
        again_at: None,
        left_at: now + LEFT,
        trouble: None,
    };
    let mut seen = Seen::default();
    loop {
        seen = cluster.next(&seen, LOOK);
        let began = Instant::now();
        let looked = steward.look(&seen).map_err(|e| format!("runs of the pool {} wait: {folder}: {e}", pool.name));
        let trouble = looked.err().or_else(|| steward.refusal(&seen));
        steward.in_trouble(trouble);
        std::thread::sleep((began.elapsed() * REST).min(LOOK));
    }
}

impl Steward<'_> {
    fn look(&mut self, seen: &Seen) -> io::Result<()> {
        self.leaving.clear();
        let runs = self.disk.runs()?;
        self.last.retain(|name, _| runs.contains_key(name));
        self.asks.retain(|name, _| runs.contains_key(name));
        self.decide(&runs)?;
        let ready = self.again_at.is_none_or(|at| Instant::now() >= at);
        if ready && self.apply().is_err() {
            self.again_at = Some(Instant::now() + AGAIN);
        }
        let ask_left = Instant::now() >= self.left_at;
        if ask_left {
            self.left_at = Instant::now() + LEFT;
        }
        for (job, table) in self.tables.clone() {
            if table.applied {
                self.follow(&job, &table, &runs, seen, ask_left)?;
            }
            let over = |run: &String| runs.get(run).is_none_or(Run::is_over);
            if table.runs.iter().all(over) && (!table.applied || self.take_job_away(&job, seen)) {
                self.disk.forget(&job)?;
                self.tables.remove(&job);
            }
        }
        self.take_pods_away();
        self.clear(seen);
        Ok(())
    }

    /// Runs whose turn has come become Jobs: on the volume, before the server hears of it.
    fn decide(&mut self, runs: &BTreeMap<String, Run>) -> io::Result<()> {
        let decided: BTreeSet<&String> = self.tables.values().flat_map(|table| &table.runs).collect();
        let due: Vec<&Run> = runs.values().filter(|run| run.is_due() && !decided.contains(&run.name)).collect();
        let (stopped, due): (Vec<&Run>, Vec<&Run>) = due.into_iter().partition(|run| run.is_to_stop());
        for run in stopped {
            self.disk.end(&run.name, ended(Ending::Stopped), || ())?;
        }
        let now = Instant::now();
        if due.len() != self.due.0 {
            self.due = (due.len(), now, if self.due.0 == 0 { now } else { self.due.2 });
        }
        if due.is_empty() || (now - self.due.1 < CALM && now - self.due.2 < LONGEST) {
            return Ok(());
        }
        let asks: Vec<Ask> = due.iter().map(|run| self.disk.ask(&run.name)).collect::<io::Result<_>>()?;
        for batch in group(&asks) {
            let names: Vec<String> = batch.iter().map(|ask| ask.name.clone()).collect();
            let job = job::name(&self.place, &batch);
            let table = self.disk.decide(&job, &names)?;
            self.tables.insert(job, table);
        }
        self.asks.extend(asks.into_iter().map(|ask| (ask.name.clone(), ask)));
        self.due = (0, now, now);
        Ok(())
    }

    /// Jobs that were decided and that the server has not taken.
    fn apply(&mut self) -> Result<(), Failure> {
        let waiting: Vec<String> =
            self.tables.iter().filter(|(_, table)| !table.applied).map(|(job, _)| job.clone()).collect();
        for job in waiting {
            let Some(table) = self.tables.get(&job).cloned() else { continue };
            let Ok(asks) = self.asks_of(&table) else { continue };
            let object = job::of(&self.place, &asks);
            let applied = self.connected().and_then(|connection| {
                let of = resource::of_kind(Kind::Job, &connection.namespace);
                connection.block_on(request::apply(connection, &of, &object, false))
            });
            match applied {
                Ok(_) => {
                    if self.disk.applied(&job).is_ok() {
                        self.unseen.insert(job.clone(), Instant::now());
                        self.tables.entry(job).and_modify(|table| table.applied = true);
                    }
                }
                // It never will take it.
                Err(failure) if failure.trouble == Trouble::Invalid => {
                    for run in &table.runs {
                        let _ = self.disk.end(run, ended(Ending::NotStarted { why: failure.to_string() }), || ());
                    }
                }
                Err(failure) => {
                    self.connection = None;
                    self.in_trouble(Some(format!("runs of the pool {} wait: {failure}", self.pool.name)));
                    return Err(failure);
                }
            }
        }
        self.again_at = None;
        Ok(())
    }

    fn asks_of(&mut self, table: &Table) -> io::Result<Vec<Ask>> {
        let one = |name: &String| match self.asks.get(name) {
            Some(ask) => Ok(ask.clone()),
            None => self.disk.ask(name),
        };
        table.runs.iter().map(one).collect()
    }

    fn connected(&mut self) -> Result<&Connection, Failure> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.wanted)?);
        }
        let none = || Failure::new(Trouble::Unreachable, "no connection", "try again");
        self.connection.as_ref().ok_or_else(none)
    }

    /// What became of the runs of one Job.
    fn follow(
        &mut self,
        job: &str,
        table: &Table,
        runs: &BTreeMap<String, Run>,
        seen: &Seen,
        ask_left: bool,
    ) -> io::Result<()> {
        let made = seen.jobs.get(job).map(AsRef::as_ref);
        if made.is_some() {
            self.unseen.remove(job);
        }
        // One that was just applied is not missing: it has not been shown yet.
        let is_shown = seen.is_whole && self.unseen.get(job).is_none_or(|at| at.elapsed() > SHOWN);
        let mut open = table.runs.iter().filter(|name| runs.get(*name).is_some_and(|run| !run.is_over())).count();
        for (index, name) in table.runs.iter().enumerate() {
            let Some(run) = runs.get(name).filter(|run| !run.is_over()) else { continue };
            let pods = seen.pods(job, index);
            let stage = is_shown.then(|| seen::of(made, index, &pods, seen.refused(job)));
            let is_left = ask_left && self.disk.is_left(name);
            if is_left && !run.is_to_stop() {
                // Nobody waits for it any more: its keeper is gone. It must not go on unseen, nor begin.
                self.disk.stop(name)?;
            }
            let code = if run.has_code() { self.disk.code(name) } else { None };
            let grace = Duration::from_secs(self.asks.get(name).map_or(10, |ask| ask.grace_seconds.into()));
            let last = self.remember(name, code, stage.clone());
            let (since, first) = (last.since.elapsed(), last.first.elapsed());
            let known = Known { code, to_stop: run.is_to_stop() || is_left, stage: stage.as_ref(), since, grace };
            match verdict(&known) {
                Verdict::Goes(why) => self.say(name, why.filter(|_| first > USUAL)),
                Verdict::TakeAway => {
                    self.leaves(name, &pods, if is_left { 0 } else { grace.as_secs() as u32 }, is_shown)?
                }
                Verdict::Over(ending) => {
                    open -= 1;
                    let ending = if is_left && !ending.success() { abandoned() } else { ending };
                    // The last of a Job takes it along: when a sweep is over, nothing of it is left at the server.
                    let away = open == 0 && seen.is_whole;
                    let there = made.filter(|_| away).cloned();
                    let disk = self.disk.clone();
                    // Where the server is away each try takes its time, and hundreds may be over.
                    let connection = there.as_ref().and_then(|_| self.connected().ok());
                    let remove = || {
                        if let (Some(connection), Some(object)) = (connection, there) {
                            connection.remove(&[&There { kind: Kind::Job, object }]);
                        }
                    };
                    disk.end(name, ended(ending), remove)?;
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, name: &str, code: Option<i64>, stage: Option<Stage>) -> &Last {
        let now = Instant::now();
        let fresh = || Last { code, stage: None, since: now, first: now, told: None, taken_away: None };
        let last = self.last.entry(name.to_string()).or_insert_with(fresh);
        // What the server does not tell for a while has not changed by that.
        let changed = stage.is_some() && last.stage != stage;
        if changed || last.code != code {
            last.since = now;
            last.code = code;
            last.stage = stage.or(last.stage.take());
        }
        last
    }

    fn leaves(&mut self, name: &str, pods: &[&serde_json::Value], grace: u32, is_shown: bool) -> io::Result<()> {
        let recently = |last: &Last| last.taken_away.is_some_and(|at| at.elapsed() < Duration::from_secs(10));
        if self.last.get(name).is_some_and(recently) {
            return Ok(());
        }
        let live = |pod: &&&serde_json::Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let theirs: Vec<There> =
            pods.iter().filter(live).map(|pod| There { kind: Kind::Pod, object: (*pod).clone() }).collect();
        if theirs.is_empty() {
            // One that is made from now on does not begin.
            return if is_shown { self.disk.end(name, ended(Ending::Stopped), || ()) } else { Ok(()) };
        }
        self.leaving.push((name.into(), grace, theirs));
        Ok(())
    }

    /// Those of all runs at once: many requests are under way together, and none waits for the one before.
    fn take_pods_away(&mut self) {
        let leaving = std::mem::take(&mut self.leaving);
        let graces: BTreeSet<u32> = leaving.iter().map(|(_, grace, _)| *grace).collect();
        for grace in graces {
            let of_it = || leaving.iter().filter(|(_, of, _)| *of == grace);
            let Ok(connection) = self.connected() else { return };
            let pods: Vec<&There> = of_it().flat_map(|(_, _, pods)| pods).collect();
            let failed: BTreeSet<String> = connection.end_pods(&pods, grace).into_iter().map(|(pod, _)| pod).collect();
            for (run, ..) in of_it().filter(|(_, _, pods)| !pods.iter().any(|pod| failed.contains(pod.name()))) {
                if let Some(last) = self.last.get_mut(run) {
                    last.taken_away = Some(Instant::now());
                }
            }
        }
    }

    /// Whether nothing of it is left to be done.
    fn take_job_away(&mut self, job: &str, seen: &Seen) -> bool {
        match seen.jobs.get(job) {
            Some(object) if object["metadata"]["deletionTimestamp"].is_null() => {
                let there = There { kind: Kind::Job, object: object.as_ref().clone() };
                self.connected().is_ok_and(|connection| connection.remove(&[&there]).is_empty())
            }
            Some(_) => true,
            None => seen.is_whole && self.unseen.get(job).is_none_or(|at| at.elapsed() > SHOWN),
        }
    }

    /// Jobs of this pool that nobody here knows: their folder was removed.
    fn clear(&mut self, seen: &Seen) {
        let unknown = |(name, object): &(&String, &Arc<serde_json::Value>)| {
            !self.tables.contains_key(*name) && object["metadata"]["deletionTimestamp"].is_null()
        };
        let strays: Vec<There> = seen
            .jobs
            .iter()
            .filter(unknown)
            .map(|(_, object)| There { kind: Kind::Job, object: object.as_ref().clone() })
            .collect();
        if !strays.is_empty()
            && seen.is_whole
            && let Ok(connection) = self.connected()
        {
            connection.remove(&strays.iter().collect::<Vec<_>>());
        }
    }

    fn say(&mut self, name: &str, what: Option<String>) {
        let Some(last) = self.last.get_mut(name).filter(|last| last.told != what) else { return };
        last.told.clone_from(&what);
        let _ = self.tell.send(Word { run: Some(name.into()), trouble: what });
    }

    fn in_trouble(&mut self, what: Option<String>) {
        if self.trouble != what {
            self.trouble.clone_from(&what);
            let _ = self.tell.send(Word { run: None, trouble: what });
        }
    }

    /// Why nothing gets on, if that is so.
    fn refusal(&self, seen: &Seen) -> Option<String> {
        if self.again_at.is_some() {
            return self.trouble.clone();
        }
        seen.trouble.as_ref().map(|why| format!("the pool {}: {why}", self.pool.name))
    }
}

fn ended(ending: Ending) -> End {
    End { ending, began: None, ended: None }
}

fn abandoned() -> Ending {
    Ending::lost("the process that waited for its pod is gone")
}
