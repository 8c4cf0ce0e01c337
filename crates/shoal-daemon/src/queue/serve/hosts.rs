//! What changes when a host comes, speaks and goes?
//!
//! A host that comes says what lives there and what has ended. Compared with what the journal gave it:
//!
//! | journal says | host says | then |
//! |---|---|---|
//! | runs there | lives | goes on; if it was told to end, it is told again |
//! | runs there | ended | written down, acknowledged |
//! | runs there | ended, more of it behind hello | waited for |
//! | runs there | nothing, same boot | the order did not arrive: told again (idempotent, QUEUE-2) |
//! | was told to end there | nothing, same boot | it never began: stopped |
//! | its program was over there | nothing, same boot | what it left is gone: lost |
//! | runs there | nothing, booted anew | lost |
//! | does not run there | lives | told to end; its end is acknowledged and ignored |

use super::daemon::Daemon;
use super::line::dial;
use super::message::Up;
use super::options;
use super::reach::Reacher;
use super::turn::Turn;
use shoal_core::queue::event::Event;
use shoal_core::queue::host::{HostFacts, HostPolicy, Reached};
use shoal_core::queue::line::{FromHost, ToHost};
use shoal_core::queue::work::{Ended, Ending};
use shoal_core::queue::{Attempt, Moment};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Until a host that has said hello has said all of its ends, too.
const UNHEARD: Duration = Duration::from_secs(2);

/// An attempt that was told to end, or whose program was over, on a host that does not know it.
pub(super) struct Unheard {
    since: Instant,
    host: String,
    line: u64,
    attempt: Attempt,
    rank: u32,
    ending: Ending,
}

impl Unheard {
    pub fn rest(&self) -> Duration {
        UNHEARD.saturating_sub(self.since.elapsed())
    }
}

impl Daemon {
    pub(super) fn up(&mut self, up: Up, turn: &mut Turn) {
        if up.outbox.closed().is_some() || self.full.is_some() {
            return up.outbox.close("lines are held");
        }
        if self.is_refused_as_twin(&up) {
            return;
        }
        let Up { host, line, outbox, facts, alive, ended, owed } = up;
        if self.queue.host(&host).is_none() {
            // An agent that calls has proved a token for this name, which an administrator made.
            let policy =
                HostPolicy { reach: None, lost_after_seconds: 600, name: host.clone(), ..options::this_machine() };
            self.note(turn, Event::HostAdded { at: turn.now, policy });
        }
        if let Some((_, old)) = self.lines.insert(host.clone(), (line, outbox)) {
            old.close("its agent has opened another line");
        }
        self.problems.remove(&host);
        self.silent.remove(&host);
        self.troubles.forget(&host);
        self.shared.log.say(format!("{host} is there: {} live, {} ended", alive.len(), ended.len()));
        let known = self.queue.host(&host).and_then(|(_, facts)| facts).map(|facts| facts.boot.clone());
        let booted = known.is_some_and(|boot| boot != facts.boot);
        for ended in ended {
            self.ended(&host, ended, turn);
        }
        if booted && !self.queue.assigned_on(&host).is_empty() {
            let why = format!("{host} was booted anew");
            self.note(turn, Event::HostLost { at: turn.now, name: host.clone(), why });
        }
        self.check_twins_of(&host, &facts);
        self.seen(&host, *facts, turn);
        self.compare(&host, &alive.into_iter().collect(), &owed.into_iter().collect(), turn);
    }

