//! `cargo xtask bench launch`: how long it takes to start a gang on 16 test hosts and to gather what it writes; ours and the peers in turns.

use anyhow::{Context, Result, bail};
use serde_json::json;
use shoal_testkit::hosts::{Hosts, HostsSpec};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object a line on stdout instead of a table.
    #[arg(long)]
    json: bool,
    /// Four hosts, two rounds, little output: shows that the bench works.
    #[arg(long)]
    quick: bool,
    /// Rounds of each contestant, after the warm-up.
    #[arg(long)]
    rounds: Option<usize>,
}

const PROGRAMS: [(&str, &[&str]); 4] =
    [("mpirun", &["openmpi-bin"]), ("pdsh", &["pdsh"]), ("ssh", &["openssh-client"]), ("sshd", &["openssh-server"])];

/// Where everything is that the contestants need.
struct Ground {
    hosts: Hosts,
    folder: PathBuf,
    shoal: PathBuf,
    /// An ssh configuration that shares connections, and one that does not.
    warm: PathBuf,
    cold: PathBuf,
    log_mb: usize,
    writers: usize,
}

type Contestant = (&'static str, fn(&Ground, &Path) -> Command);

pub fn run(args: Args) -> Result<()> {
    crate::setup::programs("the bench", &PROGRAMS)?;
    let build = ["build", "--release", "--quiet", "--package", "shoal", "--bins"];
    crate::cargo::run(&mut crate::cargo::cargo(&build), "build shoal")?;
    let ground = Ground::new(&args)?;
    let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 7 });
    let size = format!("{} hosts", ground.hosts.len());
    if !args.json {
        println!(
            "{:<8} {:<10} {:>9} {:>20}   {:<8} {:>9} {:>20}  {:>6}",
            "case", "size", "ours ms", "(min-max)", "peer", "ms", "(min-max)", "ratio"
        );
    }
    let gangs: [Contestant; 3] =
        [("shoal", Ground::shoal_true), ("mpirun", Ground::mpirun_true), ("pdsh", Ground::pdsh_true)];
    ground.compare("warm", &size, &gangs, rounds, true, args.json)?;
    ground.compare("cold", &size, &gangs, rounds, false, args.json)?;
    let logs: [Contestant; 2] = [("shoal", Ground::shoal_logs), ("ssh cat", Ground::ssh_cat)];
    let size = format!("{} MB", ground.log_mb * ground.writers);
    ground.compare("logs", &size, &logs, rounds, true, args.json)?;
    let start: [Contestant; 2] = [("shoal", Ground::version), ("true", Ground::nothing)];
    ground.compare("start", "--version", &start, rounds.max(7), true, args.json)?;
    ground.hang_up();
    Ok(())
}

impl Ground {
    fn new(args: &Args) -> Result<Self> {
        let shoal = crate::cargo::target_dir()?.join("release/shoal");
        let mut spec = HostsSpec::new("launch", if args.quick { 4 } else { 16 });
        spec.share = shoal.parent().map(Path::to_path_buf).into_iter().collect();
        let hosts = Hosts::up(spec).context("the test hosts")?;
        let folder = std::env::temp_dir().join(format!("shoal-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).context("a folder for the bench")?;
        let (warm, cold) = (folder.join("warm"), hosts.ssh_config());
        let text = std::fs::read_to_string(&cold).context("the hosts' ssh configuration")?;
        let share =
            format!("Host *\n  ControlMaster auto\n  ControlPersist 60\n  ControlPath {}/%C\n", folder.display());
        std::fs::write(&warm, share + &text).context("an ssh configuration")?;
        let names: Vec<String> = hosts.iter().map(|host| format!("  - {}\n", host.name)).collect();
        std::fs::write(folder.join("shoal.yaml"), format!("hosts:\n{}", names.concat())).context("a fleet file")?;
        let (log_mb, writers) = if args.quick { (5, 2) } else { (125, 4) };
        let ground = Self { hosts, folder, shoal, warm, cold, log_mb, writers };
        ground.write_what_is_logged()?;
        Ok(ground)
    }

    /// What ranks print: lines of a training log, on every host.
    fn write_what_is_logged(&self) -> Result<()> {
        let line =
            "step 000123 loss 0.123456789 accuracy 0.98765 learning rate 0.001 samples/s 1234.5 elapsed 12:34:56\n";
        for i in 0..self.writers {
            let make =
                format!("yes '{}' | head -c {}000000 > /tmp/output; mkdir -p /tmp/logs", line.trim(), self.log_mb);
            let made = self.hosts.ssh(i).arg(make).status().context("ssh")?;
            anyhow::ensure!(made.success(), "cannot write what is logged on host {i}");
        }
        Ok(())
    }

    /// Everybody in turns, so that what else the machine does hits all alike.
    fn compare(&self, case: &str, size: &str, all: &[Contestant], rounds: usize, warm: bool, json: bool) -> Result<()> {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); all.len()];
        for round in 0..=rounds {
            for (k, (name, command)) in all.iter().enumerate() {
                if !warm {
                    self.hang_up();
                }
                let config = if warm { &self.warm } else { &self.cold };
                let mut command = command(self, config);
                let began = Instant::now();
                let output = command.current_dir(&self.folder).stdin(Stdio::null()).output();
                let output = output.with_context(|| format!("{name} did not start"))?;
                let took = began.elapsed().as_secs_f64();
                if !output.status.success() {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    bail!("{name} ended with {}: {said}", output.status);
                }
                if case == "logs" {
                    self.check_logs(name)?;
                }
                if round > 0 {
                    times[k].push(took);
                }
            }
        }
        for (k, (peer, _)) in all.iter().enumerate().skip(1) {
            report(case, size, &times[0], peer, &times[k], json);
        }
        Ok(())
    }

