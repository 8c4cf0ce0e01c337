//! What does one entry of `hosts:` stand for? One host or a range of them, with the file's defaults merged in.

use super::native::{safe_name, text};
use super::target::{self, TargetError, is_this_machine};
use super::{Host, Reach, Slots, size};
use crate::diagnostic::Place;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};

pub const HOST_FIELDS: [&str; 8] = ["name", "address", "user", "port", "key", "jump", "groups", "slots"];
pub const DEFAULTS_FIELDS: [&str; 5] = ["user", "port", "key", "jump", "slots"];
pub const SLOTS_FIELDS: [&str; 4] = ["ranks", "cpus", "memory", "gpus"];

/// How to reach a host, as far as a part of the file says it.
#[derive(Debug, Clone, Default)]
struct Access {
    user: Option<String>,
    port: Option<u16>,
    key: Option<String>,
    jump: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Defaults {
    access: Access,
    jump_at: Option<Place>,
    slots: Slots,
}

/// A host and the places that cross-checks point at.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub host: Host,
    pub at: Place,
    pub jump_at: Place,
    pub groups_at: Vec<Place>,
}

pub(super) fn read_defaults(reader: &mut Reader, node: &Node) -> Option<Defaults> {
    let fields = reader.fields(node, "`defaults`", &DEFAULTS_FIELDS)?;
    let access = read_access(reader, fields);
    let slots = fields.get("slots").map_or_else(Slots::default, |node| read_slots(reader, node, Slots::default()));
    Some(Defaults { access, jump_at: fields.get("jump").map(|node| node.at), slots })
}

/// The hosts of one entry. An entry that is wrong is reported and gives a `None`.
pub(super) fn read(reader: &mut Reader, node: &Node, defaults: &Defaults) -> Vec<Option<Entry>> {
    let entries = match &node.value {
        Value::Map(_) => read_map(reader, node, defaults),
        _ => read_line(reader, node, defaults),
    };
    entries.map_or_else(|| vec![None], |entries| entries.into_iter().map(Some).collect())
}

/// `user@node[01-16]:port`
fn read_line(reader: &mut Reader, node: &Node, defaults: &Defaults) -> Option<Vec<Entry>> {
    let line = match &node.value {
        Value::Scalar { .. } => reader.text(node, "the host")?,
        _ => {
            reader.mismatch(
                node,
                "the host",
                "a host such as `node01`, `user@node[01-16]:22`, or a map with its `name`",
            );
            return None;
        }
    };
    let parsed = target::parse(line).and_then(|target| Ok((target::hosts(&target.host)?, target)));
    let (names, target) = parsed.map_err(|error| refuse(reader, node, &error)).ok()?;
    let access = Access { user: target.user, port: target.port, ..Access::default() };
    let host = |name: &String| {
        let reach = reach(name, name, &access, &defaults.access);
        let (address, groups, slots) = (name.clone(), Vec::new(), defaults.slots);
        let host = Host { name: name.clone(), address, internal: None, reach, groups, slots };
        Entry { host, at: node.at, jump_at: defaults.jump_at.unwrap_or(node.at), groups_at: Vec::new() }
    };
    Some(names.iter().map(host).collect())
}

fn read_map(reader: &mut Reader, node: &Node, defaults: &Defaults) -> Option<Vec<Entry>> {
    let fields = reader.fields(node, "the host", &HOST_FIELDS)?;
    let access = read_access(reader, fields);
    let slots = fields.get("slots").map_or(defaults.slots, |node| read_slots(reader, node, defaults.slots));
    let (groups, groups_at) = read_groups(reader, fields);
    let (names, addresses) = read_names(reader, fields)?;
    let jump_at = fields.get("jump").map(|node| node.at).or(defaults.jump_at).unwrap_or(node.at);
    let host = |(name, address): (String, String)| {
        let reach = reach(&name, &address, &access, &defaults.access);
        let at = fields.get("name").or(fields.get("address")).map_or(node.at, |node| node.at);
        let host = Host { name, address, internal: None, reach, groups: groups.clone(), slots };
        Entry { host, at, jump_at, groups_at: groups_at.clone() }
    };
    Some(names.into_iter().zip(addresses).map(host).collect())
}

fn read_groups(reader: &mut Reader, fields: Fields) -> (Vec<String>, Vec<Place>) {
    const MOST: usize = 100;
    let (mut groups, mut places) = (Vec::new(), Vec::new());
    let Some(node) = fields.get("groups") else { return (groups, places) };
    let items = reader.list(node, "`groups`", "names").unwrap_or_default();
    if items.len() > MOST {
        reader.mismatch(node, "`groups`", &format!("at most {MOST} names"));
    }
    for item in items.iter().take(MOST) {
        if let Some(group) = safe_name(reader, item, "the group").filter(|group| !groups.contains(group)) {
            groups.push(group);
            places.push(item.at);
        }
    }
    (groups, places)
}

