//! Runs a gang: from a command line to a plan, from the plan to its end.

use super::fleet_file;
use crate::args::run::Args;
use crate::cluster::file::filling;
use crate::exit::Exit;
use crate::later::launched::Launched;
use crate::later::places;
use crate::launch::pool::{self as on_pool, Wish};
use crate::launch::record::Record;
use crate::launch::screen::{self, Style};
use crate::launch::{Launch, Report, launch};
use crate::signals;
use shoal_core::fleet::{Fleet, Reach};
use shoal_core::job::Program;
use shoal_core::kubernetes::gang::stand_in;
use shoal_core::outcome::{self, Ending, RankEnd};
use shoal_core::plan::spec::SILENCE_MS;
use shoal_core::plan::{self, Logs, RunSpec, Secret};
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Why a run did not begin; said on stderr, with exit code 2 unless it is about this machine.
pub enum NotBegun {
    Wrong(String),
    Here(String),
    /// Somebody else is at it, or has to be waited for; exit code 3.
    CannotStart(String),
    /// Somebody asked for an end before it began; exit code 130.
    Stopped(String),
}

impl NotBegun {
    /// In words.
    pub fn why(self) -> String {
        let (NotBegun::Wrong(why) | NotBegun::Here(why) | NotBegun::CannotStart(why) | NotBegun::Stopped(why)) = self;
        why
    }
}

pub fn run(args: &Args) -> Result<ExitCode, NotBegun> {
    let mut fleet = match &args.fleet {
        Some(file) => {
            let values = filling(&args.set, args.values.as_deref()).map_err(NotBegun::Wrong)?;
            fleet_file::read_filled(file, &values).map_err(NotBegun::Wrong)?
        }
        None => Fleet::local(),
    };
    let pool = stand_in::chosen(&fleet, &args.on).map_err(NotBegun::Wrong)?.cloned();
    if pool.is_none() && (args.gpus.is_some() || args.memory.is_some()) {
        let hint = "on hosts every worker sees all there is";
        return Err(NotBegun::Wrong(format!("--gpus and --memory are for pools\n  hint: {hint}")));
    }
    if args.fleet.is_none() {
        // This machine takes as many as are asked for; it is the user's own.
        fleet.hosts[0].slots.ranks = args.workers.unwrap_or(1);
    }
    let run = new_run_id();
    let logs = Logs { root: absolute(&args.out)?, folder: format!("run_{run}") };
    let mut spec = RunSpec::new(run, vec![Program::Argv(args.command.clone())], logs, new_token()?);
    spec.workers = args.workers;
    spec.servers = args.servers;
    spec.master = !args.no_master;
    spec.on.clone_from(&args.on);
    spec.oversubscribe = args.oversubscribe;
    spec.flags = args.flags;
    spec.env = args.env.iter().cloned().collect();
    spec.cwd = match &args.cwd {
        Some(cwd) => Some(cwd.clone()),
        // Pods find a copy of it.
        None if fleet.shared.is_some() || pool.is_some() => None,
        None => Some(this_folder(&fleet)?),
    };
    spec.detached = args.detach;
    spec.silence_ms = silence_ms();
    spec.grace_ms = args.grace * 1000;
    let style = style(args.json, args.verbose);
    if let Some(pool) = pool {
        let limits = (args.gpus.unwrap_or(0), args.memory);
        let file = args.fleet.as_deref();
        return on_pool::begin(&Wish {
            fleet,
            pool,
            spec,
            limits,
            wait_s: args.wait,
            dry_run: args.dry_run,
            style,
            file,
        });
    }
    begin(fleet, &spec, args.dry_run, style, Record::none(), "shoal run", args.fleet.as_deref())
}

pub fn style(json: bool, verbose: bool) -> Style {
    match (json, verbose) {
        (true, _) => Style::Json,
        (false, true) => Style::Stream,
        (false, false) => Style::Table,
    }
}

/// How long a host of a detached run may be silent. Not in any help: tests cannot wait as long as networks may be away.
pub fn silence_ms() -> u64 {
    let asked = std::env::var("SHOAL_GANG_SILENCE_MS").ok().and_then(|v| v.parse::<u64>().ok());
    asked.map_or(SILENCE_MS, |ms| ms.max(1_000))
}

