//! Starts the runs of a template, and follows them as far as asked.

use super::run::NotBegun;
use crate::args::k8s_launch::{Args, Wait};
use crate::cluster::confirm::confirm;
use crate::exit::Exit;
use crate::k8s::reach::{connect, not_begun, ours};
use crate::k8s::{files, follow, table};
use crate::say;
use serde_json::json;
use shoal_core::kubernetes::meet::{Meeting, There, meet};
use shoal_core::kubernetes::plan::{Object, Options, Plan};
use shoal_core::kubernetes::rows::{self, Goal, Row, some};
use shoal_core::kubernetes::state::State;
use shoal_core::kubernetes::template::Kind;
use shoal_core::kubernetes::{emit, summary};
use shoal_hosts::kubernetes::{Connection, Failure, Trouble};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Some were made, or came as far as asked, and some were not.
const PARTLY: u8 = 4;
/// Refusals that are shown; one change of a template gives one for every run.
const MOST_SHOWN: usize = 3;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let read = files::template(&args.template, args.common.namespace.as_deref())?;
    let options = Options { name: args.common.name.as_deref(), keep_kind: args.keep_kind };
    let plan = files::plan(&read, &args.runs, &options)?;
    if args.wait == Wait::Finished && plan.kind.starts_again() {
        let kind = plan.kind.word();
        return Err(NotBegun::Wrong(format!("a {kind} never finishes; leave out --keep-kind, or wait for `started`")));
    }
    if args.dry_run {
        say::out(emit::documents(plan.objects.iter().map(|object| &object.manifest)));
        let namespace = read.template.namespace.as_deref().unwrap_or("of the context");
        eprintln!("{}", summary::of(&plan, namespace));
        return Ok(Exit::Success.into());
    }
    let connection = connect(&args.common, read.template.namespace.clone())?;
    let there = there(&connection, plan.kind).map_err(not_begun)?;
    let meeting = meet(&plan, &there).map_err(|refusals| NotBegun::Wrong(refusal(&plan, &refusals)))?;
    meeting.notes.iter().for_each(|note| eprintln!("{note}"));
    let failed = match meeting.new.is_empty() {
        true => {
            let all = summary::count(meeting.there.len(), "object");
            eprintln!("all {all} of launch `{}` are there already: nothing to apply", plan.launch);
            Vec::new()
        }
        false => make(args, &read, &plan, &meeting, &connection)?,
    };
    let rows = follow_on(args, &plan, &failed, &connection)?;
    Ok(conclude(args, &plan, &meeting, &failed, &rows, &connection))
}

/// Ours of every kind, and everybody's of the kind that is to be made.
fn there(connection: &Connection, kind: Kind) -> Result<Vec<There>, Failure> {
    let mut there = connection.find(&ours())?;
    let others = connection.all_of(kind)?;
    let known = |other: &There| there.iter().any(|one| one.kind == kind && one.name() == other.name());
    let others: Vec<There> = others.into_iter().filter(|other| !known(other)).collect();
    there.extend(others);
    Ok(there)
}

fn refusal(plan: &Plan, refusals: &[String]) -> String {
    let shown: Vec<String> = refusals.iter().take(MOST_SHOWN).map(|one| format!("\n  {one}")).collect();
    let more = refusals.len().saturating_sub(MOST_SHOWN);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    format!(
        "launch `{}` would overwrite or disturb what is there; nothing was applied{}{more}\n  hint: destroy it first (`shoal k8s destroy`), or launch under another --name",
        plan.launch,
        shown.concat()
    )
}

