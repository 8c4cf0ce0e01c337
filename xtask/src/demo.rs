//! `cargo xtask demo`: one master, two servers and four workers train a small network together, and get what one process gets.

use crate::cargo::Profile;
use crate::gang::Gang;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use std::io::{IsTerminal, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub const PACKAGES: [&str; 2] = ["numpy", "scikit-learn"];
const WORKERS: usize = 4;
const SERVERS: usize = 2;
const POLL: Duration = Duration::from_millis(50);
/// The training takes seconds; past this it hangs.
const TRAIN_BOUND: Duration = Duration::from_secs(120);
/// Master and servers end by themselves once the workers have left; after this they are ended.
const LEAVE_BOUND: Duration = Duration::from_secs(5);
/// Sums in another order round differently, and training carries that on; a wrong sum is further off by orders of magnitude.
const DIFFERENCE_MAX: f64 = 1e-4;
const ACCURACY_MIN: f64 = 0.9;

/// What `train.py` writes at its end.
#[derive(Deserialize)]
struct Trained {
    accuracy: f64,
    steps: u64,
    step_ms: f64,
    bytes_sent: u64,
    /// Of the parameters: equal digests, equal bytes.
    digest: String,
    /// To the parameters it was told to compare with.
    difference: Option<f64>,
}

/// Where the demo's files are, and with what it runs.
struct Demo {
    python: PathBuf,
    binaries: PathBuf,
    folder: PathBuf,
    interrupted: Arc<AtomicBool>,
}

pub fn run(profile: Profile) -> Result<()> {
    crate::setup::run()?;
    let python = crate::venv::ensure("demo", &PACKAGES)?;
    eprintln!("building ps_master, ps_server and the Python package");
    let binaries = crate::cargo::programs(profile)?;
    crate::wheel::ensure_installed(&python)?;

    let target = crate::cargo::target_dir()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot listen for Ctrl-C")?;
    }
    Demo { python, binaries, folder: target.join("demo"), interrupted }.run()
}

impl Demo {
    fn run(&self) -> Result<()> {
        let start = Instant::now();
        let mut gang = Gang::new(self.folder.clone())?;
        eprintln!("training on {WORKERS} workers and {SERVERS} servers");
        self.start(&mut gang)?;
        self.wait(&mut gang, "worker", TRAIN_BOUND)?;
        // That they stay is no failure of the training; that they fail is.
        let leave = Instant::now() + LEAVE_BOUND;
        while !gang.all_ended("")? && Instant::now() < leave {
            std::thread::sleep(POLL);
        }
        gang.stop();

        eprintln!("training the same in one process");
        let against = self.folder.join("worker-0.npz");
        gang.start(
            "single",
            self.train("single").arg("--single").arg(WORKERS.to_string()).arg("--against").arg(against),
        )?;
        self.wait(&mut gang, "single", TRAIN_BOUND)?;

        let workers = (0..WORKERS).map(|k| self.result(&format!("worker-{k}"))).collect::<Result<Vec<_>>>()?;
        let single = self.result("single")?;
        table(&workers, &single, start.elapsed());
        check(&workers, &single)
    }

    fn start(&self, gang: &mut Gang) -> Result<()> {
        let master = format!("tcp://127.0.0.1:{}", free_port()?);
        let token = token()?;
        let (workers, servers) = (WORKERS.to_string(), SERVERS.to_string());
        let mut command = Command::new(self.binaries.join("ps_master"));
        command.args(["--address", &master, "--workers", &workers, "--servers", &servers]).env("SHOAL_TOKEN", &token);
        gang.start("master", &mut command)?;
        for k in 0..SERVERS {
            let mut command = Command::new(self.binaries.join("ps_server"));
            command.args(["--master_address", &master]).env("SHOAL_TOKEN", &token);
            gang.start(format!("server-{k}"), &mut command)?;
        }
        for k in 0..WORKERS {
            let mut command = self.train(&format!("worker-{k}"));
            command
                .env("SHOAL_MASTER_ADDRESS", &master)
                .env("SHOAL_CLIENT_ID", k.to_string())
                .env("SHOAL_NUM_WORKERS", &workers)
                .env("SHOAL_TOKEN", &token);
            gang.start(format!("worker-{k}"), &mut command)?;
        }
        Ok(())
    }

