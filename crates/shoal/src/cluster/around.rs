//! What happens to the cluster before and after a command: `--start` and `--stop`, by the verbs that people would use themselves.

use crate::args::cluster::Common;
use crate::commands::run::NotBegun;
use std::process::{Command, ExitStatus, Stdio};

/// Exit codes of an `up` that did make machines, or start something on them.
const BEGAN: [Option<i32>; 2] = [Some(1), Some(4)];

/// Runs `shoal VERB CLUSTER --yes`; what it says goes to stderr, since stdout is the command's.
fn shoal(verb: &str, options: &Common) -> Result<ExitStatus, NotBegun> {
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
    command.status().map_err(|e| here(format!("`shoal {verb}` cannot be run: {e}")))
}

fn ended(verb: &str, options: &Common, status: ExitStatus) -> Result<(), NotBegun> {
    match status.success() {
        true => Ok(()),
        false => Err(NotBegun::Here(format!("`shoal {verb} {}` did not end well ({status})", options.file.display()))),
    }
}

pub fn start(wanted: bool, options: &Common) -> Result<(), NotBegun> {
    if wanted { ended("up", options, shoal("up", options)?) } else { Ok(()) }
}

/// Does `work` between `--start` and `--stop`, as far as they are wanted; the exit code of all of it. What was brought up for a command goes
/// down again also where the command could not begin: nobody is there to see machines that cost money and do nothing.
pub fn around(
    (start, stop): (bool, bool),
    options: &Common,
    work: impl FnOnce() -> Result<u8, NotBegun>,
) -> Result<u8, NotBegun> {
    let up = if start { Some(shoal("up", options)?) } else { None };
    if let Some(status) = up
        && let Err(why) = ended("up", options, status)
    {
        if stop && BEGAN.contains(&status.code()) {
            take_down(options);
        }
        return Err(why);
    }
    match work() {
        Ok(code) if stop => match ended("down", options, shoal("down", options)?) {
            // The command's own code, if that one tells of a failure.
            Err(NotBegun::Here(why)) if code != 0 => {
                eprintln!("shoal: {why}");
                Ok(code)
            }
            ended => ended.map(|()| code),
        },
        Err(why) if start && stop => {
            take_down(options);
            Err(why)
        }
        other => other,
    }
}

/// Beside a failure that is told anyway.
fn take_down(options: &Common) {
    eprintln!("shoal: --stop: the cluster that was brought up for this goes down again");
    if let Err(NotBegun::Here(why)) = shoal("down", options).and_then(|status| ended("down", options, status)) {
        eprintln!("shoal: {why}");
    }
}
