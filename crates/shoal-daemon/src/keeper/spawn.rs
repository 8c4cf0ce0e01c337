//! How is a rank's process made?

use super::command::{Cannot, Command};
use super::lookup::plain;
use super::prepare::PROGRESS_FD;
use crate::{proc, signals};
use rustix::fd::OwnedFd;
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// Raised, so that on a full machine the rank goes before its keeper and before other people's work.
const OOM_SCORE: &[u8] = b"200";
/// Of the pipe that takes its output; the most the kernel gives without asking.
const PIPE: usize = 1 << 20;

pub struct Child {
    pub process: proc::Process,
    /// Its stdout and stderr.
    pub output: OwnedFd,
    /// Where the wrapper says how far it is.
    pub progress: Option<File>,
}

/// Keeps descriptor 9 for the wrapper. Called before others are opened, so that it is free.
pub fn reserve_progress_fd() -> std::io::Result<OwnedFd> {
    let null = File::open("/dev/null")?;
    // SAFETY: called once, at the start, with descriptor 9 not in use: whoever inherited one to us has lost it.
    let fd = unsafe { libc::dup3(std::os::fd::AsRawFd::as_raw_fd(&null), PROGRESS_FD, libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just made by dup3 and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Must be called from the thread that lives as long as the keeper: the death signal is tied to it.
pub fn spawn(command: &Command, mut nine: OwnedFd) -> Result<Child, Cannot> {
    let broken = |e: std::io::Error| Cannot { why: format!("no process could be made: {}", plain(&e)), hint: None };
    let (output, input) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|e| broken(e.into()))?;
    let _ = rustix::pipe::fcntl_setpipe_size(&output, PIPE);
    let mut progress = None;
    if command.steps.is_some() {
        let (from, to) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| broken(e.into()))?;
        rustix::io::dup3(&to, &mut nine, rustix::io::DupFlags::CLOEXEC).map_err(|e| broken(e.into()))?;
        progress = Some(File::from(from));
    }
    let mut child = std::process::Command::new(&command.file);
    child.arg0(&command.words[0]).args(&command.words[1..]).env_clear().envs(&command.env).current_dir(&command.cwd);
    child.stdin(Stdio::null()).stdout(input.try_clone().map_err(broken)?).stderr(input);
    let (keeper, wrapped) = (std::process::id() as i32, progress.is_some());
    // SAFETY: only async-signal-safe calls on constants; nothing is allocated and no lock is taken.
    unsafe { child.pre_exec(move || between_fork_and_exec(keeper, wrapped)) };
    let spawned = child.spawn().map_err(|e| Cannot {
        why: format!("command `{}`: {} could not be executed: {}", command.name, command.file.display(), plain(&e)),
        hint: (e.raw_os_error() == Some(libc::E2BIG)).then(|| "arguments and environment together are too long".into()),
    })?;
    let pid = spawned.id();
    // It cannot be gone: nobody has reaped it.
    let process = proc::process(pid).unwrap_or(proc::Process { pid, start: 0 });
    Ok(Child { process, output, progress })
}

fn between_fork_and_exec(keeper: i32, wrapped: bool) -> std::io::Result<()> {
    // SAFETY: system calls with constants and a string that ends in zero; all are async-signal-safe.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != keeper {
            // It died before the line above.
            libc::_exit(1);
        }
        let adj = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if adj >= 0 {
            libc::write(adj, OOM_SCORE.as_ptr().cast(), OOM_SCORE.len());
            libc::close(adj);
        }
        if wrapped {
            libc::fcntl(PROGRESS_FD, libc::F_SETFD, 0);
        }
    }
    signals::reset_in_child();
    Ok(())
}

/// All that the wrapper has said. Never waits: something it left behind may still hold the other end.
pub fn said(progress: &mut File) -> String {
    let mut said = Vec::new();
    let mut piece = [0u8; 4096];
    while let Ok(n @ 1..) = progress.read(&mut piece) {
        said.extend_from_slice(&piece[..n]);
        if said.len() > 1 << 20 {
            break;
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}