    /// `train.py`, writing its result and its parameters under that name.
    fn train(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .arg(crate::root().join("examples/digits/train.py"))
            .arg("--out")
            .arg(self.folder.join(name))
            // Several processes share the machine's cores; without this each would take all of them.
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1");
        command
    }

    /// Until those members have ended well, showing how far the first of them is.
    fn wait(&self, gang: &mut Gang, prefix: &str, bound: Duration) -> Result<()> {
        let end = Instant::now() + bound;
        let leader = if prefix == "worker" { "worker-0" } else { prefix };
        let mut progress = Progress::new();
        while !gang.all_ended(prefix)? {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted; everything the demo started is stopped");
            }
            if Instant::now() >= end {
                bail!("{prefix} did not end within {bound:?}\nhint: the logs are in {}", self.folder.display());
            }
            progress.show(&gang.log(leader));
            std::thread::sleep(POLL);
        }
        progress.show(&gang.log(leader));
        progress.bar.finish_and_clear();
        Ok(())
    }

    fn result(&self, name: &str) -> Result<Trained> {
        let file = self.folder.join(format!("{name}.json"));
        let text = std::fs::read_to_string(&file).with_context(|| format!("{name} wrote no {}", file.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{name} wrote something else than a result: {}", file.display()))
    }
}

/// Draws the last `progress DONE ALL LOSS` line of a log: a bar on a terminal, else a line for every tenth.
struct Progress {
    bar: ProgressBar,
    tenth: u64,
}

impl Progress {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} step {pos} of {len}, {msg}") {
            bar.set_style(style);
        }
        Self { bar, tenth: 0 }
    }

    fn show(&mut self, log: &Path) {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let Some((done, all, loss)) = text.lines().rev().find_map(parse) else { return };
        if std::io::stderr().is_terminal() {
            self.bar.set_length(all);
            self.bar.set_message(format!("loss {loss}"));
            self.bar.set_position(done);
        } else if let Some(tenth) = (done * 10).checked_div(all)
            && tenth > self.tenth
        {
            self.tenth = tenth;
            eprintln!("step {done} of {all}, loss {loss}");
        }
    }
}

fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.strip_prefix("progress ")?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?))
}

fn table(workers: &[Trained], single: &Trained, took: Duration) {
    let first = &workers[0];
    let bytes = workers.iter().map(|worker| worker.bytes_sent).sum::<u64>() as f64 / workers.len() as f64;
    println!("\n{:<34} {:>12} {:>12}", "", format!("{WORKERS} workers"), "one process");
    println!(
        "{:<34} {:>10.1} % {:>10.1} %",
        "accuracy on held-out digits",
        first.accuracy * 100.0,
        single.accuracy * 100.0
    );
    println!("{:<34} {:>9.2} ms {:>9.2} ms", "time of a step (median)", first.step_ms, single.step_ms);
    println!("{:<34} {:>9.1} MB", "sent by each worker", bytes / 1e6);
    println!("{:<34} {:>9.1} kB", "  in each step", bytes / 1e3 / first.steps as f64);
    println!("{:<34} {:>12.1e}", "largest difference of a parameter", single.difference.unwrap_or(f64::NAN));
    println!("\n{} steps, {:.1} s in all", first.steps, took.as_secs_f64());
}

fn check(workers: &[Trained], single: &Trained) -> Result<()> {
    if let Some(k) = workers.iter().position(|worker| worker.digest != workers[0].digest) {
        bail!("worker 0 and worker {k} ended with different parameters: they got different sums");
    }
    let difference = single.difference.context("the training in one process compared nothing")?;
    // A NaN must fail too, so the good case is what is asked for.
    if !(difference <= DIFFERENCE_MAX && workers[0].accuracy >= ACCURACY_MIN) {
        bail!(
            "the {WORKERS} workers did not learn what one process learns: difference {difference:.1e} (at most {DIFFERENCE_MAX:.0e}), \
             accuracy {:.3} (at least {ACCURACY_MIN})",
            workers[0].accuracy
        );
    }
    Ok(())
}

/// A port that was free a moment ago; the system gives it to no one else that asks for any.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr().context("no free port on 127.0.0.1")?.port())
}

fn token() -> Result<String> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
