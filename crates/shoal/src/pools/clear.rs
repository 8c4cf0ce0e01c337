//! `shoal down` of a fleet with pools: all that is ours there goes, and it comes back when it is gone, or says what is stuck and why.
//!
//! A queue that has the pool is told first to start nothing more there: else it would do again at once what is taken away. Runs that are
//! taken away are lost by name, and go back into the queue at no cost in retries.

use super::inventory::{self, Looked};
use crate::args::down::Args;
use crate::cluster::confirm::confirm;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::k8s::follow::Screen;
use crate::k8s::reach::not_begun;
use crate::queue::connect::Queue;
use crate::signals;
use serde_json::{Value, json};
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::end::{NodeState, why_left};
use shoal_core::kubernetes::inventory::{Count, What, of, selector};
use shoal_core::kubernetes::meet::There;
use shoal_core::kubernetes::summary::count;
use shoal_core::kubernetes::template::Kind;
use shoal_core::queue::event::Pausable;
use shoal_core::queue::request::Request;
use shoal_hosts::kubernetes::request::Selection;
use shoal_hosts::kubernetes::watch::{Followed, Look, View};
use shoal_hosts::kubernetes::{Failure, resource};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const PROGRAM: &str = "shoal down";
/// Beyond this it is said what is left. Programs have their grace first.
const BOUND: Duration = Duration::from_secs(180);
/// Between two looks at what has come meanwhile: what was on its way to the server when the queue was told.
const TURN: Duration = Duration::from_secs(2);
const LEFT: u8 = 4;

pub fn run(args: &Args, pools: &[Pool]) -> Result<ExitCode, NotBegun> {
    if args.workers_only || args.keep_min_workers || args.keep_stopped {
        return Err(NotBegun::Wrong(
            "--workers-only, --keep-min-workers and --keep-stopped are for clusters, not for pools".into(),
        ));
    }
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let mut queue = inventory::queue()?;
    // All are asked before anything is ended.
    let looked = pools.iter().map(|pool| Ok((pool, Looked::at(pool, queue.as_ref())?)));
    let looked: Vec<(&Pool, Looked)> = looked.collect::<Result<_, NotBegun>>()?;
    let mut found = Vec::new();
    for (pool, there) in &looked {
        let mut ours = there.things()?;
        ours.retain(|(_, is_ours), _| *is_ours);
        found.push(ours);
        let serves = serves(queue.as_mut(), pool)?;
        confirm_one(args, pool, there, found.last().unwrap_or(&BTreeMap::new()), serves)?;
    }
    let (mut outcome, mut is_left) = (Vec::new(), false);
    for ((pool, there), ours) in looked.iter().zip(found) {
        let paused = pause(queue.as_mut(), pool)?;
        let left = clear(there, &|| stop() > 0).map_err(not_begun)?;
        is_left |= !left.is_empty();
        say(pool, there, &ours, &left, paused);
        let left: Vec<Value> = left.iter().map(|(name, why)| json!({"object": name, "why": why})).collect();
        let removed: Vec<String> = ours.keys().map(|(what, _)| what.words()).collect();
        outcome.push(json!({
            "pool": pool.name, "namespace": there.connection.namespace, "removed": removed, "left": left, "paused": paused,
        }));
    }
    if args.json {
        crate::say::line(json!({ "version": 1, "pools": outcome }));
    }
    Ok(if is_left { LEFT.into() } else { Exit::Success.into() })
}

/// Whether the queue has this pool.
fn serves(queue: Option<&mut Queue>, pool: &Pool) -> Result<bool, NotBegun> {
    let Some(queue) = queue else { return Ok(false) };
    Ok(queue.hosts()?.iter().any(|host| host.name == pool.name && host.pool.is_some()))
}

fn confirm_one(
    args: &Args,
    pool: &Pool,
    there: &Looked,
    ours: &BTreeMap<(What, bool), Count>,
    serves: bool,
) -> Result<(), NotBegun> {
    if ours.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = ours.iter().map(|((what, _), of)| format!("{} ({})", what.words(), of.words())).collect();
    let again = match serves {
        true => format!("; the queue starts nothing more there until `shoal resume --host {}`", pool.name),
        false => String::new(),
    };
    let (words, namespace) = (words.join(", "), &there.connection.namespace);
    let what = format!("take down {} in namespace {namespace}: {words}; what runs is ended{again}?", pool.name);
    confirm(&what, args.yes)
}

/// Whether it was told.
fn pause(mut queue: Option<&mut Queue>, pool: &Pool) -> Result<bool, NotBegun> {
    if !serves(queue.as_deref_mut(), pool)? {
        return Ok(false);
    }
    let Some(queue) = queue else { return Ok(false) };
    queue.done(&Request::Pause { what: Pausable::Host(pool.name.clone()) })?;
    Ok(true)
}

