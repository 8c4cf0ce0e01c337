//! `cargo xtask test`: every check there is, in order, with a summary at the end.

use crate::cargo::{Profile, cargo, told};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
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
struct Passed {
    skipped: usize,
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
            Ok(Passed { skipped: 0 }) => "passed".to_owned(),
            Ok(Passed { skipped }) => format!("passed, {skipped} skipped"),
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
            crate::demo::run(Profile::Dev).and_then(|()| crate::show::run(Profile::Dev)).map(|()| Passed { skipped: 0 })
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
    Ok(Passed { skipped: 0 })
}

fn rust(strict: bool) -> Result<Passed> {
    // Tests of one package run programs of another, which cargo does not build for them.
    crate::cargo::programs(Profile::Dev)?;
    // Tests that launch frameworks on test hosts take them from here.
    let python = crate::frameworks::all()?;
    crate::wheel::ensure_installed(&python)?;
    // All failures in one go: a run of everything is long.
    let mut test = cargo(&["test", "--workspace", "--no-fail-fast"]);
    test.env("SHOAL_TEST_TENSORFLOW", &python);
    // EC2 and EFS on loopback.
    test.env("SHOAL_TEST_MOTO", crate::venv::ensure("moto", &["moto[server]==5.2.5"])?);
    // A real Ray cluster on test hosts.
    test.env("SHOAL_TEST_RAY", crate::ray::ensure()?);
    // A real Kubernetes control plane on loopback.
    test.env("SHOAL_TEST_KUBERNETES", crate::kubernetes::ensure()?);
    test.env("SHOAL_BIN_DIR", crate::cargo::target_dir()?.join("debug"));
    // Skips are told on stderr, which is read here and passed on; cargo's colours are wanted all the same.
    if std::io::stderr().is_terminal() {
        test.env("CARGO_TERM_COLOR", "always");
    }
    counting(test.stderr(Stdio::piped()), strict, |line| line.contains(shoal_testkit::SKIPPED))
}

fn python(strict: bool) -> Result<Passed> {
    let python = crate::frameworks::all()?;
    crate::wheel::ensure_installed(&python)?;
    let mut pytest = crate::cargo::clean(&python);
    pytest
        .args(["-m", "pytest", "-rs", "python/tests"])
        .env("SHOAL_BIN_DIR", crate::cargo::target_dir()?.join("debug"));
    if std::io::stdout().is_terminal() {
        pytest.arg("--color=yes");
    }
    // With -rs each skip has a line `SKIPPED [count] file: reason`.
    counting(pytest.stdout(Stdio::piped()), strict, |line| line.contains("SKIPPED ["))
}

/// What a test left behind may hold the stream for ever; what the command itself printed is there by then.
const AFTER_ITS_END: Duration = Duration::from_secs(10);

/// Runs a command whose piped stream tells of skips, passing everything on.
fn counting(command: &mut Command, strict: bool, is_skip: fn(&str) -> bool) -> Result<Passed> {
    if strict {
        command.env("CI", "true");
    }
    let mut child = command.spawn().with_context(|| format!("`{}` did not start", told(command)))?;
    let (stream, say): (Box<dyn Read + Send>, fn(&str)) = match (child.stdout.take(), child.stderr.take()) {
        (Some(stdout), _) => (Box::new(stdout), |line| println!("{line}")),
        (None, Some(stderr)) => (Box::new(stderr), |line| eprintln!("{line}")),
        (None, None) => (Box::new(std::io::empty()), |_| {}),
    };
    let skipped = Arc::new(AtomicUsize::new(0));
    let (count, (all, counted)) = (skipped.clone(), mpsc::channel::<()>());
    std::thread::spawn(move || {
        for line in lines(stream) {
            say(&line);
            count.fetch_add(usize::from(is_skip(&line)), Ordering::Relaxed);
        }
        drop(all);
    });
    let status = child.wait().with_context(|| format!("lost `{}`", told(command)))?;
    if counted.recv_timeout(AFTER_ITS_END) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("note: `{}` has ended, but something that it started still holds its output", told(command));
    }
    let skipped = skipped.load(Ordering::Relaxed);
    if !status.success() {
        bail!("`{}` ended with {status}", told(command));
    }
    // Each kind of test turns its own skips into failures; this is for one that forgets to.
    if strict && skipped > 0 {
        bail!("{skipped} skipped, and with CI=true nothing may be");
    }
    Ok(Passed { skipped })
}

/// Whatever bytes tests print, a line that is not UTF-8 must not end the reading: the writer would block on a full pipe.
fn lines(stream: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(stream).split(b'\n').map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}
