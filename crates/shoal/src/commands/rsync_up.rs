//! Puts files onto a cluster's nodes.

use super::run::NotBegun;
use crate::args::rsync_up::Args;
use crate::cluster::contained::{Put, pass_on, put};
use crate::cluster::transfer::{Party, as_rsync, conclude, mounts, rules};
use crate::cluster::transfer_screen::{Screen, attended};
use crate::cluster::{file, watch::Watch};
use crate::exit::Exit;
use crate::pools;
use crate::signals;
use shoal_core::cluster::{Cluster, Docker};
use shoal_hosts::files::tree::tree_under;
use shoal_hosts::files::{Delivery, Options, push};
use std::path::PathBuf;
use std::process::ExitCode;

const PROGRAM: &str = "shoal rsync-up";

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if let Some(pool) = pools::choose::of(&args.common, args.pool.as_deref())? {
        return pools::up::run(args, &pool);
    }
    let cluster = file::read(&args.common.file, &args.common).map_err(NotBegun::Wrong)?;
    let rules = rules(&cluster.files, &args.exclude);
    let (deliveries, under): (Vec<Delivery>, Option<String>) = match (&args.source, &args.target) {
        (Some(source), Some(target)) => {
            let (delivery, under) = as_rsync(source, source.is_dir(), target, &rules);
            (vec![delivery], under)
        }
        (Some(_), None) => return Err(NotBegun::Wrong("SRC without DST: give both, or neither".into())),
        (None, _) => (mounts(&cluster.files, &rules), None),
    };
    if deliveries.is_empty() {
        eprintln!("{PROGRAM}: {} has no file_mounts: nothing to send", args.common.file.display());
        return Ok(Exit::Success.into());
    }
    if args.source.is_none() && cluster.files.continuously && !args.watch {
        eprintln!("{PROGRAM}: file_mounts_sync_continuously: add --watch to go on sending what changes");
    }
    if let Some(missing) = deliveries.iter().find(|delivery| !delivery.local.exists()) {
        let hint = "paths of SRC and of file_mounts are of this machine";
        return Err(NotBegun::Wrong(format!("{}: no such file or folder\n  hint: {hint}", missing.local.display())));
    }
    let party = Party::of(&cluster, args.all_nodes, args.node.as_deref())?;
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    // What is in containers goes by way of their nodes; what lies there for them is exactly what is sent.
    let puts =
        cluster.docker.as_ref().map(|docker| into_containers(&cluster, docker, &deliveries, args)).transpose()?;
    let delete = args.delete || puts.as_ref().is_some_and(|puts| puts.iter().all(|put| put.is_staged));
    let options = Options { delete, direct: args.direct, under: under.clone(), ..Options::default() };
    let sent: Vec<Delivery> = match &puts {
        Some(puts) => puts.iter().map(|put| put.delivery.clone()).collect(),
        None => deliveries.clone(),
    };
    // Before anything is sent: what changes meanwhile is not missed.
    let paths: Vec<PathBuf> = deliveries.iter().map(|delivery| delivery.local.clone()).collect();
    let watch = args.watch.then(|| Watch::over(&paths)).transpose().map_err(NotBegun::Here)?;
    loop {
        // Before it is sent: what changes meanwhile is a difference afterwards.
        let before = watch.as_ref().map(|_| digests(&deliveries, under.as_deref()));
        let screen = Screen::new(PROGRAM, &party);
        let results = attended(PROGRAM, &stop, &screen, || {
            let results = push(&party.ways(), &sent, &options, &|node, progress| screen.tell(node, progress));
            match &puts {
                Some(puts) => pass_on(&party, puts, results),
                None => results,
            }
        });
        let code = conclude(PROGRAM, &party, &results, screen.took(), args.json);
        let Some(watch) = &watch else { return Ok(code) };
        eprintln!(
            "{PROGRAM}: watching {}; Ctrl-C ends it",
            paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
        );
        let all_there = results.iter().all(Result::is_ok);
        loop {
            if !watch.wait(&|| stop() > 0) {
                return Ok(Exit::Success.into());
            }
            // What is left out changes too, such as the logs of what runs there: no reason to ask every node and to say that nothing was sent.
            if !all_there || before != Some(digests(&deliveries, under.as_deref())) {
                break;
            }
        }
    }
}

/// Of what is to be sent; `None` for what cannot be read, which the next attempt will say.
fn digests(deliveries: &[Delivery], under: Option<&str>) -> Vec<Option<String>> {
    deliveries.iter().map(|d| Some(tree_under(&d.local, &d.rules, under).ok()?.digest)).collect()
}

fn into_containers(cluster: &Cluster, docker: &Docker, all: &[Delivery], args: &Args) -> Result<Vec<Put>, NotBegun> {
    let put = |delivery: &Delivery| {
        put(cluster, docker, delivery, args.delete).ok_or_else(|| {
            let what =
                format!("--delete: {} is the container's own place, below none of the file_mounts", delivery.remote);
            NotBegun::Wrong(format!("{what}\n  hint: remove what should go with `shoal exec`, or make it a file mount"))
        })
    };
    all.iter().map(put).collect()
}
