//! How is a command run to its end, but not for ever?

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// No command of the bench takes as long as this, unless it hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// What it printed, and the seconds that took. Its own message when it fails.
pub fn timed(command: &mut Command) -> Result<(String, f64)> {
    let told = crate::cargo::told(command);
    let began = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = ends(child.with_context(|| format!("`{told}` did not start"))?, &told)?;
    let took = began.elapsed().as_secs_f64();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{told}` ended with {}:\n  {}", output.status, text.trim());
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), took))
}

/// Waits for it without looking every so often, which would be part of what is measured.
fn ends(child: Child, told: &str) -> Result<Output> {
    // By descriptor: its number may be another's when the time is up.
    let pid = Pid::from_raw(child.id().cast_signed()).context("a child without a number")?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).context("a handle of a child")?;
    let (done, late) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if late.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    });
    let output = child.wait_with_output().with_context(|| format!("`{told}`"));
    drop(done);
    let _ = watch.join();
    output
}

/// Looks until it is so; whether it was in time.
pub fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Ends it, if it does not by itself.
pub fn put_away(child: &mut Child, patience: Duration) {
    if !until(patience, || !matches!(child.try_wait(), Ok(None))) {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Bytes of memory that a process has.
pub fn memory(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the memory of a process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("a process without memory")? * 1024)
}
