//! How is a queue with a pool set up, asked and taken down? Everything of it lies in one folder, the pool's volume included, which goes with it.

use super::SPACE;
use super::peer::Follow;
use crate::bench::queue::{child, ours::end_keepers};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Until its pool is there, all that was asked for is at the server, or it is gone again.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Ours {
    shoal: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
    daemon: Option<Child>,
}

impl Ours {
    pub fn new(shoal: &Path, kubeconfig: &Path, slots: usize) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("shoal-bench-{}-k8s", std::process::id()));
        for inner in ["here", "volume"] {
            std::fs::create_dir_all(folder.join(inner)).context("a folder for the bench")?;
        }
        let volume = folder.join("volume");
        let fleet = format!(
            "pools:\n  - name: pool\n    slots: {slots}\n    kubernetes:\n      namespace: {SPACE}\n      image: bench\n      volumes: [{{claim: data, at: /mnt, here: {}}}]\n",
            volume.display()
        );
        std::fs::write(folder.join("shoal.yaml"), fleet).context("a fleet file")?;
        let mut ours = Self { shoal: shoal.into(), kubeconfig: kubeconfig.into(), folder, daemon: None };
        let log = std::fs::File::create(ours.folder.join("serve.log")).context("a log for the daemon")?;
        let mut serve = ours.shoal(&["serve", "-f", "../shoal.yaml"]);
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        ours.daemon = Some(serve.spawn().context("`shoal serve` did not start")?);
        if !child::until(PATIENCE, || ours.host().is_ok_and(|host| host["connected"] == true)) {
            let said = std::fs::read_to_string(ours.folder.join("serve.log")).unwrap_or_default();
            bail!("`shoal serve` did not come up:\n  {}", said.trim());
        }
        Ok(ours)
    }

    fn host(&self) -> Result<Value> {
        let (said, _) = child::timed(&mut self.shoal(&["hosts", "--json"]))?;
        let hosts: Value = serde_json::from_str(&said).context("`shoal hosts --json`")?;
        Ok(hosts["hosts"][0].clone())
    }

    /// The seconds until it is acknowledged, and until the server has a Job's index for each cell.
    pub fn submit(&self, name: &str, cells: usize, follow: &Follow) -> Result<(f64, f64)> {
        let grid = format!("n=1..{cells}");
        let began = Instant::now();
        let (_, took) =
            child::timed(&mut self.shoal(&["sweep", "--grid", &grid, "--name", name, "--", "true", "{n}"]))?;
        follow.until(cells, began + PATIENCE)?;
        Ok((took, began.elapsed().as_secs_f64()))
    }

    fn count(&self, name: &str, what: &str) -> Option<u64> {
        let (said, _) = child::timed(&mut self.shoal(&["ps", "--json", "--all"])).ok()?;
        let all: Value = serde_json::from_str(&said).ok()?;
        all["sweeps"].as_array()?.iter().find(|row| row["name"] == name)?[what].as_u64()
    }

    pub fn until_all_run(&self, name: &str, cells: usize) -> Result<()> {
        let all = || self.count(name, "running") == Some(cells as u64);
        ensure!(child::until(PATIENCE, all), "not all of {name} run after {PATIENCE:?}");
        Ok(())
    }

    pub fn ps(&self, name: &str) -> Result<f64> {
        let (said, took) = child::timed(&mut self.shoal(&["ps", name]))?;
        ensure!(said.contains("running"), "`shoal ps {name}` shows no run:\n{said}");
        Ok(took)
    }

    pub fn stop(&self, name: &str, cells: usize) -> Result<()> {
        child::timed(&mut self.shoal(&["stop", name]))?;
        let all = || self.count(name, "stopped") == Some(cells as u64);
        ensure!(child::until(PATIENCE, all), "not all of {name} are stopped after {PATIENCE:?}");
        Ok(())
    }

    fn shoal(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.shoal);
        let at = |name: &str| self.folder.join(name);
        command.args(args).current_dir(at("here")).env("KUBECONFIG", &self.kubeconfig);
        command.env("SHOAL_STORE", at("store")).env("SHOAL_HOST_DIR", at("host")).env("HOME", at("home"));
        for name in ["XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "SHOAL_QUEUE"] {
            command.env_remove(name);
        }
        command
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = child::timed(&mut self.shoal(&["serve", "--stop", "--stop-runs"]));
        if let Some(mut daemon) = self.daemon.take() {
            child::put_away(&mut daemon, PATIENCE);
        }
        end_keepers(&self.folder.join("volume"));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
