//! Taking a set down, from its record alone: it may have been made by another process, and made only in part.

use super::error::{Error, IoContext, Result};
use super::process::Process;
use super::record::{HostRecord, Lock, Record};
use super::tools;
use crate::wait;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// SIGKILL to process 1 ends a host; the kernel then ends what is left of its processes.
const END_BOUND: Duration = Duration::from_secs(10);

/// Takes down everything whose owner is gone; gives the names.
pub fn leftovers(lock: &Lock) -> Result<Vec<String>> {
    let (records, bare) = lock.all()?;
    for folder in bare {
        remove_folder(&folder)?;
    }
    let mut names = Vec::new();
    for record in records.into_iter().filter(Record::is_leftover) {
        set(&record)?;
        names.push(record.name);
    }
    Ok(names)
}

/// Takes one set down. What is already gone is no error, so it may be called again.
pub fn set(record: &Record) -> Result<()> {
    let spaces: Vec<&str> = lines_of(&["netns", "list"], &record.hosts, |host| &host.namespace)?;
    record.hosts.iter().filter_map(|host| host.init).for_each(Process::kill);
    // `unshare` fetches the end of process 1 and goes; killed at once, it would leave that to this machine's process 1.
    for (_, outer) in record.hosts.iter().filter_map(|host| host.init.zip(host.outer)) {
        wait::until(END_BOUND, || (!outer.is_alive()).then_some(()));
    }
    record.hosts.iter().filter_map(|host| host.outer).for_each(Process::kill);
    for space in &spaces {
        end_processes(space)?;
    }
    for space in &spaces {
        // The other end of the host's link goes with its namespace, but only when the kernel gets to it.
        let _ = tools::run("remove a link", "ip", &["link", "delete", space]);
        tools::run("remove a network namespace", "ip", &["netns", "delete", space])?;
    }
    let bridge = record.bridge();
    if Path::new("/sys/class/net").join(&bridge).exists() {
        tools::run("remove the bridge", "ip", &["link", "delete", &bridge])?;
    }
    remove_folder(&record.folder())
}

/// Ends all that runs on one host, and its network namespace.
pub fn end(host: &HostRecord) -> Result<()> {
    host.init.into_iter().for_each(Process::kill);
    // As below: `unshare` fetches the end of process 1 and goes.
    if let Some(outer) = host.outer {
        wait::until(END_BOUND, || (!outer.is_alive()).then_some(()));
        outer.kill();
    }
    end_processes(&host.namespace)?;
    tools::run("remove a network namespace", "ip", &["netns", "delete", &host.namespace]).map(drop)
}

/// Those of our names that `ip WHAT` lists.
fn lines_of<'a, T>(what: &[&str], ours: &'a [T], name: impl Fn(&'a T) -> &'a str) -> Result<Vec<&'a str>> {
    let text = tools::run("list network namespaces", "ip", what)?;
    let there: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    Ok(ours.iter().map(name).filter(|name| there.contains(name)).collect())
}

/// Everything in the network namespace is the host's: also what was started in it and never recorded.
fn end_processes(space: &str) -> Result<()> {
    let mut failure = None;
    let gone = wait::until(END_BOUND, || {
        let pids = match tools::run("list a host's processes", "ip", &["netns", "pids", space]) {
            Ok(text) => text,
            Err(error) => {
                failure = Some(error);
                return Some(());
            }
        };
        let alive: Vec<Process> = pids
            .split_whitespace()
            .filter_map(|pid| Process::of(pid.parse().ok()?))
            .filter(|process| process.is_alive())
            .collect();
        alive.iter().copied().for_each(Process::kill);
        alive.is_empty().then_some(())
    });
    match (failure, gone) {
        (Some(error), _) => Err(error),
        (None, Some(())) => Ok(()),
        (None, None) => {
            let what = format!("the processes of network namespace {space} to end");
            Err(Error::Timeout { what, bound: END_BOUND, log: String::new() })
        }
    }
}

fn remove_folder(folder: &Path) -> Result<()> {
    // A host binds folders of this machine into its own tree. Those mounts are visible to the host alone; should one ever be
    // visible here, removing the tree would remove what is behind it.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("read", "/proc/self/mountinfo")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    if let Some(mount) = points.into_iter().find(|point| point.starts_with(folder)) {
        return Err(Error::Mounted { folder: folder.into(), mount });
    }
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("remove", folder),
        _ => Ok(()),
    }
}
