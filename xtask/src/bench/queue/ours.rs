//! How is a queue of ours set up, asked and taken down? Everything of it lies in one folder, which goes with it.

use super::{SLOTS, Tools, child};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Until its host is there, or it is gone.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Ours<'a> {
    tools: &'a Tools,
    folder: PathBuf,
    daemon: Option<Child>,
}

impl<'a> Ours<'a> {
    /// A daemon on an empty store, and its agent and keeper: what users have after their first `shoal sweep`.
    pub fn new(tools: &'a Tools, name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("shoal-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("here")).context("a folder for the bench")?;
        let fleet = format!("hosts: [localhost]\nqueue:\n  hosts:\n    localhost: {{slots: {SLOTS}, cpus: {SLOTS}}}\n");
        std::fs::write(folder.join("shoal.yaml"), fleet).context("a fleet file")?;
        let mut ours = Self { tools, folder, daemon: None };
        ours.start()?;
        Ok(ours)
    }

    pub fn start(&mut self) -> Result<()> {
        let log = std::fs::File::create(self.folder.join("serve.log")).context("a log for the daemon")?;
        let fleet = self.folder.join("shoal.yaml");
        let mut serve = self.command(self.tools.shoal.as_path());
        serve.args(["serve", "-f"]).arg(fleet).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut daemon = serve.spawn().context("`shoal serve` did not start")?;
        let is_up = child::until(PATIENCE, || {
            self.host().is_ok_and(|host| host["connected"] == true) || !matches!(daemon.try_wait(), Ok(None))
        });
        let lives = matches!(daemon.try_wait(), Ok(None));
        self.daemon = Some(daemon);
        if !is_up || !lives {
            let said = std::fs::read_to_string(self.folder.join("serve.log")).unwrap_or_default();
            bail!("`shoal serve` did not come up:\n  {}", said.trim());
        }
        Ok(())
    }

    /// Ends the daemon, not what is on disk; what waits goes on waiting.
    pub fn stop(&mut self) -> Result<()> {
        self.end(&["serve", "--stop"])
    }

    fn end(&mut self, words: &[&str]) -> Result<()> {
        let stopped = child::timed(&mut self.shoal(words)).map(drop);
        if let Some(mut daemon) = self.daemon.take() {
            child::put_away(&mut daemon, PATIENCE);
        }
        stopped
    }

    /// The only one.
    fn host(&self) -> Result<Value> {
        let (said, _) = child::timed(&mut self.shoal(&["hosts", "--json"]))?;
        let hosts: Value = serde_json::from_str(&said).context("`shoal hosts --json`")?;
        Ok(hosts["hosts"][0].clone())
    }

    /// Nothing starts until it is resumed.
    pub fn pause(&self) -> Result<()> {
        child::timed(&mut self.shoal(&["pause", "--host", "localhost"])).map(drop)
    }

    pub fn resume(&self) -> Result<()> {
        child::timed(&mut self.shoal(&["resume", "--host", "localhost"])).map(drop)
    }

    /// Submits a grid of a program, with so many values on each axis; the seconds until that is acknowledged, or with `wait` done.
    pub fn sweep(&self, name: &str, axes: &[usize], wait: bool, program: &[&str]) -> Result<(Value, f64)> {
        let mut command = self.shoal(&["sweep", "--json", "--name", name, "--pass", "env"]);
        for (axis, values) in axes.iter().enumerate() {
            command.args(["--grid", &format!("p{axis}=1..{values}")]);
        }
        if wait {
            command.arg("--wait");
        }
        let (said, took) = child::timed(command.arg("--").args(program))?;
        let last = said.lines().last().context("`shoal sweep --json` said nothing")?;
        let last: Value = serde_json::from_str(last).context("`shoal sweep --json`")?;
        ensure!(!wait || last["complete"] == true, "`shoal sweep --wait` is not complete: {last}");
        Ok((last, took))
    }

    pub fn shoal(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.tools.shoal);
        command.args(args);
        command
    }

    /// The first `done` cells of a sweep have ended well, as far as the journal says. Only while there is no daemon.
    pub fn seed(&self, sweep: &str, done: usize) -> Result<()> {
        ensure!(self.daemon.is_none(), "the daemon has its journal");
        let mut seed = self.command(&self.tools.seed);
        child::timed(seed.arg(self.folder.join("store")).args([sweep, "localhost", &done.to_string()])).map(drop)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        let at = |name: &str| self.folder.join(name);
        command.env("SHOAL_STORE", at("store")).env("SHOAL_HOST_DIR", at("host")).env("HOME", at("home"));
        command.current_dir(at("here"));
        for name in ["XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "SHOAL_QUEUE"] {
            command.env_remove(name);
        }
        command
    }

    pub fn memory(&self) -> Result<u64> {
        child::memory(self.daemon.as_ref().context("there is no daemon")?.id())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Files in which output of runs is, on the host.
    pub fn log_files(&self) -> usize {
        let is_log = |path: &&PathBuf| path.iter().any(|part| part == "packs" || part == "live");
        walk(&self.folder.join("host")).iter().filter(is_log).count()
    }
}

/// A keeper outlives everybody for a minute, for a daemon that may come back. `below`: the folders of hosts.
pub fn end_keepers(below: &Path) {
    for lock in walk(below).iter().filter(|path| path.file_name().is_some_and(|name| name == "keeper.lock")) {
        let pid = std::fs::read_to_string(lock).ok().and_then(|text| text.trim().parse::<i32>().ok());
        let Some(pid) = pid.filter(|pid| *pid > 1) else { continue };
        let said = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_keeper = said.split(|byte| *byte == 0).any(|word| word == b"queue-keeper");
        if let (true, Some(pid)) = (is_keeper, rustix::process::Pid::from_raw(pid)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            let _ = self.end(&["serve", "--stop", "--stop-runs"]);
        }
        end_keepers(&self.folder.join("host"));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flat_map(|entry| if is_folder(&entry) { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}
