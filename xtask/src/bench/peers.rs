//! The peers: what is measured beside ours, brought onto this machine when missing.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Programs and their Debian packages. `mpicc` stands for the headers and libraries that mpi4py may be built against.
const PROGRAMS: [(&str, &[&str]); 4] =
    [("mpirun", &["openmpi-bin"]), ("mpicc", &["libopenmpi-dev"]), ("iperf3", &["iperf3"]), ("cc", &["gcc"])];

/// Pinned where a new version would change what is compared.
const MORE: [&str; 2] = ["numpy", "mpi4py==4.1.*"];

/// Installs what is missing, or says what is; gives the interpreter that has PyTorch and mpi4py.
pub fn ensure() -> Result<PathBuf> {
    crate::setup::programs("the peers", &PROGRAMS)?;
    crate::frameworks::with_torch("bench", &MORE)
}

/// What a command prints; its own message when it fails.
pub fn said(command: &mut Command) -> Result<String> {
    let told = crate::cargo::told(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("`{told}` did not start"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n  ");
        bail!("`{told}` ended with {}:\n  {last}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
