//! What a cluster's life takes: programs, files to mount and to send, fresh hosts, and the one file that both read.

use anyhow::{Context, Result, bail};
use shoal_testkit::hosts::{Hosts, HostsSpec, SharedDrive};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const PORT: u16 = 6379;
/// Eight Ray nodes share the cores of one machine: each is as small as Ray allows.
pub const LIMITS: &str = "--num-cpus=1 --object-store-memory=78643200";
/// Mounted on every node.
const FILES: usize = 200;
/// Where nodes leave their marks, as they see it.
const MARKS: &str = "/media/marks";
/// One command, however slow.
const BOUND: Duration = Duration::from_secs(420);
/// Commands take from 100 ms on.
const LOOK: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, PartialEq)]
pub enum Who {
    Ours,
    Ray,
}

impl Who {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "shoal",
            Self::Ray => "ray",
        }
    }
}

/// What the file's start commands are.
#[derive(Clone, Copy, PartialEq)]
pub enum Starts {
    /// Ray on every node.
    Ray,
    /// A mark that costs nothing. Only the head of several nodes starts Ray before, as Ray's own workers are brought up from there.
    Mark,
}

/// What all lives share.
pub struct Tools {
    pub folder: PathBuf,
    pub shoal: PathBuf,
    /// The virtual environment that has Ray.
    pub ray: PathBuf,
    pub data: PathBuf,
    pub data_mb: usize,
    /// What `sha256sum` says of it.
    pub digest: String,
}

impl Tools {
    pub fn ready(quick: bool) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("shoal-up-{}", std::process::id()));
        let code = folder.join("code");
        for made in [&code, &folder.join("marks")] {
            std::fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
        }
        for i in 0..FILES {
            let text = format!("# module {i}\n").repeat(40);
            std::fs::write(code.join(format!("module_{i}.py")), text).context("a file to mount")?;
        }
        let (data, data_mb) = (folder.join("data.bin"), if quick { 10 } else { 200 });
        let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?.take(data_mb as u64 * 1_000_000);
        let mut file = std::fs::File::create(&data).context("a file to send")?;
        std::io::copy(&mut random, &mut file).context("a file to send")?;
        let digest = crate::bench::peers::said(Command::new("sha256sum").arg(&data))?;
        let digest = digest.split_whitespace().next().unwrap_or_default().to_owned();
        let shoal = crate::cargo::target_dir()?.join("release/shoal");
        Ok(Self { folder, shoal, ray: crate::ray::ensure()?, data, data_mb, digest })
    }

    /// What hosts have to see of this machine: Ray, and the Python it was made with.
    fn share(&self) -> Result<Vec<PathBuf>> {
        let python = std::fs::canonicalize(self.ray.join("bin/python")).context("Ray's Python")?;
        let behind = python.ancestors().nth(2).map(Path::to_path_buf);
        Ok([self.ray.clone()].into_iter().chain(behind).collect())
    }

    /// Where nodes leave their marks, as we see it.
    pub fn marks(&self) -> PathBuf {
        self.folder.join("marks")
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn start_head() -> String {
    format!("ray start --head --port={PORT} {LIMITS} --include-dashboard=false --disable-usage-stats")
}

fn start_worker(head: &str) -> String {
    format!("ray start --address={head}:{PORT} {LIMITS}")
}

/// Fresh hosts, a fresh home for the client, and the cluster's file.
pub struct Ground<'t> {
    pub tools: &'t Tools,
    pub who: Who,
    pub hosts: Hosts,
    pub home: PathBuf,
    pub cluster: String,
}

impl<'t> Ground<'t> {
    pub fn fresh(tools: &'t Tools, who: Who, starts: Starts, count: usize, round: usize) -> Result<Self> {
        // Ray keeps ssh connections by the cluster's name, and addresses come again: a name for each life.
        let life = if starts == Starts::Ray { "" } else { "mark" };
        let cluster = format!("{}-{life}{count}-{round}-{}", who.name(), std::process::id());
        let home = tools.folder.join(format!("{}{life}{count}-{round}", who.name()));
        for part in ["run", "tmp"] {
            std::fs::create_dir_all(home.join(part)).context("a home for the client")?;
        }
        let drive = Some(SharedDrive { folder: tools.marks(), at: MARKS.into() });
        let hosts = Hosts::up(HostsSpec { share: tools.share()?, drive, ..HostsSpec::new("up", count) });
        let ground = Self { tools, who, hosts: hosts.context("the test hosts")?, home, cluster };
        // As on a machine where Ray is installed: found by name in every shell.
        let profile = format!(
            "printf '%s\\n' 'export PATH={}/bin:$PATH RAY_USAGE_STATS_ENABLED=0 RAY_enable_autoscaler_v2=0' > /root/.bashrc; echo '. ~/.bashrc' > /root/.profile",
            tools.ray.display()
        );
        ground.everywhere(&profile)?;
        std::fs::write(ground.file(), ground.text(starts)).context("the cluster file")?;
        Ok(ground)
    }

    pub fn file(&self) -> PathBuf {
        self.home.join("cluster.yaml")
    }

