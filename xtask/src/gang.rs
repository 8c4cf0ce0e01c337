//! A few processes that belong together: each logs to a file, the first failure is told with its log, and all end with the gang.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

const LOG_LINES: usize = 20;

pub struct Gang {
    /// Where the logs go.
    folder: PathBuf,
    members: Vec<Member>,
}

struct Member {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Gang {
    /// Makes the folder for logs, empty.
    pub fn new(folder: PathBuf) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder, members: Vec::new() })
    }

    /// Starts it in a process group of its own, so that a Ctrl-C comes to us, and we end what it started along with it.
    pub fn start(&mut self, name: impl Into<String>, command: &mut Command) -> Result<()> {
        let name = name.into();
        let log = self.log(&name);
        let out = File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        let err = out.try_clone().with_context(|| format!("cannot open {}", log.display()))?;
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .with_context(|| format!("cannot start {name}: {}", command.get_program().to_string_lossy()))?;
        self.members.push(Member { name, child, log });
        Ok(())
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Whether all members whose name begins with `prefix` have ended well; a member of any name that ended otherwise is an error.
    pub fn all_ended(&mut self, prefix: &str) -> Result<bool> {
        let mut running = false;
        let mut failed = Vec::new();
        for member in &mut self.members {
            match member.child.try_wait().with_context(|| format!("lost {}", member.name))? {
                None => running |= member.name.starts_with(prefix),
                Some(status) if status.success() => {}
                Some(status) => failed.push(told(&member.name, status, &member.log)),
            }
        }
        if !failed.is_empty() {
            // One failure makes others within moments; together they show which came first.
            bail!("{}", failed.join("\n"));
        }
        Ok(!running)
    }

    /// Ends what still runs, with everything it started, waits for it, and forgets all members: how they ended no longer counts.
    pub fn stop(&mut self) {
        for mut member in self.members.drain(..) {
            // Once fetched, the number may be another's; the group of an unfetched child is still its own.
            if matches!(member.child.try_wait(), Ok(None))
                && let Some(group) = Pid::from_raw(member.child.id().cast_signed())
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = member.child.wait();
        }
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        self.stop();
    }
}

fn told(name: &str, status: ExitStatus, log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last: String =
        lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("\n  {line}")).collect();
    let says = if last.is_empty() { " is empty".to_owned() } else { format!(" ends with:{last}") };
    format!("{name} ended with {status}; its log {}{says}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn gang(name: &str) -> Gang {
        Gang::new(std::env::temp_dir().join(format!("shoal-gang-{name}-{}", std::process::id()))).unwrap()
    }

    #[test]
    fn a_failure_is_told_with_name_code_and_log() {
        let mut gang = gang("failure");
        gang.start("server-0", &mut sh("exec sleep 1000")).unwrap();
        gang.start("worker-2", &mut sh("echo no such key; exit 7")).unwrap();
        let error = shoal_testkit::wait::until(Duration::from_secs(10), || gang.all_ended("worker").err()).unwrap();
        let text = error.to_string();
        assert!(text.contains("worker-2") && text.contains("exit status: 7") && text.contains("no such key"), "{text}");
        std::fs::remove_dir_all(&gang.folder).unwrap();
    }

    #[test]
    fn stop_ends_members_that_still_run() {
        let mut gang = gang("stop");
        gang.start("worker-0", &mut sh("sleep 1000 & wait")).unwrap();
        assert!(!gang.all_ended("worker").unwrap());
        assert!(gang.all_ended("server").unwrap(), "there is no server to wait for");
        let start = Instant::now();
        gang.stop();
        assert!(start.elapsed() < Duration::from_secs(45));
        std::fs::remove_dir_all(&gang.folder).unwrap();
    }
}
