//! Ends a launch, and looks until nothing of it is left.

use super::run::NotBegun;
use crate::args::k8s_destroy::Args;
use crate::cluster::confirm::confirm;
use crate::exit::Exit;
use crate::k8s::files;
use crate::k8s::follow::Screen;
use crate::k8s::reach::{connect, not_begun, of_launch};
use crate::say;
use serde_json::{Value, json};
use shoal_core::kubernetes::end::{NodeState, why_left};
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::summary::count;
use shoal_core::kubernetes::template::Kind;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::watch::{Followed, Look, View};
use shoal_hosts::kubernetes::{Connection, Failure, resource};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const LEFT: u8 = 4;
/// Between two requests to the server for what it was too busy to take.
const TURN: Duration = Duration::from_secs(3);

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let common = &args.common;
    let (launch, namespace) =
        files::launch(args.template.as_deref(), common.name.as_deref(), common.namespace.as_deref())?;
    let connection = connect(common, namespace)?;
    let there = connection.find(&of_launch(&launch)).map_err(not_begun)?;
    let place = format!("namespace `{}`", connection.namespace);
    if there.is_empty() {
        eprintln!("shoal k8s destroy: nothing of launch `{launch}` is in {place}");
        return Ok(said(args, &launch, &connection, &[], &[]));
    }
    let what = inventory(&there);
    if args.dry_run {
        there.iter().for_each(|one| println!("{}/{}", one.kind.word().to_lowercase(), one.name()));
        eprintln!("shoal k8s destroy: would remove {what} of launch `{launch}` in {place}");
        return Ok(Exit::Success.into());
    }
    confirm(&format!("destroy launch `{launch}` in {place}: {what}; what runs is ended?"), args.yes)?;
    let end = Instant::now() + Duration::from_secs(args.timeout);
    let refused = remove(args, &connection, &there);
    let is_refused = |one: &&There| refused.iter().any(|(name, failure)| name == one.name() && !failure.passes());
    if let Some((_, failure)) = refused.first().filter(|_| roots(&there).iter().all(is_refused)) {
        return Err(not_begun(failure.clone()));
    }
    let (left, refused) = wait(&connection, &launch, refused, end).map_err(not_begun)?;
    let left = explained(&connection, &left, &refused);
    if left.is_empty() {
        eprintln!("shoal k8s destroy: {what} removed; nothing of launch `{launch}` is left in {place}");
    } else {
        left.iter().for_each(|(name, why)| eprintln!("{name} is left: {why}"));
        let after = format!("after {} s", args.timeout);
        eprintln!("shoal k8s destroy: {} of launch `{launch}` left in {place} {after}", count(left.len(), "object"));
    }
    Ok(said(args, &launch, &connection, &there, &left))
}

fn roots(there: &[There]) -> Vec<&There> {
    there.iter().filter(|one| one.is_root()).collect()
}

/// `12 Jobs, 12 Pods`.
fn inventory(there: &[There]) -> String {
    let of = |kind: Kind| there.iter().filter(|one| one.kind == kind).count();
    let parts = Kind::ALL.into_iter().filter(|kind| of(*kind) > 0).map(|kind| count(of(kind), kind.word()));
    parts.collect::<Vec<_>>().join(", ")
}

/// Asks for the end of everything; what was refused.
fn remove(args: &Args, connection: &Connection, there: &[There]) -> Vec<(String, Failure)> {
    let mut refused = connection.remove(&roots(there));
    let pods: Vec<&There> = there.iter().filter(|one| one.kind == Kind::Pod).collect();
    if let Some(grace) = args.grace {
        refused.extend(connection.end_pods(&pods, grace));
    }
    if args.force {
        let nodes = connection.nodes_of(&pods.iter().map(|pod| &pod.object).collect::<Vec<_>>());
        let state = |pod: &&&There| nodes.get(pod.object["spec"]["nodeName"].as_str()?).copied();
        let lost = |pod: &&&There| matches!(state(pod), Some(NodeState::Gone | NodeState::NotReady));
        refused.extend(connection.end_pods(&pods.iter().filter(lost).copied().collect::<Vec<_>>(), 0));
    }
    refused
}

