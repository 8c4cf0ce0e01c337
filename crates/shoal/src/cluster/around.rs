//! What happens to the cluster before and after a command: `--start` and `--stop`, by the verbs that people would use themselves.

use crate::args::cluster::Common;
use crate::commands::run::NotBegun;
use crate::signals;
use shoal_core::outcome::STOPPED;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// How often we look whether it has ended, and whether somebody wants us gone.
const LOOK: Duration = Duration::from_millis(50);

/// Whether an `up` that ended like this may have made machines, or started something on them: part of it failed, somebody stopped it, or it was
/// killed. Where another one works on the cluster, or the file is wrong, there is nothing of ours to take down (pure).
fn has_begun(code: Option<i32>) -> bool {
    matches!(code, None | Some(0 | 1 | 4)) || code == Some(STOPPED.into())
}

/// Runs `shoal VERB CLUSTER --yes`; what it says goes to stderr, since stdout is the command's. `told` is how often we were asked to end by somebody
/// whom it did not hear: a terminal speaks to both of us, others to us alone, and what it has begun is for it to end.
fn shoal(verb: &str, options: &Common, told: &dyn Fn() -> u32) -> Result<ExitStatus, NotBegun> {
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
    let failed = |e: std::io::Error| NotBegun::Here(format!("`shoal {verb}` cannot be run: {e}"));
    let mut passed = told();
    let mut child = command.spawn().map_err(failed)?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if told() > passed {
            passed += 1;
            let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            // It may have ended just now: that is what was wanted.
            let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        }
        std::thread::sleep(LOOK);
    }
}

fn ended(verb: &str, options: &Common, status: ExitStatus) -> Result<(), NotBegun> {
    match status.success() {
        true => Ok(()),
        false if status.code() == Some(STOPPED.into()) => {
            Err(NotBegun::Stopped(format!("`shoal {verb} {}` was stopped", options.file.display())))
        }
        false => Err(NotBegun::Here(format!("`shoal {verb} {}` did not end well ({status})", options.file.display()))),
    }
}

pub fn start(wanted: bool, options: &Common) -> Result<(), NotBegun> {
    if wanted { ended("up", options, shoal("up", options, &|| 0)?) } else { Ok(()) }
}

/// Does `work` between `--start` and `--stop`, as far as they are wanted; the exit code of all of it. What was brought up for a command goes
/// down again also where the command could not begin: nobody is there to see machines that cost money and do nothing.
pub fn around(
    (start, stop): (bool, bool),
    options: &Common,
    work: impl FnOnce() -> Result<u8, NotBegun>,
) -> Result<u8, NotBegun> {
    if !start && !stop {
        return work();
    }
    // From here on a Ctrl-C ends what runs, and not us: machines that nobody takes down go on costing.
    let asked = signals::asked().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    let told = || asked.by_others();
    let up = if start { Some(shoal("up", options, &told)?) } else { None };
    if let Some(status) = up {
        let how = match ended("up", options, status) {
            Ok(()) if asked.at_all() == 0 => Ok(()),
            // It was too late to stop it.
            Ok(()) => Err(NotBegun::Stopped("stopped before the command ran".into())),
            Err(why) => Err(why),
        };
        if let Err(why) = how {
            if stop && has_begun(status.code()) {
                take_down(options, &told);
            }
            return Err(why);
        }
    }
    match work() {
        Ok(code) if stop => match ended("down", options, shoal("down", options, &told)?) {
            // The command's own code, if that one tells of a failure.
            Err(NotBegun::Here(why)) if code != 0 => {
                eprintln!("shoal: {why}");
                Ok(code)
            }
            ended => ended.map(|()| code),
        },
        Err(why) if start && stop => {
            take_down(options, &told);
            Err(why)
        }
        other => other,
    }
}

/// Beside a failure that is told anyway.
fn take_down(options: &Common, told: &dyn Fn() -> u32) {
    eprintln!("shoal: --stop: the cluster that was brought up for this goes down again");
    if let Err(NotBegun::Here(why)) = shoal("down", options, told).and_then(|status| ended("down", options, status)) {
        eprintln!("shoal: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::has_begun;

    #[test]
    fn what_has_begun_is_taken_down() {
        for code in [Some(0), Some(1), Some(4), Some(130), None] {
            assert!(has_begun(code), "{code:?}");
        }
        for code in [Some(2), Some(3)] {
            assert!(!has_begun(code), "{code:?}");
        }
    }
}
