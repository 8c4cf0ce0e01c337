//! What does a keeper do all day? One loop, which waits for whatever comes next and never for anything else.

use super::book::Book;
use super::diary::note;
use super::folder::Folder;
use super::launch::{Environment, Launcher};
use super::leftovers::Children;
use super::line::Line;
use super::logs::Logs;
use super::packs::Packs;
use super::records::Records;
use super::run::Live;
use super::sync::Syncer;
use super::words::{FromKeeper, Over, Run};
use crate::keeper::memory::Kills;
use crate::{proc, sweep};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Nothing lives, nobody asks, and all ends are on disk: it may go.
const IDLE: Duration = Duration::from_secs(60);
/// Before a run is told to be alive: most short ones never are.
pub(super) const WORTH_TELLING: Duration = Duration::from_millis(100);
/// Lines that nobody waits for go to the file with the next, or after this.
const LAZY: Duration = Duration::from_millis(50);
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Runs started before looking who else wants something.
const STARTS_AT_ONCE: usize = 16;
/// With nothing to do; only a bound.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

pub struct Keeper {
    pub(super) folder: Folder,
    pub(super) mark: String,
    pub(super) launcher: Launcher,
    pub(super) null: File,
    pub(super) listener: UnixListener,
    /// The same under a name that is no file.
    pub(super) named: Option<UnixListener>,
    /// Of the folder; held as long as it is open.
    pub(super) lock: File,
    pub(super) look_at: Instant,
    pub(super) signals: OwnedFd,
    pub(super) children: Children,
    pub(super) book: Book<Box<(Run, Rc<Environment>)>>,
    pub(super) live: HashMap<u32, Live>,
    pub(super) over: BTreeMap<String, Over>,
    pub(super) records: Records,
    pub(super) packs: Packs,
    pub(super) logs: Logs,
    pub(super) syncer: Syncer,
    /// Endings in the order in which they are in the file, that nobody has been told of.
    pub(super) untold: VecDeque<(u64, String)>,
    pub(super) added: u64,
    pub(super) asked_to_sync: u64,
    pub(super) synced: u64,
    pub(super) lazy_since: Option<Instant>,
    /// When what could not be written is tried again.
    pub(super) retry_at: Option<Instant>,
    /// What is wrong, for people.
    pub(super) troubles: BTreeMap<Cause, String>,
    pub(super) kills: Option<(Instant, Option<Rc<Kills>>)>,
    pub(super) line: Option<Line>,
    pub(super) idle_since: Option<Instant>,
    /// No more starts.
    pub(super) leaving: Option<Leaving>,
    pub(super) lowered_oom_score: bool,
}

impl Keeper {
    /// Until there is nothing left to keep. What kept others away comes back, for whoever clears up.
    pub fn keep(mut self) -> (File, Option<UnixListener>) {
        loop {
            self.start_ready();
            self.write_down();
            if self.may_go() {
                break;
            }
            let wait = self.wait_until().saturating_duration_since(Instant::now());
            let ready = self.poll(wait);
            if ready.signals {
                self.hear_signals();
            }
            self.reap();
            if ready.synced {
                self.hear_syncer();
            }
            if ready.line {
                self.hear_agent();
            }
            if ready.listener {
                self.welcome(self.listener.accept());
            }
            if ready.named
                && let Some(came) = self.named.as_ref().map(UnixListener::accept)
            {
                // Whoever comes this way has not found the folder's socket.
                self.look_at = Instant::now();
                self.welcome(came);
            }
            self.pass_time();
            self.tell();
        }
        self.logs.remove_spare();
        (self.lock, self.named)
    }

    fn start_ready(&mut self) {
        if self.leaving.is_some() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        for _ in 0..STARTS_AT_ONCE {
            let Some((name, what)) = self.book.next() else { return };
            if !self.begin(name, what) {
                return;
            }
        }
    }

