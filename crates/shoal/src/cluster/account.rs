//! What is said in the end, for people: who is up, who is not, and the first failure in full (GANG-2).

use super::node::{Fate, Fault, Member};
use super::provider::Trouble;
use crate::launch::screen::{self, fold};
use serde_json::{Value, json};
use shoal_core::cluster::steps::render::count;
use shoal_core::cluster::steps::wire::LAST_LINES;
use shoal_core::outcome::{STOPPED, duration};
use std::time::Duration;

/// Some nodes are well and others are not.
pub const PARTIAL: u8 = 4;
const FAILED: u8 = 1;

pub fn exit_code<'m>(fates: impl Iterator<Item = &'m Fate>) -> u8 {
    let (mut good, mut bad, mut stopped) = (0, 0, 0);
    for fate in fates {
        match fate {
            Fate::Up => good += 1,
            Fate::Stopped => stopped += 1,
            Fate::Failed(_) | Fate::Unreachable(_) | Fate::NotStarted => bad += 1,
        }
    }
    match (good, bad, stopped) {
        (_, _, 1..) => STOPPED,
        (_, 0, 0) => 0,
        (0, ..) => FAILED,
        _ => PARTIAL,
    }
}

/// The whole account of an `up`.
pub fn people(members: &[Member], cluster: &str, file: &str, took: Duration) -> String {
    let up = members.iter().filter(|member| matches!(member.fate, Some(Fate::Up))).count();
    let took = duration(took.as_millis() as u64);
    if up == members.len() {
        return format!("shoal up: cluster {cluster} is up: {} in {took}", count(up, "node"));
    }
    let code = exit_code(members.iter().filter_map(|member| member.fate.as_ref()));
    let mut lines = vec![match code {
        STOPPED => format!("shoal up: stopped after {took}; what was done is remembered"),
        _ if members.len() == 1 => format!("shoal up: the node is not up, after {took}"),
        _ => format!("shoal up: {up} of {} are up, after {took}", count(members.len(), "node")),
    }];
    let first = members.iter().filter_map(fault).min_by_key(|(_, fault)| fault.at).map(|(name, _)| name.to_string());
    let mut rest = Vec::new();
    for member in members {
        let name = member.node.host.name.as_str();
        match &member.fate {
            Some(Fate::Failed(fault)) if first.as_deref() == Some(name) => lines.extend(in_full(name, fault)),
            Some(Fate::Failed(fault)) => rest.push(format!("  {name}: {}: {}", fault.step, fault.how)),
            Some(Fate::Unreachable(trouble)) => rest.extend(unreachable(name, trouble)),
            Some(Fate::NotStarted) => rest.push(format!("  {name}: set up, but not started: the head is not up")),
            Some(Fate::Stopped) if code != STOPPED => rest.push(format!("  {name}: stopped")),
            Some(Fate::Stopped | Fate::Up) | None => {}
        }
    }
    lines.extend(rest);
    lines.push(format!("  `shoal up {file}` goes on where it stopped"));
    lines.join("\n")
}

fn fault<'m>(member: &'m Member) -> Option<(&'m str, &'m Fault)> {
    match &member.fate {
        Some(Fate::Failed(fault)) => Some((member.node.host.name.as_str(), &**fault)),
        _ => None,
    }
}

fn in_full(name: &str, fault: &Fault) -> Vec<String> {
    let mut lines = vec![format!("  {name}: {}: {}", fault.step, fault.how), format!("    command: {}", fault.command)];
    if !fault.last.is_empty() {
        lines.push("    its last lines:".into());
        let skip = fault.last.len().saturating_sub(LAST_LINES);
        lines.extend(fault.last.iter().skip(skip).map(|line| format!("      {line}")));
    }
    lines.extend(fault.log.as_ref().map(|log| format!("    log: {log} on {name}")));
    lines.extend(fault.hint.as_ref().map(|hint| fold(&format!("    hint: {hint}"), "      ", screen::width())));
    lines
}

pub fn unreachable(name: &str, trouble: &Trouble) -> Vec<String> {
    let width = screen::width();
    vec![
        fold(&format!("  {name}: {}", trouble.what), "    ", width),
        fold(&format!("    hint: {}", trouble.hint), "      ", width),
    ]
}

/// The same for programs.
pub fn json(member: &Member) -> Value {
    let name = &member.node.host.name;
    match &member.fate {
        Some(Fate::Up) => json!({ "node": name, "state": "up" }),
        Some(Fate::Failed(f)) => json!({ "node": name, "state": "failed", "step": f.step, "command": f.command,
            "how": f.how, "last": f.last, "log": f.log, "hint": f.hint }),
        Some(Fate::Unreachable(t)) => json!({ "node": name, "state": "unreachable", "what": t.what, "hint": t.hint }),
        Some(Fate::NotStarted) => json!({ "node": name, "state": "not started" }),
        Some(Fate::Stopped) | None => json!({ "node": name, "state": "stopped" }),
    }
}