    fn compare(&mut self, host: &str, alive: &HashSet<Attempt>, owed: &HashSet<Attempt>, turn: &mut Turn) {
        let known = |attempt: &Attempt| alive.contains(attempt) || owed.contains(attempt);
        let missing = self.queue.assigned_on(host).into_iter().filter(|(attempt, _)| !known(attempt));
        for (attempt, rank) in missing.collect::<Vec<_>>() {
            let Some(live) = self.queue.live(&attempt) else { continue };
            let ending = match live.stopping {
                // It ran: told again, it would run twice (QUEUE-2).
                _ if !self.queue.holds_seat(&attempt, rank, host) => {
                    Ending::lost(format!("its results waited on {host} and are not there any more"))
                }
                Some(_) => Ending::Stopped,
                None => {
                    self.start(&live, rank, turn);
                    continue;
                }
            };
            // Not at once: of very many ends, some come behind hello.
            let Some(line) = self.lines.get(host).map(|(line, _)| *line) else { continue };
            self.unheard.push(Unheard { since: Instant::now(), host: host.into(), line, attempt, rank, ending });
        }
        for attempt in alive.iter().filter(|attempt| !self.queue.is_live_on(attempt, host)) {
            self.shared.log.say(format!("{attempt} lives on {host} and should not; it is told to end"));
            let stop = ToHost::Stop { attempt: attempt.clone(), checkpoint_first: false, grace_seconds: 10 };
            turn.tell(host, stop);
        }
        for (attempt, checkpoint_first) in self.queue.stopping_on(host) {
            if !alive.contains(&attempt) {
                continue;
            }
            if self.queue.live(&attempt).is_some_and(|live| live.is_taken_back()) {
                self.take_back(attempt, turn);
            } else {
                self.tell_stop(&attempt, checkpoint_first, Some(host), turn);
            }
        }
    }

    /// Those that their host still says nothing of: they never began, or what they left is gone.
    pub(super) fn give_up_unheard(&mut self, turn: &mut Turn) {
        let (due, rest) = std::mem::take(&mut self.unheard).into_iter().partition(|one| one.since.elapsed() >= UNHEARD);
        self.unheard = rest;
        let due: Vec<Unheard> = due;
        for Unheard { host, line, attempt, rank, ending, .. } in due {
            // On another line it was compared anew.
            let same_line = self.lines.get(&host).is_some_and(|(open, _)| *open == line);
            if same_line && self.queue.is_live_on(&attempt, &host) {
                let ended = nothing_ran(attempt, rank, ending, turn.now);
                self.note(turn, Event::Ended { at: turn.now, host, ended: Box::new(ended) });
            }
        }
    }

    pub(super) fn said(&mut self, host: &str, line: u64, message: FromHost, turn: &mut Turn) {
        // Words of a line that was replaced or closed are said again on the next.
        if self.lines.get(host).is_none_or(|(open, _)| *open != line) {
            return;
        }
        match message {
            FromHost::Began { attempt, at } if self.queue.is_live_on(&attempt, host) => {
                self.live.begins(attempt, at);
            }
            FromHost::Ended { ended } => ended.into_iter().for_each(|ended| self.ended(host, ended, turn)),
            FromHost::ResultsWait { waiting } => {
                for (attempt, rank) in waiting {
                    // Said again on every line; written down once.
                    if self.queue.holds_seat(&attempt, rank, host) {
                        let (at, host) = (turn.now, host.to_string());
                        self.note(turn, Event::ResultsWait { at, host, attempt, rank });
                    }
                }
            }
            FromHost::Facts { facts } => self.seen(host, *facts, turn),
            FromHost::Metrics { attempt, metrics } if self.queue.is_live_on(&attempt, host) => {
                self.live.prints(attempt, metrics);
            }
            // Late words about an attempt that is over.
            FromHost::Began { .. } | FromHost::Metrics { .. } => {}
            FromHost::Trouble { attempt, what, over } => {
                let whose = attempt.as_ref().map_or_else(String::new, |attempt| format!(" ({attempt})"));
                self.shared.log.say(format!("{host}{whose}: {what}{}", if over { "; that is over" } else { "" }));
                match over {
                    true => self.troubles.is_over(host, attempt.as_ref(), &what),
                    false => self.troubles.says(host, attempt, what),
                }
            }
            FromHost::Left => self.shared.log.say(format!("nothing of this queue is left on {host}")),
            _ => {}
        }
    }

    /// Acknowledged in any case, once it is written down; taken in once (QUEUE-2).
    fn ended(&mut self, host: &str, ended: Ended, turn: &mut Turn) {
        let (attempt, rank) = (ended.attempt.clone(), ended.rank);
        if self.queue.is_live_on(&attempt, host) {
            self.note(turn, Event::Ended { at: turn.now, host: host.into(), ended: Box::new(ended) });
        }
        self.troubles.ends(host, &attempt);
        let gang = rank > 0 || self.queue.sweep(&attempt.run.sweep).is_some_and(|sweep| sweep.wants.ranks > 1);
        let acknowledged = turn.acknowledged.entry(host.into()).or_default();
        match gang {
            true => acknowledged.ranks.push((attempt, rank)),
            false => acknowledged.attempts.push(attempt),
        }
    }

