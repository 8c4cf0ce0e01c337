//! How does a `Start` get to the keeper? When its trees and its environment are here, and whoever it follows has gone before.

use super::envs;
use super::note::name;
use super::ready::refused;
use super::session::{Known, Session};
use super::shelf::Where;
use super::trees::{self, NotHere};
use super::{Event, marks, root};
use crate::keeper::command::{expand, home};
use crate::queue::keeper::diary::note;
use crate::queue::keeper::words::{Run, ToKeeper};
use shoal_core::queue::line::FromHost;
use shoal_core::queue::work::{Publish, Start};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Of one message to the keeper.
const RUNS: usize = 256;
const BYTES: usize = 1 << 20;
/// A tree that comes broken is asked for again, this often.
const TREE_TRIES: u32 = 3;
/// Then runs that need it have failed; for those that come after this, it is asked for anew.
const TREE_AGAIN: Duration = Duration::from_secs(60);
/// One that found no room on the disk.
const TREE_ROOM_AGAIN: Duration = Duration::from_secs(10);
/// An environment that could not be made is not tried again before.
const ENVIRONMENT_AGAIN: Duration = Duration::from_secs(60);

/// Folders for results that are looked at, at most.
const MOST_MARKS: usize = 256;
/// A full disk is tried again.
const DISK_AGAIN: Duration = Duration::from_secs(1);

/// What a start needs.
enum Needs {
    Nothing(Option<(PathBuf, String)>),
    Waits,
    Never(String, Option<String>),
}

