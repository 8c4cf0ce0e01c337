//! Checks, converts and describes fleet files.

use super::fleet_file;
use super::run::NotBegun;
use crate::args::fleet::{Args, Verb};
use crate::exit::Exit;
use serde_json::json;
use shoal_core::fleet::{Fleet, Reach, convert, schema};
use std::process::ExitCode;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    match &args.verb {
        Verb::Check { file, json } => {
            let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
            if *json { crate::say::line(as_json(&fleet)) } else { crate::say::out(table(&fleet)) }
        }
        Verb::Convert { file } => {
            let fleet = fleet_file::read(file).map_err(NotBegun::Wrong)?;
            crate::say::out(convert::to_native_yaml(&fleet));
        }
        Verb::Schema => {
            let text = serde_json::to_string_pretty(&schema::native_json_schema()).unwrap_or_default();
            crate::say::line(text);
        }
    }
    Ok(Exit::Success.into())
}

fn as_json(fleet: &Fleet) -> serde_json::Value {
    let hosts = fleet.hosts.iter().map(|host| {
        let (user, port, jump) = match &host.reach {
            Reach::Local => (None, None, None),
            Reach::Ssh { user, port, jump, .. } => (user.clone(), *port, jump.clone()),
        };
        json!({ "name": host.name, "address": host.address, "user": user, "port": port, "jump": jump,
                "groups": host.groups, "slots": host.slots.ranks })
    });
    json!({ "name": fleet.name, "hosts": hosts.collect::<Vec<_>>() })
}

fn table(fleet: &Fleet) -> String {
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
    out
}
