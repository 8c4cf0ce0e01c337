//! `down`: on all nodes at once, what was started is ended and what is ours removed; machines are given back; what is left is named.

use super::account::{PARTIAL, unreachable};
use super::crew::{common, each, not_begun};
use super::lock;
use super::provider::{self, End, Trouble};
use super::session::{Common, Heard, Session};
use super::table::{EVENTS_VERSION, Event, Style, Table};
use crate::commands::run::NotBegun;
use serde_json::json;
use shoal_core::cluster::steps::render::count;
use shoal_core::cluster::steps::stop::stop_command;
use shoal_core::cluster::steps::wire::{Ask, Say};
use shoal_core::cluster::{Cluster, Node, Provider, Role, docker, machines, shell};
use shoal_core::outcome::duration;
use shoal_hosts::ssh::{Connection, Settings};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A node's own bounds add up to less: a stop command of a minute, containers, processes that do not want to end.
const FORGETTING: Duration = Duration::from_secs(180);

/// How a provider begins to say what stays on purpose.
pub const KEPT: &str = "kept: ";

/// What came of one node.
enum Gone {
    Clean(Vec<String>),
    Left { removed: Vec<String>, left: Vec<String> },
    Unknown(Trouble),
}

pub fn down(cluster: &Cluster, how: End, json: bool) -> Result<ExitCode, NotBegun> {
    let began = Instant::now();
    let provider = provider::of(cluster).map_err(not_begun)?;
    // What the provider says on the way names what is kept, and why; in JSON it is part of the last word.
    let said = std::sync::Mutex::new(Vec::new());
    let tell = |text: &str| {
        if !json {
            eprintln!("{text}");
        }
        if let Ok(mut said) = said.lock() {
            said.push(text.to_string());
        }
    };
    let lock = lock::take_from_up(&cluster.name, &tell);
    let lock = lock.map_err(|no| no.not_begun(&cluster.name))?;
    let all = provider.nodes().map_err(not_begun)?;
    let nodes: Vec<Node> = leaving(cluster, &all, &how);
    let stay = provider.machines_stay(&how);
    let gone = if stay {
        clean(cluster, &nodes, &lock, json)?
    } else {
        nodes.iter().map(|_| Gone::Clean(Vec::new())).collect()
    };
    let ended = provider.end(&how, &tell).map_err(not_begun)?;
    if !stay {
        // Their machines are gone; a connection that is still open would only find out.
        let fleet = machines::fleet(&cluster.name, &nodes);
        let ssh = Settings::from_env();
        each(nodes.iter().collect(), |node| Connection::close(&fleet, &node.host, &ssh));
    }
    let all_go = nodes.len() == all.len();
    if all_go && gone.iter().all(|gone| matches!(gone, Gone::Clean(_))) {
        forget_here(&lock.folder);
    }
    let said = said.into_inner().unwrap_or_default();
    let rest = match &cluster.provider {
        _ if !all_go => "the others stay",
        Provider::Aws(_) if stay && !nodes.is_empty() => {
            "stopped machines are kept for the next `shoal up`, and cost their disks"
        }
        _ if said.iter().any(|text| text.starts_with(KEPT)) => "nothing else is left",
        _ => "nothing is left",
    };
    Ok(conclude(cluster, &nodes, &gone, Last { ended, said, rest }, json, began))
}

/// The nodes' own key and our lock: nobody needs them any more. What else is in the folder (ledger, key of a cloud's machines) is its provider's,
/// and outlives a `down` that leaves something there.
fn forget_here(folder: &Path) {
    for name in ["mesh", "mesh.pub", lock::NAME] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let _ = std::fs::remove_dir(folder);
}

/// What is said in the end, beside what came of the nodes.
struct Last {
    ended: Vec<String>,
    said: Vec<String>,
    rest: &'static str,
}

/// Those that go: all, or only workers, or only workers that are more than the file wants at least.
fn leaving(cluster: &Cluster, nodes: &[Node], how: &End) -> Vec<Node> {
    let mut kept: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    let goes = |node: &&Node| {
        if node.role == Role::Head {
            return !how.workers_only && !how.keep_min_workers;
        }
        let least = cluster.kind(&node.kind).map_or(0, |kind| kind.min_workers);
        let so_far = kept.entry(node.kind.clone()).or_default();
        if how.keep_min_workers && *so_far < least {
            *so_far += 1;
            return false;
        }
        true
    };
    nodes.iter().filter(goes).cloned().collect()
}

