//! How does the daemon get to the agent of its own machine? It starts it.

use super::reach::{LineStream, Reacher};
use crate::queue::places::Store;
use crate::signals;
use rustix::process::{Pid, PidfdFlags, Signal};
use shoal_core::queue::host::HostPolicy;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

pub struct Here {
    pub program: PathBuf,
    /// What it prints on stderr goes to the daemon's log.
    pub store: Store,
}

impl Reacher for Here {
    fn open(&self, _policy: &HostPolicy, store: &str) -> Result<LineStream, String> {
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(self.store.log());
        let mut command = Command::new(&self.program);
        command.args(["host", "agent", "--store", store]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(log.map_or_else(|_| Stdio::null(), Stdio::from)).current_dir("/");
        let start = || {
            // A session of its own: Ctrl-C is for the daemon.
            rustix::process::setsid()?;
            signals::reset_in_child();
            Ok(())
        };
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe { command.pre_exec(start) };
        let shown = self.program.display();
        let mut child = command.spawn().map_err(|e| format!("{shown} cannot be started: {e}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{shown} was started without pipes"));
        };
        // By descriptor, since the number may be another's by the time the line is cut.
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let agent = pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()).map(Arc::new);
        let cut = move || {
            // It loses nothing by it: what it knows is on disk, and runs are the keeper's.
            if let Some(agent) = &agent {
                let _ = rustix::process::pidfd_send_signal(agent, Signal::KILL);
            }
        };
        // Ends when the agent does: when its input is closed, or when it is cut.
        let reap = move || {
            let _ = child.wait();
        };
        std::thread::Builder::new()
            .name("agent-wait".into())
            .stack_size(64 << 10)
            .spawn(reap)
            .map_err(|e| format!("no thread could be started: {e}"))?;
        Ok(LineStream { to: Box::new(to), from: Box::new(from), cut: Box::new(cut) })
    }
}
