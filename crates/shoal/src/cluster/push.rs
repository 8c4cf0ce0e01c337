//! How do mounted files get to nodes? To all that need the same ones at once, so that nodes can pass them on to each other.

use super::node::{Fate, Fault, Member, Work};
use super::table::Event;
use shoal_core::cluster::docker::host_place;
use shoal_core::cluster::steps::wire::Ask;
use shoal_core::cluster::steps::{Action, Kind, Step};
use shoal_core::cluster::{Files, Mount};
use shoal_hosts::files::{self, Delivery, Options, Progress, Rules, Stage, Stop, Way};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

pub fn rules(files: &Files) -> Rules {
    Rules { exclude: files.exclude.clone(), filter: files.filter.clone() }
}

/// How often we look whether somebody wants us to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Reading that takes longer than this is said.
const SLOW: Duration = Duration::from_secs(1);

/// The digests of all mounts, by their path on the nodes. `tell` hears what is being read, where that takes time.
pub fn trees(files: &Files, tell: &(dyn Fn(&str) + Sync)) -> Result<BTreeMap<String, String>, String> {
    let rules = rules(files);
    let tree = |mount: &Mount| {
        let (read, reading) = channel::<()>();
        let tree = std::thread::scope(|scope| {
            scope.spawn(move || {
                if reading.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
                    tell(&format!("reading {}, which is mounted; what is unchanged is not read again", mount.local));
                }
            });
            let tree = files::tree(&PathBuf::from(&mount.local), &rules);
            drop(read);
            tree
        });
        let tree = tree.map_err(|e| format!("file_mounts: {} (for {}): {e}", mount.local, mount.remote))?;
        Ok((mount.remote.clone(), tree.digest))
    };
    files.mounts.iter().map(tree).collect()
}

/// The mounts that a node still needs.
fn missing(member: &Member) -> Vec<usize> {
    let mount = |step: &Step| match step.action {
        Action::Files(mount) => Some(mount),
        _ => None,
    };
    member.plan.to_run(|kind| kind == Kind::Files).filter_map(mount).collect()
}

/// Files for all nodes. One that goes away meanwhile gets its files when it is back.
pub fn all(work: &Work, members: &mut [Member]) {
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (at, member) in members.iter().enumerate().filter(|(_, member)| member.fate.is_none()) {
        groups.entry(missing(member)).or_default().push(at);
    }
    for (mounts, at) in groups.into_iter().filter(|(mounts, _)| !mounts.is_empty()) {
        if work.is_stopping() {
            return;
        }
        let results = {
            let some: Vec<&Member> = at.iter().map(|at| &members[*at]).collect();
            push(work, &some, &mounts)
        };
        for (at, result) in at.into_iter().zip(results) {
            let member = &mut members[at];
            if let Err(fault) = settle(work, member, &mounts, result)
                && !work.is_stopping()
                && !member.is_cut()
            {
                member.end(work, Fate::Failed(fault));
            }
        }
    }
}

/// Files for one node.
pub fn alone(work: &Work, member: &mut Member) -> Result<(), Box<Fault>> {
    let mounts = missing(member);
    let result = push(work, &[member], &mounts).pop().unwrap_or(Ok(()));
    settle(work, member, &mounts, result)
}

fn push(work: &Work, members: &[&Member], mounts: &[usize]) -> Vec<Result<(), files::Trouble>> {
    let files = &work.wanted.cluster.files;
    let deliveries: Vec<Delivery> = mounts
        .iter()
        .filter_map(|mount| files.mounts.get(*mount))
        .map(|mount| Delivery { local: mount.local.clone().into(), remote: place(work, mount), rules: rules(files) })
        .collect();
    let common = work.common;
    let ways: Vec<Way> = members
        .iter()
        .map(|member| Way {
            fleet: &common.fleet,
            host: &member.node.host,
            settings: &common.ssh,
            parcel: &common.parcel,
            internal: member.node.internal.clone(),
            through: None,
        })
        .collect();
    for member in members {
        let ids: Vec<(String, String)> = steps(member, mounts);
        ids.iter().for_each(|(id, what)| work.table.tell(member.i, Event::Begun { step: id, what }));
    }
    let rows: Vec<usize> = members.iter().map(|member| member.i).collect();
    let tell = |i: usize, progress: Progress| match &progress.stage {
        Stage::Note(note) => work.table.tell(rows[i], Event::Said(note)),
        Stage::Connecting | Stage::Looking => work.table.tell(rows[i], Event::Doing("files: looking")),
        Stage::Sending => work.table.tell(rows[i], Event::Sending { sent: progress.sent, total: progress.total }),
        Stage::Done => work.table.tell(rows[i], Event::Doing("files: done")),
    };
    let stop = Stop::default();
    let options = Options { stop: stop.clone(), ..Options::default() };
    let (sent, sending) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while sending.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if work.is_stopping() {
                    stop.ask();
                }
            }
        });
        let results = files::push(&ways, &deliveries, &options, &tell);
        drop(sent);
        results.into_iter().map(|result| result.map(drop)).collect()
    })
}

/// Where the node itself keeps a mount: for a container it is bound into it from there.
fn place(work: &Work, mount: &Mount) -> String {
    match work.wanted.cluster.docker {
        Some(_) => host_place(&work.common.cluster, &mount.remote),
        None => mount.remote.clone(),
    }
}

/// Ids of the steps of these mounts, and their paths.
fn steps(member: &Member, mounts: &[usize]) -> Vec<(String, String)> {
    let ours = |step: &&Step| matches!(step.action, Action::Files(mount) if mounts.contains(&mount));
    member.plan.steps.iter().filter(ours).map(|step| (step.id.clone(), step.what.clone())).collect()
}

fn settle(
    work: &Work,
    member: &mut Member,
    mounts: &[usize],
    result: Result<(), files::Trouble>,
) -> Result<(), Box<Fault>> {
    let ids = steps(member, mounts);
    if let Err(trouble) = result {
        let id = ids.first().map(|(id, _)| id.clone()).unwrap_or_default();
        work.table.tell(member.i, Event::Ended { step: &id, how: &trouble.what, ms: 0, good: false });
        let fault = member.fault(&id, trouble.what);
        return Err(Box::new(Fault { hint: Some(trouble.hint), ..fault }));
    }
    for (id, _) in ids {
        let stamp = member.plan.steps.iter().find(|step| step.id == id).map(|step| step.stamp.clone());
        if let (Some(stamp), Some(session)) = (stamp, &member.session) {
            session.ask(&Ask::Note { id: id.clone(), stamp, done: true });
        }
        work.table.tell(member.i, Event::Ended { step: &id, how: "done", ms: 0, good: true });
        member.done(&id);
    }
    Ok(())
}
