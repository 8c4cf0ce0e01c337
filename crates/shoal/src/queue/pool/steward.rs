//! What is to be done now for the runs of a pool? Looks at the volume and at what the server has, and brings both together.
//!
//! It remembers nothing that matters: killed at any moment, the next one finds what was asked and decided on the volume, and what runs at the
//! server. Jobs are named by the attempts they are of, so asking for one twice makes one (QUEUE-2).

mod asking;

use super::cluster::{Cluster, Seen};
use super::disk::{Disk, Run, Table};
use super::refusals::Refusals;
use super::settle::{Known, Verdict, verdict};
use super::shut::Nodes;
use shoal_core::fleet::pool::{Pool, node_of};
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::pool::ask::{Ask, End, group};
use shoal_core::kubernetes::pool::job::{self, Place};
use shoal_core::kubernetes::pool::nodes;
use shoal_core::kubernetes::pool::seen::{self, Stage};
use shoal_core::kubernetes::template::Kind;
use shoal_core::queue::work::Ending;
use shoal_daemon::queue::agent::pods::{Shut, Word};
use shoal_hosts::kubernetes::{Connection, Wanted};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often the volume is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Runs that come together are of one Job: so long nobody else may have come; or the first has waited so long.
const CALM: Duration = Duration::from_millis(150);
const LONGEST: Duration = Duration::from_secs(1);
/// Of hundreds of pods one says something at any moment. A look at all of it is followed by a rest that is longer than the look.
const REST: u32 = 2;
/// A request that failed is made again after so long, or after as long as it took to fail.
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
    /// The server is away: until then nobody asks it anything. What the volume says goes on.
    again_at: Option<Instant>,
    refusals: Refusals,
    nodes: Nodes,
    left_at: Instant,
    trouble: Option<String>,
}

/// Until the process ends.
pub fn run(pool: Pool, store: &str, root: &Path, shut: &Shut, tell: &Sender<Word>) {
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
        Ok::<_, io::Error>((disk, tables, Cluster::follow(wanted.clone(), &owner, nodes::is_pinned(&pool))?))
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
        refusals: Refusals::default(),
        nodes: Nodes::new(shut.clone()),
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
        self.again_at = self.again_at.filter(|at| Instant::now() < *at);
        self.nodes.look(self.pool, seen.is_whole.then_some(seen.nodes.as_slice()));
        let runs = self.disk.runs()?;
        self.last.retain(|name, _| runs.contains_key(name));
        self.asks.retain(|name, _| runs.contains_key(name));
        self.decide(&runs)?;
        self.apply();
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

    fn asks_of(&mut self, table: &Table) -> io::Result<Vec<Ask>> {
        let one = |name: &String| match self.asks.get(name) {
            Some(ask) => Ok(ask.clone()),
            None => self.disk.ask(name),
        };
        table.runs.iter().map(one).collect()
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
            let given_up = match &stage {
                Some(Stage::Unplaced(_)) => self.given_up(name, since),
                _ => None,
            };
            let known = Known {
                code,
                to_stop: run.is_to_stop() || is_left,
                limit: run.is_late(),
                told: run.is_told(),
                stage: stage.as_ref(),
                since,
                grace,
                given_up: given_up.as_deref(),
            };
            match verdict(&known) {
                Verdict::Goes(why) => self.say(name, why.filter(|_| first > USUAL)),
                Verdict::TakeAway => {
                    // Not 0: that would take it off the list whether it has ended or not.
                    self.leaves(name, &pods, if is_left { 1 } else { grace.as_secs() as u32 }, is_shown)?
                }
                Verdict::Over(ending) => {
                    open -= 1;
                    let ending = if is_left && !ending.success() { abandoned() } else { ending };
                    // The last of a Job takes it along: when a sweep is over, nothing of it is left at the server.
                    let away = open == 0 && seen.is_whole;
                    let there = made.filter(|_| away).map(|object| There { kind: Kind::Job, object: object.clone() });
                    let disk = self.disk.clone();
                    let remove = || {
                        if let Some(there) = &there {
                            self.remove(&[there]);
                        }
                    };
                    disk.end(name, ended(ending), remove)?;
                }
            }
        }
        Ok(())
    }

    /// Why a run that is pinned to a node goes back to the queue.
    fn given_up(&mut self, name: &str, since: Duration) -> Option<String> {
        let pinned = nodes::is_pinned(self.pool);
        let held = self.asks.get(name).filter(|_| pinned)?.devices.first()?;
        self.nodes.gives_up(self.pool, node_of(&held.uuid), since)
    }

    fn remember(&mut self, name: &str, code: Option<i64>, stage: Option<Stage>) -> &Last {
        let now = Instant::now();
        let fresh = || Last { code, stage: None, since: now, first: now, told: None, taken_away: None };
        let last = self.last.entry(name.to_string()).or_insert_with(fresh);
        // What the server does not tell for a while has not changed by that, nor by other words for the same.
        let changed = stage.as_ref().is_some_and(|new| last.stage.as_ref().is_none_or(|old| !new.is_like(old)));
        if changed || last.code != code {
            last.since = now;
            last.code = code;
        }
        last.stage = stage.or(last.stage.take());
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
        let name = &self.pool.name;
        let trouble = seen.trouble.as_ref().map(|why| format!("the pool {name}: {why}"));
        let refused = || self.refusals.words().map(|why| format!("runs of the pool {name} wait: {why}"));
        trouble.or_else(refused).or_else(|| self.nodes.words().map(|why| format!("the pool {name}: {why}")))
    }
}

fn ended(ending: Ending) -> End {
    End { ending, began: None, ended: None }
}

fn abandoned() -> Ending {
    Ending::lost("the process that waited for its pod is gone")
}
