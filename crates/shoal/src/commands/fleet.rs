//! Checks, converts and describes fleet files.

use super::fleet_file;
use super::run::NotBegun;
use crate::args::cluster::Common;
use crate::args::fleet::{Args, Verb};
use crate::cluster;
use crate::exit::Exit;
use serde_json::json;
use shoal_core::cluster::migrate;
use shoal_core::cluster::schema::cluster_json_schema;
use shoal_core::fleet::detect::{self, Form};
use shoal_core::fleet::{Fleet, Reach, convert, schema};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    match &args.verb {
        Verb::Check { file, json, set, values } => {
            let text = fleet_file::text_of(file).map_err(NotBegun::Wrong)?;
            if detect::form(&file.display().to_string(), &text) == Form::Ray {
                let (set, values) = (set.clone(), values.clone());
                let options = Common { file: file.clone(), cluster_name: None, set, values };
                let cluster = cluster::file::read_aloud(file, &options).map_err(NotBegun::Wrong)?;
                cluster::summary::print(&cluster, *json);
                return Ok(Exit::Success.into());
            }
            let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
            if *json { crate::say::line(as_json(&fleet)) } else { crate::say::out(table(&fleet)) }
        }
        Verb::Convert { file } => {
            let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
            crate::say::out(convert::to_native_yaml(&fleet));
        }
        Verb::Migrate { file, output, in_place } => migrate(file, output.as_deref(), *in_place)?,
        Verb::Schema { cluster } => {
            let schema = if *cluster { cluster_json_schema() } else { schema::native_json_schema() };
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
            crate::say::line(text);
        }
    }
    Ok(Exit::Success.into())
}

/// Prints or writes a cluster file in the current schema. What is replaced is replaced whole.
fn migrate(file: &Path, output: Option<&Path>, in_place: bool) -> Result<(), NotBegun> {
    let text = fleet_file::text_of(file).map_err(NotBegun::Wrong)?;
    let name = file.display().to_string();
    let given = cluster::file::of_environment();
    let migrated = migrate::migrate(&name, &text, &given).map_err(|errors| NotBegun::Wrong(errors.to_string()))?;
    let to = if in_place { Some(file) } else { output };
    match migrated.notes.as_slice() {
        [] => eprintln!("{name} is in the current schema already"),
        notes => notes.iter().for_each(|note| eprintln!("{note}")),
    }
    match to {
        None => crate::say::out(&migrated.text),
        Some(to) if in_place && migrated.notes.is_empty() => eprintln!("{} is left as it is", to.display()),
        Some(to) => replace(to, &migrated.text).map_err(|e| NotBegun::Here(format!("{}: {e}", to.display())))?,
    }
    Ok(())
}

/// Writes beside and renames, so that no half file is left; with the rights of the file that was there. A link stays
/// a link.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let write = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        if let Ok(old) = std::fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&beside)))
}

pub(crate) fn as_json(fleet: &Fleet) -> serde_json::Value {
    let hosts = fleet.hosts.iter().map(|host| {
        let (user, port, jump) = match &host.reach {
            Reach::Local => (None, None, None),
            Reach::Ssh { user, port, jump, .. } => (user.clone(), *port, jump.clone()),
        };
        json!({ "name": host.name, "address": host.address, "user": user, "port": port, "jump": jump,
                "groups": host.groups, "slots": host.slots.ranks })
    });
    let mut all = json!({ "name": fleet.name, "hosts": hosts.collect::<Vec<_>>() });
    if !fleet.pools.is_empty() {
        all["pools"] = serde_json::to_value(&fleet.pools).unwrap_or_default();
    }
    all
}

pub(crate) fn table(fleet: &Fleet) -> String {
    let mut out = format!("{}: {} hosts\n", fleet.name, fleet.hosts.len());
    let width = |f: fn(&shoal_core::fleet::Host) -> usize, least: usize| {
        fleet.hosts.iter().map(f).max().unwrap_or(0).max(least)
    };
    let (names, addresses) = (width(|h| h.name.len(), 4), width(|h| h.address.len(), 7));
    out.push_str(&format!("{:<names$}  {:<addresses$}  {:<10} {:>5}  GROUPS\n", "HOST", "ADDRESS", "USER", "SLOTS"));
    for host in &fleet.hosts {
        let user = match &host.reach {
            Reach::Local => "(here)",
            Reach::Ssh { user, .. } => user.as_deref().unwrap_or("-"),
        };
        let groups = host.groups.join(",");
        let line = format!(
            "{:<names$}  {:<addresses$}  {user:<10} {:>5}  {groups}",
            host.name, host.address, host.slots.ranks
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for pool in &fleet.pools {
        let kubernetes = &pool.kubernetes;
        let context = kubernetes.context.as_deref().unwrap_or("(current)");
        let namespace = kubernetes.namespace.as_deref().unwrap_or("(the context's)");
        let gpus = kubernetes.gpus.as_ref().map_or_else(String::new, |gpus| {
            format!(", {} GPUs, {}, {} runs on each", pool.devices().len(), gpus.share.word(), gpus.runs)
        });
        let (name, slots) = (&pool.name, pool.slots);
        out.push_str(&format!(
            "pool {name}: {slots} runs at once, context {context}, namespace {namespace}, image {}{gpus}\n",
            kubernetes.image
        ));
    }
    out
}
