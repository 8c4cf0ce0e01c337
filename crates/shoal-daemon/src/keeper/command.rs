//! What exactly is executed for a rank: file, words, environment, folder? Or why can it not be?

use super::lookup;
use super::prepare::{self, Script};
use shoal_core::job::{Program, RankJob};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub type Env = BTreeMap<OsString, OsString>;

#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    pub file: PathBuf,
    /// The first is what the program is called.
    pub words: Vec<String>,
    pub env: Env,
    pub cwd: PathBuf,
    /// The names of the steps before the program, when there are any.
    pub steps: Option<Vec<String>>,
    /// For messages.
    pub name: String,
}

/// Why a rank cannot be started, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cannot {
    pub why: String,
    pub hint: Option<String>,
}

fn cannot<T>(why: String, hint: Option<&str>) -> Result<T, Cannot> {
    Err(Cannot { why, hint: hint.map(Into::into) })
}

/// `~` and `~/...` are the home; anything else is as it stands. Pure.
pub fn expand(path: &str, home: &Path) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.into(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => path.into(),
    }
}

pub fn home(env: &Env) -> PathBuf {
    env.get(OsStr::new("HOME")).filter(|h| !h.is_empty()).map_or_else(|| "/".into(), PathBuf::from)
}

/// Where a rank runs.
pub fn cwd(job: &RankJob, home: &Path) -> PathBuf {
    job.cwd.as_ref().map_or_else(|| home.into(), |cwd| home.join(expand(cwd, home)))
}

pub fn no_cwd(cwd: &Path) -> Cannot {
    let what = if cwd.exists() && !cwd.is_dir() { "is not a folder" } else { "does not exist on this host" };
    let hint = "copy the code to this host first, or name a folder that is on all hosts with --cwd";
    Cannot { why: format!("the working folder {} {what}", cwd.display()), hint: Some(hint.into()) }
}

/// `login`: the environment we were started with. `own`: the folder of our own programs.
pub fn command(run: &str, job: &RankJob, login: Env, own: &Path) -> Result<Command, Cannot> {
    let home = home(&login);
    let cwd = cwd(job, &home);
    if !cwd.is_dir() {
        return Err(no_cwd(&cwd));
    }
    let mut env = environment(run, job, login)?;
    if let Some(venv) = &job.prepare.virtualenv {
        enter_virtualenv(&cwd.join(expand(venv, &home)), &mut env)?;
    }
    let script = prepare::script(&job.prepare);
    if let Some(script) = &script {
        env.insert(prepare::VARIABLE.into(), script.lines.clone().into());
    }
    let steps = script.map(|s| s.steps);
    let (file, words, name) = words(&job.program, steps.is_some(), &env, &cwd, own)?;
    if words.iter().any(|w| w.contains('\0')) {
        return cannot(format!("an argument of `{name}` has a zero byte in it"), None);
    }
    Ok(Command { file, words, env, cwd, steps, name })
}

fn environment(run: &str, job: &RankJob, login: Env) -> Result<Env, Cannot> {
    let mut env = login;
    // A log that is minutes behind is no log. Whoever wants it otherwise says so.
    env.entry("PYTHONUNBUFFERED".into()).or_insert("1".into());
    env.insert("SHOAL_RUN".into(), run.into());
    for (key, value) in &job.env {
        if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
            return cannot(format!("the environment variable `{}` cannot be set", key.escape_default()), None);
        }
        env.insert(key.into(), value.into());
    }
    env.entry("PATH".into()).or_insert("/usr/local/bin:/usr/bin:/bin".into());
    if let Some(threads) = threads(&job.env, std::thread::available_parallelism().map_or(1, usize::from)) {
        env.entry("OMP_NUM_THREADS".into()).or_insert(threads.to_string().into());
    }
    Ok(env)
}

/// Workers that share a host share its processors: libraries that start a thread for each of them in every worker are many times
/// slower than one thread. Nothing for a worker that has the host to itself. Pure.
fn threads(env: &BTreeMap<String, String>, processors: usize) -> Option<usize> {
    let neighbours = env.get("LOCAL_WORLD_SIZE")?.parse::<usize>().ok().filter(|n| *n > 1)?;
    Some((processors / neighbours).max(1))
}

pub(crate) fn enter_virtualenv(root: &Path, env: &mut Env) -> Result<(), Cannot> {
    let bin = root.join("bin");
    if !bin.join("python").exists() {
        let python = bin.join("python");
        let why = if python.is_symlink() { "leads nowhere" } else { "does not exist" };
        return cannot(
            format!("{} is no virtualenv on this host: its bin/python {why}", root.display()),
            Some("make it on this host (python3 -m venv), or put it on a drive that all hosts share"),
        );
    }
    let mut path = bin.into_os_string();
    if let Some(old) = env.get(OsStr::new("PATH")).filter(|p| !p.is_empty()) {
        path.push(":");
        path.push(old);
    }
    env.insert("PATH".into(), path);
    env.insert("VIRTUAL_ENV".into(), root.into());
    env.remove(OsStr::new("PYTHONHOME"));
    Ok(())
}

