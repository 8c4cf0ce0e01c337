//! How is one program run, watched and ended?
//!
//! In a session of its own, with nothing on its stdin and no terminal: what asks for input fails instead of waiting. What it leaves
//! behind when it ends well lives on; when it has to be ended, its whole group and all its children go with it.

use super::inbox::{Heard, Inbox};
use super::output::Output;
use super::ray;
use super::state::State;
use super::{ASKING, say};
use crate::on_host::bounded;
use rustix::process::{Pid, Signal, kill_process_group};
use shoal_core::cluster::docker;
use shoal_core::cluster::steps::record::Ended;
use shoal_core::cluster::steps::wire::{Ask, Containing, Doing, Say, Task};
use shoal_daemon::proc;
use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How often output is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// The end of a short program is seen sooner.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// How often the client hears that we are there while a program has nothing to say.
const BEAT: Duration = Duration::from_secs(5);
/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// The program that is running, for whoever has to end it when nothing else goes on; 0: none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// At once and without waiting for anything.
pub fn kill_what_runs() {
    if let Some(group) = Pid::from_raw(RUNNING.load(Ordering::SeqCst).cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

pub struct Ran {
    pub how: Ended,
    pub last: Vec<String>,
}

/// Runs the programs of a step one after another, until one fails.
pub fn run(state: &State, inbox: &Inbox, task: &Task) -> Ran {
    let (log, output) = match open(state, &task.id) {
        Ok(files) => files,
        Err(e) => return Ran { how: Ended::NotStarted(format!("no log: {e}")), last: Vec::new() },
    };
    let mut output = Output::of(output);
    let deadline = task.limit_s.map(|s| (s, Instant::now() + Duration::from_secs(s)));
    let mut how = Ended::Code(0);
    let mut programs: VecDeque<Vec<String>> = match &task.work {
        Doing::Program(words) => [words.clone()].into(),
        Doing::StopRay(words) if ray::is_there() => [words.clone()].into(),
        Doing::StopRay(_) => {
            // Where it cannot be said there is nothing lost: the step is as good as done.
            let _ = (&log).write_all(b"nothing of Ray is here, so nothing has to be stopped\n");
            VecDeque::new()
        }
        Doing::Container(containing) => [pull(containing)].into(),
    };
    let mut asked = !matches!(task.work, Doing::Container(_));
    while let Some(words) = programs.pop_front() {
        how = match start(&words, &log, task.mark.then_some(state.cluster.as_str())) {
            Ok(child) => {
                RUNNING.store(child.id(), Ordering::SeqCst);
                let how = watch(child, inbox, task, &mut output, deadline);
                RUNNING.store(0, Ordering::SeqCst);
                how
            }
            Err(why) => Ended::NotStarted(why),
        };
        if !how.is_success() {
            break;
        }
        if let (Doing::Container(containing), false) = (&task.work, asked) {
            asked = true;
            programs = starting(containing, &state.cluster);
        }
    }
    pass_on(&task.id, &mut output, true);
    Ran { how, last: output.last() }
}

fn pull(containing: &Containing) -> Vec<String> {
    let container = docker::container(&containing.docker, containing.role, containing.kind.as_ref());
    docker::pull(&containing.docker, &container)
}

/// What brings the container up, now that its image is here and can be asked.
fn starting(containing: &Containing, cluster: &str) -> VecDeque<Vec<String>> {
    let container = docker::container(&containing.docker, containing.role, containing.kind.as_ref());
    let words = docker::asking(&containing.docker, &container);
    let said = words.split_first().and_then(|(program, words)| {
        let mut command = Command::new(program);
        command.args(words);
        bounded::program(command, ASKING).ok().flatten()
    });
    // What could not be found out is left to the engine's own defaults.
    let mut facts = docker::facts(&said.map(|said| said.output).unwrap_or_default());
    if let Some((_, runs)) = facts.current.as_mut().filter(|_| containing.anew) {
        *runs = false;
    }
    docker::container_start(&containing.docker, &container, cluster, &containing.mounts, &facts).into()
}

/// To write, appending, and to read.
fn open(state: &State, id: &str) -> std::io::Result<(File, File)> {
    let path = state.log(id);
    // Not cut to nothing: a process of the last time may still write to it.
    let _ = std::fs::remove_file(&path);
    let log = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
    Ok((log, OpenOptions::new().read(true).write(true).open(path)?))
}

fn start(words: &[String], log: &File, mark: Option<&str>) -> Result<Child, String> {
    let (program, args) = words.split_first().ok_or("an empty command")?;
    let clone = || log.try_clone().map_err(|e| e.to_string());
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(clone()?).stderr(clone()?).current_dir(super::state::home());
    if let Some(cluster) = mark {
        command.env("SHOAL_CLUSTER", cluster);
    }
    // SAFETY: setsid is one system call; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    command.spawn().map_err(|e| format!("{program}: {e}"))
}

fn watch(mut child: Child, inbox: &Inbox, task: &Task, output: &mut Output, deadline: Option<(u64, Instant)>) -> Ended {
    let (mut nap, mut beat) = (FIRST_LOOK, Instant::now());
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return ended(status),
            Ok(None) => {}
            Err(e) => return Ended::NotStarted(format!("its end cannot be seen: {e}")),
        }
        pass_on(&task.id, output, false);
        if let Some((s, at)) = deadline
            && Instant::now() >= at
        {
            end(&mut child);
            return Ended::TimedOut(s);
        }
        if beat.elapsed() >= BEAT {
            beat = Instant::now();
            let _ = say(&Say::Beat);
        }
        match inbox.wait(nap) {
            Heard::Said(Ask::Stop | Ask::Bye) | Heard::Gone => {
                end(&mut child);
                return Ended::Stopped;
            }
            Heard::Said(_) | Heard::Nothing => nap = (nap * 2).min(LOOK),
        }
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

fn pass_on(id: &str, output: &mut Output, end: bool) {
    for text in output.more(end) {
        // A client that is gone is seen by the inbox.
        let _ = say(&Say::Line { id: id.into(), text });
    }
}

/// The group, and the children that made groups of their own: asked first, then not asked any more.
fn end(child: &mut Child) {
    let family = proc::below(child.id(), &HashSet::new());
    let all = |signal: Signal| {
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(group, signal);
        }
        for stat in &family {
            proc::signal(stat.process, signal);
        }
    };
    all(Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && family.iter().any(|stat| proc::is_alive(stat.process)) {
        std::thread::sleep(LOOK);
    }
    // An interactive bash does not end on TERM.
    all(Signal::KILL);
    let _ = child.wait();
}