/// Plans, and runs the plan or prints it. `file`: where the fleet came from.
pub fn begin(
    fleet: Fleet,
    spec: &RunSpec,
    dry_run: bool,
    style: Style,
    mut record: Record,
    program: &str,
    file: Option<&Path>,
) -> Result<ExitCode, NotBegun> {
    let plan = plan::gang(&fleet, spec).map_err(|e| NotBegun::Wrong(e.to_string()))?;
    if dry_run {
        crate::say::out(plan::render::render(&plan));
        return Ok(Exit::Success.into());
    }
    let parcel = parcel_for(plan.hosts.iter().any(|h| fleet.host(h).is_some_and(|h| h.reach != Reach::Local)))?;
    let stop = signals::count().map_err(|e| NotBegun::Here(format!("cannot listen for signals: {e}")))?;
    record.note(&format!("run {} of {} ranks on {} hosts", plan.run, plan.ranks.len(), plan.hosts.len()));
    let run = plan.run.clone();
    let logs = plan.ranks.first().and_then(|r| Path::new(&r.log).parent().map(Path::to_path_buf));
    make_folder(logs.as_deref())?;
    let detach = spec.detached;
    let (known, hosts) = (fleet.clone(), plan.hosts.clone());
    // Before anything starts: whatever becomes of this process, `shoal logs` and `shoal stop` find the run from its id.
    let mut launched = Launched::new(&run, file, &known, &hosts);
    let written = launched.save();
    let report = launch(Launch { fleet, plan, ssh: Settings::from_env(), parcel, style, detach }, record, &stop);
    if let Some(logs) = &logs {
        // Nothing came of it: only an empty folder can be removed.
        let _ = std::fs::remove_dir(logs);
    }
    let all_known = |end: &RankEnd| !matches!(end.ending, Ending::Lost { .. });
    if !report.detached && report.ends.iter().all(all_known) {
        // Nobody needs to ask its hosts again; if this cannot be written, they are asked once more.
        launched.over = true;
        let _ = launched.save();
    }
    if report.detached
        && let Err(e) = written
    {
        eprintln!(
            "{program}: where the run is could not be written down here ({e}); give `--fleet` to `shoal logs` and `shoal stop`"
        );
    }
    if !report.astray.is_empty() {
        super::stop::astray(places::named(&known, &report.astray), &run, spec.grace_ms)?;
    }
    if detach && !report.detached && style != Style::Json && outcome::exit_code(&report.ends) == 0 {
        // Over before it could be left alone; whoever wanted its id gets it.
        crate::say::line(&run);
    }
    Ok(conclude(&report, style, &run, logs, program))
}

/// Better found out now than when there is something to write. A full disk is another matter: it may have room again by then.
pub fn make_folder(logs: Option<&Path>) -> Result<(), NotBegun> {
    match logs.map(std::fs::create_dir_all) {
        Some(Err(e)) if e.kind() != std::io::ErrorKind::StorageFull => {
            let (text, folder) = (e.to_string(), logs.unwrap_or(Path::new("")).display());
            let why = text.split(" (os error").next().unwrap_or(&text);
            Err(NotBegun::Here(format!(
                "logs cannot be written to {folder}: {why}\n  hint: choose another place with -o"
            )))
        }
        _ => Ok(()),
    }
}

/// Our own file, for hosts of whatever kind.
pub fn parcel_for(remote: bool) -> Result<Parcel, NotBegun> {
    let me =
        std::env::current_exe().map_err(|e| NotBegun::Here(format!("cannot find this program's own file: {e}")))?;
    // psd_run and the others are one file under several names, beside each other.
    let path = me.with_file_name("shoal");
    let path = if path.exists() { path } else { me };
    if !remote {
        return Ok(Parcel { path, digest: String::new() });
    }
    let cache = Settings::from_env().folder.with_file_name("digest");
    let digest = shoal_hosts::ssh::digest_cache::digest(&path, &cache)
        .map_err(|e| NotBegun::Here(format!("cannot read {}: {e}", path.display())))?;
    Ok(Parcel { path, digest })
}

/// Says how it went.
pub fn conclude(report: &Report, style: Style, run: &str, logs: Option<PathBuf>, program: &str) -> ExitCode {
    if report.detached && style == Style::Json {
        crate::say::line(serde_json::json!({ "event": "detached", "run": run }));
        return Exit::Success.into();
    }
    if report.detached {
        crate::say::line(run);
        eprintln!("{program}: all ranks have started; `shoal ps`, `shoal logs {run}`, `shoal stop {run}`");
        return Exit::Success.into();
    }
    let code = report.exit_code();
    if style == Style::Json {
        let ends = serde_json::to_value(&report.ends).unwrap_or_default();
        crate::say::line(serde_json::json!({ "event": "over", "run": run, "exit_code": code, "ranks": ends }));
        return ExitCode::from(code);
    }
    eprintln!("{}", account(program, report, logs));
    ExitCode::from(code)
}

