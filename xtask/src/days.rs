//! `cargo xtask days`: the queue's bad days, many rounds of each, and a line of figures for every kind.

use crate::cargo::cargo;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What a test's line of figures begins with.
const FIGURES: &str = "figures: ";

#[derive(clap::Args)]
pub struct Args {
    /// Blows of each kind.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Runs of the show over four hosts.
    #[arg(long, default_value_t = 500)]
    runs: u32,
    /// Only tests with this in their name.
    #[arg(long)]
    only: Option<String>,
    /// Programs that were built before, in a folder like `target/debug`; nothing is built then.
    #[arg(long)]
    programs: Option<PathBuf>,
}

/// Package, file of tests, test.
const KINDS: [(&str, &str, &str); 11] = [
    ("shoal-daemon", "queue_daemon_crash", "acknowledged_submissions_survive_kill_9"),
    ("shoal-daemon", "queue_daemon_days", "daemons_are_killed"),
    ("shoal-daemon", "queue_daemon_days", "agents_are_killed"),
    ("shoal-daemon", "queue_daemon_days", "daemons_and_agents_are_killed_together"),
    ("shoal-daemon", "queue_host_kill", "agents_are_killed"),
    ("shoal-daemon", "queue_host_kill", "keepers_are_killed"),
    ("shoal-daemon", "queue_host_kill", "both_are_killed"),
    ("shoal-daemon", "queue_daemon_days", "the_folder_for_results_goes_and_comes_back"),
    ("shoal-daemon", "queue_daemon_days", "drives_fill_up"),
    ("shoal", "queue_days", "hosts_go_and_come_back"),
    ("shoal", "queue_days", "daemon_and_agents_are_killed_under_a_sweep_over_four_hosts"),
];

pub fn run(args: Args) -> Result<()> {
    let found = match &args.programs {
        Some(folder) => find(folder)?,
        None => build()?,
    };
    let mut failed = 0;
    for (package, file, test) in KINDS {
        if args.only.as_ref().is_some_and(|only| !test.contains(only.as_str()) && !file.contains(only.as_str())) {
            continue;
        }
        let program = found.get(file).with_context(|| format!("the tests {file} of {package} have not been built"))?;
        let mut command = Command::new(program);
        command.args([test, "--exact", "--test-threads", "1"]).current_dir(crate::root().join("crates").join(package));
        command.env("SHOAL_ROUNDS", args.rounds.to_string()).env("SHOAL_RUNS", args.runs.to_string());
        if let Some(folder) = &args.programs {
            command.env("SHOAL_TEST_PROGRAM", folder.join("shoal"));
        }
        let began = Instant::now();
        let output =
            command.stdin(Stdio::null()).output().with_context(|| format!("{} did not start", program.display()))?;
        let took = began.elapsed().as_secs();
        let said = String::from_utf8_lossy(&output.stderr);
        for line in said.lines().filter_map(|line| line.strip_prefix(FIGURES)) {
            println!("{line} | {took} s");
        }
        if !output.status.success() {
            failed += 1;
            let log = std::env::temp_dir().join(format!("shoal-days-{test}.log"));
            std::fs::write(&log, [output.stdout, output.stderr].concat()).context("cannot keep what the test said")?;
            println!("{file} {test} | FAILED after {took} s; what it said is in {}", log.display());
        } else if !said.contains(FIGURES) {
            println!("{file} {test} | rounds {} | failures 0 | {took} s", args.rounds);
        }
    }
    match failed {
        0 => Ok(()),
        n => bail!("{n} of the days were too bad; see above"),
    }
}

/// Names of test files, and where their programs are.
fn build() -> Result<HashMap<String, PathBuf>> {
    crate::cargo::run(&mut cargo(&["build", "--workspace", "--examples"]), "build the examples")?;
    let args = ["test", "-p", "shoal-daemon", "-p", "shoal", "--tests", "--no-run", "--message-format", "json"];
    let output = cargo(&args).stderr(Stdio::inherit()).output().context("cannot build the tests")?;
    if !output.status.success() {
        bail!("cannot build the tests; cargo's own message is above");
    }
    let messages =
        output.stdout.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
    let program = |message: serde_json::Value| {
        let name = message["target"]["name"].as_str()?.to_string();
        Some((name, PathBuf::from(message["executable"].as_str()?)))
    };
    Ok(messages.filter_map(program).collect())
}

/// The newest of each name in `deps`.
fn find(folder: &Path) -> Result<HashMap<String, PathBuf>> {
    let deps = folder.join("deps");
    let entries = std::fs::read_dir(&deps).with_context(|| format!("cannot read {}", deps.display()))?;
    let mut found: HashMap<String, (std::time::SystemTime, PathBuf)> = HashMap::new();
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_none()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (Some((name, _)), Ok(Ok(at))) = (name.rsplit_once('-'), entry.metadata().map(|meta| meta.modified()))
        else {
            continue;
        };
        if found.get(name).is_none_or(|(than, _)| at > *than) {
            found.insert(name.into(), (at, entry.path()));
        }
    }
    Ok(found.into_iter().map(|(name, (_, path))| (name, path)).collect())
}