    /// Into the file, and from there to disk.
    fn write_down(&mut self) {
        let now = Instant::now();
        let urgent = self.added > self.asked_to_sync;
        let lazy = self.records.is_pending() && self.lazy_since.is_none_or(|since| now >= since + LAZY);
        if self.retry_at.is_some_and(|at| now < at) || !(urgent || lazy) {
            if self.records.is_pending() {
                self.lazy_since.get_or_insert(now);
            }
            return;
        }
        self.flush();
        if self.records.is_pending() || !urgent {
            return;
        }
        self.asked_to_sync = self.added;
        let pack = self.packs.take_dirty().map(std::sync::Arc::new);
        self.syncer.want(self.added, pack.into_iter().chain([self.records.file()]));
    }

    /// Whether all lines are in the file.
    pub(super) fn flush(&mut self) -> bool {
        match self.records.flush() {
            Ok(()) => {
                self.lazy_since = None;
                if self.retry_at.take().is_some() {
                    self.no_more_trouble(&Cause::Disk);
                }
                true
            }
            Err(e) => {
                let at = self.folder.records();
                let what =
                    format!("{} cannot be written: {e}; ends of runs are kept in memory until it can", at.display());
                self.in_trouble(Cause::Disk, what);
                self.retry_at = Some(Instant::now() + RETRY);
                false
            }
        }
    }

    pub(super) fn in_trouble(&mut self, cause: Cause, what: String) {
        if self.troubles.get(&cause) != Some(&what) {
            self.no_more_trouble(&cause);
            note("queue-keeper", &what);
            self.say(&FromKeeper::Trouble { what: what.clone(), over: false });
            self.troubles.insert(cause, what);
        }
    }

    pub(super) fn no_more_trouble(&mut self, cause: &Cause) {
        if let Some(what) = self.troubles.remove(cause) {
            note("queue-keeper", format!("no more: {what}"));
            self.say(&FromKeeper::Trouble { what, over: true });
        }
    }

    /// Processes that did not end after their run was given up, and are gone now.
    fn forget_stuck(&mut self) {
        let is_gone = |pid: &u32| proc::stat(*pid).is_none_or(|stat| stat.is_zombie());
        let gone = |cause: &Cause| matches!(cause, Cause::Left { pids, .. } if pids.iter().all(is_gone));
        let gone: Vec<Cause> = self.troubles.keys().filter(|cause| gone(cause)).cloned().collect();
        gone.iter().for_each(|cause| self.no_more_trouble(cause));
    }

    pub(super) fn say(&mut self, message: &FromKeeper) {
        if let Some(line) = self.line.as_mut().filter(|line| line.greeted) {
            line.say(message);
        }
    }

    fn may_go(&mut self) -> bool {
        let nothing_lives = self.live.is_empty() && self.untold.is_empty();
        // Those that wait were never begun: they are not written down, and whoever sent them will find that out.
        match self.leaving {
            Some(Leaving::Host) if nothing_lives => return true,
            Some(Leaving::Agent { told }) if nothing_lives => {
                if !told {
                    self.say(&FromKeeper::Left);
                    self.leaving = Some(Leaving::Agent { told: true });
                }
                return self.line.is_none();
            }
            _ => {}
        }
        // Ends that nobody has acknowledged are on disk: whoever asks later hears of them from the next keeper (QUEUE-2).
        if !(nothing_lives && self.book.is_empty() && self.line.is_none()) {
            self.idle_since = None;
            return false;
        }
        self.idle_since.get_or_insert_with(Instant::now).elapsed() >= IDLE
    }

