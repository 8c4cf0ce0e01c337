//! The state of a run for people and tools: JSON and Prometheus text (pure).

use super::table::{Entry, State, Table};
use serde_json::{Value, json};
use std::fmt::Write;

fn state(entry: &Entry) -> &'static str {
    match entry.state {
        State::Alive => "alive",
        State::Finished => "finished",
        State::Dead { .. } => "dead",
    }
}

/// What `ps_master --status --json` prints.
pub fn json(table: &Table, uptime_seconds: u64) -> Value {
    let nodes: Vec<Value> = table
        .workers
        .values()
        .chain(table.servers.values())
        .map(|e| {
            json!({
                "role": e.row.who.role, "id": e.row.who.id, "host": e.row.who.host, "pid": e.row.who.pid,
                "address": e.row.address, "state": state(e),
                "waits_for_key": e.blocked.as_ref().map(|b| b.key.clone()),
                "waits_for_workers": e.blocked.as_ref().map(|b| b.missing.clone()),
            })
        })
        .chain(table.joining.values().map(|j| {
            json!({
                "role": j.row.who.role, "id": j.row.who.id, "host": j.row.who.host, "pid": j.row.who.pid,
                "address": j.row.address, "state": "joining", "waits_for_key": null, "waits_for_workers": null,
            })
        }))
        .collect();
    json!({
        "version": 1,
        "generation": table.generation,
        "complete": table.complete,
        "missing": table.missing(),
        "failure": table.failure.as_ref().map(ToString::to_string),
        "settings": table.common.as_ref().map(|(c, _)| c),
        "uptime_s": uptime_seconds,
        "nodes": nodes,
    })
}

/// The same counts for Prometheus.
pub fn prometheus(table: &Table, uptime_seconds: u64) -> String {
    let mut out = String::new();
    out.push_str("# HELP shoal_nodes Nodes of the run by role and state.\n# TYPE shoal_nodes gauge\n");
    for (role, entries) in [("worker", &table.workers), ("server", &table.servers)] {
        for name in ["alive", "finished", "dead"] {
            let count = entries.values().filter(|e| state(e) == name).count();
            let _ = writeln!(out, "shoal_nodes{{role=\"{role}\",state=\"{name}\"}} {count}");
        }
    }
    let _ = writeln!(out, "shoal_nodes{{role=\"worker\",state=\"joining\"}} {}", table.joining.len());
    out.push_str("# HELP shoal_run_complete Whether all expected nodes are there.\n# TYPE shoal_run_complete gauge\n");
    let _ = writeln!(out, "shoal_run_complete {}", u8::from(table.complete));
    out.push_str("# HELP shoal_generation The membership's generation.\n# TYPE shoal_generation gauge\n");
    let _ = writeln!(out, "shoal_generation {}", table.generation);
    out.push_str(
        "# HELP shoal_uptime_seconds Seconds since the master started.\n# TYPE shoal_uptime_seconds counter\n",
    );
    let _ = writeln!(out, "shoal_uptime_seconds {uptime_seconds}");
    out
}
