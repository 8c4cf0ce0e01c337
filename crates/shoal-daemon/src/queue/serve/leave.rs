//! When does the daemon end? When it is told to; or, started by a client, when there has been nothing to do for a while. Runs go on.

use super::daemon::Daemon;
use super::message::Reply;
use super::turn::{Turn, refused};
use shoal_core::queue::Target;
use shoal_core::queue::event::Event;
use shoal_core::queue::line::ToHost;
use shoal_core::queue::request::Answer;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Beyond the longest grace of a sweep, for runs that are told to end before the daemon does.
const MORE: Duration = Duration::from_secs(30);

pub enum Leaving {
    Now,
    /// Runs were told to end; not before they have, or this moment has come.
    Stopping {
        until: Instant,
        reply: Reply<Answer>,
    },
}

impl Daemon {
    pub(super) fn signal(&mut self, signal: i32) {
        if signal != libc::SIGCHLD {
            self.shared.log.say(format!("signal {signal}: the daemon ends, runs go on"));
            self.leaving = Some(Leaving::Now);
        }
    }

    pub(super) fn shut_down(&mut self, by: &str, stop_runs: bool, reply: Reply<Answer>, turn: &mut Turn) {
        self.shared
            .log
            .say(format!("{by} ends the daemon{}", if stop_runs { " and all runs" } else { "; runs go on" }));
        if !stop_runs {
            self.leaving = Some(Leaving::Now);
            return turn.answer(reply, Answer::Done);
        }
        let names: Vec<String> = self.queue.sweep_names().map(str::to_string).collect();
        let mut grace = 0;
        for name in names {
            if self.queue.sweep_row(&name, turn.now).is_some_and(|row| row.waiting + row.running > 0) {
                grace = grace.max(self.queue.sweep(&name).map_or(0, |sweep| sweep.rules.grace_seconds));
                let target = Target::Sweep(name);
                self.stop_taken_back(&target, turn);
                self.note(turn, Event::StopAsked { at: turn.now, by: by.into(), target });
            }
        }
        let until = Instant::now() + Duration::from_secs(grace.into()) + MORE;
        self.leaving = Some(Leaving::Stopping { until, reply });
    }

    /// After every turn.
    pub(super) fn is_over(&mut self) -> bool {
        match &self.leaving {
            Some(Leaving::Now) => true,
            Some(Leaving::Stopping { until, reply }) => {
                let now = self.clock.now();
                let running: u64 = self.queue.sweep_rows(now).iter().map(|row| row.running).sum();
                let late = Instant::now() > *until;
                if running == 0 {
                    self.nothing_follows();
                    let _ = reply.try_send(Answer::Done);
                } else if late {
                    let hint = "their hosts do not answer; they end when the next daemon reaches them";
                    let _ = reply.try_send(refused(format!("{running} runs have not ended yet"), hint));
                }
                running == 0 || late
            }
            None => self.is_idle_for_long(),
        }
    }

    fn is_idle_for_long(&mut self) -> bool {
        if !self.options.auto {
            return false;
        }
        let busy = self.shared.clients.load(Ordering::Acquire) > 0
            || self.full.is_some()
            || self.queue.sweep_names().any(|name| !self.queue.is_over(name));
        if busy {
            self.idle = Instant::now();
        }
        let leave = self.idle.elapsed() >= self.options.idle;
        if leave {
            self.nothing_follows();
            self.shared.log.say("nothing to do: the daemon ends");
        }
        leave
    }

    /// Keepers need not stay for what does not come.
    fn nothing_follows(&self) {
        for (_, outbox) in self.lines.values() {
            outbox.tell(&ToHost::Rest);
        }
    }
}