/// Asks, then applies; which could not be made, and why.
fn make<'p>(
    args: &Args,
    read: &files::Read,
    plan: &'p Plan,
    meeting: &Meeting<'p>,
    connection: &Connection,
) -> Result<Vec<(&'p Object, Failure)>, NotBegun> {
    let refused = |failure: &Failure| match failure.trouble {
        Trouble::Invalid => NotBegun::Wrong(format!("\n{}", files::refused(read, plan, failure))),
        _ => not_begun(failure.clone()),
    };
    if let Some(failure) = connection.check(&samples(&meeting.new)) {
        return Err(refused(&failure));
    }
    eprintln!("{}", summary::of(plan, &connection.namespace));
    if !meeting.there.is_empty() {
        eprintln!("  {} of them are there already", meeting.there.len());
    }
    confirm(&format!("launch {}?", summary::count(meeting.new.len(), "pod")), args.yes)?;
    let outcomes = connection.apply(&meeting.new);
    let failed: Vec<_> = outcomes.into_iter().filter_map(|(object, outcome)| Some((object, outcome.err()?))).collect();
    match failed.first() {
        // Nothing is there: that is a refusal, not a part.
        Some((_, failure)) if failed.len() == meeting.new.len() && meeting.there.is_empty() => Err(refused(failure)),
        _ => Ok(failed),
    }
}

/// One of each entry of the runs: its seeds differ in nothing that a server could refuse.
fn samples<'o>(new: &[&'o Object]) -> Vec<&'o Object> {
    let mut seen = std::collections::BTreeSet::new();
    let of = |object: &Object| (object.run.name.clone(), object.run.node.clone(), object.run.gpu.clone());
    new.iter().filter(|object| seen.insert(of(object))).copied().collect()
}

fn follow_on(
    args: &Args,
    plan: &Plan,
    failed: &[(&Object, Failure)],
    connection: &Connection,
) -> Result<Vec<Row>, NotBegun> {
    let goal = match args.wait {
        Wait::None => return Ok(Vec::new()),
        Wait::Started => Goal::Started,
        Wait::Finished => Goal::Finished,
    };
    let is_made = |object: &&Object| !failed.iter().any(|(one, _)| one.name == object.name);
    let names: Vec<(Kind, &str)> =
        plan.objects.iter().filter(is_made).map(|object| (object.kind, object.name.as_str())).collect();
    let end = Instant::now() + Duration::from_secs(args.timeout);
    follow::wait(connection, &plan.launch, &names, goal, end).map_err(not_begun)
}

fn conclude(
    args: &Args,
    plan: &Plan,
    meeting: &Meeting,
    failed: &[(&Object, Failure)],
    rows: &[Row],
    connection: &Connection,
) -> ExitCode {
    let goal = if args.wait == Wait::Finished { Goal::Finished } else { Goal::Started };
    if args.json {
        let failures: Vec<_> =
            failed.iter().map(|(object, failure)| json!({"object": object.name, "why": failure.what})).collect();
        say::line(json!({
            "launch": plan.launch, "namespace": connection.namespace, "server": connection.server,
            "applied": meeting.new.len() - failed.len(), "there": meeting.there.len(), "not_made": failures,
            "reached": args.wait != Wait::None && rows::is_reached(rows, goal), "runs": rows::json(rows),
        }));
    } else if args.wait != Wait::None {
        say::out(table::of(rows));
    }
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    failed.iter().for_each(|(object, failure)| groups.entry(&failure.what).or_default().push(&object.name));
    for (why, names) in &groups {
        eprintln!("{}: not made: {why}", some(names));
    }
    let reasons = rows::reasons(rows);
    reasons.iter().for_each(|reason| eprintln!("{reason}"));
    let made = meeting.new.len() - failed.len();
    eprintln!("shoal k8s launch: {} applied; {}", summary::count(made, "object"), rows::count(rows));
    if rows.iter().any(|row| row.state == State::Failed) {
        return Exit::RunFailed.into();
    }
    if failed.is_empty() && rows::is_reached(rows, goal) {
        return Exit::Success.into();
    }
    eprintln!(
        "  hint: what is there stays, and starts when it can; launching again waits again and makes what is missing"
    );
    PARTLY.into()
}