fn clean(cluster: &Cluster, nodes: &[Node], lock: &lock::Lock, json: bool) -> Result<Vec<Gone>, NotBegun> {
    let common = common(cluster, nodes, Some(lock.holder.clone()))?;
    let names: Vec<&str> = nodes.iter().map(|node| node.host.name.as_str()).collect();
    let table = Table::new(if json { Style::Json } else { Style::People { output: false } }, &names);
    let gone = each(nodes.iter().enumerate().collect(), |(i, node)| {
        table.tell(i, Event::Doing("connecting"));
        let gone = match Session::open(&common, &node.host) {
            Ok(session) => {
                table.tell(i, Event::Doing("taking down"));
                forget(&common, cluster, node, session, &table, i)
            }
            Err(no_line) => Gone::Unknown(no_line.trouble(&cluster.name)),
        };
        let (state, good) = match &gone {
            Gone::Clean(_) => ("down", true),
            Gone::Left { .. } => ("something is left", false),
            Gone::Unknown(_) => ("unknown", false),
        };
        table.tell(i, Event::Over { state, good });
        Connection::close(&common.fleet, &node.host, &common.ssh);
        gone
    });
    table.close();
    Ok(gone)
}

fn forget(common: &Common, cluster: &Cluster, node: &Node, session: Session, table: &Table, i: usize) -> Gone {
    let kind = cluster.kind(&node.kind).unwrap_or(&cluster.head);
    let started = session.known.record.steps.keys().any(|id| id.starts_with("start "));
    let inside = common.container.is_none() || session.known.container.is_some();
    let stop = stop_command(&kind.start_commands).filter(|_| started && inside).map(|command| {
        let argv = shell::login_shell(&command, &[]);
        cluster.docker.as_ref().map_or_else(|| argv.clone(), |block| docker::in_container(block, &argv, false))
    });
    session.ask(&Ask::Forget { stop, container: common.container.clone(), program: true });
    let deadline = Instant::now() + FORGETTING;
    loop {
        match session.hear(deadline.saturating_duration_since(Instant::now())) {
            Heard::Said(Say::Forgot { removed, left }) => {
                session.close();
                return if left.is_empty() { Gone::Clean(removed) } else { Gone::Left { removed, left } };
            }
            Heard::Said(Say::Line { id, text }) => table.tell(i, Event::Line { step: &id, text: &text }),
            Heard::Said(_) => {}
            Heard::Nothing | Heard::Cut => {
                return Gone::Unknown(Trouble {
                    what: "it did not say whether it is done".into(),
                    hint: "run `shoal down` again".into(),
                });
            }
        }
    }
}

fn conclude(cluster: &Cluster, nodes: &[Node], gone: &[Gone], last: Last, json: bool, began: Instant) -> ExitCode {
    let Last { ended, said, rest } = last;
    let good = gone.iter().filter(|gone| matches!(gone, Gone::Clean(_))).count();
    let code = match good {
        good if good == nodes.len() => 0,
        0 => 1,
        _ => PARTIAL,
    };
    if json {
        let node = |(node, gone): (&Node, &Gone)| match gone {
            Gone::Clean(removed) => json!({ "node": node.host.name, "state": "down", "removed": removed }),
            Gone::Left { removed, left } => {
                json!({ "node": node.host.name, "state": "left", "removed": removed, "left": left })
            }
            Gone::Unknown(t) => json!({ "node": node.host.name, "state": "unknown", "what": t.what, "hint": t.hint }),
        };
        let nodes: Vec<_> = nodes.iter().zip(gone).map(node).collect();
        let over = json!({ "event": "over", "version": EVENTS_VERSION, "exit_code": code, "nodes": nodes, "ended": ended,
            "said": said });
        crate::say::line(over);
        return ExitCode::from(code);
    }
    let took = duration(began.elapsed().as_millis() as u64);
    for (node, gone) in nodes.iter().zip(gone) {
        let name = &node.host.name;
        match gone {
            Gone::Clean(removed) if removed.is_empty() => {}
            Gone::Clean(removed) => eprintln!("{name}: removed {}", removed.join(", ")),
            Gone::Left { left, .. } => eprintln!("{name}: left: {}", left.join(", ")),
            Gone::Unknown(trouble) => unreachable(name, trouble).iter().for_each(|line| eprintln!("{line}")),
        }
    }
    ended.iter().for_each(|what| eprintln!("gone: {what}"));
    match code {
        0 => eprintln!("shoal down: cluster {}: {} down in {took}; {rest}", cluster.name, count(good, "node")),
        _ => eprintln!(
            "shoal down: cluster {}: {good} of {} are down, after {took}",
            cluster.name,
            count(nodes.len(), "node")
        ),
    }
    ExitCode::from(code)
}
