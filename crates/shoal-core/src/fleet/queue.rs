//! What does a fleet file say for the queue? Its section `queue:`, and what follows from the rest.
//!
//! ```yaml
//! queue:
//!   lost_after: 10m
//!   results: /nfs/results                           # unless a sweep says otherwise
//!   quotas: {bob: 8}                                # processes at once, at most
//!   hosts:
//!     gpu: {slots: 8}                               # a host or a group
//!     desk: {owner: alice, idle: 15m, grace: 60s}
//! ```

use super::{Fleet, Host, Reach, size};
use crate::diagnostic::Diagnostics;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::document::yaml;
use crate::queue::host::{HostEnvironment, HostPolicy, OwnerPolicy, Reached};
use crate::queue::read::{amounts, results};
use crate::suggest::closest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const QUEUE_FIELDS: [&str; 4] = ["lost_after", "results", "quotas", "hosts"];
pub const QUEUE_HOST_FIELDS: [&str; 7] = ["slots", "cpus", "memory", "owner", "idle", "grace", "lost_after"];

/// A host that says nothing for so long will not come back by itself soon: a reboot takes less.
pub const LOST_AFTER_SECONDS: u64 = 600;
/// Long enough for a coffee.
const IDLE_SECONDS: u64 = 900;
const GRACE_SECONDS: u64 = 60;

/// What is said of one name: a host's or a group's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    slots: Option<u32>,
    cpus: Option<u32>,
    memory_bytes: Option<u64>,
    owner: Option<String>,
    idle_seconds: Option<u64>,
    grace_seconds: Option<u64>,
    lost_after_seconds: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    lost_after_seconds: Option<u64>,
    of_all: OfAll,
    /// In the order of the file: a later one adds to an earlier.
    hosts: Vec<(String, Said)>,
}

/// What is said of the queue as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfAll {
    /// Where results go, unless a sweep says otherwise.
    pub results: Option<String>,
    /// How many processes a user may have at once.
    pub quotas: BTreeMap<String, u32>,
}

/// What a fleet's file says of the queue as a whole.
pub fn of_all(file: &str, text: &str, fleet: &Fleet) -> Result<OfAll, Diagnostics> {
    section(file, text, fleet).map(|section| section.of_all)
}

/// The policies of a fleet's hosts, but for those that others are only reached through. `file` and `text` are what the fleet was read from; files of
/// other forms have no such section. `write` makes text of the part of a fleet by which a host is reached.
pub fn policies(
    file: &str,
    text: &str,
    fleet: &Fleet,
    write: impl Fn(&Fleet) -> String,
) -> Result<Vec<HostPolicy>, Diagnostics> {
    let section = section(file, text, fleet)?;
    let reached = |host: &Host| match way(fleet, host) {
        Some(part) => Reached::Ssh { fleet: write(&part), base: file.into() },
        None => Reached::Here,
    };
    let hosts = fleet.hosts.iter().filter(|host| host.slots.ranks > 0);
    let jumped = |host: &Host| way(fleet, host).is_some_and(|way| way.hosts.len() > 1);
    let whole = |host: &Host| HostPolicy {
        reach: Some(reached(host)),
        address: (host.reach != Reach::Local).then(|| host.among_hosts().into()),
        jumped: jumped(host),
        environment: HostEnvironment::of(&fleet.environment),
        ..policy(&section, host)
    };
    let lost_after = section.lost_after_seconds.unwrap_or(LOST_AFTER_SECONDS);
    Ok(hosts.map(whole).chain(fleet.pools.iter().map(|pool| pool.policy(lost_after, file))).collect())
}

