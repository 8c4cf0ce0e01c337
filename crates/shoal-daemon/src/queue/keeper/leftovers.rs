//! What did a run leave behind? Nothing, nearly always; to know that has to cost nothing.
//!
//! We are a subreaper: whatever loses its parent becomes our child. So when the first process of a run is over and we have no children
//! but the first processes of others, nobody of it is left. The kernel's list of our children is short, and only we take from it.

use super::launch::MARK;
use crate::proc::{self, Stat};
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub struct Children {
    list: Option<File>,
    buffer: Vec<u8>,
    mark: String,
}

impl Children {
    /// For the thread that makes processes, which has to be the first one.
    pub fn open(mark: &str) -> Children {
        let me = std::process::id();
        let list = File::open(format!("/proc/self/task/{me}/children")).ok();
        Children { list, buffer: vec![0; 4096], mark: format!("{MARK}={mark}/") }
    }

    /// All our children.
    pub fn pids(&mut self) -> Vec<u32> {
        let Some(list) = &self.list else {
            let me = std::process::id();
            return proc::scan().into_iter().filter(|s| s.parent == me).map(|s| s.process.pid).collect();
        };
        let length = loop {
            match list.read_at(&mut self.buffer, 0) {
                Ok(n) if n == self.buffer.len() => self.buffer.resize(n * 2, 0),
                Ok(n) => break n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break 0,
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..length]);
        text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Which run this child of ours is of, if it can be told: by its session, or by what it was told when it was executed.
    pub fn run_of(&self, pid: u32, leaders: impl Fn(u32) -> Option<String>) -> Option<String> {
        let of_session = rustix::process::Pid::from_raw(pid as i32)
            .and_then(|pid| rustix::process::getsid(Some(pid)).ok())
            .and_then(|session| leaders(session.as_raw_nonzero().get() as u32));
        of_session.or_else(|| marked(pid, &self.mark))
    }
}

/// What stands behind `prefix` in the environment that this process was started with.
pub fn marked(pid: u32, prefix: &str) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let one = environ.split(|b| *b == 0).find_map(|one| one.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(one.to_vec()).ok()
}

/// These and everything below them.
pub fn with_descendants(roots: &[u32]) -> Vec<Stat> {
    let mut all: Vec<Stat> = roots.iter().filter_map(|pid| proc::stat(*pid)).collect();
    for root in roots {
        all.extend(proc::below(*root, &HashSet::new()));
    }
    all
}