    /// Load and idle time change all the time and are known anew after a restart: the journal gets only what lasts.
    fn seen(&mut self, host: &str, facts: HostFacts, turn: &mut Turn) {
        let known = self.queue.host(host).and_then(|(_, facts)| facts);
        let is_new =
            known.is_none_or(|known| !is_same_machine(known, &facts)) || self.queue.silent_since(host).is_some();
        let event = Event::HostSeen { at: turn.now, name: host.into(), facts: Box::new(facts) };
        if is_new {
            self.note(turn, event);
        } else {
            self.queue.apply(&event);
            turn.look = true;
        }
    }

    pub(super) fn down(&mut self, host: &str, line: u64, why: &str, turn: &mut Turn) {
        if self.lines.get(host).is_none_or(|(open, _)| *open != line) {
            return;
        }
        self.lines.remove(host);
        self.silent.insert(host.into(), Instant::now());
        self.troubles.forget(host);
        self.shared.log.say(format!("{host} is away: {why}"));
        self.problems.insert(host.into(), why.into());
        self.note(turn, Event::HostSilent { at: turn.now, name: host.into() });
    }

    pub(super) fn unreachable(&mut self, host: String, why: String) {
        if self.problems.get(&host) != Some(&why) && !self.lines.contains_key(&host) {
            self.shared.log.say(format!("{host} cannot be reached: {why}"));
            self.problems.insert(host, why);
        }
    }

    /// By the monotonic clock. The daemon's own absence is not the host's silence, and neither is the time in which it let nobody in.
    pub(super) fn silence(&self, host: &str) -> Duration {
        self.silent.get(host).unwrap_or(&self.open_since).elapsed()
    }

    /// A thread for every host that is reached, with its present policy; none for those that are gone.
    pub(super) fn see_to_dialers(&mut self) {
        let wanted: Vec<HostPolicy> = self
            .queue
            .hosts()
            .filter(|policy| policy.reach.is_some() && !self.is_twin(&policy.name))
            .cloned()
            .collect();
        let shared = self.shared.clone();
        self.dialers.retain(|name, dialer| {
            let keep = wanted.iter().any(|policy| policy.name == *name && policy.reach == dialer.policy.reach);
            if !keep {
                dialer.end(&shared);
            }
            keep
        });
        for policy in wanted {
            if self.dialers.contains_key(&policy.name) {
                continue;
            }
            let reacher: Arc<dyn Reacher> = match policy.reach {
                Some(Reached::Here) => self.here.clone(),
                _ => self.reacher.clone(),
            };
            match dial(&self.shared, &policy, reacher) {
                Ok(dialer) => drop(self.dialers.insert(policy.name.clone(), dialer)),
                Err(e) => self.shared.log.say(format!("no thread for {} could be started: {e}", policy.name)),
            }
        }
    }
}

fn is_same_machine(a: &HostFacts, b: &HostFacts) -> bool {
    let gpus =
        |facts: &HostFacts| facts.gpus.iter().map(|gpu| (gpu.uuid.clone(), gpu.memory_bytes)).collect::<Vec<_>>();
    (&a.boot, a.cpus, a.memory_bytes) == (&b.boot, b.cpus, b.memory_bytes) && gpus(a) == gpus(b)
}

/// The end of an attempt that never began.
pub(super) fn nothing_ran(attempt: Attempt, rank: u32, ending: Ending, at: Moment) -> Ended {
    Ended {
        attempt,
        rank,
        ending,
        began: at,
        ended: at,
        cpu_ms: 0,
        peak_memory_bytes: 0,
        peak_gpu_bytes: 0,
        output_bytes: 0,
        metrics: Vec::new(),
        tail: String::new(),
        results: None,
    }
}

/// For the log.
pub(super) fn told(event: &Event) -> String {
    match event {
        Event::HostLost { why, .. } => why.clone(),
        _ => String::new(),
    }
}