/// File, words and name of what is executed.
fn words(
    program: &Program,
    prepared: bool,
    env: &Env,
    cwd: &Path,
    own: &Path,
) -> Result<(PathBuf, Vec<String>, String), Cannot> {
    let sh = |script: String, rest: &[String]| {
        let words = ["sh", "-c", &script, "sh"].map(String::from).into_iter().chain(rest.iter().cloned()).collect();
        (PathBuf::from("/bin/sh"), words)
    };
    let argv = match program {
        Program::Shell { line, append } => {
            // Nothing is put behind the line unless there is something to append: it may end in a comment or a `&`.
            let line = if append.is_empty() { line.clone() } else { format!("{line} \"$@\"") };
            let script = if prepared { Script::wrapper(&prepare::exec_line(&line)) } else { line };
            let (file, words) = sh(script, append);
            return Ok((file, words, "sh".into()));
        }
        Program::Argv(argv) => argv.clone(),
        Program::Own { name, args } => {
            if name.is_empty() || name.contains('/') || name == ".." {
                return cannot(format!("`{name}` is none of our programs"), None);
            }
            let file = own.join(name).to_string_lossy().into_owned();
            std::iter::once(file).chain(args.iter().cloned()).collect()
        }
    };
    let Some(name) = argv.first().filter(|n| !n.is_empty()).cloned() else {
        return cannot("the command is empty".into(), None);
    };
    if prepared {
        let (file, words) = sh(Script::wrapper(prepare::EXEC_WORDS), &argv);
        return Ok((file, words, name));
    }
    let search = env.get(OsStr::new("PATH")).cloned().unwrap_or_default();
    Ok((lookup::find(&name, &search, cwd)?, argv, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::job::Prepare;
    use shoal_core::rank::Rank;

    fn job(program: Program) -> RankJob {
        RankJob {
            rank: Rank::Master,
            program,
            env: BTreeMap::from([("A".into(), "job".into())]),
            cwd: Some("~".into()),
            log: "x".into(),
            prepare: Prepare::default(),
        }
    }

    fn login() -> Env {
        [("HOME", "/"), ("PATH", "/usr/bin:/bin"), ("A", "login")].map(|(k, v)| (k.into(), v.into())).into()
    }

    #[test]
    fn words_environment_and_folder() {
        let command =
            command("r1", &job(Program::Argv(vec!["sh".into(), "a b".into()])), login(), Path::new("/own")).unwrap();
        assert!(command.file.ends_with("bin/sh"));
        assert_eq!(command.words, ["sh", "a b"]);
        assert_eq!(command.cwd, Path::new("/"));
        let get = |key: &str| command.env[OsStr::new(key)].to_str().unwrap();
        assert_eq!((get("A"), get("PYTHONUNBUFFERED"), get("SHOAL_RUN")), ("job", "1", "r1"));
    }

    #[test]
    fn workers_that_share_a_host_share_its_processors() {
        let among =
            |size: &str, processors| threads(&BTreeMap::from([("LOCAL_WORLD_SIZE".into(), size.into())]), processors);
        assert_eq!(among("4", 16), Some(4));
        assert_eq!(among("4", 2), Some(1));
        assert_eq!(among("1", 16), None);
        assert_eq!(threads(&BTreeMap::new(), 16), None);
    }

    #[test]
    fn a_line_is_left_alone_unless_something_is_appended() {
        let line = |append: &[&str]| {
            let program =
                Program::Shell { line: "a # b".into(), append: append.iter().map(|s| s.to_string()).collect() };
            command("r", &job(program), login(), Path::new("/own")).unwrap().words
        };
        assert_eq!(line(&[]), ["sh", "-c", "a # b", "sh"]);
        assert_eq!(line(&["$x"]), ["sh", "-c", "a # b \"$@\"", "sh", "$x"]);
    }

    #[test]
    fn what_cannot_be_executed_says_why() {
        let why = |program| command("r", &job(program), login(), Path::new("/own")).unwrap_err().why;
        assert_eq!(why(Program::Argv(vec![])), "the command is empty");
        assert_eq!(
            why(Program::Argv(vec!["no-such".into()])),
            "command `no-such` was not found; PATH is /usr/bin:/bin"
        );
        assert!(why(Program::Own { name: "../sh".into(), args: vec![] }).contains("none of our programs"));
        assert!(why(Program::Own { name: "ps_master".into(), args: vec![] }).contains("/own/ps_master"));
        assert_eq!(expand("~/x", Path::new("/h")), Path::new("/h/x"));
        assert_eq!(expand("~x", Path::new("/h")), Path::new("~x"));
    }
}
