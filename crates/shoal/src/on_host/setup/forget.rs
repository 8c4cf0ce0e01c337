//! What has to go when a cluster goes down, and what is left of it then? Every part is looked for again after it was removed.

use super::inbox::Inbox;
use super::state::{State, clusters};
use super::{ASKING, command, left, mesh, ray, running};
use crate::on_host::bounded;
use rustix::process::Signal;
use shoal_core::cluster::steps::stamp::Stamp;
use shoal_core::cluster::steps::stop::ends_last;
use shoal_core::cluster::steps::wire::{Container, Doing, Task};
use shoal_daemon::proc::{self, Process};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// `ray stop` gives its processes ten seconds by itself.
const STOPPING_S: u64 = 60;
const GRACE: Duration = Duration::from_secs(5);
const KILLING: Duration = Duration::from_secs(2);

/// Gives what is proved gone, and what is not.
pub fn forget(
    state: &State,
    inbox: &Inbox,
    stop: Option<Vec<String>>,
    container: Option<Container>,
    program: bool,
) -> (Vec<String>, Vec<String>) {
    let (mut removed, mut left) = (Vec::new(), Vec::new());
    // Ray's own way to stop ends the same processes in the same order, a second later.
    if let Some(words) = stop.filter(|_| container.is_some() || !all_are_ours(&state.cluster)) {
        let task = Task {
            id: "stop".into(),
            stamp: Stamp::default(),
            work: Doing::Program(words),
            limit_s: Some(STOPPING_S),
            mark: false,
            epoch: None,
        };
        let ran = command::run(state, inbox, &task);
        if !ran.how.is_success() {
            let words = ran.last.last().map(|line| format!(": {line}")).unwrap_or_default();
            // What it should have ended is ended below all the same.
            removed.push(format!("(its stop command: {}{words})", ran.how));
        }
    }
    if let Some(container) = &container {
        remove_container(container, &mut removed, &mut left);
    }
    let before = ours(&state.cluster);
    let alive = end(&state.cluster, &before);
    if before.len() > alive.len() {
        removed.push(count(before.len() - alive.len(), "process", "processes"));
    }
    left.extend(alive.iter().map(|process| format!("process {} ({})", process.pid, name(*process))));
    match mesh::remove(&state.cluster) {
        Ok(true) => removed.push("the cluster's key".into()),
        Ok(false) => {}
        Err(e) => left.push(format!("the cluster's key in ~/.ssh ({e})")),
    }
    match std::fs::remove_dir_all(&state.folder) {
        // We made the folder ourselves where nothing was ever done.
        Ok(()) if state.record.is_blank() => {}
        Ok(()) => removed.push("its record".into()),
        Err(e) => left.push(format!("{} ({e})", state.folder.display())),
    }
    // Only if nothing is in them any more.
    let _ = std::fs::remove_dir(clusters().join(&state.cluster));
    let last = std::fs::remove_dir(clusters()).is_ok();
    if program && last {
        if is_of_a_queue() {
            removed.push("(what a queue keeps there stays: `shoal hosts --remove`)".into());
        }
        remove_program(&mut removed);
    }
    (removed, left)
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn remove_container(container: &Container, removed: &mut Vec<String>, left: &mut Vec<String>) {
    let there = running(container).is_some();
    let Some((program, words)) = container.stop.split_first() else { return };
    let mut command = Command::new(program);
    command.args(words);
    let said = bounded::program(command, Duration::from_secs(STOPPING_S).max(ASKING));
    match running(container) {
        Some(_) => {
            let why = said.ok().flatten().map(|said| said.complaint()).unwrap_or_default();
            left.push(format!("container {} ({why})", container.name));
        }
        None if there => removed.push(format!("container {}", container.name)),
        None => {}
    }
}

fn ours(cluster: &str) -> Vec<Process> {
    left::marked(cluster).into_iter().map(|stat| stat.process).collect()
}

/// Whether all that might be of Ray here bears this cluster's mark.
fn all_are_ours(cluster: &str) -> bool {
    let ours = ours(cluster);
    ray::processes().iter().all(|process| ours.contains(process))
}

/// Ends them; gives those that live.
fn end(cluster: &str, processes: &[Process]) -> Vec<Process> {
    let (last, first): (Vec<Process>, Vec<Process>) =
        processes.iter().partition(|process| ends_last(&ray::command_line(**process)));
    signal_all(&first, Signal::TERM, GRACE);
    signal_all(&last, Signal::TERM, GRACE);
    // Some may have been started meanwhile.
    signal_all(&ours(cluster), Signal::KILL, KILLING);
    ours(cluster)
}

/// Gives them so long to end.
fn signal_all(processes: &[Process], signal: Signal, patience: Duration) {
    for process in processes {
        proc::signal(*process, signal);
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline && processes.iter().any(|process| proc::is_alive(*process)) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn name(process: Process) -> String {
    ray::command_line(process).chars().take(60).collect()
}

/// This very program, if nothing else needs it: it was brought here for clusters and runs, and can be brought again.
fn remove_program(removed: &mut Vec<String>) {
    let Ok(me) = std::env::current_exe() else { return };
    let Some(folder) = me.parent().filter(|folder| folder.parent().is_some_and(|bin| bin.ends_with("shoal/bin")))
    else {
        return;
    };
    if used_by_others(folder) {
        removed.push("(shoal itself stays: it is in use there)".into());
    } else if std::fs::remove_dir_all(folder).is_ok() {
        removed.push("shoal itself".into());
        let _ = folder.parent().map(std::fs::remove_dir);
        let _ = folder.parent().and_then(Path::parent).map(std::fs::remove_dir);
    }
}

/// Code and environments for runs to come are the queue's, and go with its host, not with the cluster.
fn is_of_a_queue() -> bool {
    let folder = clusters().with_file_name("queue");
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

fn used_by_others(folder: &Path) -> bool {
    let me = std::process::id();
    let others = proc::scan().into_iter().filter(|stat| stat.process.pid != me && !stat.is_zombie());
    let mut programs = others.filter_map(|stat| std::fs::read_link(format!("/proc/{}/exe", stat.process.pid)).ok());
    programs.any(|program| program.starts_with(folder))
}
