//! A machine somebody works at: a home of its own, ssh connections of its own, and `shoal` with a fleet of test hosts.

use serde_json::Value;
use shoal_testkit::Hosts;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Laptop {
    home: tempfile::TempDir,
    config: PathBuf,
}

impl Laptop {
    pub fn new(hosts: &Hosts) -> Laptop {
        let home = tempfile::tempdir().expect("a home");
        std::fs::create_dir(home.path().join("run")).expect("a folder");
        let lines: String = hosts.iter().map(|host| format!("  - {{name: {}}}\n", host.name)).collect();
        std::fs::write(home.path().join("shoal.yaml"), format!("hosts:\n{lines}")).expect("a fleet");
        Laptop { home, config: hosts.ssh_config() }
    }

    pub fn path(&self) -> &Path {
        self.home.path()
    }

    pub fn shoal(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("SHOAL_") || key.starts_with("XDG_")) {
            command.env_remove(key);
        }
        command.args(args).current_dir(self.path()).env("HOME", self.path()).env("SHOAL_SSH_CONFIG", &self.config);
        command.env("XDG_RUNTIME_DIR", self.path().join("run")).stdin(Stdio::null());
        command
    }

    /// Runs it to its end, which must come soon.
    pub fn ends(&self, args: &[&str]) -> Output {
        let output = self.shoal(args).output().expect("shoal runs");
        eprintln!("shoal {}: {:?}\n{}", args.join(" "), output.status.code(), stderr(&output));
        output
    }

    /// What it printed; it must end well.
    pub fn says(&self, args: &[&str]) -> String {
        let output = self.ends(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts `script` on every host, detached; gives the run's id. A host is lost after `silence_ms`.
    pub fn detach(&self, silence_ms: u64, options: &[&str], script: &str) -> String {
        let args = [&["run", "--detach", "-f", "shoal.yaml"], options, &["--", "sh", "-c", script]].concat();
        let begun = Instant::now();
        let mut command = self.shoal(&args);
        let output = command.env("SHOAL_GANG_SILENCE_MS", silence_ms.to_string()).output().expect("shoal runs");
        assert!(output.status.success(), "{}", stderr(&output));
        eprintln!("detached after {:.2} s", begun.elapsed().as_secs_f32());
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    pub fn starts(&self, args: &[&str]) -> Child {
        self.shoal(args).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("shoal runs")
    }

    /// What `shoal ps` knows of a run, by the records of this machine's launches.
    pub fn run(&self, id: &str) -> Value {
        self.run_by(&["ps", "--all", "--json"], id)
    }

    pub fn run_by(&self, args: &[&str], id: &str) -> Value {
        let output = self.shoal(args).output().expect("shoal runs");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        all["runs"].as_array().into_iter().flatten().find(|r| r["run"] == id).cloned().unwrap_or_default()
    }

    /// Waits for a run's state; gives what is known of it then.
    pub fn until(&self, id: &str, state: &str, bound: Duration) -> Value {
        super::until(bound, &format!("{id} to be {state}"), || {
            Some(self.run(id)).filter(|run| run["state"] == state && (state == "running" || run["alive"] == 0))
        })
    }

    /// The background connections of this machine.
    pub fn connections(&self) -> Vec<u32> {
        let sockets = std::fs::read_dir(self.path().join("run/shoal/ssh")).into_iter().flatten().flatten();
        let sockets = sockets.map(|e| e.path()).filter(|p| p.extension().is_none());
        let pid = |socket: PathBuf| {
            let check = Command::new("ssh").arg("-S").arg(socket).args(["-O", "check", "x"]).output().ok()?;
            let said = String::from_utf8_lossy(&check.stderr).into_owned();
            said.split_once("pid=")?.1.split(')').next()?.parse().ok()
        };
        sockets.filter_map(pid).collect()
    }

    /// As when the lid is closed: no goodbye to anybody.
    pub fn dies(&self) {
        for pid in self.connections() {
            kill(pid);
        }
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.dies();
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `kill -9` of one process that this test started.
pub fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

/// Every living process of a run, on all test hosts: they are processes of this machine too.
pub fn marked(run: &str) -> Vec<u32> {
    let mark = format!("SHOAL_RUN={run}");
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|e| e.file_name().to_str()?.parse().ok());
    let bears = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    };
    pids.filter(bears).collect()
}

/// The wardens of a host.
pub fn wardens(host: &shoal_testkit::Host) -> Vec<u32> {
    let output = Command::new("ip").args(["netns", "pids", &host.namespace]).output().expect("ip");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_warden = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|b| *b == 0).nth(2) == Some(b"warden")
    };
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_warden).collect()
}
