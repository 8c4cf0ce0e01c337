//! What if one machine is there under two names? Its place for runs is one, with one agent and one keeper: agents of two names would send each other
//! away for ever, and each run would be told to end as the other's. So the name that was there first stays, and the other is refused by name.
//!
//! A place is the boot of a machine and the folder in which its agent keeps what it knows. Another user has another folder, and is another host.

use super::daemon::Daemon;
use super::message::Up;
use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::ToHost;
use std::time::Duration;

/// Longer than an agent that calls waits before it calls again.
const OUT_OF_USE: Duration = Duration::from_secs(60);

/// Whom a host is the same as.
pub(super) struct Twin {
    first: String,
    /// The place that both are.
    at: HostFacts,
}

/// Who of these is the same place. Agents that do not say where they are cannot be told apart.
fn same_place<'a>(
    hosts: impl Iterator<Item = (&'a str, Option<&'a HostFacts>)>,
    name: &str,
    facts: &HostFacts,
) -> Option<&'a str> {
    let mut others = hosts.filter(|(other, _)| *other != name);
    others.find(|(_, known)| known.is_some_and(|known| is_same(known, facts))).map(|(other, _)| other)
}

fn is_same(a: &HostFacts, b: &HostFacts) -> bool {
    a.place.is_some() && (&a.boot, &a.place) == (&b.boot, &b.place)
}

impl Daemon {
    /// Whether it was refused, since it is there already under another name.
    pub(super) fn is_refused_as_twin(&mut self, up: &Up) -> bool {
        let hosts = self.queue.hosts().map(|policy| {
            let facts = self.queue.host(&policy.name).and_then(|(_, facts)| facts);
            (policy.name.as_str(), facts)
        });
        let first = same_place(hosts, &up.host, &up.facts).map(str::to_string);
        let name = &up.host;
        let Some(first) = first.filter(|first| self.is_in_the_way(first)) else {
            self.twins.remove(name);
            return false;
        };
        let why = format!(
            "{name} is the same machine and user as {first}, which is a host of this queue already; a machine can have one name for each of its users. Leave one of the two out of the fleet file, and take it away here: shoal hosts --remove {name}"
        );
        self.unreachable(name.clone(), why);
        // It may go; what runs there is of the other name.
        up.outbox.tell(&ToHost::Leave { stop_runs: false });
        up.outbox.finish();
        self.twins.insert(name.clone(), Twin { first, at: (*up.facts).clone() });
        self.see_to_dialers();
        true
    }

    /// One that only ever called, has not done so for a while, and has nothing there, is a name that nobody uses any more.
    fn is_in_the_way(&self, first: &str) -> bool {
        let is_reached = self.queue.host(first).is_some_and(|(policy, _)| policy.reach.is_some());
        let is_there = self.lines.contains_key(first) || self.silence(first) < OUT_OF_USE;
        is_reached || is_there || !self.queue.assigned_on(first).is_empty()
    }

    /// Not to be reached, as long as another is in its place.
    pub(super) fn is_twin(&self, name: &str) -> bool {
        self.twins.contains_key(name)
    }

    /// It is something else than it was, or gone: whoever was in its way, or in whose way it was, may be tried again.
    pub(super) fn forget_twins_of(&mut self, name: &str) {
        let before = self.twins.len();
        self.twins.retain(|twin, Twin { first, .. }| twin != name && first != name);
        if self.twins.len() < before {
            self.see_to_dialers();
        }
    }

    /// The first of two has come up somewhere else.
    pub(super) fn check_twins_of(&mut self, name: &str, facts: &HostFacts) {
        if self.twins.values().any(|twin| twin.first == name && !is_same(&twin.at, facts)) {
            self.forget_twins_of(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_machine_and_a_folder() {
        let facts = |boot: &str, place: Option<&str>| HostFacts {
            boot: boot.into(),
            cpus: 1,
            memory_bytes: 1,
            gpus: Vec::new(),
            load1: 0.0,
            free_disk_bytes: 1,
            idle_seconds: None,
            users: Vec::new(),
            address: None,
            caller: None,
            ports: Vec::new(),
            place: place.map(Into::into),
        };
        let known = [("a", Some(facts("1", Some("8:1")))), ("b", Some(facts("1", None))), ("c", None)];
        let cases = [
            ("z", facts("1", Some("8:1")), Some("a")),
            // Itself again.
            ("a", facts("1", Some("8:1")), None),
            // Another user or a container; a machine whose disk has the same number; booted anew; an agent that does not say.
            ("z", facts("1", Some("8:2")), None),
            ("z", facts("2", Some("8:1")), None),
            ("z", facts("1", None), None),
        ];
        for (name, it, expected) in cases {
            let hosts = known.iter().map(|(name, facts)| (*name, facts.as_ref()));
            assert_eq!(same_place(hosts, name, &it), expected, "{name} {it:?}");
        }
    }
}
