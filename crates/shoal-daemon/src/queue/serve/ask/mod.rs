//! What does the queue answer? Who may ask what was decided at the door, but for whose sweep it is, which only the queue knows.
//!
//! | file | question |
//! |---|---|
//! | `submit` | what is taken in |
//! | `change` | stop, retry, pause, resume |
//! | `forget` | sweeps that nobody needs any more |
//! | `machines` | hosts that come, go and rest |
//! | `show` | what people see |
//! | `output` | where a run's output is |

mod change;
mod forget;
mod machines;
mod output;
mod show;
mod submit;

use super::daemon::Daemon;
use super::message::Reply;
use super::turn::{Turn, refused};
use crate::queue::door::{Caller, changes};
use shoal_core::queue::Target;
use shoal_core::queue::request::{Answer, Request, Role};

impl Daemon {
    pub(super) fn ask(&mut self, by: &Caller, request: Request, reply: Reply<Answer>, turn: &mut Turn) {
        if let Some(full) = self.full.as_ref().filter(|_| changes(&request)) {
            return turn.answer(reply, full.refusal());
        }
        let now = turn.now;
        let answer = match request {
            Request::Submit { sweep } => self.submit(by, *sweep, turn),
            Request::Stop { target, now, grace_seconds } => {
                let grace = if now { Some(0) } else { grace_seconds };
                self.stop(by, target, grace, turn)
            }
            Request::Retry { target } => self.retry(by, target, turn),
            Request::Forget { sweep } => self.forget(by, sweep, turn),
            Request::Pause { what } => self.pause(by, what, true, turn),
            Request::Resume { what } => self.pause(by, what, false, turn),
            Request::Drain { host } => self.drain(by, host, turn),
            Request::AddHosts { policies } => self.add_hosts(by, policies, turn),
            Request::RemoveHost { name, lost } => self.remove_host(by, &name, lost, turn),
            Request::Sweeps { all } => self.sweeps(all, now),
            Request::Runs { filter, from, limit } => self.runs(&filter, from, limit, now),
            Request::Why { target } => match self.no_such(&target) {
                Some(answer) => answer,
                None => self.why(&target, now),
            },
            Request::Results { sweep, from, limit } => self.results(&sweep, from, limit),
            Request::Hosts => self.hosts(),
            Request::Shutdown { stop_runs } => return self.shut_down(&by.user, stop_runs, reply, turn),
            // Answered at the door, or streams.
            Request::Hello { .. }
            | Request::Lacks { .. }
            | Request::Tree { .. }
            | Request::Logs { .. }
            | Request::Wait { .. }
            | Request::AddToken { .. }
            | Request::RemoveToken { .. }
            | Request::Tokens => {
                refused("the daemon does not know this request", "use one version of shoal on both sides")
            }
        };
        turn.answer(reply, answer);
    }

    /// Nothing, if there is such a sweep, configuration or run.
    fn no_such(&self, target: &Target) -> Option<Answer> {
        let name = target.sweep();
        let Some(sweep) = self.queue.sweep(name) else { return Some(self.no_sweep(name)) };
        let (cells, reps) = (shoal_core::queue::cells::total(sweep), sweep.reps);
        let (cell, rep) = match target {
            Target::Sweep(_) => return None,
            Target::Cell(_, cell) => (*cell, 0),
            Target::Run(run) => (run.cell, run.rep),
        };
        let there = u64::from(cell) < cells && rep < reps;
        let why = format!("there is no {target}: {name} has {cells} configurations, from 0, and {reps} copies of each");
        (!there).then(|| refused(why, ""))
    }

    fn no_sweep(&self, name: &str) -> Answer {
        let names: Vec<&str> = self.queue.sweep_names().take(20).collect();
        let hint = if names.is_empty() { String::new() } else { format!("there are {}", names.join(", ")) };
        refused(format!("there is no sweep `{name}`"), &hint)
    }

    /// Nothing, if it is theirs, or they may do everything.
    fn not_theirs(&self, by: &Caller, sweep: &str) -> Option<Answer> {
        let Some(owner) = self.queue.sweep(sweep).map(|sweep| &sweep.owner) else { return Some(self.no_sweep(sweep)) };
        let theirs = by.role == Role::Admin || *owner == by.user;
        (!theirs).then(|| refused(format!("`{sweep}` is a sweep of {owner}"), "ask them, or an administrator"))
    }
}