    /// Closes every shared connection: ours and those of the peers.
    fn hang_up(&self) {
        for folder in [self.folder.clone(), self.folder.join("ssh/shoal/ssh")] {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                use std::os::unix::fs::FileTypeExt;
                if entry.file_type().is_ok_and(|t| t.is_socket()) {
                    let mut exit = Command::new("ssh");
                    exit.args(["-O", "exit", "-S"]).arg(entry.path()).arg("x");
                    // One that is gone already needs no farewell.
                    let _ = exit.stdout(Stdio::null()).stderr(Stdio::null()).status();
                }
            }
        }
    }

    fn check_logs(&self, name: &str) -> Result<()> {
        let wanted = self.log_mb as u64 * 1_000_000;
        let mut got = Vec::new();
        for entry in walk(&self.folder.join("got")) {
            let is_worker = entry.file_name().is_some_and(|n| n.to_string_lossy().starts_with("worker"))
                && entry.extension().is_some_and(|e| e == "log");
            if is_worker {
                got.push(std::fs::metadata(&entry).map_or(0, |m| m.len()));
            }
        }
        std::fs::remove_dir_all(self.folder.join("got")).context("the gathered logs")?;
        // What ours keeps on the hosts is removed as well: dirty pages of one round would slow the next one.
        for i in 0..self.writers {
            let got = self.folder.join("got");
            self.hosts.ssh(i).args(["rm", "-rf"]).arg(got).status().context("ssh")?;
        }
        anyhow::ensure!(
            got == vec![wanted; self.writers],
            "{name} gathered {got:?} bytes, not {} times {wanted}",
            self.writers
        );
        Ok(())
    }

    fn ours(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.shoal);
        std::fs::create_dir_all(self.folder.join("ssh")).ok();
        command.args(args).env("SHOAL_SSH_CONFIG", &self.cold).env("XDG_RUNTIME_DIR", self.folder.join("ssh"));
        command
    }

    fn shoal_true(&self, _config: &Path) -> Command {
        self.ours(&["run", "-f", "shoal.yaml", "--cwd", "/", "-o", "/tmp/shoal-bench-logs", "--", "true"])
    }

    fn names(&self, count: usize) -> String {
        self.hosts.iter().take(count).map(|host| host.name.clone()).collect::<Vec<_>>().join(",")
    }

    /// Always with connections of its own: over shared ones it takes several times as long.
    fn mpirun_true(&self, _config: &Path) -> Command {
        let gateway = format!("{}/24", self.hosts.gateway());
        let count = self.hosts.len();
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--host", &self.names(count), "-np", &count.to_string(), "--wdir", "/"]);
        command.args(["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "oob_tcp_if_include", &gateway]);
        command.args(["--mca", "plm_rsh_args", &format!("-F {}", self.cold.display()), "true"]);
        command
    }

    fn pdsh_true(&self, config: &Path) -> Command {
        let mut command = Command::new("pdsh");
        let count = self.hosts.len();
        command.args(["-R", "ssh", "-S", "-f", &count.to_string(), "-w", &self.names(count), "true"]);
        command.env("PDSH_SSH_ARGS_APPEND", format!("-F {}", config.display()));
        command
    }

    fn shoal_logs(&self, _config: &Path) -> Command {
        let (n, out) = (self.writers.to_string(), self.folder.join("got"));
        self.ours(&[
            "run",
            "-f",
            "shoal.yaml",
            "-n",
            &n,
            "--cwd",
            "/",
            "-o",
            &out.to_string_lossy(),
            "--",
            "cat",
            "/tmp/output",
        ])
    }

    fn ssh_cat(&self, config: &Path) -> Command {
        let one = |host: &str| {
            let (config, got) = (config.display(), self.folder.join("got"));
            format!("ssh -F {config} {host} cat /tmp/output > {}/worker-{host}.log", got.display())
        };
        let all: Vec<String> = self.hosts.iter().take(self.writers).map(|host| one(&host.name)).collect();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("mkdir -p got; {} & wait", all.join(" & "))]);
        command
    }

    fn version(&self, _config: &Path) -> Command {
        self.ours(&["--version"])
    }

    /// What starting any program costs here.
    fn nothing(&self, _config: &Path) -> Command {
        Command::new("true")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.hang_up();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}

fn report(case: &str, size: &str, ours: &[f64], peer: &str, theirs: &[f64], json: bool) {
    let (a, b) = (stats(ours), stats(theirs));
    let ratio = b.0 / a.0;
    if json {
        let row = json!({ "case": case, "size": size, "ours_ms": round(a.0), "ours_min_ms": round(a.1), "ours_max_ms": round(a.2),
            "peer": peer, "peer_ms": round(b.0), "peer_min_ms": round(b.1), "peer_max_ms": round(b.2), "ratio": (ratio * 100.0).round() / 100.0 });
        println!("{row}");
        return;
    }
    let range = |s: (f64, f64, f64)| format!("({:.1}-{:.1})", s.1 * 1e3, s.2 * 1e3);
    println!(
        "{case:<8} {size:<10} {:>9.1} {:>20}   {peer:<8} {:>9.1} {:>20}  {ratio:>6.2}",
        a.0 * 1e3,
        range(a),
        b.0 * 1e3,
        range(b)
    );
}

fn stats(times: &[f64]) -> (f64, f64, f64) {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    (median, times.first().copied().unwrap_or(f64::NAN), times.last().copied().unwrap_or(f64::NAN))
}

fn round(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 10.0
}
