//! How do files of a pool's volume get to this machine?

use super::visit::{Visit, done};
use crate::args::rsync_down::Args;
use crate::cluster::transfer::conclude;
use crate::cluster::transfer_screen::{Screen, attended_with};
use crate::commands::run::NotBegun;
use crate::k8s::reach::not_begun;
use crate::signals;
use shoal_core::fleet::pool::Pool;
use shoal_core::kubernetes::helper::inside;
use shoal_hosts::files::{Options, Progress, Rules, pull};
use std::process::ExitCode;

const PROGRAM: &str = "shoal rsync-down";

pub fn run(args: &Args, pool: &Pool) -> Result<ExitCode, NotBegun> {
    let (Some(source), Some(target)) = (&args.source, &args.target) else {
        let hint = "shoal rsync-down FLEET SRC DST: SRC is a path on the pool's volume";
        return Err(NotBegun::Wrong(format!("which files, and where to?\n  hint: {hint}")));
    };
    if args.all_nodes || args.node.is_some() {
        return Err(NotBegun::Wrong("-A and --node are for clusters; all pods of a pool see the same volume".into()));
    }
    let rules = Rules { exclude: args.exclude.clone(), filter: Vec::new() };
    let source = inside(pool, source).map_err(NotBegun::Wrong)?;
    let options = Options { delete: args.delete, ..Options::default() };
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let visit = Visit::to(pool)?;
    let screen = Screen::new(PROGRAM, &visit.party);
    let outcome = attended_with(PROGRAM, &stop, &screen, &|| visit.clear(PROGRAM), || {
        let there = visit.begin(&mut |why| screen.tell(0, Progress::note(format!("{}: {why}", pool.name))))?;
        let tell = |progress| screen.tell(0, progress);
        let result = pull(&visit.way(&there), &source, target, &rules, &options, &tell);
        done(PROGRAM, there);
        Ok(vec![result])
    });
    let results = outcome.map_err(not_begun)?;
    Ok(conclude(PROGRAM, &visit.party, &results, screen.took(), args.json))
}
