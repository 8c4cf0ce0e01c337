//! Runs a Ludwig project, with the python of whoever calls.

use super::run::NotBegun;
use crate::args::ludwig::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// As `-m shoal.ludwig`, but a Python without the package says so, and how it gets one.
const START: &str = r#"
import importlib.util, runpy, sys
if importlib.util.find_spec("shoal") is None:
    print(f"shoal ludwig: {sys.executable} has no package `shoal`", file=sys.stderr)
    print("  hint: activate the virtualenv of the project, and install the wheel `shoal` in it", file=sys.stderr)
    sys.exit(3)
runpy.run_module("shoal.ludwig", run_name="__main__", alter_sys=True)
"#;

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let python = python();
    let mut command = Command::new(&python);
    command.args(["-c", START]).args(&args.args);
    // It takes our place: signals, terminal and exit code are its own.
    let failed = command.exec();
    let hint = "activate the virtualenv of the project, with shoal installed in it";
    Err(NotBegun::CannotStart(format!("{} cannot be run: {failed}\n  hint: {hint}", python.display())))
}

fn python() -> PathBuf {
    let environment = std::env::var_os("VIRTUAL_ENV").filter(|root| !root.is_empty()).map(PathBuf::from);
    environment.map(|root| root.join("bin/python")).filter(|path| path.exists()).unwrap_or_else(|| "python3".into())
}
