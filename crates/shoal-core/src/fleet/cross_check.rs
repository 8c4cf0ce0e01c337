//! Do the parts of a native file fit together? Names that appear twice, jumps that lead nowhere, placements on strangers.

use super::native_host::Entry;
use super::range;
use super::{Host, Reach};
use crate::document::node::Node;
use crate::document::reader::Reader;
use crate::suggest::closest;
use std::collections::{BTreeMap, BTreeSet};

/// The hosts, each once, and whether all entries could be read.
pub(super) fn hosts(reader: &mut Reader, entries: Vec<Option<Entry>>) -> (Vec<Host>, bool) {
    let complete = entries.iter().all(Option::is_some);
    let entries: Vec<Entry> = entries.into_iter().flatten().collect();
    let mut by_name: BTreeMap<&str, &Entry> = BTreeMap::new();
    let mut unique: Vec<&Entry> = Vec::new();
    for entry in &entries {
        match by_name.get(entry.host.name.as_str()) {
            None => {
                by_name.insert(&entry.host.name, entry);
                unique.push(entry);
            }
            // Ranges may overlap; that alone is no contradiction.
            Some(first) if first.host == entry.host => {}
            Some(first) => {
                let message = format!("the host `{}` is given twice, with different settings", entry.host.name);
                let help =
                    format!("the first is in line {}; for more ranks on one host set its `slots`", first.at.line);
                reader.report(reader.at(entry.at, message).help(help));
            }
        }
    }
    if complete {
        check_jumps(reader, &unique, &by_name);
    }
    check_groups(reader, &unique, &by_name);
    (unique.into_iter().map(|entry| entry.host.clone()).collect(), complete)
}

fn jump_of(host: &Host) -> Option<&str> {
    match &host.reach {
        Reach::Ssh { jump, .. } => jump.as_deref(),
        Reach::Local => None,
    }
}

fn check_jumps(reader: &mut Reader, entries: &[&Entry], by_name: &BTreeMap<&str, &Entry>) {
    let mut reported = Vec::new();
    for entry in entries {
        let Some(jump) = jump_of(&entry.host) else { continue };
        // A range of hosts shares one jump: one message is enough.
        if reported.contains(&entry.jump_at) || reader.is_full() {
            continue;
        }
        let problem = match by_name.get(jump) {
            None => {
                let unknown = reader.at(entry.jump_at, format!("the jump host `{jump}` is not among the `hosts`"));
                let unknown = unknown.suggestion(closest(jump, by_name.keys().copied()));
                Some(
                    unknown
                        .help(format!("add it to `hosts`, as `{{name: {jump}, slots: 0}}` if nothing shall run there")),
                )
            }
            Some(through) if through.host.reach == Reach::Local => Some(
                reader.at(entry.jump_at, format!("the jump host `{jump}` is this machine")).help("leave `jump` out"),
            ),
            Some(_) => endless(&entry.host.name, jump, by_name).map(|why| reader.at(entry.jump_at, why)),
        };
        if let Some(problem) = problem {
            reader.report(problem);
            reported.push(entry.jump_at);
        }
    }
}

/// ssh through more hosts than this is a circle, or might as well be.
const MOST_JUMPS: usize = 8;

/// What is wrong with the way that jumps lead from a host, if anything.
fn endless(name: &str, jump: &str, by_name: &BTreeMap<&str, &Entry>) -> Option<String> {
    let mut at = Some(jump);
    for _ in 0..MOST_JUMPS {
        match at {
            None => return None,
            Some(here) if here == name => return Some(format!("`{name}` would be reached through itself")),
            Some(here) => at = by_name.get(here).and_then(|entry| jump_of(&entry.host)),
        }
    }
    at.map(|_| format!("`{name}` would be reached through more than {MOST_JUMPS} hosts"))
}

/// Hosts and groups share one space of names: both can be placed on.
fn check_groups(reader: &mut Reader, entries: &[&Entry], by_name: &BTreeMap<&str, &Entry>) {
    let mut reported = Vec::new();
    for entry in entries {
        for (group, at) in entry.host.groups.iter().zip(&entry.groups_at) {
            if by_name.contains_key(group.as_str()) && !reported.contains(at) {
                reader
                    .report(reader.at(*at, format!("`{group}` is the name of a host, and cannot be a group as well")));
                reported.push(*at);
            }
        }
    }
}

/// Everything that ranks can be placed on.
pub(super) struct Places<'h> {
    hosts: BTreeSet<&'h str>,
    groups: BTreeMap<&'h str, Vec<&'h str>>,
}

impl<'h> Places<'h> {
    pub fn new(hosts: &'h [Host]) -> Places<'h> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for host in hosts {
            for group in &host.groups {
                groups.entry(group).or_default().push(&host.name);
            }
        }
        Places { hosts: hosts.iter().map(|host| host.name.as_str()).collect(), groups }
    }

    /// The hosts that one entry of `servers` or `workers` stands for: a host, a range of hosts, or a group.
    pub fn named(&self, reader: &mut Reader, node: &Node, text: &str) -> Vec<String> {
        if let Some(members) = self.groups.get(text) {
            return members.iter().map(ToString::to_string).collect();
        }
        let names = match range::expand(text) {
            Ok(names) => names,
            Err(error) => {
                reader.error(node.at, error.to_string());
                return Vec::new();
            }
        };
        let Some(stranger) = names.iter().find(|name| !self.hosts.contains(name.as_str())) else { return names };
        // Of a series, every other member is as close: none of them is a better guess.
        let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
        let series = letters(stranger);
        let known = self.hosts.iter().chain(self.groups.keys()).copied().filter(|name| letters(name) != series);
        let unknown = reader.at(node.at, format!("`{stranger}` is neither a host nor a group of this file"));
        reader.report(unknown.suggestion(closest(stranger, known)));
        Vec::new()
    }
}
