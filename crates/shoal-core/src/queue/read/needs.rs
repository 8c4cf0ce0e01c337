//! What does a run need, and by which rules is it tried?

use super::amounts::{milli, seconds};
use super::fields::texts;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::fleet::size;
use crate::queue::sweep::{Rules, Wants};

pub const RESOURCES_FIELDS: [&str; 6] = ["cpus", "memory", "gpus", "gpu_memory", "ranks", "on"];

/// Processes of one gang.
const MOST_RANKS: u64 = 4096;

pub fn read_wants(reader: &mut Reader, fields: Fields) -> Wants {
    let mut wants = Wants::default();
    let Some(node) = fields.get("resources") else { return wants };
    let Some(fields) = reader.fields(node, "`resources`", &RESOURCES_FIELDS) else { return wants };
    if let Some(cpus) = fields.get("cpus").and_then(|node| amount(reader, node, "`cpus`", "a number above 0: 4, 0.5")) {
        wants.cpus_milli = cpus;
    }
    let whole_or_part = "whole devices, or a part of one: 2, 0.25";
    if let Some(node) = fields.get("gpus") {
        match plain(node).and_then(milli).filter(|gpus| *gpus < 1000 || gpus.is_multiple_of(1000)) {
            Some(gpus) => wants.gpus_milli = gpus,
            None => reader.mismatch(node, "`gpus`", whole_or_part),
        }
    }
    wants.memory_bytes = fields.get("memory").and_then(|node| bytes(reader, node, "`memory`"));
    wants.gpu_memory_bytes = fields.get("gpu_memory").and_then(|node| bytes(reader, node, "`gpu_memory`"));
    if let (Some(at), 0, Some(_)) = (fields.key("gpu_memory"), wants.gpus_milli, wants.gpu_memory_bytes) {
        let wrong = reader.at(at, "`gpu_memory` without `gpus`");
        reader.report(wrong.help("say how much of a device it computes with: `gpus: 1`, or `gpus: 0.25`"));
    }
    let ranks = fields.get("ranks").and_then(|node| reader.integer(node, "`ranks`", 1..=MOST_RANKS));
    wants.ranks = ranks.and_then(|ranks| u32::try_from(ranks).ok()).unwrap_or(1);
    wants.on = fields.get("on").map(|node| texts(reader, node, "`on`", "hosts or groups")).unwrap_or_default();
    wants
}

/// Text without quotes: a number, perhaps with a unit.
fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

fn amount(reader: &mut Reader, node: &Node, what: &str, expected: &str) -> Option<u32> {
    let amount = plain(node).and_then(milli).filter(|amount| *amount > 0);
    if amount.is_none() {
        reader.mismatch(node, what, expected);
    }
    amount
}

fn bytes(reader: &mut Reader, node: &Node, what: &str) -> Option<u64> {
    let bytes = plain(node).and_then(size::parse).filter(|bytes| *bytes > 0);
    if bytes.is_none() {
        reader.mismatch(node, what, "a size such as 512MiB or 4GiB");
    }
    bytes
}

fn duration(reader: &mut Reader, node: &Node, what: &str) -> Option<u64> {
    let duration = plain(node).and_then(seconds).filter(|seconds| *seconds > 0);
    if duration.is_none() {
        reader.mismatch(node, what, "a time such as 90s, 30m, 1h30m or 2d");
    }
    duration
}

pub fn read_rules(reader: &mut Reader, fields: Fields) -> Rules {
    let time_limit_seconds = fields.get("time_limit").and_then(|node| duration(reader, node, "`time_limit`"));
    let mut rules = Rules { time_limit_seconds, ..Rules::default() };
    let grace = fields.get("grace").and_then(|node| duration(reader, node, "`grace`"));
    if let Some(grace) = grace.and_then(|grace| u32::try_from(grace).ok()) {
        rules.grace_seconds = grace;
    }
    let small = |reader: &mut Reader, field: &str, range| {
        let number = fields.get(field).and_then(|node| reader.integer(node, &format!("`{field}`"), range));
        number.and_then(|number| u32::try_from(number).ok())
    };
    rules.retries = small(reader, "retries", 0..=1000).unwrap_or(rules.retries);
    let never = fields.get("stop_after_failures").and_then(plain) == Some("never");
    rules.stop_after_failures = match never {
        true => u32::MAX,
        false => small(reader, "stop_after_failures", 1..=1_000_000_000).unwrap_or(rules.stop_after_failures),
    };
    if let Some(node) = fields.get("seed") {
        // Languages differ in what they take for a seed; all of them take this much.
        rules.seed = reader.integer(node, "`seed`", 0..=i64::MAX as u64).unwrap_or(rules.seed);
    }
    if let Some(node) = fields.get("priority") {
        rules.priority = signed(reader, node, "`priority`", -1000, 1000).unwrap_or(rules.priority);
    }
    if let Some(node) = fields.get("fatal_codes") {
        let items = match &node.value {
            Value::Scalar { .. } => std::slice::from_ref(node),
            _ => reader.list(node, "`fatal_codes`", "exit codes").unwrap_or_default(),
        };
        rules.fatal_codes = items.iter().filter_map(|item| signed(reader, item, "`fatal_codes`", 1, 255)).collect();
    }
    rules.results = fields.get("results").and_then(|node| results(reader, node));
    rules
}

fn signed(reader: &mut Reader, node: &Node, what: &str, least: i32, most: i32) -> Option<i32> {
    let number = match &node.value {
        Value::Scalar { text, plain: true } => text.parse::<i32>().ok().filter(|n| (least..=most).contains(n)),
        _ => None,
    };
    if number.is_none() {
        reader.mismatch(node, what, &format!("a whole number from {least} to {most}"));
    }
    number
}

/// Hosts put results there: a relative path would be another folder on each, and `~` another for each user.
pub fn results(reader: &mut Reader, node: &Node) -> Option<String> {
    let text = reader.text(node, "`results`")?;
    if text.starts_with('/') && !text.contains('\0') && !text.split('/').any(|part| part == "..") {
        return Some(text.trim_end_matches('/').into());
    }
    reader.mismatch(node, "`results`", "a folder that all hosts see, as a path that starts with `/`");
    None
}
