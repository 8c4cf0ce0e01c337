//! Files into the containers of nodes, and out of them: by way of the node, whose folder a mount binds into the container, or from which tar takes them in.

use super::transfer::Party;
use shoal_core::cluster::docker_files::{self, bound, put_file, put_folder, stage, take_out};
use shoal_core::cluster::{Cluster, Docker};
use shoal_core::fleet::Reach;
use shoal_core::quote::quote;
use shoal_hosts::files::push::at_once;
use shoal_hosts::files::{Delivery, Sent, Trouble, Way};
use shoal_hosts::process::Exit;
use shoal_hosts::ssh::Connection;
use shoal_hosts::{Process, local};
use std::time::Duration;

/// How long the way between a node and its container may take: it is the same disk.
const PASSING: Duration = Duration::from_secs(3600);
const HINT: &str = "does the container run? `shoal up` starts it; it needs sh and tar";

/// What a delivery to containers becomes: one to the nodes, and what each node has to do then.
pub struct Put {
    pub delivery: Delivery,
    /// A line for the node's shell.
    then: Option<String>,
    /// It lies on the node for the container alone: nothing else may be in that folder.
    pub is_staged: bool,
}

/// `None`: what is to be removed there cannot be told, since the place is the container's own.
pub fn put(cluster: &Cluster, docker: &Docker, delivery: &Delivery, delete: bool) -> Option<Put> {
    let name = delivery.local.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_folder = delivery.local.is_dir();
    let mounts = &cluster.files.mounts;
    let to = |remote: String| Delivery { remote, ..delivery.clone() };
    let target = delivery.remote.as_str();
    let stage = stage(&cluster.name, target, delivery.rules.exclude.iter().chain(&delivery.rules.filter));
    match bound(&cluster.name, mounts, target) {
        // A mount of one file is bound as that file: it has to be written, not replaced.
        Some(place) if !is_folder && mounts.iter().any(|mount| mount.remote == target) => {
            let then = Some(put_file(docker, &place, target));
            Some(Put { delivery: to(place), then, is_staged: false })
        }
        Some(place) => Some(Put { delivery: to(place), then: None, is_staged: false }),
        None if delete && is_folder => None,
        None if is_folder => {
            let then = Some(put_folder(docker, &stage, target));
            Some(Put { delivery: to(stage), then, is_staged: true })
        }
        None => {
            let place = format!("{stage}/{name}");
            let then = Some(put_file(docker, &place, target));
            Some(Put { delivery: to(place), then, is_staged: true })
        }
    }
}

/// What came to nodes goes on into their containers.
pub fn pass_on(party: &Party, puts: &[Put], results: Vec<Result<Sent, Trouble>>) -> Vec<Result<Sent, Trouble>> {
    let lines: Vec<&str> = puts.iter().filter_map(|put| put.then.as_deref()).collect();
    if lines.is_empty() {
        return results;
    }
    let ways: Vec<(Way, Result<Sent, Trouble>)> = party.ways().into_iter().zip(results).collect();
    at_once(ways, |(way, sent)| {
        let sent = sent?;
        lines.iter().try_for_each(|line| on_node(&way, line))?;
        Ok(sent)
    })
}

/// A path of the container, as a path of the node that `pull` can fetch; `do_with` is given it, and what was put there for it goes.
pub fn taken<R>(
    cluster: &Cluster,
    docker: &Docker,
    way: &Way,
    source: &str,
    do_with: impl FnOnce(&str) -> Result<R, Trouble>,
) -> Result<R, Trouble> {
    if let Some(place) = bound(&cluster.name, &cluster.files.mounts, source) {
        return do_with(&place);
    }
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis());
    let place = docker_files::taken(&cluster.name, &format!("{}-{now}", std::process::id()));
    let remove = format!("rm -rf -- {}", quote(&place));
    let took = on_node(way, &take_out(docker, source, &place)).and_then(|()| {
        let whole = source.ends_with('/') || source == "~";
        let name = source.rsplit('/').next().unwrap_or(source);
        do_with(&if whole { format!("{place}/") } else { format!("{place}/{name}") })
    });
    let removed = on_node(way, &remove);
    took.and_then(|took| removed.map(|()| took))
}

/// Runs a line of ours in the node's shell.
fn on_node(way: &Way, line: &str) -> Result<(), Trouble> {
    let node = way.host.name.clone();
    let fault = |what: String, hint: &str| Trouble { node: node.clone(), what, hint: hint.into() };
    let said = if way.host.reach == Reach::Local {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &format!("set -o pipefail; {line}")]);
        let started: std::io::Result<Process> = local::start(command);
        let process = started.map_err(|e| fault(format!("bash cannot be run: {e}"), "install bash"))?;
        process.finish(Vec::new(), PASSING)
    } else {
        let of = |failure: shoal_hosts::ssh::Failure| fault(failure.what, &failure.hint);
        let connection = Connection::open(way.fleet, way.host, way.settings).map_err(of)?;
        let line = format!("exec bash -c {}", quote(&format!("set -o pipefail; {line}")));
        Some(connection.run(&line, Vec::new(), PASSING).map_err(of)?)
    };
    let Some(said) = said else {
        return Err(fault(format!("nothing came of it within {} s", PASSING.as_secs()), "does its disk hang?"));
    };
    if said.exit == Exit::Code(0) {
        return Ok(());
    }
    let lines: Vec<&str> = said.errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The first complaint is the cause; the other end of the pipe complains after it.
    let why = lines.first().copied().unwrap_or("it does not say why");
    Err(fault(format!("between the node and its container: {why}"), HINT))
}
