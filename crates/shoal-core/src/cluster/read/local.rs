//! Which machines does a `local` cluster have, and how is each of them reached?
//!
//! A machine is an address, as in Ray; or, which Ray has not, `user@address:port`, or a map of `address`, `port`,
//! `user`, `key` and `jump`.

use super::provider::warn_of_unknown;
use super::take;
use crate::cluster::{Local, Machine};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::fleet::{native, target};

pub const FIELDS: [&str; 7] = [
    "type",
    "head_ip",
    "worker_ips",
    "external_head_ip",
    "coordinator_address",
    "use_external_head_ip",
    "disable_node_updaters",
];
pub const MACHINE_FIELDS: [&str; 5] = ["address", "port", "user", "key", "jump"];

pub fn read(reader: &mut Reader, provider: Fields) -> Option<Local> {
    warn_of_unknown(reader, provider, &FIELDS);
    if let Some(at) = provider.key("coordinator_address") {
        let wrong = reader.at(at, "machines lent by a coordinator are not supported");
        reader.report(wrong.help("list them as `head_ip` and `worker_ips`"));
        return None;
    }
    let Some(node) = take::present(provider, "head_ip") else {
        let at = provider.key("head_ip").unwrap_or(provider.at);
        reader.report(reader.at(at, "`provider` has no `head_ip`").expected("the address of the head"));
        return None;
    };
    let head = machine(reader, node, "`head_ip`");
    let external_head =
        take::present(provider, "external_head_ip").and_then(|node| address(reader, node, "`external_head_ip`"));
    let items = take::present(provider, "worker_ips").and_then(|node| reader.list(node, "`worker_ips`", "machines"));
    let mut workers: Vec<Machine> = Vec::new();
    let mut complete = true;
    for item in items.unwrap_or_default() {
        if reader.is_full() {
            break;
        }
        let Some(worker) = machine(reader, item, "`worker_ips`") else {
            complete = false;
            continue;
        };
        if head.as_ref().is_some_and(|head| is_same(head, &worker)) {
            reader.warn(
                item.at,
                "the head is listed as a worker as well",
                "it is left out there; remove it from `worker_ips`",
            );
        } else if workers.iter().any(|other| is_same(other, &worker)) {
            reader.warn(
                item.at,
                format!("`{}` is listed twice", worker.address),
                "it is one worker; remove one of the two",
            );
        } else {
            workers.push(worker);
        }
    }
    let head = head.filter(|_| complete)?;
    Some(Local { head, workers, external_head })
}

/// Several machines may stand behind one address, at ports of their own.
fn is_same(a: &Machine, b: &Machine) -> bool {
    (&a.address, a.port) == (&b.address, b.port)
}

fn machine(reader: &mut Reader, node: &Node, what: &str) -> Option<Machine> {
    if matches!(node.value, Value::Map(_)) {
        let fields = reader.fields(node, what, &MACHINE_FIELDS)?;
        let Some(place) = take::present(fields, "address") else {
            if !fields.has_misspelt("address", &MACHINE_FIELDS) {
                reader.report(reader.at(node.at, format!("{what} has no `address`")).expected("`address`"));
            }
            return None;
        };
        let address = address(reader, place, "`address`")?;
        let port = take::present(fields, "port")
            .and_then(|node| reader.integer(node, "`port`", 1..=65535))
            .and_then(|port| u16::try_from(port).ok());
        let user = take::present(fields, "user").and_then(|node| user(reader, node, "`user`"));
        let key = take::present(fields, "key").and_then(|node| native::text(reader, node, "`key`"));
        let jump = take::present(fields, "jump").and_then(|node| jump_host(reader, node, "`jump`"));
        return Some(Machine { address, user, port, key, jump });
    }
    let text = reader.text(node, what)?;
    match target::parse(text) {
        Ok(target) => {
            let address = one_host(reader, node, &target.host)?;
            Some(Machine { address, user: target.user, port: target.port, ..Machine::default() })
        }
        Err(error) => {
            reader.error(node.at, error.to_string());
            None
        }
    }
}

fn address(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    one_host(reader, node, text)
}

fn one_host(reader: &mut Reader, node: &Node, text: &str) -> Option<String> {
    match target::hosts(text) {
        Ok(names) if names.len() == 1 => names.into_iter().next(),
        Ok(_) => {
            reader.report(reader.at(node.at, "this form has no ranges").help("write each address by itself"));
            None
        }
        Err(error) => {
            reader.error(node.at, error.to_string());
            None
        }
    }
}

pub fn user(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    target::check_user(text).map(Into::into).map_err(|error| reader.error(node.at, error.to_string())).ok()
}

/// `[user@]host[:port]`, to go through.
pub fn jump_host(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    match target::parse(text) {
        Ok(target) => one_host(reader, node, &target.host).map(|_| text.into()),
        Err(error) => {
            reader.error(node.at, error.to_string());
            None
        }
    }
}