/// Until nothing that is ours is left, time is over, or somebody stops it: what is left then, and why.
fn clear(there: &Looked, stop: &dyn Fn() -> bool) -> Result<Vec<(String, String)>, Failure> {
    let connection = &there.connection;
    let kinds = [Kind::Job, Kind::Pod];
    let followed = kinds.map(|kind| Followed {
        resource: resource::of_kind(kind, &connection.namespace),
        which: Selection::labels(selector()),
        optional: false,
    });
    let end = Instant::now() + BOUND;
    let (mut screen, mut refused) = (Screen::default(), Vec::new());
    loop {
        let mut left: Option<Vec<There>> = None;
        let turn = (Instant::now() + TURN).min(end);
        let looking = |view: &View| {
            screen.away(view.away.as_ref());
            if !view.complete {
                return Look::GoOn;
            }
            let ours = |object: &&Value| of(object, &there.asked()).1;
            let of_kind = |(at, kind): (usize, Kind)| {
                view.of(at).filter(ours).map(move |object| There { kind, object: object.clone() })
            };
            let now: Vec<There> = kinds.into_iter().enumerate().flat_map(of_kind).collect();
            // What nobody has been asked to remove yet is asked at once.
            let is_new = now.iter().any(goes_by_us);
            let look = if now.is_empty() || is_new { Look::Done } else { Look::GoOn };
            screen.line(format!("still there: {}", count(now.len(), "object")));
            left = Some(now);
            look
        };
        connection.follow(&followed, turn, looking)?;
        let over = Instant::now() >= end || stop();
        match left {
            Some(left) if left.is_empty() => {
                screen.end();
                return Ok(Vec::new());
            }
            Some(left) if over => {
                screen.end();
                return Ok(explained(there, &left, &refused));
            }
            Some(left) => {
                let asked: Vec<&There> = left.iter().filter(|one| goes_by_us(one)).collect();
                refused = connection.remove(&asked);
                if let Some((_, failure)) = refused.first().filter(|(_, failure)| !failure.passes()) {
                    screen.end();
                    return Err(failure.clone());
                }
            }
            None if over => {
                screen.end();
                let what = format!("{} did not answer for {} s", connection.server, BOUND.as_secs());
                return Err(Failure::new(
                    shoal_hosts::kubernetes::Trouble::Unreachable,
                    what,
                    "is it there? try again",
                ));
            }
            None => {}
        }
    }
}

/// Its end is for us to ask for: a Job, whose pods then go with it; a pod, if nobody owns it any more.
fn goes_by_us(one: &There) -> bool {
    let metadata = &one.object["metadata"];
    let owned = metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    metadata["deletionTimestamp"].is_null() && (one.kind == Kind::Job || !owned)
}

fn explained(there: &Looked, left: &[There], refused: &[(String, Failure)]) -> Vec<(String, String)> {
    let nodes = there.connection.nodes_of(&left.iter().map(|one| &one.object).collect::<Vec<_>>());
    let why = |one: &There| {
        let node = one.object["spec"]["nodeName"].as_str().and_then(|name| nodes.get(name)).copied();
        let said = refused.iter().find(|(name, _)| name == one.name()).map(|(_, failure)| failure.what.clone());
        said.unwrap_or_else(|| why_left(&one.object, node.unwrap_or(NodeState::Unknown)))
    };
    left.iter().map(|one| (format!("{} {}", one.kind.word(), one.name()), why(one))).collect()
}

fn say(pool: &Pool, there: &Looked, ours: &BTreeMap<(What, bool), Count>, left: &[(String, String)], paused: bool) {
    let (name, namespace) = (&pool.name, &there.connection.namespace);
    left.iter().for_each(|(object, why)| eprintln!("{PROGRAM}: {name}: {object} is left: {why}"));
    match (left.is_empty(), ours.is_empty()) {
        (true, true) => eprintln!("{PROGRAM}: {name}: nothing of it was in namespace {namespace}"),
        (true, false) => {
            let words: Vec<String> = ours.keys().map(|(what, _)| what.words()).collect();
            eprintln!(
                "{PROGRAM}: {name}: {} removed; nothing of it is left in namespace {namespace}",
                words.join(", ")
            );
        }
        (false, _) => {
            eprintln!("{PROGRAM}: {name}: {} left in namespace {namespace}", count(left.len(), "object"));
        }
    }
    if paused {
        eprintln!("{PROGRAM}: {name}: the queue starts nothing there until `shoal resume --host {name}`");
    }
}