/// Names and addresses, of which one may stand for both; ranges in both must be of the same length.
fn read_names(reader: &mut Reader, fields: Fields) -> Option<(Vec<String>, Vec<String>)> {
    let mut expand = |field: &str| {
        let node = fields.get(field)?;
        let text = reader.text(node, &format!("`{field}`"));
        Some(text.and_then(|text| {
            target::hosts(text)
                .map_err(|error| match (text.contains('@'), text.contains(':')) {
                    (false, false) => refuse(reader, node, &error),
                    _ => {
                        let wrong = reader.at(node.at, format!("`{text}` is no host name or address"));
                        reader.report(wrong.help("write the user as `user:` and the port as `port:`"));
                    }
                })
                .ok()
        }))
    };
    match (expand("name"), expand("address")) {
        (None, None) => {
            reader.report(reader.at(fields.at, "the host has no name").expected("`name` or `address`"));
            None
        }
        (Some(names), None) | (None, Some(names)) => names.map(|names| (names.clone(), names)),
        (Some(names), Some(addresses)) => {
            let (names, addresses) = (names?, addresses?);
            if names.len() != addresses.len() {
                let at = fields.get("address").map_or(fields.at, |node| node.at);
                let wrong = reader.at(at, "`name` and `address` stand for different numbers of hosts");
                let (expected, found) = (names.len(), addresses.len());
                reader.report(wrong.expected(format!("{expected}, as in `name`")).found(found.to_string()));
                return None;
            }
            Some((names, addresses))
        }
    }
}

/// This machine is reached directly, unless the entry itself says how ssh shall reach it.
fn reach(name: &str, address: &str, own: &Access, defaults: &Access) -> Reach {
    let says_nothing = own.user.is_none() && own.port.is_none() && own.key.is_none() && own.jump.is_none();
    if is_this_machine(address) && says_nothing {
        return Reach::Local;
    }
    // The host that all others are reached through is not reached through itself.
    let default_jump = defaults.jump.clone().filter(|jump| jump != name);
    Reach::Ssh {
        user: own.user.clone().or_else(|| defaults.user.clone()),
        port: own.port.or(defaults.port),
        key: own.key.clone().or_else(|| defaults.key.clone()),
        jump: own.jump.clone().or(default_jump),
        // People who have one have it in ~/.ssh/config; Ray's files are what can name it.
        proxy: None,
        host_key: None,
    }
}

fn read_access(reader: &mut Reader, fields: Fields) -> Access {
    let user = fields.get("user").and_then(|node| {
        let text = reader.text(node, "`user`")?;
        target::check_user(text).map(Into::into).map_err(|error| refuse(reader, node, &error)).ok()
    });
    let port = fields.get("port").and_then(|node| reader.integer(node, "`port`", 1..=65535));
    Access {
        user,
        port: port.and_then(|port| u16::try_from(port).ok()),
        key: fields.get("key").and_then(|node| text(reader, node, "`key`")),
        jump: fields.get("jump").and_then(|node| reader.text(node, "`jump`")).map(Into::into),
    }
}

/// A number of ranks, or a map; what it leaves out is as in `base`.
fn read_slots(reader: &mut Reader, node: &Node, base: Slots) -> Slots {
    const MOST: u64 = 10_000;
    let mut slots = base;
    if let Value::Scalar { .. } = &node.value {
        slots.ranks = reader.integer(node, "`slots`", 0..=MOST).map_or(base.ranks, |n| n as u32);
        return slots;
    }
    let Some(fields) = reader.fields(node, "`slots`", &SLOTS_FIELDS) else { return slots };
    let mut number = |name: &str, low: u64| {
        let n = reader.integer(fields.get(name)?, &format!("`{name}`"), low..=MOST)?;
        u32::try_from(n).ok()
    };
    slots.ranks = number("ranks", 0).unwrap_or(base.ranks);
    slots.cpus = number("cpus", 1).or(base.cpus);
    slots.gpus = number("gpus", 0).or(base.gpus);
    if let Some(node) = fields.get("memory") {
        let bytes = match &node.value {
            Value::Scalar { text, .. } => size::parse(text).filter(|bytes| *bytes > 0),
            _ => None,
        };
        if bytes.is_none() {
            reader.mismatch(node, "`memory`", "a size such as `64GiB`");
        }
        slots.memory_bytes = bytes.or(base.memory_bytes);
    }
    slots
}

fn refuse(reader: &mut Reader, node: &Node, error: &TargetError) {
    reader.error(node.at, error.to_string());
}
