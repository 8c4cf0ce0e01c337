//! `cargo xtask test`: every check there is, in order, with a summary at the end.

use crate::again;
use crate::cargo::{Profile, cargo, told};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub struct Args {
    /// Only these steps, in the usual order.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Step>,
    /// A test that cannot run fails, as with CI=true.
    #[arg(long)]
    strict: bool,
}

impl Args {
    pub fn strict() -> Self {
        Self { only: Vec::new(), strict: true }
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Step {
    /// cargo fmt
    Fmt,
    /// cargo clippy, warnings are errors
    Lint,
    /// cargo test, with the tests on test hosts
    Rust,
    /// pytest on the built package
    Python,
    /// the demo and psd_run on four test hosts, which check their own results
    E2e,
}

/// What a step that succeeded has to tell.
#[derive(Default)]
struct Passed {
    skipped: usize,
    /// What needed a second try.
    again: Vec<String>,
}

impl Passed {
    fn told(&self) -> String {
        let mut told = "passed".to_owned();
        if self.skipped > 0 {
            told += &format!(", {} skipped", self.skipped);
        }
        if !self.again.is_empty() {
            told += &format!(", but only at the second try: {}", self.again.join(", "));
        }
        told
    }
}

struct Outcome {
    name: String,
    took: Duration,
    result: Result<Passed>,
}

pub fn run(args: Args) -> Result<()> {
    crate::setup::run()?;
    let strict = args.strict || std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let chosen = |step: &&Step| args.only.is_empty() || args.only.contains(step);
    let outcomes: Vec<Outcome> =
        Step::value_variants().iter().filter(chosen).map(|step| timed(*step, strict)).collect();

    println!("\n{:<8} {:>8}  result", "step", "time");
    for Outcome { name, took, result } in &outcomes {
        let result = match result {
            Ok(passed) => passed.told(),
            Err(error) => format!("FAILED: {}", format!("{error:#}").lines().next().unwrap_or_default()),
        };
        println!("{name:<8} {:>6.1} s  {result}", took.as_secs_f64());
    }
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    println!("{} passed, {failed} failed", outcomes.len() - failed);
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn timed(step: Step, strict: bool) -> Outcome {
    let name = step.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    println!("\n== {name}");
    let start = Instant::now();
    let result = match step {
        Step::Fmt => plain(&mut cargo(&["fmt", "--all", "--", "--check"]), "cargo fmt --all"),
        Step::Lint => {
            let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
            plain(&mut cargo(&args), "see the warnings above")
        }
        Step::Rust => rust(strict),
        Step::Python => python(strict),
        Step::E2e => {
            crate::demo::run(Profile::Dev).and_then(|()| crate::show::run(Profile::Dev)).map(|()| Passed::default())
        }
    };
    if let Err(error) = &result {
        println!("{}", crate::report::told(error));
    }
    Outcome { name, took: start.elapsed(), result }
}

fn plain(command: &mut Command, hint: &str) -> Result<Passed> {
    let status = command.status().with_context(|| format!("`{}` did not start", told(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}\nhint: {hint}", told(command));
    }
    Ok(Passed::default())
}

fn rust(strict: bool) -> Result<Passed> {
    // Tests of one package run programs of another, which cargo does not build for them.
    crate::cargo::programs(Profile::Dev)?;
    // Tests that launch frameworks on test hosts take them from here.
    let python = crate::frameworks::all()?;
    crate::wheel::ensure_installed(&python)?;
    let moto = crate::venv::ensure("moto", &["moto[server]==5.2.5"])?;
    let (ray, kubernetes) = (crate::ray::ensure()?, crate::kubernetes::ensure()?);
    let bin_dir = crate::cargo::target_dir()?.join("debug");
    let test = |which: &[&str]| {
        let mut test = cargo(&["test"]);
        test.args(which);
        test.env("SHOAL_TEST_TENSORFLOW", &python);
        // EC2 and EFS on loopback.
        test.env("SHOAL_TEST_MOTO", &moto);
        // A real Ray cluster on test hosts.
        test.env("SHOAL_TEST_RAY", &ray);
        // A real Kubernetes control plane on loopback.
        test.env("SHOAL_TEST_KUBERNETES", &kubernetes);
        test.env("SHOAL_BIN_DIR", &bin_dir);
        // Skips are told on stderr, which is read here and passed on; cargo's colours are wanted all the same.
        if std::io::stderr().is_terminal() {
            test.env("CARGO_TERM_COLOR", "always");
        }
        test.stderr(Stdio::piped());
        test
    };
    // All failures in one go: a run of everything is long.
    let seen = watched(&mut test(&["--workspace", "--no-fail-fast"]), strict, |line| Told {
        skipped: line.contains(shoal_testkit::SKIPPED),
        failed: again::target(line),
    })?;
    let Some(targets) = seen.second_try() else { return seen.passed(strict) };
    let (mut skipped, mut failed) = (seen.skipped, Vec::new());
    for target in &targets {
        let seen = watched(&mut test(&again::words(target)), strict, |line| Told {
            skipped: line.contains(shoal_testkit::SKIPPED),
            failed: None,
        })?;
        match seen.passed(strict) {
            Ok(passed) => skipped += passed.skipped,
            Err(_) => failed.push(target.as_str()),
        }
    }
    if !failed.is_empty() {
        bail!("failed twice: {}", failed.join(", "));
    }
    Ok(Passed { skipped, again: targets })
}

fn python(strict: bool) -> Result<Passed> {
    let python = crate::frameworks::all()?;
    crate::wheel::ensure_installed(&python)?;
    let bin_dir = crate::cargo::target_dir()?.join("debug");
    let pytest = |more: &[&str]| {
        let mut pytest = crate::cargo::clean(&python);
        pytest.args(["-m", "pytest", "-rsf", "python/tests"]).args(more).env("SHOAL_BIN_DIR", &bin_dir);
        if std::io::stdout().is_terminal() {
            pytest.arg("--color=yes");
        }
        pytest.stdout(Stdio::piped());
        pytest
    };
    // With -rs each skip has a line `SKIPPED [count] file: reason`, with -rf each failure a line `FAILED file::name - reason`.
    let told = |line: &str| Told { skipped: line.contains("SKIPPED ["), failed: again::python_test(line) };
    let seen = watched(&mut pytest(&[]), strict, told)?;
    let Some(tests) = seen.second_try() else { return seen.passed(strict) };
    let again = watched(&mut pytest(&["--last-failed", "--last-failed-no-failures=none"]), strict, told)?;
    let passed = again.passed(strict)?;
    Ok(Passed { skipped: seen.skipped + passed.skipped, again: tests })
}

/// What a line that a test command prints tells.
struct Told {
    skipped: bool,
    failed: Option<String>,
}

/// What a test command came to.
struct Seen {
    command: String,
    status: ExitStatus,
    skipped: usize,
    failed: Vec<String>,
}

impl Seen {
    /// What to run once more, where that may help.
    fn second_try(&self) -> Option<Vec<String>> {
        if self.status.success() {
            return None;
        }
        let failed = again::worth_it(&self.failed)?;
        println!("\n== once more, by themselves: {}", failed.join(", "));
        Some(failed)
    }

    fn passed(&self, strict: bool) -> Result<Passed> {
        let Self { command, status, skipped, .. } = self;
        if !status.success() {
            bail!("`{command}` ended with {status}");
        }
        // Each kind of test turns its own skips into failures; this is for one that forgets to.
        if strict && *skipped > 0 {
            bail!("{skipped} skipped, and with CI=true nothing may be");
        }
        Ok(Passed { skipped: *skipped, again: Vec::new() })
    }
}

/// What a test left behind may hold the stream for ever; what the command itself printed is there by then.
const AFTER_ITS_END: Duration = Duration::from_secs(10);

/// Runs a command whose piped stream tells of skips and failures, passing everything on.
fn watched(command: &mut Command, strict: bool, reads: fn(&str) -> Told) -> Result<Seen> {
    if strict {
        command.env("CI", "true");
    }
    let mut child = command.spawn().with_context(|| format!("`{}` did not start", told(command)))?;
    let (stream, say): (Box<dyn Read + Send>, fn(&str)) = match (child.stdout.take(), child.stderr.take()) {
        (Some(stdout), _) => (Box::new(stdout), |line| println!("{line}")),
        (None, Some(stderr)) => (Box::new(stderr), |line| eprintln!("{line}")),
        (None, None) => (Box::new(std::io::empty()), |_| {}),
    };
    let (tell, heard) = mpsc::channel::<Told>();
    std::thread::spawn(move || {
        for line in lines(stream) {
            say(&line);
            // Nobody listens any more: the command is over, and what still writes is passed on all the same.
            let _ = tell.send(reads(&line));
        }
    });
    let status = child.wait().with_context(|| format!("lost `{}`", told(command)))?;
    let mut seen = Seen { command: told(command), status, skipped: 0, failed: Vec::new() };
    let end = Instant::now() + AFTER_ITS_END;
    loop {
        match heard.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Told { skipped, failed }) => {
                seen.skipped += usize::from(skipped);
                seen.failed.extend(failed);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(seen),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                eprintln!("note: `{}` has ended, but something that it started still holds its output", seen.command);
                return Ok(seen);
            }
        }
    }
}

/// Whatever bytes tests print, a line that is not UTF-8 must not end the reading: the writer would block on a full pipe.
fn lines(stream: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(stream).split(b'\n').map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}
