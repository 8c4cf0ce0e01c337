//! Private Python environments under `target/venvs` (or `$SHOAL_CACHE/venvs`): made once, remade when their list of packages changes.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where things that survive a clean checkout may live; CI points it at a kept folder.
pub fn cache_dir() -> PathBuf {
    std::env::var_os("SHOAL_CACHE").map_or_else(|| crate::root().join("target"), PathBuf::from)
}

/// The interpreter of the environment `name`, holding exactly `packages` (pip requirement strings).
pub fn ensure(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let dir = cache_dir().join("venvs").join(name);
    let python = dir.join("bin/python");
    let stamp = dir.join("packages.txt");
    let wanted = packages.join("\n");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    if dir.exists() {
        std::fs::remove_dir_all(&dir)
            .with_context(|| format!("cannot remove the old environment {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    eprintln!("setting up Python environment `{name}` ({} packages)", packages.len());
    step(
        Command::new("python3").args(["-m", "venv"]).arg(&dir),
        "make a virtual environment",
        "install Python 3.9 or newer with its venv module (Debian: apt-get install python3-venv)",
    )?;
    if !packages.is_empty() {
        pip(&python, &[&["install", "--quiet", "--disable-pip-version-check"], packages].concat())?;
    }
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

/// Runs pip of that interpreter.
pub fn pip(python: &Path, args: &[&str]) -> Result<()> {
    step(
        Command::new(python).args(["-m", "pip"]).args(args),
        "install Python packages",
        "check that this machine reaches a Python package index (pip config list shows which), then run the command again",
    )
}

fn step(command: &mut Command, what: &str, hint: &str) -> Result<()> {
    let status = command.status().with_context(|| {
        format!("cannot {what}: `{}` did not start\nhint: {hint}", command.get_program().to_string_lossy())
    })?;
    if !status.success() {
        bail!("cannot {what}: `{command:?}` ended with {status}\nhint: {hint}");
    }
    Ok(())
}
