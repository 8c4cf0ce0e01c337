//! How does a lock file become an environment, once for all runs of this host that have it?
//!
//! `envs/<digest>/` is a virtualenv that is complete if `.complete` is in it; whoever finds it otherwise makes it anew, under a lock.

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Wheels of a framework over a slow line take long; for ever is too long.
const LONGEST: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(50);
const SAID_LINES: usize = 8;
/// Of the name of an environment.
pub const DIGITS: usize = 32;

/// Which environment a lock file makes, on top of which other one.
pub fn digest(requirements: &str, base: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(base.unwrap_or_default());
    hash.update([0]);
    hash.update(requirements);
    hash.finalize().iter().take(DIGITS / 2).map(|b| format!("{b:02x}")).collect()
}

/// Its folder, if it is there already.
pub fn ready(envs: &Path, digest: &str) -> Option<PathBuf> {
    let root = envs.join(digest);
    root.join(".complete").exists().then_some(root)
}

/// Makes it; its folder, or why not with pip's last words. Takes minutes: for a thread of its own.
pub fn make(envs: &Path, digest: &str, requirements: &str, base: Option<&Path>) -> Result<PathBuf, String> {
    let said = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    crate::queue::keeper::folder::make(envs).map_err(|e| said(envs, e))?;
    let lock_at = envs.join(format!("{digest}.lock"));
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock_at);
    let lock = lock.map_err(|e| said(&lock_at, e))?;
    wait_for(&lock).map_err(|e| said(&lock_at, e))?;
    if let Some(root) = ready(envs, digest) {
        return Ok(root);
    }
    let root = envs.join(digest);
    super::room::remove(&root).map_err(|e| said(&root, e))?;
    let log_at = envs.join(format!("{digest}.log"));
    let log = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&log_at);
    let mut log = log.map_err(|e| said(&log_at, e))?;
    let list = envs.join(format!("{digest}.txt"));
    fs::write(&list, requirements).map_err(|e| said(&list, e))?;
    let python = base.map_or_else(|| PathBuf::from("python3"), |base| base.join("bin/python"));
    let new = root.join("bin/python");
    run(Command::new(&python).args(["-m", "venv"]).arg(&root), &mut log)?;
    if base.is_some() {
        stand_on(&python, &new, &mut log)?;
    }
    let mut pip = Command::new(&new);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r"]).arg(&list);
    run(&mut pip, &mut log)?;
    let done = root.join(".complete");
    fs::write(&done, "").map_err(|e| said(&done, e))?;
    Ok(root)
}

fn wait_for(lock: &File) -> std::io::Result<()> {
    let end = Instant::now() + LONGEST;
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < end => {
                std::thread::sleep(LOOK)
            }
            done => return Ok(done?),
        }
    }
}

/// What the other environment has is found behind what this one has.
fn stand_on(base: &Path, new: &Path, log: &mut File) -> Result<(), String> {
    let script = "import sys, sysconfig, pathlib, subprocess\n\
        packages = lambda python: subprocess.check_output([python, '-c', \
        'import sysconfig; print(sysconfig.get_paths()[\"purelib\"])'], text=True).strip()\n\
        pathlib.Path(packages(sys.argv[2]), 'shoal_base.pth').write_text(packages(sys.argv[1]) + '\\n')\n";
    run(Command::new(base).args(["-c", script]).arg(base).arg(new), log)
}

fn run(command: &mut Command, log: &mut File) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{shown} cannot be started: {e}");
    let (out, err) = (log.try_clone().map_err(failed)?, log.try_clone().map_err(failed)?);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let with_us = || {
        // SAFETY: one call with constants, async-signal-safe. The thread that starts it lives until it ends.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        crate::signals::reset_in_child();
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(with_us) };
    let mut child = command.spawn().map_err(failed)?;
    let end = Instant::now() + LONGEST;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status.to_string(),
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                break format!("not done after {} s", LONGEST.as_secs());
            }
            None => std::thread::sleep(LOOK),
        }
    };
    if child.try_wait().is_ok_and(|status| status.is_some_and(|s| s.success())) {
        return Ok(());
    }
    Err(format!("its environment could not be made ({status}): {}", last_lines(log)))
}

fn last_lines(log: &mut File) -> String {
    let mut text = Vec::new();
    let len = log.metadata().map_or(0, |m| m.len());
    let read = log.seek(SeekFrom::Start(len.saturating_sub(4096))).and_then(|_| log.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text[..read.unwrap_or(0).min(text.len())]).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(SAID_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_environment_for_one_lock_file_and_base() {
        assert_eq!(digest("a", None), digest("a", None));
        assert_ne!(digest("a", None), digest("b", None));
        assert_ne!(digest("a", None), digest("a", Some("~/v")));
    }
}
