//! Cargo, called from a program that cargo itself runs.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// Variables that `cargo run` sets for xtask alone. Passed on, they would differ from those of a cargo called by hand, and build
/// scripts that watch them would rebuild in turns.
const OURS: [&str; 2] = ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"];

/// `cargo ARGS` in the root of the checkout.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = clean(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Any program that may call cargo, in the root of the checkout.
pub fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(crate::root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| OURS.contains(&name) || name.starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to the end. `what` completes "cannot ...".
pub fn run(command: &mut Command, what: &str) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot {what}: `{}` did not start", command.get_program().to_string_lossy()))?;
    if !status.success() {
        bail!("cannot {what}: `{}` ended with {status}; its own message is above", told(command));
    }
    Ok(())
}

/// The command as one would type it.
pub fn told(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// How the programs are built that somebody runs.
#[derive(Clone, Copy)]
pub enum Profile {
    /// As tests have them built anyway.
    Dev,
    /// As users have them. Minutes more, the first time.
    Release,
}

/// Builds the programs of `shoal`; the folder they are in.
pub fn programs(profile: Profile) -> Result<PathBuf> {
    let (args, folder): (&[&str], _) = match profile {
        // All that tests build in one go: another selection would have other features, and so be built anew.
        Profile::Dev => (&["build", "--workspace", "--bins"], "debug"),
        Profile::Release => (&["build", "--release", "--package", "shoal", "--bins"], "release"),
    };
    run(&mut cargo(args), "build the programs")?;
    Ok(target_dir()?.join(folder))
}

/// Where cargo builds: what it says itself, since variables and configuration files may both move it.
pub fn target_dir() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("cannot ask cargo for its target folder")?;
    if !output.status.success() {
        bail!("cannot ask cargo for its target folder: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed something else than JSON")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo metadata names no target_directory")
}
