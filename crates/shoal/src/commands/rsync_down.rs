//! Fetches files from a cluster's nodes.

use super::run::NotBegun;
use crate::args::rsync_down::Args;
use crate::cluster::contained::taken;
use crate::cluster::file;
use crate::cluster::transfer::{Party, conclude, rules};
use crate::cluster::transfer_screen::{Screen, attended};
use crate::exit::Exit;
use crate::pools;
use crate::signals;
use shoal_hosts::files::choose::How;
use shoal_hosts::files::push::at_once;
use shoal_hosts::files::{Options, Sent, Way, pull};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const PROGRAM: &str = "shoal rsync-down";

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    if let Some(pool) = pools::choose::of(&args.common, args.pool.as_deref())? {
        return pools::down::run(args, &pool);
    }
    let cluster = file::read(&args.common.file, &args.common).map_err(NotBegun::Wrong)?;
    let rules = rules(&cluster.files, &args.exclude);
    let wishes: Vec<(String, PathBuf)> = match (&args.source, &args.target) {
        (Some(source), Some(target)) => vec![(source.clone(), target.clone())],
        (Some(_), None) => return Err(NotBegun::Wrong("SRC without DST: give both, or neither".into())),
        (None, _) => {
            cluster.files.mounts.iter().map(|m| back(&m.remote, &m.local, Path::new(&m.local).is_dir())).collect()
        }
    };
    if wishes.is_empty() {
        eprintln!("{PROGRAM}: {} has no file_mounts: nothing to fetch", args.common.file.display());
        return Ok(Exit::Success.into());
    }
    let party = Party::of(&cluster, args.all_nodes, args.node.as_deref())?;
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let options = Options { delete: args.delete, ..Options::default() };
    let screen = Screen::new(PROGRAM, &party);
    let results = attended(PROGRAM, &stop, &screen, || {
        let ways: Vec<(usize, Way)> = party.ways().into_iter().enumerate().collect();
        at_once(ways, |(i, way)| {
            let tell = |progress| screen.tell(i, progress);
            let mut all = Sent { files: 0, bytes: 0, how: How::Nothing, deleted: 0 };
            for (source, target) in &wishes {
                let target = if args.all_nodes { target.join(&way.host.name).join("") } else { target.clone() };
                let fetch = |source: &str| pull(&way, source, &target, &rules, &options, &tell);
                let sent = match &cluster.docker {
                    Some(docker) => taken(&cluster, docker, &way, source, fetch)?,
                    None => fetch(source)?,
                };
                let how = if sent.how == How::Nothing { all.how } else { sent.how };
                let deleted = all.deleted + sent.deleted;
                all = Sent { files: all.files + sent.files, bytes: all.bytes + sent.bytes, how, deleted };
            }
            Ok(all)
        })
    });
    Ok(conclude(PROGRAM, &party, &results, screen.took(), args.json))
}

/// A mount, the other way round: what is in a folder goes into the folder it came from (pure).
fn back(remote: &str, local: &str, is_folder: bool) -> (String, PathBuf) {
    let slash = |path: &str| format!("{}/", path.trim_end_matches('/'));
    if is_folder { (slash(remote), slash(local).into()) } else { (remote.into(), local.into()) }
}

#[cfg(test)]
mod tests {
    use super::back;

    #[test]
    fn mounts_come_back_to_where_they_are_from() {
        assert_eq!(back("~/x", "/a/b", true), ("~/x/".into(), "/a/b/".into()));
        assert_eq!(back("~/f", "/a/f", false), ("~/f".into(), "/a/f".into()));
    }
}
