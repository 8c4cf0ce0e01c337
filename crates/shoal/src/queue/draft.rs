//! What does the command line of `shoal sweep` ask for? A file, a grid or JSON, with what flags say instead.

use crate::args::sweep::{Args, Way};
use crate::commands::run::NotBegun;
use crate::queue::snapshot::plainly;
use shoal_core::diagnostic::Diagnostics;
use shoal_core::queue::cells::{self, MOST_RUNS};
use shoal_core::queue::is_sweep_name;
use shoal_core::queue::read::{self, Draft, Folder};
use shoal_core::queue::render::env::is_ours;
use shoal_core::queue::sweep::Pass;
use shoal_core::queue::{grid, read::name_from_folder};
use shoal_core::quote::is_variable_name;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Larger files are not sweeps; JSON from a program may have a hundred thousand configurations.
const MOST_FILE: u64 = 4 << 20;
const MOST_JSON: u64 = 256 << 20;
/// How long whoever feeds our stdin may think.
const STDIN_WAIT: Duration = Duration::from_secs(600);

/// What is to be submitted, and the folder that relative paths in it start from.
pub struct Asked {
    pub draft: Draft,
    pub base: PathBuf,
    /// Of the sweep, if nobody said another.
    pub name: String,
}

pub fn asked(args: &Args) -> Result<Asked, NotBegun> {
    let here = std::env::current_dir().map_err(|e| NotBegun::Here(format!("this folder cannot be named: {e}")))?;
    let (mut draft, base, name) = match (&args.file, &args.from_json) {
        (Some(file), _) => from_file(file)?,
        (None, Some(file)) => {
            let text = json_text(file)?;
            let name = name_from_folder(&here.display().to_string());
            (read::from_json(&text).map_err(wrong)?, here.clone(), name)
        }
        (None, None) => {
            if args.command.is_empty() && args.grid.is_empty() && args.zip.is_empty() {
                return Err(NotBegun::Wrong(
                    "neither a file nor a command is given\n  hint: `shoal sweep sweep.yaml`, or `shoal sweep --grid lr=0.1,0.01 -- python train.py`"
                        .into(),
                ));
            }
            let words = grid::Words {
                grid: args.grid.clone(),
                zip: args.zip.clone(),
                set: args.set.clone(),
                when: args.when.clone(),
                pass: pass(&args.pass),
                argv: args.command.clone(),
            };
            (grid::draft(&words).map_err(wrong)?, here.clone(), name_from_folder(&here.display().to_string()))
        }
    };
    draft.warnings.iter().for_each(|warning| eprintln!("{warning}\n"));
    replace(&mut draft, args, &here)?;
    Ok(Asked { draft, base, name })
}

fn wrong(found: Vec<shoal_core::diagnostic::Diagnostic>) -> NotBegun {
    NotBegun::Wrong(Diagnostics(found).to_string())
}

fn from_file(file: &Path) -> Result<(Draft, PathBuf, String), NotBegun> {
    let shown = file.display();
    let cannot = |e: std::io::Error| NotBegun::Wrong(format!("{shown}: {}", plainly(&e)));
    let about = std::fs::metadata(file).map_err(cannot)?;
    if about.is_dir() {
        return Err(NotBegun::Wrong(format!("{shown} is a folder; a sweep's file was expected")));
    }
    if about.len() > MOST_FILE {
        let hint = "lists of that length come from a program: `--from-json`";
        return Err(NotBegun::Wrong(format!(
            "{shown} has {} bytes, more than {MOST_FILE}\n  hint: {hint}",
            about.len()
        )));
    }
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|f| f.take(MOST_FILE).read_to_end(&mut bytes));
    read.map_err(cannot)?;
    let text = utf8(bytes, &shown.to_string())?;
    let draft = read::sweep(&text, &shown.to_string()).map_err(wrong)?;
    let whole = std::path::absolute(file).map_err(cannot)?;
    let base = whole.parent().unwrap_or(Path::new("/")).to_path_buf();
    // `sweep.yaml` says nothing; `mlp.yaml` does.
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("sweep");
    let name = if stem == "sweep" { base.display().to_string() } else { stem.to_string() };
    Ok((draft, base, name_from_folder(&name)))
}

fn json_text(file: &Path) -> Result<String, NotBegun> {
    let shown = if file == Path::new("-") { "stdin".to_string() } else { file.display().to_string() };
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let path = file.to_path_buf();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = match path == Path::new("-") {
            true => std::io::stdin().lock().take(MOST_JSON + 1).read_to_end(&mut bytes),
            false => std::fs::File::open(path).and_then(|f| f.take(MOST_JSON + 1).read_to_end(&mut bytes)),
        };
        drop(send.send(read.map(|_| bytes)));
    });
    match receive.recv_timeout(STDIN_WAIT) {
        Ok(Ok(bytes)) if bytes.len() as u64 > MOST_JSON => {
            Err(NotBegun::Wrong(format!("{shown} has more than {} MiB of JSON", MOST_JSON >> 20)))
        }
        Ok(Ok(bytes)) => utf8(bytes, &shown),
        Ok(Err(e)) => Err(NotBegun::Wrong(format!("{shown}: {}", plainly(&e)))),
        Err(_) => Err(NotBegun::Wrong(format!("the end of {shown} did not come within {} s", STDIN_WAIT.as_secs()))),
    }
}

