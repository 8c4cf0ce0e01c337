//! How do files of this machine get to a pool's volume?

use super::visit::{Visit, done};
use crate::args::rsync_up::Args;
use crate::cluster::transfer::{as_rsync, conclude};
use crate::cluster::transfer_screen::{Screen, attended_with};
use crate::cluster::watch::Watch;
use crate::commands::run::NotBegun;
use crate::exit::Exit;
use crate::k8s::reach::not_begun;
use crate::signals;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::helper::inside;
use shoal_hosts::files::{Options, Progress, Rules, push};
use std::process::ExitCode;

const PROGRAM: &str = "shoal rsync-up";

pub fn run(args: &Args, pool: &Pool) -> Result<ExitCode, NotBegun> {
    let (Some(source), Some(target)) = (&args.source, &args.target) else {
        let hint = "shoal rsync-up FLEET SRC DST: DST is a path on the pool's volume";
        return Err(NotBegun::Wrong(format!("which files, and where to?\n  hint: {hint}")));
    };
    if args.all_nodes || args.node.is_some() {
        return Err(NotBegun::Wrong("-A and --node are for clusters; all pods of a pool see the same volume".into()));
    }
    if !source.exists() {
        return Err(NotBegun::Wrong(format!(
            "{}: no such file or folder\n  hint: SRC is of this machine",
            source.display()
        )));
    }
    let rules = Rules { exclude: args.exclude.clone(), filter: Vec::new() };
    let target = inside(pool, target).map_err(NotBegun::Wrong)?;
    let (delivery, under) = as_rsync(source, source.is_dir(), &target, &rules);
    let options = Options { delete: args.delete, under, ..Options::default() };
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    // Before anything is sent: what changes meanwhile is not missed.
    let watch = args.watch.then(|| Watch::over(std::slice::from_ref(source))).transpose().map_err(NotBegun::Here)?;
    let visit = Visit::to(pool)?;
    let mut helper = None;
    loop {
        let screen = Screen::new(PROGRAM, &visit.party);
        let deliveries = std::slice::from_ref(&delivery);
        let last = watch.is_none();
        let outcome = attended_with(PROGRAM, &stop, &screen, &|| visit.clear(PROGRAM), || {
            let there = match helper.take() {
                Some(helper) => helper,
                None => visit.begin(&mut |why| screen.tell(0, Progress::note(format!("{}: {why}", pool.name))))?,
            };
            let results = push(&[visit.way(&there)], deliveries, &options, &|i, progress| screen.tell(i, progress));
            match last {
                true => done(PROGRAM, there),
                false => helper = Some(there),
            }
            Ok(results)
        });
        let results = outcome.map_err(not_begun)?;
        let code = conclude(PROGRAM, &visit.party, &results, screen.took(), args.json);
        let Some(watch) = &watch else { return Ok(code) };
        eprintln!("{PROGRAM}: watching {}; Ctrl-C ends it", source.display());
        if !watch.wait(&|| stop() > 0) {
            visit.clear(PROGRAM);
            return Ok(Exit::Success.into());
        }
    }
}
