//! How does a run end? When its first process and everything it started is gone, and that is written down (GANG-1, QUEUE-2).

use super::diary::note;
use super::guard;
use super::keep::{Cause, Keeper, WORTH_TELLING};
use super::leftovers;
use super::records::Line;
use super::run::{Leader, Live, Why};
use super::words::{FromKeeper, Over, PAGE, Place};
use crate::ending::How;
use crate::records::unix_ms;
use crate::sweep::{Sweep, Swept};
use shoal_core::queue::work::Ending;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// What a run's helpers have to end by themselves after it, before they are asked to.
const LINGER: Duration = Duration::from_millis(500);

impl Keeper {
    /// Sees who is over.
    pub(super) fn reap(&mut self) {
        let mut somebody = false;
        loop {
            let mut status = 0;
            let mut usage = MaybeUninit::<libc::rusage>::zeroed();
            // SAFETY: places for status and usage; WNOHANG, so this returns at once.
            let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
            if pid <= 0 {
                break;
            }
            somebody = true;
            if let Some(live) = self.live.get_mut(&(pid as u32)) {
                // SAFETY: zeros are a valid usage, and the kernel has filled it in.
                let usage = unsafe { usage.assume_init() };
                let ms = |t: libc::timeval| t.tv_sec as u64 * 1000 + t.tv_usec as u64 / 1000;
                live.leader = Some(Leader {
                    status,
                    cpu_ms: ms(usage.ru_utime) + ms(usage.ru_stime),
                    peak_bytes: usage.ru_maxrss as u64 * 1024,
                    at: unix_ms(),
                });
            }
        }
        if somebody {
            self.end_those_who_left_nothing();
        }
    }

    /// Of those whose first process is over: whoever left nobody behind has ended. The others are swept.
    fn end_those_who_left_nothing(&mut self) {
        let over: Vec<u32> = self.live.iter().filter(|(_, l)| l.leader.is_some()).map(|(pid, _)| *pid).collect();
        if over.is_empty() {
            return;
        }
        let strangers = self.strangers();
        for pid in over {
            let Some(live) = self.live.get(&pid) else { continue };
            if strangers.is_empty() || self.of_run(&strangers, &live.begins.name).is_empty() {
                self.finish(pid, false);
            } else if let Some(live) = self.live.get_mut(&pid)
                && live.sweep.is_none()
            {
                let now = Instant::now();
                let linger = if live.stop.is_some() { Duration::ZERO } else { LINGER };
                let mut sweep = Sweep::new(now, linger, live.grace);
                if let Some(stop) = &live.stop {
                    sweep.hurry(now, stop.kill_at.saturating_duration_since(now));
                }
                live.sweep = Some(sweep);
            }
        }
    }

    /// Children of ours that are no run's first process, and whose they are, if that can be told.
    fn strangers(&mut self) -> Vec<(u32, Option<String>)> {
        let pids = self.children.pids();
        let strangers = pids.into_iter().filter(|pid| self.live.get(pid).is_none_or(|l| l.leader.is_some()));
        let name_of = |session: u32| self.live.get(&session).map(|l| l.begins.name.clone());
        strangers.map(|pid| (pid, self.children.run_of(pid, name_of))).collect()
    }

    /// One whose run cannot be told is of the only one there is, or of nobody until there is only one.
    fn of_run(&self, strangers: &[(u32, Option<String>)], name: &str) -> Vec<u32> {
        let only = self.live.len() == 1;
        let mine = |of: &Option<String>| of.as_deref().map_or(only, |of| of == name);
        strangers.iter().filter(|(_, of)| mine(of)).map(|(pid, _)| *pid).collect()
    }

    pub(super) fn step_sweeps(&mut self, now: Instant) {
        let swept: Vec<u32> = self.live.iter().filter(|(_, l)| l.sweep.is_some()).map(|(pid, _)| *pid).collect();
        if swept.is_empty() {
            return;
        }
        let strangers = self.strangers();
        for pid in swept {
            let Some(live) = self.live.get(&pid) else { continue };
            let left = leftovers::with_descendants(&self.of_run(&strangers, &live.begins.name));
            let Some(live) = self.live.get_mut(&pid) else { continue };
            match live.sweep.as_mut().map_or(Swept::Clean, |sweep| sweep.step(now, &left)) {
                Swept::Going => {}
                Swept::Clean => self.finish(pid, false),
                Swept::Stuck(pids) => {
                    let name = live.begins.name.clone();
                    let what = format!(
                        "processes {pids:?} of {name} do not end, not even by SIGKILL: a device or network drive that hangs holds them"
                    );
                    self.in_trouble(Cause::Left { name, pids }, what);
                    self.finish(pid, true);
                }
            }
        }
    }

