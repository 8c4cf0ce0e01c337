//! This machine: programs as children of this one.

use crate::process::{End, Exit, Process};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

struct Local(Child);

impl End for Local {
    fn wait(&mut self, limit: Duration) -> Option<Exit> {
        let deadline = Instant::now() + limit;
        let mut nap = Duration::from_millis(1);
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(status.code().map_or(Exit::Cut, Exit::Code)),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(nap);
                    nap = (nap * 2).min(Duration::from_millis(20));
                }
                Ok(None) => return None,
                Err(_) => return Some(Exit::Cut),
            }
        }
    }
}

/// Starts a program of this machine with pipes on all three sides.
pub fn start(mut command: Command) -> std::io::Result<Process> {
    let (stdin, to) = std::io::pipe()?;
    let (from, stdout) = std::io::pipe()?;
    let (errors, stderr) = std::io::pipe()?;
    let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
    Ok(Process { to, from, errors, end: Box::new(Local(child)) })
}
