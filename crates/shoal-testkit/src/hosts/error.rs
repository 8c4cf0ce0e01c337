//! What can go wrong with test hosts, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("test hosts need root, and this process runs as user {uid}")]
    NotRoot { uid: u32 },
    #[error("`{program}` is not on this machine; test hosts need it")]
    MissingProgram { program: &'static str, package: &'static str },
    #[error("bad test hosts `{name}`: {why}")]
    Spec { name: String, why: String },
    #[error("test hosts named `{name}` are already up")]
    AlreadyUp { name: String },
    #[error("no test hosts named `{name}` are up")]
    NotUp { name: String },
    #[error("no free subnet: all of 10.77.0.0/24 to 10.77.255.0/24 are taken")]
    NoSubnet,
    #[error("cannot {what}: `{command}` ended with {status}: {stderr}")]
    Command { what: String, command: String, status: String, stderr: String },
    #[error("cannot {what}: {}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} is not a record of test hosts that this version reads", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("waited {bound:?} for {what}, in vain{}", tail(log))]
    Timeout { what: String, bound: Duration, log: String },
    #[error("host `{host}` ended while it started{}", tail(log))]
    Died { host: String, log: String },
    #[error("will not remove {}: {} is mounted in it", folder.display(), mount.display())]
    Mounted { folder: PathBuf, mount: PathBuf },
}

impl Error {
    /// The advice that goes below the message.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotRoot { .. } => "run it as root, e.g. with sudo -E".into(),
            Self::MissingProgram { package, .. } => format!("Debian: apt-get install {package}"),
            Self::AlreadyUp { .. } => "`cargo xtask hosts down` takes them down".into(),
            Self::NotUp { .. } => {
                "`cargo xtask hosts up 4` brings four up; `cargo xtask hosts list` shows what is up".into()
            }
            Self::NoSubnet => "`cargo xtask hosts down --all` takes kept ones down".into(),
            Self::Command { stderr, .. } if stderr.contains("not permitted") => {
                "namespaces, bridges and mounts need a root that may make them; a container must be privileged".into()
            }
            Self::Record { path, .. } => {
                format!(
                    "an older or newer Shoal wrote it; take its hosts down with that version, or remove {}",
                    path.display()
                )
            }
            Self::Mounted { mount, .. } => format!("umount {} first", mount.display()),
            Self::Timeout { .. } | Self::Died { .. } | Self::Spec { .. } | Self::Command { .. } | Self::Io { .. } => {
                return None;
            }
        })
    }

    /// Whether the machine, and not the code under test, is why there are no hosts: such a test skips.
    pub fn is_unable(&self) -> bool {
        matches!(self, Self::NotRoot { .. } | Self::MissingProgram { .. })
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n  ");
    if last.is_empty() { String::new() } else { format!("; its log ends with:\n  {last}") }
}

/// Attaches what was being done, and to which path.
pub trait IoContext<T> {
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, what: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::Io { what, path: path.into(), source })
    }
}
