//! What does the end of an attempt change? Each is taken in once, from the host that had it (QUEUE-2).

use super::machines::REMOVED;
use super::runs::State;
use super::{Queue, RunKey};
use crate::queue::plan::room::{HostRoom, Need};
use crate::queue::work::{Ended, Ending};
use crate::queue::{Moment, RunId};

/// Ends that were nobody's fault are free, but not without end: then the run has failed, and says so. What people did (the owner of a desk came
/// back, a host was removed) is not counted at all.
const MOST_FREE: u8 = 20;
/// A run that was alive when so many keepers were killed is taken to be the one that did it. From the second time on, such runs are tried one
/// at a time on a host, so at the third it was alone among them.
const MOST_FELLED: u8 = 3;
/// Runs that wait to be tried again and are kept from where they failed.
const MOST_AVOIDING: usize = 4_096;

impl Queue {
    pub(super) fn ended(&mut self, at: Moment, host: &str, ended: &Ended) {
        let (Some(key), Some(host)) = (self.live_key(&ended.attempt), self.host_key(host)) else { return };
        let Some(live) = self.live.get_mut(&key) else { return };
        let rank = ended.rank as usize;
        if live.seats.get(rank).is_none_or(|seat| seat.over || seat.host != host) {
            return;
        }
        let (began, end) = live.ran.unwrap_or((ended.began, ended.ended));
        live.ran = Some((began.min(ended.began), end.max(ended.ended)));
        if let Some(sweep) = self.sweeps.get_mut(&key.0) {
            let measured = &mut sweep.measured;
            measured.peak_memory_bytes = measured.peak_memory_bytes.max(ended.peak_memory_bytes);
            // What nobody saw is unknown, not nothing: a driver that does not tell, a run shorter than a look. And one that failed may have come
            // to a part of what it needs.
            let seen = (ended.peak_gpu_bytes > 0).then_some(ended.peak_gpu_bytes);
            measured.peak_gpu_bytes = match measured.peak_gpu_bytes {
                None if !ended.ending.success() => None,
                before => before.max(seen),
            };
        }
        self.end_rank(key, rank, ended.ending.clone(), at);
    }

    /// One process is over. The attempt is when all of them are (GANG-1).
    pub(super) fn end_rank(&mut self, key: RunKey, rank: usize, ending: Ending, at: Moment) {
        let Some(live) = self.live.get_mut(&key) else { return };
        let Some(host) = live.seats.get(rank).filter(|seat| !seat.over).map(|seat| seat.host) else { return };
        // Whatever it does once it was told to end is our doing.
        let ours = live.stopping.is_some() && ending.is_of_the_program();
        let ending = if ours { Ending::Stopped } else { ending };
        match &ending {
            ending if ending.success() => {}
            Ending::Stopped => live.stopped = true,
            _ => {
                live.failure.get_or_insert((ending.clone(), host));
            }
        }
        self.tally(key.0, host, &ending);
        self.release(key, rank, at);
        let Some(live) = self.live.get(&key) else { return };
        if live.is_over() {
            self.finish(key, at);
        } else if !ending.success() && live.stopping.is_none() {
            let why = format!("process {rank} of it has ended: {ending}");
            self.to_stop.entry(key).or_insert(why);
        }
    }

    /// How sweep and host fare with each other.
    fn tally(&mut self, sweep: u32, host: u32, ending: &Ending) {
        let (Some(state), Some(machine)) = (self.sweeps.get_mut(&sweep), self.hosts.get_mut(&host)) else { return };
        let tally = state.tallies.entry(host).or_default();
        if ending.success() {
            state.outcomes.finished += 1;
            tally.finished += 1;
            tally.in_a_row = 0;
            tally.not_started = false;
            machine.in_a_row = 0;
            machine.not_started.clear();
        } else if ending.is_of_the_program() {
            if tally.in_a_row == 0 {
                tally.since = state.outcomes;
            }
            state.outcomes.failed += 1;
            tally.failed += 1;
            tally.in_a_row += 1;
            machine.in_a_row += 1;
            if matches!(ending, Ending::NotStarted { .. }) {
                tally.not_started = true;
                machine.not_started.insert(sweep);
            }
        }
    }

    fn finish(&mut self, key: RunKey, at: Moment) {
        let Some(live) = self.live.remove(&key) else { return };
        self.to_stop.remove(&key);
        if let Some(sweep) = self.sweeps.get_mut(&key.0) {
            sweep.heads.remove(&key.1);
        }
        self.leave_line(key, &live, at);
        let Some(sweep) = self.sweeps.get_mut(&key.0) else { return };
        let run = key.1;
        if !matches!(live.failure, Some((Ending::Lost { .. }, _))) {
            sweep.felled.remove(&run);
        }
        match live.failure {
            None if !live.stopped => {
                let ms = live.ran.map_or(0, |(began, ended)| ended.saturating_sub(began));
                sweep.runs.change(run, |slot| slot.state = State::Finished);
                sweep.succeeded(ms);
            }
            failure if live.asked => {
                sweep.runs.change(run, |slot| slot.state = State::Stopped);
                // Says where what it left is.
                if let Some((ending @ Ending::NotPublished { .. }, _)) = failure {
                    sweep.keep_ending(run, ending);
                }
            }
            Some((ending, host)) if ending.is_of_the_program() => self.failed(key, ending, host),
            // In line and never begun: it was only taken back.
            None if live.since.is_none() => sweep.runs.change(run, |slot| slot.state = State::Waiting),
            // Its program has done its work and would do no better a second time: what it left is where the ending says, and whether to run
            // it again is for people to say.
            Some((Ending::NotPublished { why }, _)) => {
                sweep.hold(&why, at);
                sweep.runs.change(run, |slot| slot.state = State::Failed);
                sweep.keep_ending(run, Ending::NotPublished { why });
            }
            // By way of a checkpoint, for the owner of the desk.
            None if live.stopping == Some(true) => sweep.runs.change(run, |slot| slot.state = State::Waiting),
            Some((Ending::Lost { why, .. }, _)) if why == REMOVED => {
                sweep.runs.change(run, |slot| slot.state = State::Waiting);
            }
            other => self.again(key, other.map_or(Ending::Stopped, |(ending, _)| ending)),
        }
        self.reindex(key.0);
    }