impl Session {
    /// Idempotent: one that is known goes on; one whose end is known is told of it again (QUEUE-2).
    pub fn accept(&mut self, start: Start) {
        let name = name(&start.attempt, start.rank);
        match self.runs.get(&name) {
            Some(Known::Told(ended)) => return self.ends.push((**ended).clone()),
            Some(_) => return,
            None => {}
        }
        // A sweep that was forgotten may come again under its name.
        self.acknowledged.remove(&name);
        if start.rank > 0 {
            self.gangs.entry(start.attempt.clone()).or_default().insert(start.rank);
        }
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), start.attempt.clone());
        self.shelf.put(&name, Where::Waits);
        self.pending.push_back(name.clone());
        self.runs.insert(name, Known::Pending(Box::new(start)));
        self.look_again = true;
    }

    /// Hands over what can be, in the order in which it came. One that waits holds up those that follow it, and nobody else.
    pub fn hand_over(&mut self) {
        if !std::mem::take(&mut self.look_again) || !self.greeted {
            return;
        }
        let (mut runs, mut bytes, mut full) = (Vec::new(), 0, false);
        let pending: Vec<String> = self.pending.drain(..).collect();
        for name in pending {
            let Some(Known::Pending(start)) = self.runs.get(&name) else { continue };
            let start = start.clone();
            let after = start.after.as_ref().map(|after| super::note::name(after, start.rank));
            let follows_one_that_waits =
                after.is_some_and(|after| matches!(self.runs.get(&after), Some(Known::Pending(_))));
            let run = match if follows_one_that_waits { Needs::Waits } else { self.needs(&start) } {
                Needs::Waits => {
                    self.pending.push_back(name);
                    continue;
                }
                Needs::Nothing(made) => {
                    let (venv, digest) = made.unzip();
                    match self.maker.run(&start, venv.as_deref(), digest) {
                        Ok(run) => run,
                        Err(why) => {
                            self.trouble("disk", None, format!("runs wait to be started on this host: {why}"));
                            full = true;
                            self.pending.push_back(name);
                            continue;
                        }
                    }
                }
                Needs::Never(why, digest) => refused(&start, why, digest),
            };
            bytes += size(&run);
            runs.push(run);
            self.used(&start);
            self.look_for_mark(&start);
            self.runs.insert(name, Known::Handed(Some(start)));
            if runs.len() >= RUNS || bytes > BYTES {
                self.send_runs(std::mem::take(&mut runs));
                bytes = 0;
            }
        }
        self.send_runs(runs);
        match full {
            true => self.disk_again_at = Some(Instant::now() + DISK_AGAIN),
            false => self.no_more_trouble("disk"),
        }
    }

    /// Where its results will go is looked at before it starts, once: their folder may be made anew before anything is put there.
    fn look_for_mark(&mut self, start: &Start) {
        let (Some(mark), Publish::Folder(to)) = (&start.results_mark, &start.publish) else { return };
        if self.marks.len() >= MOST_MARKS || self.marks.contains(mark) {
            return;
        }
        self.marks.insert(mark.clone());
        let home = home(&std::env::vars_os().collect());
        let (to, mark, marks) = (expand(to, &home), mark.clone(), self.folder.marks());
        let look = move || {
            if let Some(root) = root::above(&to) {
                marks::look(&marks, &mark, root);
            }
        };
        // A drive that hangs holds this thread alone. Without it, somebody is asked in the end.
        let _ = std::thread::Builder::new().name("mark".into()).stack_size(128 << 10).spawn(look);
    }

    fn send_runs(&mut self, runs: Vec<Run>) {
        if !runs.is_empty() {
            let environments = self.maker.take_environments();
            self.tell_keeper(&ToKeeper::Start { environments, runs });
        }
    }

    fn needs(&mut self, start: &Start) -> Needs {
        let mut waits = false;
        // The difference to its commit, for those who want to know; it runs without as well.
        let diff = start.origin.iter().filter_map(|origin| origin.diff.as_deref()).map(|digest| (digest, false));
        for (digest, needed) in start.trees.iter().map(|tree| (tree.digest.as_str(), true)).chain(diff) {
            if trees::is_here(&self.folder.trees(), digest) {
                continue;
            }
            match self.asked.get(digest) {
                Some(tries) if *tries > TREE_TRIES && !needed => continue,
                Some(tries) if *tries > TREE_TRIES => {
                    return Needs::Never(
                        format!("its files could not be had: the tree {digest} came broken {TREE_TRIES} times"),
                        None,
                    );
                }
                Some(_) => {}
                None if !trees::is_digest(digest) && !needed => continue,
                None if !trees::is_digest(digest) => {
                    return Needs::Never(format!("`{digest}` is no digest of a tree"), None);
                }
                None => {
                    self.asked.insert(digest.into(), 1);
                    self.outbox.say(&FromHost::NeedTree { digest: digest.into() });
                }
            }
            waits = true;
        }
        match (&start.requirements, waits) {
            (_, true) => Needs::Waits,
            (None, false) => Needs::Nothing(None),
            (Some(requirements), false) => self.environment(requirements, start.virtualenv.as_deref()),
        }
    }

    fn environment(&mut self, requirements: &str, base: Option<&str>) -> Needs {
        let digest = envs::digest(requirements, base);
        if let Some(root) = envs::ready(&self.folder.envs(), &digest) {
            return Needs::Nothing(Some((root, digest)));
        }
        match self.making.get(&digest) {
            Some(None) => return Needs::Waits,
            Some(Some((_, why))) => return Needs::Never(why.clone(), Some(digest)),
            None => {}
        }
        let home = home(&std::env::vars_os().collect());
        let base = base.map(|base| home.join(expand(base, &home)));
        let (envs, requirements, events) = (self.folder.envs(), requirements.to_string(), self.events.clone());
        let key = digest.clone();
        let make = move || {
            let made = envs::make(&envs, &key, &requirements, base.as_deref());
            let _ = events.send(Event::Environment(key, made));
        };
        match std::thread::Builder::new().name("environment".into()).spawn(make) {
            Ok(_) => {
                self.making.insert(digest, None);
                Needs::Waits
            }
            Err(e) => Needs::Never(format!("its environment cannot be made: {e}"), Some(digest)),
        }
    }

    pub fn environment_made(&mut self, digest: String, made: Result<PathBuf, String>) {
        self.measure_soon();
        match made {
            Ok(_) => drop(self.making.remove(&digest)),
            Err(why) => drop(self.making.insert(digest, Some((Instant::now() + ENVIRONMENT_AGAIN, why)))),
        }
        self.look_again = true;
    }

    pub fn tree_piece(&mut self, digest: &str, at: u64, last: bool, bytes: &[u8]) {
        let trees = self.folder.trees();
        if trees::is_here(&trees, digest) {
            return;
        }
        match self.arriving.piece(&trees, digest, at, last, bytes) {
            Ok(None) => {}
            Ok(Some(packed)) => {
                let (events, digest) = (self.events.clone(), digest.to_string());
                let unpack = move || {
                    let done = trees::unpack(&trees, &digest, &packed);
                    let _ = events.send(Event::Tree(digest, done));
                };
                if let Err(e) = std::thread::Builder::new().name("unpack".into()).spawn(unpack) {
                    note("agent", format!("no thread could be started: {e}"));
                }
            }
            // The last piece brings the failure: then it is asked for again. What came first is why: the others are only out of order.
            Err(e) => {
                let why = format!("files of runs cannot be kept in {}: {e}", trees.display());
                let mut why = NotHere::of(&e, why);
                if let Some(first) = self.without_room.remove(digest) {
                    why = NotHere::NoRoom(first);
                }
                self.trouble("trees", None, why.why().into());
                match (last, why) {
                    (true, why) => self.tree_unpacked(digest.into(), Err(why)),
                    (false, NotHere::NoRoom(why)) => drop(self.without_room.insert(digest.into(), why)),
                    (false, NotHere::Broken(_)) => {}
                }
            }
        }
    }

    /// Those that are not here are asked for anew: there may be room now, or another copy of them.
    pub fn ask_for_trees_again(&mut self, now: Instant) {
        let due: Vec<String> =
            self.trees_again.iter().filter(|(_, at)| now >= **at).map(|(digest, _)| digest.clone()).collect();
        for digest in due {
            self.trees_again.remove(&digest);
            self.asked.remove(&digest);
            self.look_again = true;
        }
    }

    pub fn tree_unpacked(&mut self, digest: String, unpacked: Result<(), NotHere>) {
        self.look_again = true;
        match unpacked {
            Ok(()) => {
                self.measure_soon();
                self.asked.remove(&digest);
                self.no_more_trouble("trees");
                self.outbox.say(&FromHost::HaveTree { digest });
            }
            Err(NotHere::NoRoom(why)) => {
                self.trouble("trees", None, format!("runs wait for room on this host: {why}"));
                self.asked.entry(digest.clone()).or_insert(1);
                self.trees_again.insert(digest, Instant::now() + TREE_ROOM_AGAIN);
            }
            Err(NotHere::Broken(why)) => {
                note("agent", &why);
                let tries = self.asked.entry(digest.clone()).or_insert(0);
                *tries += 1;
                if *tries <= TREE_TRIES {
                    self.outbox.say(&FromHost::NeedTree { digest });
                } else {
                    self.trees_again.insert(digest, Instant::now() + TREE_AGAIN);
                }
            }
        }
    }
}

/// Roughly, as JSON.
fn size(run: &Run) -> usize {
    let words: usize = run.argv.iter().map(|word| word.len() + 4).sum();
    let env: usize = run.env.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
    400 + run.note.len() * 2 + words + env
}
