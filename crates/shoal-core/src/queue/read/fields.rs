//! Which fields does a sweep's file have, and what becomes of each?

use super::command::{self, read_env, read_pass};
use super::listed::Bare;
use super::parameters::{self, Parameters};
use super::{Draft, folders, needs};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::queue::cells::MOST_RUNS;
use crate::queue::is_sweep_name;

pub const FIELDS: [&str; 26] = [
    "name",
    "command",
    "grid",
    "zip",
    "list",
    "params",
    "when",
    "duplicates",
    "reps",
    "seed",
    "pass",
    "env",
    "source",
    "data",
    "folder",
    "environment",
    "resources",
    "time_limit",
    "grace",
    "retries",
    "stop_after_failures",
    "fatal_codes",
    "priority",
    "after",
    "results",
    "version",
];

/// What is given in short lists, as text or as a list of texts.
pub fn texts(reader: &mut Reader, node: &Node, what: &str, of: &str) -> Vec<String> {
    let items = match &node.value {
        Value::Scalar { .. } => std::slice::from_ref(node),
        _ => reader.list(node, what, of).unwrap_or_default(),
    };
    items.iter().filter_map(|item| reader.text(item, what)).map(Into::into).collect()
}

pub fn read(reader: &mut Reader, root: &Node, configs: Option<Bare>) -> Option<Draft> {
    let fields = reader.fields(root, "the sweep", &FIELDS)?;
    if let Some(node) = fields.get("version") {
        reader.integer(node, "`version`", 1..=1);
    }
    let name = fields.get("name").and_then(|node| sweep_name(reader, node, "`name`"));
    let number = |reader: &mut Reader, field: &str, range, default| match fields.get(field) {
        Some(node) => reader.integer(node, &format!("`{field}`"), range),
        None => Some(default),
    };
    let reps = number(reader, "reps", 1..=1_000_000, 1);
    let parameters = parameters::read(reader, fields, configs);
    let argv = command::read(reader, fields);
    let pass = fields.get("pass").map(|node| read_pass(reader, node));
    let env = fields.get("env").map(|node| read_env(reader, node)).unwrap_or_default();
    let wants = needs::read_wants(reader, fields);
    let rules = needs::read_rules(reader, fields);
    let after = read_after(reader, fields, name.as_deref());
    let folders = folders::read(reader, fields);
    let (parameters, argv, reps) = (parameters?, argv?, u32::try_from(reps?).ok()?);
    let pass = command::reach(reader, fields, &argv, &parameters, pass)?;
    too_many(reader, fields, &parameters, reps);
    Some(Draft {
        name,
        parts: parameters.parts,
        reps,
        argv: argv.words,
        env,
        pass,
        source: folders.source,
        data: folders.data,
        folder: folders.folder,
        setup: folders.setup,
        virtualenv: folders.virtualenv,
        requirements: folders.requirements,
        wants,
        rules,
        after,
        warnings: Vec::new(),
    })
}

fn sweep_name(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let text = reader.text(node, what)?;
    if is_sweep_name(text) {
        return Some(text.into());
    }
    reader.mismatch(node, what, "at most 64 letters, digits, `.`, `_` and `-`, not starting with `-` or `.`");
    None
}

fn read_after(reader: &mut Reader, fields: Fields, own: Option<&str>) -> Vec<String> {
    let Some(node) = fields.get("after") else { return Vec::new() };
    let items = match &node.value {
        Value::Scalar { .. } => std::slice::from_ref(node),
        _ => reader.list(node, "`after`", "names of sweeps").unwrap_or_default(),
    };
    let mut names: Vec<String> = Vec::new();
    for item in items {
        let Some(name) = sweep_name(reader, item, "`after`") else { continue };
        if own == Some(name.as_str()) {
            reader.report(reader.at(item.at, format!("`{name}` would wait for itself")).help("remove it"));
        } else if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn too_many(reader: &mut Reader, fields: Fields, parameters: &Parameters, reps: u32) {
    let runs = parameters.count.saturating_mul(u64::from(reps));
    if runs <= MOST_RUNS {
        return;
    }
    let at = ["reps", "grid", "list", "zip"].iter().find_map(|field| fields.key(field)).unwrap_or(fields.at);
    let message = format!("{} configurations, {reps} times each, are {runs} runs", parameters.count);
    let wrong = reader.at(at, message).expected(format!("at most {MOST_RUNS}"));
    reader.report(wrong.help("shorten the lists, add a condition (`when`), or make several sweeps of it"));
}