type Refused = Vec<(String, Failure)>;

/// Until nothing is left, or time is over: what is left then, and what was refused of it. A server that has not told what there is, is an error:
/// nobody may say that nothing is left who has not looked.
fn wait(
    connection: &Connection,
    launch: &str,
    mut refused: Refused,
    end: Instant,
) -> Result<(Vec<There>, Refused), Failure> {
    let followed = Kind::ALL.map(|kind| Followed {
        resource: resource::of_kind(kind, &connection.namespace),
        which: Selection::labels(of_launch(launch)),
        optional: false,
    });
    let (begun, mut screen) = (Instant::now(), Screen::default());
    let mut known: Option<Vec<There>> = None;
    loop {
        let busy = |one: &There| refused.iter().any(|(name, failure)| name == one.name() && failure.passes());
        // What was not taken is asked for again; until then there is nothing to do but to look.
        let turn = if refused.iter().any(|(_, failure)| failure.passes()) { Instant::now() + TURN } else { end };
        let looking = |view: &View| {
            screen.away(view.away.as_ref());
            if !view.complete {
                return Look::GoOn;
            }
            let of = |(at, kind): (usize, Kind)| view.of(at).map(move |object| There { kind, object: object.clone() });
            let now: Vec<There> = Kind::ALL.into_iter().enumerate().flat_map(of).collect();
            screen.line(format!("still there: {}", inventory(&now)));
            let look = if now.is_empty() { Look::Done } else { Look::GoOn };
            known = Some(now);
            look
        };
        let outcome = connection.follow(&followed, turn.min(end), looking);
        if outcome.is_err() {
            screen.end();
        }
        let done = outcome?;
        if done || Instant::now() >= end {
            screen.end();
            let left = known.ok_or_else(|| Failure::no_answer(&connection.server, begun.elapsed()))?;
            return Ok((left, refused));
        }
        let again: Vec<&There> =
            known.iter().flatten().filter(|one| one.is_root() && is_not_going(one) && busy(one)).collect();
        let asked: Vec<String> = again.iter().map(|one| one.name().to_string()).collect();
        let still = connection.remove(&again);
        if known.is_some() {
            refused.retain(|(name, failure)| !failure.passes() && !asked.contains(name));
            refused.extend(still);
        }
    }
}

fn is_not_going(one: &There) -> bool {
    one.object["metadata"]["deletionTimestamp"].is_null()
}

/// What is left, and why.
fn explained(connection: &Connection, left: &[There], refused: &[(String, Failure)]) -> Vec<(String, String)> {
    let nodes = connection.nodes_of(&left.iter().map(|one| &one.object).collect::<Vec<_>>());
    let why = |one: &There| {
        let node = one.object["spec"]["nodeName"].as_str().and_then(|name| nodes.get(name));
        let said = refused.iter().find(|(name, _)| name == one.name()).map(|(_, failure)| failure.what.clone());
        said.unwrap_or_else(|| why_left(&one.object, node.copied().unwrap_or(NodeState::Unknown)))
    };
    left.iter().map(|one| (format!("{} {}", one.kind.word(), one.name()), why(one))).collect()
}

fn said(args: &Args, launch: &str, connection: &Connection, there: &[There], left: &[(String, String)]) -> ExitCode {
    if args.json {
        let left: Vec<Value> = left.iter().map(|(name, why)| json!({"object": name, "why": why})).collect();
        say::line(json!({
            "launch": launch, "namespace": connection.namespace, "found": there.len(), "left": left,
        }));
    }
    if left.is_empty() { Exit::Success.into() } else { LEFT.into() }
}