    /// Nobody of it is left, or nobody who could be ended.
    fn finish(&mut self, pid: u32, stuck: bool) {
        let Some(mut live) = self.live.remove(&pid) else { return };
        self.no_more_trouble(&Cause::Stuck(live.begins.name.clone()));
        guard::say_if_killed(&live);
        let output = self.put_away_log(&mut live, stuck);
        let leader = live.leader.unwrap_or(Leader { status: libc::SIGKILL, cpu_ms: 0, peak_bytes: 0, at: unix_ms() });
        let over = Over {
            ending: ending(&mut live, leader.status),
            name: live.begins.name,
            note: live.begins.note,
            began: live.begins.at,
            // A clock that was set back must not make it end before it began.
            ended: leader.at.max(live.begins.at),
            cpu_ms: leader.cpu_ms,
            peak_memory_bytes: leader.peak_bytes,
            output,
        };
        self.put_over(over, true);
    }

    fn put_away_log(&mut self, live: &mut Live, stuck: bool) -> Option<Place> {
        let log = live.log.take()?;
        let len = log.bytes();
        // Somebody may hold the file: whoever follows it, or a process that does not end.
        let known = live.told || stuck;
        if len == 0 {
            if known {
                self.logs.discard(log)
            } else {
                self.logs.give_back_empty(log)
            }
            return None;
        }
        match self.packs.add(&live.begins.name, &log, &self.logs.path(&log), len) {
            Ok(taken) => {
                if !taken.renamed {
                    if known { self.logs.discard(log) } else { self.logs.reuse(log) }
                }
                Some(taken.place)
            }
            Err(e) => {
                note("queue-keeper", format!("the output of {} could not be kept: {e}", live.begins.name));
                self.logs.discard(log);
                None
            }
        }
    }

    /// `noted`: its note is in the records already.
    pub(super) fn put_over(&mut self, mut over: Over, noted: bool) {
        self.added += 1;
        self.book.over(&over.name);
        self.untold.push_back((self.added, over.name.clone()));
        let note = if noted { std::mem::take(&mut over.note) } else { over.note.clone() };
        self.records.add(&Line::Ended(over.clone()));
        self.over.insert(over.name.clone(), Over { note, ..over });
    }

    pub(super) fn tell_alive(&mut self, now: Instant) {
        if self.line.as_ref().is_none_or(|line| !line.greeted) {
            return;
        }
        let mut runs = Vec::new();
        for live in self.live.values_mut() {
            if !live.told && live.leader.is_none() && now >= live.started + WORTH_TELLING {
                live.told = true;
                runs.push(live.alive());
            }
        }
        if !runs.is_empty() {
            self.say(&FromKeeper::Alive { runs });
        }
    }

    /// Says what is on disk.
    pub(super) fn tell(&mut self) {
        let mut runs = Vec::new();
        while self.untold.front().is_some_and(|(number, _)| *number <= self.synced) {
            let Some((_, name)) = self.untold.pop_front() else { break };
            runs.extend(self.over.get(&name).cloned());
        }
        if !runs.is_empty() {
            self.tell_over(runs);
        }
        if let Some(line) = &mut self.line {
            line.push();
        }
        self.drop_broken_line();
    }

    pub(super) fn tell_over(&mut self, runs: Vec<Over>) {
        let size = |over: &Over| 400 + over.note.len() * 2;
        let (mut page, mut bytes) = (Vec::new(), 0);
        for over in runs {
            bytes += size(&over);
            page.push(over);
            if bytes > PAGE {
                self.say(&FromKeeper::Over { runs: std::mem::take(&mut page) });
                bytes = 0;
            }
        }
        if !page.is_empty() {
            self.say(&FromKeeper::Over { runs: page });
        }
    }
}

fn ending(live: &mut Live, status: i32) -> Ending {
    let how = How::of_wait_status(status);
    if let Some(stop) = &live.stop {
        return match &stop.why {
            Why::Asked => Ending::Stopped,
            Why::TimeLimit => Ending::TimeLimit,
            Why::Memory => Ending::OutOfMemory,
            Why::Leaving { why, felled } => Ending::Lost { why: why.clone(), felled: *felled },
        };
    }
    if let Some(progress) = &mut live.progress
        && let Some(why) = progress.failure(&how.to_string())
    {
        return Ending::NotStarted { why };
    }
    // A shell in between turns the kernel's SIGKILL into 137.
    let killed = matches!(how, How::Signaled(libc::SIGKILL) | How::Exited(137));
    match how {
        _ if killed && live.kills.as_ref().is_some_and(|kills| kills.more()) => Ending::OutOfMemory,
        How::Exited(code) => Ending::Exited(code),
        How::Signaled(signal) => Ending::Signaled(signal),
    }
}