    /// By itself: costs a retry.
    fn failed(&mut self, key: RunKey, ending: Ending, host: u32) {
        let Some(sweep) = self.sweeps.get_mut(&key.0) else { return };
        let run = key.1;
        let rules = &sweep.sweep.rules;
        let fatal = matches!(ending, Ending::Exited(code) if rules.fatal_codes.contains(&code));
        let retries = rules.retries;
        let mut first = false;
        sweep.runs.change(run, |slot| {
            first = slot.failed == 0;
            slot.failed = slot.failed.saturating_add(1);
            let over = fatal || u32::from(slot.failed) > retries || slot.failed == u16::MAX;
            slot.state = if over { State::Failed } else { State::Waiting };
        });
        if first {
            sweep.tainted += 1;
        }
        if sweep.runs.get(run).is_some_and(|slot| slot.state == State::Waiting) {
            if sweep.avoid.len() < MOST_AVOIDING {
                sweep.avoid.insert(run, host);
            }
        } else {
            sweep.keep_ending(run, ending.clone());
        }
        self.judge(key.0, host, &ending);
    }

    /// Not its fault: it waits again, free of charge, but not for ever.
    fn again(&mut self, key: RunKey, ending: Ending) {
        let Some(sweep) = self.sweeps.get_mut(&key.0) else { return };
        if let Ending::Lost { felled: true, why } = &ending
            && (sweep.felled.contains_key(&key.1) || sweep.felled.len() < MOST_AVOIDING)
        {
            let times = sweep.felled.entry(key.1).or_default();
            *times += 1;
            if *times >= MOST_FELLED {
                let why = format!(
                    "{why}; that happened {times} times while this run was there, so it is taken to be the one that did it, or something it started"
                );
                sweep.felled.remove(&key.1);
                sweep.runs.change(key.1, |slot| slot.state = State::Failed);
                return sweep.keep_ending(key.1, Ending::Lost { why, felled: true });
            }
        }
        let mut enough = false;
        sweep.runs.change(key.1, |slot| {
            slot.free = slot.free.saturating_add(1);
            enough = slot.free > MOST_FREE;
            slot.state = if enough { State::Failed } else { State::Waiting };
        });
        if enough {
            sweep.keep_ending(key.1, ending);
        }
    }

    /// Whether a keeper was killed while it ran, so that the next one is guarded from it.
    pub fn was_felled(&self, run: &RunId) -> bool {
        let sweep = self.sweep_key(&run.sweep).and_then(|key| self.sweeps.get(&key));
        sweep.is_some_and(|sweep| {
            sweep.runs.index(run.cell, run.rep).is_some_and(|index| sweep.felled.contains_key(&index))
        })
    }

    /// A sweep of which nothing succeeds stops starting: not ten thousand failures, but a few, and on more than one host
    /// if there is more than one.
    fn judge(&mut self, key: u32, host: u32, ending: &Ending) {
        let Some(sweep) = self.sweeps.get(&key) else { return };
        let limit = sweep.sweep.rules.stop_after_failures;
        let need = Need::of(sweep);
        let fits = |key: u32, host| HostRoom::empty(key, host).pick(&need).is_some();
        let open = self.hosts.iter().filter(|(_, host)| host.shut().is_none() && host.is_among(&sweep.sweep.wants.on));
        let open = open.filter(|(key, host)| fits(**key, host)).take(2).count();
        let failed_on = sweep.tallies.values().filter(|tally| tally.in_a_row > 0).count();
        let too_few = limit == 0 || sweep.tainted < limit || failed_on < open;
        let goes_on = too_few || sweep.runs.count(State::Finished) > 0 || sweep.stuck.is_some();
        if let Some(sweep) = self.sweeps.get_mut(&key) {
            sweep.no_choice = open < 2;
        }
        let Some(sweep) = self.sweeps.get(&key).filter(|_| !goes_on) else { return };
        let host = self.hosts.get(&host).map_or("a host", |host| host.policy.name.as_str());
        let why = format!("{} different runs failed and none succeeded; the last on {host}: {ending}", sweep.tainted);
        if let Some(sweep) = self.sweeps.get_mut(&key) {
            sweep.stuck = Some(why);
        }
    }
}