    fn text(&self, starts: Starts) -> String {
        let mark = format!("touch {MARKS}/$(hostname)");
        let ray = |start: String| format!("\n  - ray stop\n  - {start}");
        let head = ray(format!("{} --autoscaling-config=~/ray_bootstrap_config.yaml", start_head()));
        let (head, worker) = match starts {
            Starts::Ray => (head, ray(start_worker("$RAY_HEAD_IP"))),
            Starts::Mark if self.hosts.len() == 1 => (format!(" [{mark}]"), " []".to_owned()),
            Starts::Mark => (format!("{head}\n  - {mark}"), format!(" [{mark}]")),
        };
        let address = |i: usize| self.hosts.host(i).address.to_string();
        let workers: Vec<String> = (1..self.hosts.len()).map(address).collect();
        format!(
            "cluster_name: {}\n\
             provider:\n  type: local\n  head_ip: {}\n  worker_ips: [{}]\n\
             auth:\n  ssh_user: root\n  ssh_private_key: {}\n\
             file_mounts:\n  /root/code: {}\n\
             setup_commands:\n  - 'true'\n  - 'test -f /root/code/module_7.py'\n\
             head_start_ray_commands:{head}\n\
             worker_start_ray_commands:{worker}\n",
            self.cluster,
            address(0),
            workers.join(", "),
            self.hosts.key().display(),
            self.tools.folder.join("code").display(),
        )
    }

    /// What the start commands take by themselves, without a launcher: all stop at once, the head starts, all workers start at once.
    pub fn commands_alone(&self) -> Result<f64> {
        let began = Instant::now();
        let on = |i: usize, start: String| {
            let mut command = self.hosts.host(i).command("bash");
            command.args(["--login", "-c", &start]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let head = self.hosts.host(0).address.to_string();
        let well = |child: std::io::Result<std::process::Child>| {
            let ended = child.and_then(|mut child| child.wait()).context("a start command")?;
            anyhow::ensure!(ended.success(), "a start command by itself ended with {ended}");
            Ok(())
        };
        let stops: Vec<_> = (0..self.hosts.len()).map(|i| on(i, "ray stop".into())).collect();
        stops.into_iter().try_for_each(well)?;
        well(on(0, start_head()))?;
        let workers: Vec<_> = (1..self.hosts.len()).map(|i| on(i, start_worker(&head))).collect();
        workers.into_iter().try_for_each(well)?;
        let took = began.elapsed().as_secs_f64();
        self.everywhere(&format!("PATH={}/bin:$PATH ray stop", self.tools.ray.display()))?;
        Ok(took)
    }

    /// `shoal ARGS` or `ray ARGS`: Ray's words are ours.
    pub fn client(&self, args: &[&str]) -> Command {
        let program = match self.who {
            Who::Ours => self.tools.shoal.clone(),
            Who::Ray => self.tools.ray.join("bin/ray"),
        };
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let theirs = |name: &str| ["SHOAL_", "XDG_", "RAY_", "SSH_"].iter().any(|start| name.starts_with(start));
            if name.to_str().is_some_and(theirs) {
                command.env_remove(name);
            }
        }
        command.args(args).current_dir(&self.home).env("HOME", &self.home).env("USER", "root");
        match self.who {
            Who::Ours => {
                command.env("SHOAL_SSH_CONFIG", self.hosts.ssh_config()).env("XDG_RUNTIME_DIR", self.home.join("run"))
            }
            // Its state and its caches, and no word to anybody.
            Who::Ray => command
                .env("RAY_TMPDIR", self.home.join("tmp"))
                .env("TMPDIR", self.home.join("tmp"))
                .env("RAY_USAGE_STATS_ENABLED", "0")
                // The default of 2.60 never starts a worker of a local cluster: its head does not know of itself, and asks for nodes for ever.
                .env("RAY_UP_enable_autoscaler_v2", "0"),
        };
        command
    }

    /// Runs it; gives seconds. One that fails or takes too long is an error with its last lines.
    pub fn timed(&self, args: &[&str]) -> Result<f64> {
        let log = self.home.join("said.txt");
        let out = std::fs::File::create(&log).context("a file for its words")?;
        let err = out.try_clone().context("a file for its words")?;
        let mut command = self.client(args);
        let began = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.as_mut().map_err(|e| anyhow::anyhow!("{} did not start: {e}", self.who.name()))?;
        let ended = loop {
            if let Some(status) = child.try_wait().context("its end")? {
                break Some(status);
            }
            if began.elapsed() > BOUND {
                child.kill().context("its end")?;
                child.wait().context("its end")?;
                break None;
            }
            std::thread::sleep(LOOK);
        };
        let took = began.elapsed().as_secs_f64();
        if ended.is_some_and(|status| status.success()) {
            return Ok(took);
        }
        let how = ended.map_or_else(|| format!("was ended after {BOUND:?}"), |status| format!("ended with {status}"));
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(30)..].join("\n  ");
        bail!("`{} {}` {how}:\n  {last}", self.who.name(), args.join(" "))
    }

    /// A shell line on all hosts at once, past ssh; gives what they printed.
    pub fn everywhere(&self, line: &str) -> Result<Vec<String>> {
        let start = |host: &shoal_testkit::hosts::Host| {
            let mut command = host.command("sh");
            command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        let all: Vec<_> = self.hosts.iter().map(start).collect();
        let mut said = Vec::new();
        for child in all {
            let out = child.and_then(|child| child.wait_with_output()).context("a command on a host")?;
            anyhow::ensure!(out.status.success(), "`{line}` on a host: {}", String::from_utf8_lossy(&out.stderr));
            said.push(String::from_utf8_lossy(&out.stdout).trim().to_owned());
        }
        Ok(said)
    }
}

impl Drop for Ground<'_> {
    /// After a failure our shared connections are still there; Ray's go by themselves after 10 s.
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.home.join("run/shoal/ssh")).into_iter().flatten().flatten() {
            let mut exit = Command::new("ssh");
            exit.args(["-O", "exit", "-S"]).arg(entry.path()).arg("x");
            // One that is gone already needs no farewell.
            let _ = exit.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}
