//! Hosts that come, go and rest.

use crate::queue::door::Caller;
use crate::queue::serve::daemon::Daemon;
use crate::queue::serve::turn::{Turn, refused};
use shoal_core::queue::event::Event;
use shoal_core::queue::host::{HostPolicy, Reached};
use shoal_core::queue::line::ToHost;
use shoal_core::queue::request::Answer;
use std::collections::HashSet;

/// Hosts of one queue.
const MOST: usize = 4096;

impl Daemon {
    pub(super) fn no_host(&self, name: &str) -> Option<Answer> {
        let hint = || self.queue.hosts().take(20).map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
        let none = || refused(format!("there is no host `{name}`"), &format!("there are {}", hint()));
        self.queue.host(name).is_none().then(none)
    }

    pub(super) fn hosts(&self) -> Answer {
        let mut hosts = self.queue.host_rows();
        for row in &mut hosts {
            row.problem = self.problems.get(&row.name).cloned().or_else(|| self.troubles.of_host(&row.name));
        }
        Answer::Hosts { hosts }
    }

    pub(super) fn drain(&mut self, by: &Caller, host: String, turn: &mut Turn) -> Answer {
        if let Some(answer) = self.no_host(&host) {
            return answer;
        }
        let why = format!("{} asked for it", by.user);
        self.note(turn, Event::HostDrained { at: turn.now, name: host, why });
        Answer::Done
    }

    pub(in crate::queue::serve) fn add_hosts(
        &mut self,
        by: &Caller,
        policies: Vec<HostPolicy>,
        turn: &mut Turn,
    ) -> Answer {
        let mut names = HashSet::new();
        for policy in &policies {
            if policy.name.is_empty() || policy.name.len() > 255 || policy.name.contains(char::is_control) {
                return refused(format!("`{}` cannot be the name of a host", policy.name.escape_debug()), "");
            }
            if !names.insert(&policy.name) {
                return refused(format!("host `{}` is there twice", policy.name), "");
            }
        }
        if self.queue.hosts().count() + policies.len() > MOST {
            return refused(format!("a queue has at most {MOST} hosts"), "");
        }
        for policy in policies {
            let policy = self.once(policy);
            if self.queue.host(&policy.name).is_none_or(|(known, _)| *known != policy) {
                self.shared.log.say(format!("{} adds host {}", by.user, policy.name));
                self.forget_twins_of(&policy.name);
                self.note(turn, Event::HostAdded { at: turn.now, policy });
            }
        }
        self.see_to_dialers();
        Answer::Done
    }

    /// This machine is one host, whatever it is called: two agents of one store would send each other away for ever. What it was called first stays
    /// its name, since runs and their output are known by it; the new one is a group.
    fn once(&self, policy: HostPolicy) -> HostPolicy {
        let is_here = |policy: &HostPolicy| policy.reach == Some(Reached::Here);
        let known = self.queue.hosts().find(|known| is_here(known) && known.name != policy.name);
        let Some(known) = known.filter(|_| is_here(&policy) && self.queue.host(&policy.name).is_none()) else {
            return policy;
        };
        let mut groups = policy.groups;
        groups.push(policy.name);
        HostPolicy { name: known.name.clone(), groups, ..policy }
    }

    pub(super) fn remove_host(&mut self, by: &Caller, name: &str, lost: bool, turn: &mut Turn) -> Answer {
        if let Some(answer) = self.no_host(name) {
            return answer;
        }
        let live = self.queue.assigned_on(name).len();
        if live > 0 && !lost {
            let hint =
                format!("`shoal drain {name}` lets them finish; with --lost they count as lost and start elsewhere");
            return refused(format!("{live} runs are on {name}"), &hint);
        }
        let here = self.queue.host(name).is_some_and(|(policy, _)| policy.reach == Some(Reached::Here));
        if here && self.queue.hosts().count() == 1 {
            let hint = format!(
                "`shoal pause --host {name}` keeps new runs away from it; `shoal serve --stop --stop-runs` ends the queue and what it runs"
            );
            return refused(format!("{name} is this machine, and the only host: nothing could run any more"), &hint);
        }
        self.shared.log.say(format!("{} removes host {name}", by.user));
        self.note(turn, Event::HostRemoved { at: turn.now, name: name.into() });
        self.silent.remove(name);
        self.problems.remove(name);
        self.forget_twins_of(name);
        self.see_to_dialers();
        // Its agent ends what is left, leaves, and its line with it.
        if let Some((_, outbox)) = self.lines.remove(name) {
            outbox.tell(&ToHost::Leave { stop_runs: true });
            outbox.finish();
        }
        Answer::Done
    }
}
