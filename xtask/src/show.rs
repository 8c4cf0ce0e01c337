//! The launcher's own show: `psd_run` trains the digits example on four test hosts, with a `config.json` in Poseidon's form, to the accuracy
//! of one process; then once more, with a host killed in the middle.

use crate::cargo::Profile;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use shoal_testkit::hosts::{Hosts, HostsSpec};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORKERS: usize = 4;
const BOUND: Duration = Duration::from_secs(180);
/// From the death of a host to the end of the run.
const DEATH_BOUND: Duration = Duration::from_secs(5);

struct Show {
    hosts: Hosts,
    python: PathBuf,
    folder: PathBuf,
    psd_run: PathBuf,
}

pub fn run(profile: Profile) -> Result<()> {
    let python = crate::venv::ensure("demo", &crate::demo::PACKAGES)?;
    let target = crate::cargo::target_dir()?;
    let folder = target.join("show");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("what is left of an earlier show")?;
    }
    std::fs::create_dir_all(&folder).context("a folder for the show")?;
    let mut spec = HostsSpec::new("show", WORKERS);
    let prefix = crate::bench::peers::said(Command::new(&python).args(["-c", "import sys; print(sys.base_prefix)"]))?;
    spec.share = vec![crate::root(), crate::venv::cache_dir(), target.clone(), PathBuf::from(prefix.trim())];
    let hosts = match Hosts::up(spec) {
        Ok(hosts) => hosts,
        Err(error) => bail!("no test hosts: {error}\nhint: {}", error.hint().unwrap_or_default()),
    };
    let show = Show { hosts, python, folder, psd_run: crate::cargo::programs(profile)?.join("psd_run") };
    show.write_config()?;
    show.trains()?;
    show.survives_no_death()
}

impl Show {
    fn write_config(&self) -> Result<()> {
        let node = |i: usize| self.hosts.host(i).address.to_string();
        let virtualenv = self.python.ancestors().nth(2).context("the interpreter lies in no environment")?;
        let config = json!({
            "virtualenv": virtualenv,
            "username": "root",
            "pem_file": self.hosts.key(),
            "worker_nodes": (0..WORKERS).map(node).collect::<Vec<_>>(),
            "server_nodes": [node(0), node(1)],
        });
        let text = serde_json::to_string_pretty(&config).context("the configuration")?;
        std::fs::write(self.folder.join("config.json"), text).context("config.json")
    }

    fn psd_run(&self, command: &str) -> Result<Child> {
        let mut run = Command::new(&self.psd_run);
        run.args(["-c", "config.json", "-o", "logs", "--env", "OMP_NUM_THREADS=1", command])
            .env("SHOAL_SSH_CONFIG", self.hosts.ssh_config())
            .env("XDG_RUNTIME_DIR", &self.folder)
            // Records of hosts that will be gone are not the user's.
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("SHOAL_SSH_PERSIST", "5")
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        run.spawn().context("psd_run did not start")
    }

    fn train(&self) -> String {
        format!("python {}", crate::root().join("examples/digits/train.py").display())
    }

    fn trains(&self) -> Result<()> {
        eprintln!("psd_run on {WORKERS} test hosts: {WORKERS} workers, 2 servers, a master here");
        let start = Instant::now();
        let (code, said) = ended(self.psd_run(&self.train())?, BOUND)?;
        ensure!(code == Some(0), "psd_run ended with {code:?}:\n{said}");
        let took = start.elapsed().as_secs_f64();
        let workers = (0..WORKERS).map(|k| self.result(k)).collect::<Result<Vec<Value>>>()?;
        let alone = Command::new(&self.python)
            .arg(crate::root().join("examples/digits/train.py"))
            .args(["--single", &WORKERS.to_string()])
            .output()
            .context("the training in one process")?;
        let alone = last_json(&String::from_utf8_lossy(&alone.stdout)).context("no result of one process")?;
        let accuracy = |result: &Value| result["accuracy"].as_f64().unwrap_or(0.0);
        eprintln!(
            "accuracy {:.4} on {WORKERS} hosts, {:.4} in one process; {took:.1} s",
            accuracy(&workers[0]),
            accuracy(&alone)
        );
        ensure!(
            workers.iter().all(|w| w["digest"] == workers[0]["digest"]),
            "the workers ended with different parameters"
        );
        let apart = (accuracy(&workers[0]) - accuracy(&alone)).abs();
        ensure!(apart < 0.01, "the accuracies are {apart:.4} apart");
        Ok(())
    }

    /// What a worker printed last, from its log as it was gathered here.
    fn result(&self, k: usize) -> Result<Value> {
        let logs = std::fs::read_dir(self.folder.join("logs")).context("the logs")?.flatten();
        let folder = logs.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("poseidon_log_"));
        let file = folder.context("no poseidon_log_ folder")?.join(format!("worker{k}.log"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        last_json(&text).with_context(|| format!("worker{k} printed no result"))
    }

    fn survives_no_death(&self) -> Result<()> {
        let forever = format!("while true; do {} --out /tmp/x; done; :", self.train());
        let run = self.psd_run(&forever)?;
        let victim = self.hosts.host(2);
        until("training on all hosts", || Ok(processes_of(&self.hosts, 2, "train.py")? > 0))?;
        eprintln!("killing {} ({}) with everything on it", victim.name, victim.address);
        let died = Instant::now();
        victim.kill().context("the host's first process")?;
        let (code, said) = ended(run, BOUND)?;
        let took = died.elapsed();
        eprintln!("{}\npsd_run ended {:.1} s later with {code:?}", said.trim(), took.as_secs_f64());
        ensure!(took < DEATH_BOUND, "it took {took:?}");
        ensure!(code != Some(0) && said.contains(&victim.address.to_string()), "the host is not named");
        for i in [0, 1, 3] {
            until("nothing being left", || Ok(processes_of(&self.hosts, i, "train.py")? == 0))?;
        }
        Ok(())
    }
}

/// How many processes of a host have this word in their command line.
fn processes_of(hosts: &Hosts, i: usize, word: &str) -> Result<usize> {
    let list = hosts.host(i).command("ps").args(["-eo", "args"]).output().context("ps")?;
    Ok(String::from_utf8_lossy(&list.stdout)
        .lines()
        .filter(|line| line.contains(word) && !line.contains("ps -eo"))
        .count())
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so()? {
        ensure!(Instant::now() < end, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The exit code and what it said on stderr; ended if it takes longer.
fn ended(mut child: Child, bound: Duration) -> Result<(Option<i32>, String)> {
    use std::io::Read;
    let end = Instant::now() + bound;
    let mut stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(stderr) = &mut stderr {
            // What is not text tells nothing.
            let _ = stderr.read_to_string(&mut text);
        }
        text
    });
    loop {
        if let Some(status) = child.try_wait().context("psd_run")? {
            return Ok((status.code(), reader.join().unwrap_or_default()));
        }
        if Instant::now() >= end {
            child.kill().context("psd_run")?;
            child.wait().context("psd_run")?;
            bail!("psd_run did not end within {bound:?}: {}", reader.join().unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn last_json(text: &str) -> Option<Value> {
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}
