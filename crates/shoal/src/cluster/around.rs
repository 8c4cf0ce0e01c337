//! What happens to the cluster before and after a command: `--start` and `--stop`, by the verbs that people would use themselves.

use crate::args::cluster::Common;
use crate::commands::run::NotBegun;
use std::process::{Command, Stdio};

/// Runs `shoal VERB CLUSTER --yes`; what it says goes to stderr, since stdout is the command's.
fn shoal(verb: &str, options: &Common) -> Result<(), NotBegun> {
    let here = |why: String| NotBegun::Here(why);
    let me = std::env::current_exe().map_err(|e| here(format!("cannot find this program's own file: {e}")))?;
    let stderr = std::io::stderr();
    let out = rustix::io::dup(&stderr).map_err(|e| here(format!("cannot use stderr: {e}")))?;
    let mut command = Command::new(me);
    command.arg(verb).arg(&options.file).arg("--yes").stdin(Stdio::null()).stdout(out);
    if let Some(name) = &options.cluster_name {
        command.args(["--cluster-name", name]);
    }
    for (slot, value) in &options.set {
        command.arg("--set").arg(format!("{slot}={value}"));
    }
    if let Some(values) = &options.values {
        command.arg("--values").arg(values);
    }
    let status = command.status().map_err(|e| here(format!("`shoal {verb}` cannot be run: {e}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(here(format!("`shoal {verb} {}` did not end well ({status})", options.file.display()))),
    }
}

pub fn start(wanted: bool, options: &Common) -> Result<(), NotBegun> {
    if wanted { shoal("up", options) } else { Ok(()) }
}

/// The exit code after it: the command's own, if that one tells of a failure.
pub fn stop(wanted: bool, options: &Common, code: u8) -> Result<u8, NotBegun> {
    match if wanted { shoal("down", options) } else { Ok(()) } {
        Err(NotBegun::Here(why)) if code != 0 => {
            eprintln!("shoal: {why}");
            Ok(code)
        }
        ended => ended.map(|()| code),
    }
}
