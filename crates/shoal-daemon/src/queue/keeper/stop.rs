//! How is a run asked to end, and made to?
//!
//! The group gets the signal, and whoever left the group but is below the run's first process. SIGUSR1 first if there is a checkpoint
//! to write, SIGTERM, and SIGKILL when the grace is over. A time limit and too much memory are the same, from within.

use super::keep::{Cause, Keeper, Leaving};
use super::run::{Live, Stop, Why};
use super::words::Over;
use crate::proc;
use crate::records::unix_ms;
use crate::sweep::GIVE_UP;
use rustix::process::{Pid, Signal};
use shoal_core::queue::work::Ending;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const MEMORY_EVERY: Duration = Duration::from_secs(1);

/// To all of a run.
fn signal(live: &Live, signal: Signal) {
    if live.leader.is_some() {
        // What it left behind is swept, one by one.
        return;
    }
    let Some(group) = Pid::from_raw(live.pid as i32) else { return };
    // Those that left the group first: the first to end may take others with it, and then nobody knows whose they were.
    for stat in proc::below(live.pid, &HashSet::new()) {
        let pid = Pid::from_raw(stat.process.pid as i32);
        if rustix::process::getpgid(pid).is_ok_and(|of| of != group) {
            proc::signal(stat.process, signal);
        }
    }
    // Its first process is not reaped, so the number is its own.
    let _ = rustix::process::kill_process_group(group, signal);
    if signal == Signal::TERM {
        // One that was stopped would not hear it.
        let _ = rustix::process::kill_process_group(group, Signal::CONT);
    }
}

impl Stop {
    /// Killed long ago, and still there; not said yet.
    fn is_in_vain(&self, now: Instant) -> bool {
        self.killed && !self.said && now >= self.kill_at + GIVE_UP
    }
}

impl Live {
    /// Sooner than planned, never later.
    pub(super) fn ask_to_end(&mut self, now: Instant, why: Why, checkpoint_first: bool, grace: Duration) {
        let ask_at = if checkpoint_first { now + grace / 2 } else { now };
        match &mut self.stop {
            None => {
                if checkpoint_first {
                    signal(self, Signal::USR1);
                }
                self.stop = Some(Stop { why, ask_at: Some(ask_at), kill_at: now + grace, killed: false, said: false });
            }
            Some(stop) => {
                stop.ask_at = stop.ask_at.map(|at| at.min(ask_at));
                stop.kill_at = stop.kill_at.min(now + grace);
            }
        }
        if let Some(sweep) = &mut self.sweep {
            sweep.hurry(now, grace);
        }
    }
}

impl Keeper {
    pub(super) fn stop(&mut self, name: &str, checkpoint_first: bool, grace: Duration) {
        if self.cancel(name) {
            return;
        }
        let now = Instant::now();
        if let Some(live) = self.live.values_mut().find(|live| live.begins.name == name) {
            live.ask_to_end(now, Why::Asked, checkpoint_first, grace);
        }
    }

    /// If it waits for its turn.
    pub(super) fn cancel(&mut self, name: &str) -> bool {
        let Some(what) = self.book.cancel(name) else { return false };
        let (run, _) = *what;
        let now = unix_ms();
        self.put_over(
            Over {
                name: run.name,
                note: run.note,
                ending: Ending::Stopped,
                began: now,
                ended: now,
                cpu_ms: 0,
                peak_memory_bytes: 0,
                output: None,
            },
            false,
        );
        true
    }

    /// No more starts; `why`: all that live have to end.
    pub(super) fn leave(&mut self, why: Option<Why>, grace: Duration, leaving: Leaving) {
        self.leaving = Some(leaving);
        let Some(why) = why else { return };
        let waiting: Vec<String> = self.book.waiting().map(|(name, _)| name.to_string()).collect();
        if why == Why::Asked {
            waiting.iter().for_each(|name| self.stop(name, false, grace));
        }
        let now = Instant::now();
        for live in self.live.values_mut() {
            live.ask_to_end(now, why.clone(), false, grace);
        }
    }

    pub(super) fn step_stops(&mut self, now: Instant) {
        let mut stuck = Vec::new();
        for live in self.live.values_mut() {
            if live.leader.is_some() {
                live.deadline = None;
                live.memory = None;
                continue;
            }
            if live.deadline.is_some_and(|at| now >= at) {
                live.deadline = None;
                let grace = live.grace;
                live.ask_to_end(now, Why::TimeLimit, false, grace);
            }
            look_at_memory(live, now);
            let Some(mut stop) = live.stop.clone() else { continue };
            if stop.ask_at.is_some_and(|at| now >= at) {
                stop.ask_at = None;
                signal(live, Signal::TERM);
            }
            if !stop.killed && now >= stop.kill_at {
                stop.killed = true;
                signal(live, Signal::KILL);
            }
            if stop.is_in_vain(now) {
                stop.said = true;
                stuck.push((live.begins.name.clone(), live.pid));
            }
            live.stop = Some(stop);
        }
        for (name, pid) in stuck {
            let what = format!(
                "process {pid} of {name} does not end, not even by SIGKILL: a device or network drive that hangs holds it, and its seat is \
                 taken until it does"
            );
            self.in_trouble(Cause::Stuck(name), what);
        }
    }
}

fn look_at_memory(live: &mut Live, now: Instant) {
    let Some(limit) = live.memory.as_mut().filter(|limit| now >= limit.look_at) else { return };
    limit.look_at = now + MEMORY_EVERY;
    let bytes = limit.bytes;
    let mut family = proc::below(live.pid, &HashSet::new());
    family.extend(proc::stat(live.pid));
    let pages: u64 = family.iter().map(|s| s.rss_pages).sum();
    // Pages that forked processes share count once for each of them there, so a closer look decides.
    if pages * rustix::param::page_size() as u64 > bytes && family.iter().map(share).sum::<u64>() > bytes {
        let grace = live.grace;
        live.ask_to_end(now, Why::Memory, false, grace);
    }
}

/// Memory of a process, what it shares divided by those who share it.
fn share(stat: &proc::Stat) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", stat.process.pid)).ok();
    let kib = text.as_deref().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("Pss:"))?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kib.map_or(stat.rss_pages * rustix::param::page_size() as u64, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_survives_sigkill_is_said_once() {
        let now = Instant::now();
        let mut stop = Stop { why: Why::Asked, ask_at: None, kill_at: now, killed: false, said: false };
        let later = now + GIVE_UP;
        assert!(!stop.is_in_vain(later), "nobody has killed it yet");
        stop.killed = true;
        assert!(!stop.is_in_vain(now) && stop.is_in_vain(later));
        stop.said = true;
        assert!(!stop.is_in_vain(later));
    }
}