/// What there is to say in the end, for people.
fn account(program: &str, report: &Report, logs: Option<PathBuf>) -> String {
    let width = screen::width();
    let fold = |text: &str| screen::fold(text, "    ", width);
    let mut lines: Vec<String> = Vec::new();
    let failure = outcome::first_failure(&report.ends).filter(|_| !report.was_stopped());
    if report.was_stopped() {
        lines.push(format!("{program}: stopped on request"));
        let failed = report.ends.iter().filter(|end| end.ending.is_failure());
        lines.extend(failed.map(|end| fold(&format!("  {end}"))));
    } else {
        let summary = format!("{program}: {}", outcome::summary(&report.ends));
        // Commands and paths stay whole: they are there to be copied.
        let whole = |line: &str| line.starts_with("  command:") || line.starts_with("  log:");
        lines.extend(summary.lines().map(|line| if whole(line) { line.into() } else { fold(line) }));
    }
    if let Some(first) = failure {
        let tail = report.tails.get(&first.rank).map(String::as_str).unwrap_or_default();
        if !tail.trim().is_empty() {
            // Before the others that failed: these lines are the first one's.
            let others = lines.iter().position(|line| line.starts_with("  then ")).unwrap_or(lines.len());
            let said =
                std::iter::once("  its last lines:".into()).chain(tail.lines().map(|line| format!("    {line}")));
            lines.splice(others..others, said);
        }
        lines.extend(report.hints.get(&first.rank).map(|hint| fold(&format!("  hint: {hint}"))));
    }
    if let Some(ms) = report.stood_still_ms {
        lines.push(fold(&format!(
            "  hint: this launcher stood still for {} (suspended, or the machine asleep); hosts end a run whose launcher is silent; \
             `--detach` is for runs that go on without it",
            outcome::duration(ms)
        )));
    }
    lines.extend(logs.filter(|logs| logs.exists()).map(|logs| format!("logs: {}", logs.display())));
    lines.join("\n")
}

/// Unique enough for one lab, and sorted by time.
pub fn new_run_id() -> String {
    let mut bytes = [0u8; 3];
    // Without randomness two runs of the same second would clash; the process id then sets them apart.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes.copy_from_slice(&std::process::id().to_le_bytes()[..3]);
    }
    format!("{}-{:02x}{:02x}{:02x}", jiff::Zoned::now().strftime("%y%m%d-%H%M%S"), bytes[0], bytes[1], bytes[2])
}

/// A time for the name of a log folder in `root` that is not there yet.
pub fn timestamp(root: &str) -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d_%H%M%S").to_string();
    let is_free = |name: &String| !Path::new(root).join(format!("poseidon_log_{name}")).exists();
    let names = std::iter::once(now.clone()).chain((2..100).map(|k| format!("{now}_{k}")));
    names.into_iter().find(is_free).unwrap_or(now)
}

/// A secret for one run.
pub fn new_token() -> Result<Secret, NotBegun> {
    let mut bytes = [0u8; 24];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| NotBegun::Here(format!("no randomness for the run's token: {e}")))?;
    Ok(Secret::new(bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()))
}

pub fn absolute(path: &Path) -> Result<String, NotBegun> {
    let path = std::path::absolute(path).map_err(|e| NotBegun::Here(format!("{}: {e}", path.display())))?;
    let text = path.into_os_string().into_string();
    text.map_err(|path| {
        NotBegun::Wrong(format!("{}: names that are not UTF-8 cannot be sent to other hosts", path.display()))
    })
}

/// This folder, as other hosts may know it: below the home folder by its place there.
pub fn this_folder(fleet: &Fleet) -> Result<String, NotBegun> {
    let here = std::env::current_dir().map_err(|e| NotBegun::Here(format!("this folder cannot be named: {e}")))?;
    let remote = fleet.hosts.iter().any(|h| h.reach != Reach::Local);
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| remote && home.parent().is_some());
    match home.and_then(|home| here.strip_prefix(home).map(Path::to_path_buf).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => Ok("~".into()),
        Some(rest) => absolute_or(&rest, "~/"),
        None => absolute(&here),
    }
}

fn absolute_or(rest: &Path, prefix: &str) -> Result<String, NotBegun> {
    let text = rest.to_str().ok_or_else(|| NotBegun::Wrong(format!("{}: not UTF-8", rest.display())))?;
    Ok(format!("{prefix}{text}"))
}
