//! A run of real processes: one master, its servers, its workers.

use super::{LONG, Process, SOON, TOKEN, worker};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a gang is made of, before it starts.
#[derive(Clone)]
pub struct Plan {
    pub workers: u32,
    pub servers: u32,
    pub env: Vec<(String, String)>,
}

pub struct Gang {
    pub plan: Plan,
    pub address: String,
    pub master: Process,
    pub servers: Vec<Process>,
    pub workers: Vec<Process>,
    pub folder: tempfile::TempDir,
}

impl Plan {
    pub fn new(workers: u32, servers: u32) -> Plan {
        Plan { workers, servers, env: Vec::new() }.env("SHOAL_SHARED_MEMORY", "0").env("SHOAL_CONNECT_TIMEOUT", "30")
    }

    pub fn env(mut self, name: &str, value: &str) -> Plan {
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn shared_memory(self, on: bool) -> Plan {
        self.env("SHOAL_SHARED_MEMORY", if on { "1" } else { "0" })
    }

    pub fn on_death(self, policy: &str) -> Plan {
        self.env("SHOAL_ON_DEATH", policy)
    }

    /// Master and servers; the workers are still to come.
    pub fn start_without_workers(self) -> Gang {
        let folder = tempfile::tempdir().expect("a folder");
        let (workers, servers) = (self.workers.to_string(), self.servers.to_string());
        let args = ["--address", "tcp://127.0.0.1:0", "--workers", &workers, "--servers", &servers];
        let master = program("ps_master", "master", folder.path(), &args);
        let said = master.says("listening on tcp://", LONG);
        let address = format!("tcp://{}", said.split_whitespace().next().unwrap_or_default());
        let mut gang = Gang { plan: self, address, master, servers: Vec::new(), workers: Vec::new(), folder };
        for id in 0..gang.plan.servers {
            let args = ["--master_address", &gang.address, "--id", &id.to_string(), "--connect-timeout", "30"];
            gang.servers.push(program("ps_server", &format!("server{id}"), gang.folder.path(), &args));
        }
        gang
    }

    /// The whole gang, every worker doing the same.
    pub fn start(self, work: &Value) -> Gang {
        let mut gang = self.start_without_workers();
        for id in 0..gang.plan.workers {
            gang.add_worker(id, work, &[]);
        }
        gang
    }
}

/// One of our programs, with the token in its environment.
pub fn program(binary: &str, name: &str, folder: &Path, args: &[&str]) -> Process {
    let path = match binary {
        "ps_master" => env!("CARGO_BIN_EXE_ps_master"),
        _ => env!("CARGO_BIN_EXE_ps_server"),
    };
    Process::start(name, folder, Command::new(path).args(args).env("SHOAL_TOKEN", TOKEN).env("SHOAL_LOG", "info"))
}

/// A worker process by itself.
pub fn worker(name: &str, folder: &Path, address: &str, id: u32, work: &Value, env: &[(String, String)]) -> Process {
    let me = std::env::current_exe().expect("this test's path");
    let mut command = Command::new(me);
    command.args(["support::worker_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env("SHOAL_TOKEN", TOKEN).env("SHOAL_MASTER_ADDRESS", address).env("SHOAL_CLIENT_ID", id.to_string());
    command.env(worker::WORK, work.to_string()).env("SHOAL_LOG", "info");
    command.envs(env.iter().map(|(n, v)| (n, v)));
    Process::start(name, folder, &mut command)
}

impl Gang {
    /// Starts worker `id`; `env` wins over the plan's.
    pub fn add_worker(&mut self, id: u32, work: &Value, env: &[(&str, &str)]) {
        let mut all = self.plan.env.clone();
        all.extend(env.iter().map(|(n, v)| ((*n).to_string(), (*v).to_string())));
        let name = format!("worker{}", self.workers.len());
        self.workers.push(worker(&name, self.folder.path(), &self.address, id, work, &all));
    }

    /// Every worker has completed this step.
    pub fn all_reach_step(&mut self, step: u64) {
        for worker in &mut self.workers {
            worker.reaches_step(step);
        }
    }

    pub fn everyone(&mut self) -> impl Iterator<Item = &mut Process> {
        std::iter::once(&mut self.master).chain(&mut self.servers).chain(&mut self.workers)
    }

    pub fn named(&mut self, name: &str) -> &mut Process {
        self.everyone().find(|p| p.name == name).unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// Waits until all have ended; how long after `since` the last one did.
    pub fn all_end(&mut self, since: Instant, bound: Duration) -> Duration {
        let deadline = since + bound;
        let mut last = Duration::ZERO;
        loop {
            let ends: Vec<_> = self.everyone().map(|p| p.poll().map(|(_, at)| at)).collect();
            if ends.iter().all(Option::is_some) {
                for at in ends.into_iter().flatten() {
                    last = last.max(at.saturating_duration_since(since));
                }
                return last;
            }
            assert!(Instant::now() < deadline, "not all ended within {bound:?}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// All ended well.
    pub fn ends_well(&mut self) {
        self.all_end(Instant::now(), LONG);
        let said = self.said();
        for process in self.everyone() {
            assert_eq!(process.end(SOON), 0, "{} failed\n{said}", process.name);
        }
    }

    /// What `ps_master --status --json` prints.
    pub fn status(&self) -> Value {
        let mut asking =
            program("ps_master", "status", self.folder.path(), &["--status", "--json", "--address", &self.address]);
        assert_eq!(asking.end(LONG), 0, "{}", asking.said());
        serde_json::from_str(&asking.stdout()).expect("JSON")
    }

    pub fn said(&mut self) -> String {
        let parts: Vec<String> = self.everyone().map(|p| p.said()).collect();
        parts.join("\n")
    }
}
