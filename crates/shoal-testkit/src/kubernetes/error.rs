//! What can go wrong with a control plane, and what to do about it.

use std::path::{Path, PathBuf};
use std::time::Duration;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a control plane for tests needs root, for the network and the mounts of its pods")]
    NotRoot,
    #[error(
        "{variable} names no folder with the programs of Kubernetes; `cargo xtask kubernetes build` makes one and says where"
    )]
    NoPrograms { variable: &'static str },
    #[error("{} is not there; `cargo xtask kubernetes build` makes it", .0.display())]
    MissingProgram(PathBuf),
    #[error("no free place for a control plane: {places} are up")]
    NoPlace { places: u8 },
    #[error("a plane has {nodes} nodes at most")]
    NoNode { nodes: u8 },
    #[error("cannot {what}: {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("cannot make a certificate for {whom}")]
    Certificate { whom: String, source: rcgen::Error },
    #[error("cannot {what}: `{command}` ended with {status}: {stderr}")]
    Command { what: String, command: String, status: String, stderr: String },
    #[error("waited {bound:?} for {what}, in vain{}", tail(log))]
    Timeout { what: String, bound: Duration, log: String },
    #[error("{component} ended with {status} while {what} was waited for{}", tail(log))]
    Died { component: String, status: String, what: String, log: String },
}

impl Error {
    /// Whether the machine, and not the code under test, is why there is no plane: such a test skips.
    pub fn is_unable(&self) -> bool {
        matches!(self, Self::NotRoot | Self::NoPrograms { .. } | Self::MissingProgram(_))
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(15)..].join("\n  ");
    if last.is_empty() { String::new() } else { format!("; the log ends with:\n  {last}") }
}

/// Attaches what was being done, and to which path.
pub trait IoContext<T> {
    fn context(self, what: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| Error::Io { what, path: path.as_ref().to_path_buf(), source })
    }
}