    fn wait_until(&self) -> Instant {
        let now = Instant::now();
        let mut until = now + LONGEST_WAIT;
        let mut not_after = |at: Instant| until = until.min(at);
        if let Some(at) = self.retry_at {
            not_after(at);
        } else if let Some(since) = self.lazy_since {
            not_after(since + LAZY);
        }
        if let Some(since) = self.idle_since {
            not_after(since + IDLE);
        }
        // Nobody can be told as long as nobody listens: to wake up for that would be to never sleep.
        let heard = self.line.as_ref().is_some_and(|line| line.greeted);
        for live in self.live.values() {
            live.deadline.into_iter().for_each(&mut not_after);
            if heard && !live.told && live.leader.is_none() {
                not_after(live.started + WORTH_TELLING);
            }
            if live.sweep.is_some() {
                not_after(now + sweep::STEP);
            }
            if let Some(memory) = &live.memory {
                not_after(memory.look_at);
            }
            if let Some(stop) = live.stop.as_ref().filter(|_| live.leader.is_none()) {
                match stop.killed {
                    false => not_after(stop.ask_at.unwrap_or(stop.kill_at)),
                    true if !stop.said => not_after(stop.kill_at + sweep::GIVE_UP),
                    true => {}
                }
            }
        }
        if self.retry_at.is_none() && self.leaving.is_none() && self.book.has_ready() { now } else { until }
    }

    fn poll(&mut self, wait: Duration) -> Ready {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::from_borrowed_fd(self.syncer.woken.as_fd(), PollFlags::IN),
        ];
        if let Some(line) = &self.line {
            let out = if line.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(&line.stream, PollFlags::IN | out));
        }
        let line = self.line.is_some();
        fds.extend(self.named.as_ref().map(|named| PollFd::new(named, PollFlags::IN)));
        // Interrupted or not: whoever is ready is found below, or next time.
        let _ = poll(&mut fds, Some(&wait));
        let is = |k: usize| fds.get(k).is_some_and(|fd| !fd.revents().is_empty());
        let (line, named) = (line && is(3), is(3 + usize::from(line)));
        Ready { signals: is(0), listener: is(1), synced: is(2), line, named }
    }

    fn pass_time(&mut self) {
        let now = Instant::now();
        self.stand(now);
        self.step_stops(now);
        self.step_sweeps(now);
        self.forget_stuck();
        self.tell_alive(now);
        if self.records.is_mostly_dead() && self.retry_at.is_none() {
            let open: Vec<_> = self.live.values().flat_map(Live::lines).collect();
            let waits = self.added > self.synced;
            if let Err(e) = self.records.compact(&open, self.over.values()) {
                note("queue-keeper", format!("its records could not be written anew: {e}"));
            } else if waits {
                // All of it was just synced.
                self.asked_to_sync = self.added;
                self.synced = self.added;
            }
        }
        match self.packs.prune() {
            Ok((0, _)) => {}
            Ok((files, bytes)) => {
                note(
                    "queue-keeper",
                    format!("removed the {files} oldest packs of logs ({bytes} bytes), to stay below the bound"),
                );
            }
            Err(e) => note("queue-keeper", format!("old packs of logs cannot be removed: {e}")),
        }
    }

    fn hear_syncer(&mut self) {
        let (done, problem) = self.syncer.done();
        self.synced = self.synced.max(done);
        match problem {
            Some(why) => {
                let at = self.folder.records();
                let what = format!("{} cannot be put on disk: {why}; ends of runs wait for it", at.display());
                self.in_trouble(Cause::Disk, what);
            }
            None if self.retry_at.is_none() => self.no_more_trouble(&Cause::Disk),
            None => {}
        }
    }
}

/// What can be wrong without ending a run by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    Disk,
    /// The first process of this run does not end.
    Stuck(String),
    /// Processes that this run left behind do not.
    Left {
        name: String,
        pids: Vec<u32>,
    },
}

/// Who wants it to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// Told when nothing lives; then it goes with the line.
    Agent {
        told: bool,
    },
    Host,
}

#[derive(Debug, Clone, Copy)]
struct Ready {
    signals: bool,
    listener: bool,
    synced: bool,
    line: bool,
    named: bool,
}
