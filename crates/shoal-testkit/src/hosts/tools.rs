//! The system's programs that test hosts are made with: where they are, and running them.

use super::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every program used here or in `boot.sh`, and the Debian package that brings it.
const NEEDED: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("sshd", "openssh-server"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
];

/// Fails with the first thing that is missing on this machine.
pub fn check() -> Result<()> {
    let uid = rustix::process::geteuid();
    if !uid.is_root() {
        return Err(Error::NotRoot { uid: uid.as_raw() });
    }
    for (program, package) in NEEDED {
        if find(program).is_none() {
            return Err(Error::MissingProgram { program, package });
        }
    }
    Ok(())
}

/// The program's full path. The sbin folders count even where PATH leaves them out; sshd insists on a full path anyway.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command of that program; `check` has seen that it is there.
pub fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| Path::new(program).to_path_buf()))
}

/// Runs `program args` to the end and gives what it printed. `what` completes "cannot ...".
pub fn run(what: &str, program: &str, args: &[&str]) -> Result<String> {
    let failed = |status: String, stderr: String| Error::Command {
        what: what.into(),
        command: format!("{program} {}", args.join(" ")),
        status,
        stderr,
    };
    let output = command(program).args(args).output().map_err(|error| failed("no start".into(), error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string(), String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