fn section(file: &str, text: &str, fleet: &Fleet) -> Result<Section, Diagnostics> {
    if super::detect::form(file, text) != super::detect::Form::Native {
        return Ok(Section::default());
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::new(file, text);
    let section = reader.tree(yaml::parse(text)).map(|root| match root.get("queue") {
        Some(node) => read(&mut reader, node, &fleet.hosts),
        None => Section::default(),
    });
    reader.finish(section).map(|(section, _)| section)
}

pub(super) fn read(reader: &mut Reader, node: &Node, hosts: &[Host]) -> Section {
    let mut section = Section::default();
    let Some(fields) = reader.fields(node, "`queue`", &QUEUE_FIELDS) else { return section };
    section.lost_after_seconds = duration(reader, fields, "lost_after");
    section.of_all.results = fields.get("results").and_then(|node| results(reader, node));
    if let Some(users) = fields.get("quotas").and_then(|node| reader.map(node, "`quotas`")) {
        for (user, node) in users.entries() {
            let slots = reader.integer(node, &format!("`{}`", user.text), 0..=100_000);
            section.of_all.quotas.extend(slots.and_then(|slots| Some((user.text.clone(), u32::try_from(slots).ok()?))));
        }
    }
    let Some(of_hosts) = fields.get("hosts").and_then(|node| reader.map(node, "`hosts`")) else { return section };
    for (key, node) in of_hosts.entries() {
        let names = || hosts.iter().flat_map(|host| host.groups.iter().chain([&host.name])).map(String::as_str);
        if !names().any(|name| name == key.text) {
            let wrong = reader.at(key.at, format!("no host or group `{}` in this file", key.text));
            reader.report(wrong.suggestion(closest(&key.text, names())));
            continue;
        }
        if let Some(said) = read_host(reader, node) {
            section.hosts.push((key.text.clone(), said));
        }
    }
    section
}

fn read_host(reader: &mut Reader, node: &Node) -> Option<Said> {
    let fields = reader.fields(node, "the host", &QUEUE_HOST_FIELDS)?;
    let number = |reader: &mut Reader, field: &str| {
        let number = fields.get(field).and_then(|node| reader.integer(node, &format!("`{field}`"), 1..=10_000));
        number.and_then(|number| u32::try_from(number).ok())
    };
    let (slots, cpus) = (number(reader, "slots"), number(reader, "cpus"));
    let memory_bytes = fields.get("memory").and_then(|node| {
        let bytes = plain(node).and_then(size::parse).filter(|bytes| *bytes > 0);
        if bytes.is_none() {
            reader.mismatch(node, "`memory`", "a size such as 64GiB");
        }
        bytes
    });
    let owner = fields.get("owner").and_then(|node| reader.text(node, "`owner`").map(Into::into));
    let (idle_seconds, grace_seconds) = (duration(reader, fields, "idle"), duration(reader, fields, "grace"));
    if let (None, Some(at)) = (fields.get("owner"), fields.key("idle").or(fields.key("grace"))) {
        reader.report(reader.at(at, "`idle` and `grace` are for a host with an `owner`").help("add `owner: USER`"));
    }
    let lost_after_seconds = duration(reader, fields, "lost_after");
    Some(Said { slots, cpus, memory_bytes, owner, idle_seconds, grace_seconds, lost_after_seconds })
}

fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn duration(reader: &mut Reader, fields: Fields, field: &str) -> Option<u64> {
    let node = fields.get(field)?;
    let seconds = plain(node).and_then(amounts::seconds).filter(|seconds| *seconds > 0);
    if seconds.is_none() {
        reader.mismatch(node, &format!("`{field}`"), "a time such as 60s, 15m or 1h");
    }
    seconds
}

fn policy(section: &Section, host: &Host) -> HostPolicy {
    let means = |name: &String| *name == host.name || host.groups.contains(name);
    let said = section.hosts.iter().filter(|(name, _)| means(name)).fold(Said::default(), |all, (_, one)| Said {
        slots: one.slots.or(all.slots),
        cpus: one.cpus.or(all.cpus),
        memory_bytes: one.memory_bytes.or(all.memory_bytes),
        owner: one.owner.clone().or(all.owner),
        idle_seconds: one.idle_seconds.or(all.idle_seconds),
        grace_seconds: one.grace_seconds.or(all.grace_seconds),
        lost_after_seconds: one.lost_after_seconds.or(all.lost_after_seconds),
    });
    let owner = said.owner.map(|user| OwnerPolicy {
        user,
        idle_seconds: said.idle_seconds.unwrap_or(IDLE_SECONDS),
        grace_seconds: said.grace_seconds.unwrap_or(GRACE_SECONDS),
    });
    let lost_after = said.lost_after_seconds.or(section.lost_after_seconds).unwrap_or(LOST_AFTER_SECONDS);
    HostPolicy {
        name: host.name.clone(),
        groups: host.groups.clone(),
        slots: said.slots,
        cpus: said.cpus.or(host.slots.cpus),
        memory_bytes: said.memory_bytes.or(host.slots.memory_bytes),
        owner,
        lost_after_seconds: lost_after,
        reach: None,
        address: None,
        jumped: false,
        environment: None,
    }
}

/// As little of the fleet as is needed to get there: the host, and those in between. Nothing for this machine.
fn way(fleet: &Fleet, host: &Host) -> Option<Fleet> {
    let mut way = vec![host.clone()];
    while let Some(Reach::Ssh { jump: Some(jump), .. }) = way.last().map(|host| &host.reach) {
        match fleet.host(jump).filter(|next| way.iter().all(|known| known.name != next.name)) {
            Some(next) => way.push(next.clone()),
            None => break,
        }
    }
    (host.reach != Reach::Local).then(|| Fleet { name: fleet.name.clone(), hosts: way, ..Fleet::local() })
}

#[cfg(test)]
mod tests {
    use super::super::convert;
    use super::*;

    fn read_all(text: &str) -> Result<Vec<HostPolicy>, String> {
        let reading = super::super::read("lab.yaml", text).map_err(|e| e.to_string())?;
        policies("lab.yaml", text, &reading.fleet, convert::to_native_yaml).map_err(|e| e.to_string())
    }

    const LAB: &str = "
hosts:
  - {name: gate, address: gate.lab, slots: 0}
  - {name: big, address: 10.0.0.2, user: bob, port: 2222, jump: gate, groups: [gpu], slots: {cpus: 32}}
  - {name: desk, groups: [gpu]}
  - localhost
queue:
  lost_after: 5m
  hosts:
    gpu: {slots: 2, memory: 8GiB}
    desk: {owner: alice, idle: 10m, slots: 1}
";

    #[test]
    fn a_host_gets_what_is_said_of_its_groups_and_of_itself() {
        let all = read_all(LAB).expect("policies");
        let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["big", "desk", "localhost"]);
        let (big, desk, here) = (&all[0], &all[1], &all[2]);
        assert_eq!((big.slots, big.cpus, big.memory_bytes, &big.owner), (Some(2), Some(32), Some(8 << 30), &None));
        let owner = OwnerPolicy { user: "alice".into(), idle_seconds: 600, grace_seconds: 60 };
        assert_eq!((desk.slots, &desk.owner, desk.lost_after_seconds), (Some(1), &Some(owner), 300));
        assert_eq!((&here.reach, here.slots), (&Some(Reached::Here), None));
    }

    #[test]
    fn the_way_to_a_host_is_kept_with_its_jump_host() {
        let all = read_all(LAB).expect("policies");
        let Some(Reached::Ssh { fleet, .. }) = &all[0].reach else { panic!("{:?}", all[0].reach) };
        let part = super::super::read("lab.yaml", fleet).expect("a fleet").fleet;
        let whole = super::super::read("lab.yaml", LAB).expect("a fleet").fleet;
        assert_eq!((part.host("big"), part.host("gate")), (whole.host("big"), whole.host("gate")));
        assert_eq!(part.hosts.len(), 2);
    }

    #[test]
    fn what_holds_for_all_of_it() {
        let text = "hosts: [desk]\nqueue: {results: /nfs/results/, quotas: {bob: 8, eve: 0}}\n";
        let fleet = super::super::read("lab.yaml", text).expect("a fleet").fleet;
        let of_all = of_all("lab.yaml", text, &fleet).expect("a section");
        assert_eq!(of_all.results.as_deref(), Some("/nfs/results"));
        assert_eq!(of_all.quotas, [("bob".to_string(), 8), ("eve".to_string(), 0)].into());
    }

    #[test]
    fn hosts_have_the_environment_of_their_fleet_and_pools_their_image() {
        let text = "hosts: [desk]\nenvironment: {conda: jax, modules: [cuda/12], env: {OMP_NUM_THREADS: \"4\"}}\n\
                    pools: [{name: cloud, slots: 1, kubernetes: {image: i, volumes: [{claim: c, at: /mnt, here: /mnt}]}}]\n";
        let all = read_all(text).expect("policies");
        let given = all[0].environment.clone().expect("an environment");
        assert_eq!((given.setup[1].as_str(), given.conda[1].as_str()), ("module load cuda/12", "conda activate jax"));
        assert_eq!(given.env.get("OMP_NUM_THREADS").map(String::as_str), Some("4"));
        assert_eq!((all[1].name.as_str(), &all[1].environment), ("cloud", &None));
        assert_eq!(read_all("hosts: [desk]\n").expect("policies")[0].environment, None);
    }

    #[test]
    fn slips_are_shown_where_they_are() {
        for (queue, said) in [
            ("hosts: {dsk: {slots: 1}}", "did you mean `desk`?"),
            ("hosts: {desk: {slot: 1}}", "did you mean `slots`?"),
            ("hosts: {desk: {idle: 5m}}", "add `owner: USER`"),
            ("lost_after: soon", "a time such as 60s"),
            ("lost: 5m", "unknown field `lost`"),
            ("results: nfs/results", "a path that starts with `/`"),
            ("quotas: {bob: many}", "`bob`"),
        ] {
            let text = format!("hosts: [desk]\nqueue:\n  {queue}\n");
            let shown = super::super::read("lab.yaml", &text).expect_err(queue).to_string();
            assert!(shown.contains(said), "{shown}");
        }
    }
}