fn utf8(bytes: Vec<u8>, shown: &str) -> Result<String, NotBegun> {
    String::from_utf8(bytes)
        .map_err(|e| NotBegun::Wrong(format!("{shown}: not UTF-8 from byte {} on", e.utf8_error().valid_up_to())))
}

/// `None`: nobody said.
fn pass(ways: &[Way]) -> Option<Pass> {
    let has = |way| ways.contains(&way);
    (!ways.is_empty()).then(|| Pass { flags: has(Way::Flags), env: has(Way::Env), file: has(Way::File) })
}

/// What flags say counts instead of what the file says.
fn replace(draft: &mut Draft, args: &Args, here: &Path) -> Result<(), NotBegun> {
    if let Some(name) = &args.name {
        if !is_sweep_name(name) {
            let rule = "at most 64 letters, digits, `.`, `_` and `-`, not starting with `-` or `.`";
            return Err(NotBegun::Wrong(format!("`{name}` cannot be a sweep's name: {rule}")));
        }
        draft.name = Some(name.clone());
    }
    draft.reps = args.reps.unwrap_or(draft.reps);
    draft.rules.seed = args.seed.unwrap_or(draft.rules.seed);
    draft.rules.priority = args.priority.unwrap_or(draft.rules.priority);
    draft.rules.retries = args.retries.unwrap_or(draft.rules.retries);
    draft.rules.time_limit_seconds = args.time_limit.or(draft.rules.time_limit_seconds);
    if let Some(grace) = args.grace {
        draft.rules.grace_seconds = u32::try_from(grace).unwrap_or(u32::MAX);
    }
    draft.wants.gpus_milli = args.gpus.unwrap_or(draft.wants.gpus_milli);
    draft.wants.cpus_milli = args.cpus.unwrap_or(draft.wants.cpus_milli);
    draft.wants.memory_bytes = args.memory.or(draft.wants.memory_bytes);
    draft.wants.gpu_memory_bytes = args.gpu_memory.or(draft.wants.gpu_memory_bytes);
    if draft.wants.gpu_memory_bytes.is_some() && draft.wants.gpus_milli == 0 {
        return Err(NotBegun::Wrong(
            "--gpu-memory without --gpus\n  hint: say how much of a device a run computes with: `--gpus 0.25`".into(),
        ));
    }
    if !args.on.is_empty() {
        draft.wants.on.clone_from(&args.on);
    }
    if !args.after.is_empty() {
        draft.after.clone_from(&args.after);
    }
    if let Some(results) = &args.results {
        draft.rules.results = Some(absolute(Path::new(results))?);
    }
    if let Some(pass) = pass(&args.pass) {
        draft.pass = pass;
    }
    for (name, value) in &args.env {
        if !is_variable_name(name) {
            let rule = "letters, digits and `_`, not starting with a digit";
            return Err(NotBegun::Wrong(format!("`{name}` is no name of an environment variable: {rule}")));
        }
        if is_ours(name) {
            return Err(NotBegun::Wrong(format!("`{name}` is set by every run itself\n  hint: choose another name")));
        }
        draft.env.insert(name.clone(), value.clone());
    }
    // The file was checked with its own `reps`.
    let cells = draft.parts.iter().map(cells::count).fold(0, u64::saturating_add);
    let runs = cells.saturating_mul(u64::from(draft.reps));
    if runs > MOST_RUNS {
        let hint = "fewer --reps, shorter lists, a condition (`when`), or several sweeps of it";
        let what = format!(
            "{cells} configurations, {} times each, are {runs} runs; a sweep has at most {MOST_RUNS}",
            draft.reps
        );
        return Err(NotBegun::Wrong(format!("{what}\n  hint: {hint}")));
    }
    folders(draft, args, here)
}

fn folders(draft: &mut Draft, args: &Args, here: &Path) -> Result<(), NotBegun> {
    let given = |path: &PathBuf, alone: bool| -> Result<Folder, NotBegun> {
        let whole = absolute(path)?;
        // By the name it was given, where it has one: what is a link here is found under the link's name.
        let named = path.file_name().map_or(Path::new(&whole), |_| path.as_path());
        let name = named.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_string();
        let at = if alone && Path::new(&whole).is_dir() { String::new() } else { name };
        Ok(Folder { path: whole, at, ignore: Vec::new() })
    };
    if args.no_source {
        draft.source.clear();
        if draft.folder.is_none() {
            draft.folder = Some(absolute(here)?);
        }
    }
    if !args.source.is_empty() {
        draft.folder = None;
        let alone = args.source.len() == 1;
        draft.source = args.source.iter().map(|path| given(path, alone)).collect::<Result<_, _>>()?;
    }
    for path in &args.data {
        draft.data.push(given(path, false)?);
    }
    if draft.folder.is_some() && !draft.data.is_empty() {
        let hint = "give the program the data's path, or let the source be copied too";
        return Err(NotBegun::Wrong(format!(
            "data is found in a run's own folder, and without source there is none\n  hint: {hint}"
        )));
    }
    Ok(())
}

/// Without `..` and links, as it is known on every host that has it.
fn absolute(path: &Path) -> Result<String, NotBegun> {
    let whole = std::path::absolute(path).map_err(|e| NotBegun::Wrong(format!("{}: {e}", path.display())))?;
    let whole = whole.canonicalize().unwrap_or(whole);
    whole.into_os_string().into_string().map_err(|path| {
        NotBegun::Wrong(format!("{}: names that are not UTF-8 cannot be sent to other hosts", path.display()))
    })
}
