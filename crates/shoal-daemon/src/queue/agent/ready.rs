//! What exactly does the keeper execute for a `Start`: program, words, environment, folder? Or why can it not be?

use super::note::{Note, name};
use super::packages::{self, Question};
use super::pods::{self, Made};
use super::room::{self, Cannot, Entries};
use crate::keeper::command::{Env, enter_virtualenv, expand, home};
use crate::keeper::lookup;
use crate::keeper::prepare::{self, Script};
use crate::queue::keeper::folder::Folder;
use crate::queue::keeper::launch_mark;
use crate::queue::keeper::words::{Prepared, Run};
use shoal_core::fleet::pool::Pool;
use shoal_core::job::Prepare;
use shoal_core::queue::work::{RUN_DIR_MARK, Start};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a program was found is believed this long.
const FOUND_FOR: Duration = Duration::from_secs(2);

pub struct Maker {
    folder: Folder,
    host: String,
    login: Env,
    home: PathBuf,
    entries: Entries,
    found: HashMap<(String, PathBuf), (Instant, PathBuf)>,
    /// Environments that runs share, and what makes them differ: their virtualenv.
    environments: Vec<(Option<PathBuf>, Env)>,
    /// Runs are done by this pool.
    pool: Option<Pool>,
}

impl Maker {
    pub fn new(folder: Folder, host: String, pool: Option<Pool>) -> Maker {
        let mut login: Env = std::env::vars_os().collect();
        // A log that is minutes behind is no log. Whoever wants it otherwise says so.
        login.entry("PYTHONUNBUFFERED".into()).or_insert("1".into());
        login.entry("PATH".into()).or_insert("/usr/local/bin:/usr/bin:/bin".into());
        login.remove(OsStr::new(launch_mark()));
        // What lets an agent in is none of a run's business (SEC-2).
        login.remove(OsStr::new("SHOAL_QUEUE_TOKEN"));
        let home = home(&login);
        Maker {
            folder,
            host,
            login,
            home,
            entries: Entries::default(),
            found: HashMap::new(),
            environments: Vec::new(),
            pool,
        }
    }

    /// For a run whose trees are here. `venv`: what was made of its lock file. A run that can never be is refused, in its turn; an error
    /// if it cannot be now.
    pub fn run(&mut self, start: &Start, venv: Option<&Path>, requirements: Option<String>) -> Result<Run, String> {
        let name = name(&start.attempt, start.rank);
        let room = self.folder.work().join(&name);
        match self.make(start, &name, &room, venv, requirements.clone()) {
            Ok(run) => Ok(run),
            Err(cannot) => {
                let _ = room::remove(&room);
                match cannot {
                    Cannot::Ever(why) => Ok(refused(start, why, requirements)),
                    Cannot::Now(why) => Err(why),
                }
            }
        }
    }

    fn make(
        &mut self,
        start: &Start,
        name: &str,
        room: &Path,
        venv: Option<&Path>,
        requirements: Option<String>,
    ) -> Result<Run, Cannot> {
        let ours = room::make(start, room, &self.folder.trees(), &mut self.entries)?;
        let cwd = match &start.folder {
            None => room.to_path_buf(),
            Some(folder) => self.home.join(expand(folder, &self.home)),
        };
        if start.folder.is_some() && !cwd.is_dir() && self.pool.is_none() {
            return Err(format!("the folder {} is not on host {}", cwd.display(), self.host).into());
        }
        let venv = match (venv, &start.virtualenv) {
            (Some(venv), _) => Some(venv.to_path_buf()),
            (None, Some(venv)) => Some(cwd.join(expand(venv, &self.home))),
            (None, None) => None,
        };
        // In a pod it is the pod's script that enters it.
        let environment = self.environment(venv.clone().filter(|_| self.pool.is_none()))?;
        let text = room.to_str().ok_or("the queue's folder on this host has a name that is not text")?;
        let argv: Vec<String> = start.argv.iter().map(|word| word.replace(RUN_DIR_MARK, text)).collect();
        let first = argv.first().filter(|first| !first.is_empty()).ok_or("the command is empty")?.clone();
        let mut env = start.env.clone();
        let bad =
            |(name, value): &&(String, String)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
        if let Some((name, _)) = env.iter().find(bad) {
            return Err(format!("the environment variable `{}` cannot be set", name.escape_default()).into());
        }
        env.push(("SHOAL_RUN_DIR".into(), text.into()));
        env.push(("SHOAL_METRICS".into(), format!("{text}/metrics.jsonl")));
        if let Some((params, _)) = start.files.iter().find(|(name, _)| name == "params.json") {
            env.push(("SHOAL_PARAMS".into(), format!("{text}/{params}")));
        }
        if let Some(pool) = &self.pool {
            let cwd = cwd.to_str().ok_or("its folder has a name that is not text")?;
            let virtualenv = venv.as_deref().and_then(Path::to_str);
            let made = Made { room: text, cwd, ours, argv: &argv, env, virtualenv, requirements, environment };
            return pods::run(pool, &self.folder, start, made);
        }
        let packages = self.packages(start, &argv, environment, &cwd);
        let (program, argv, prepared) =
            match prepare::script(&Prepare { setup: start.setup.clone(), ..Prepare::default() }) {
                None => (self.find(&first, &env, environment, &cwd)?, argv, None),
                Some(Script { lines, steps }) => {
                    env.push((prepare::VARIABLE.into(), lines));
                    let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
                    let words = [shell.to_string(), "-c".into(), Script::wrapper(prepare::EXEC_WORDS), shell.into()];
                    let prepared = Prepared { steps, program: first };
                    (shell.into(), words.into_iter().chain(argv).collect(), Some(prepared))
                }
            };
        let note = Note { packages, ..Note::of(start, ours, requirements) };
        let note = serde_json::to_string(&note).map_err(|e| e.to_string())?;
        Ok(Run {
            name: name.into(),
            note,
            program: program.to_string_lossy().into_owned(),
            argv,
            environment,
            env,
            cwd: cwd.to_str().ok_or("its folder has a name that is not text")?.into(),
            after: start.after.as_ref().map(|after| super::note::name(after, start.rank)),
            time_limit_ms: start.time_limit_seconds.map(|seconds| seconds.saturating_mul(1000)),
            grace_ms: u64::from(start.grace_seconds) * 1000,
            memory_bytes: start.memory_bytes,
            prepared,
            guarded: start.guarded,
            refused: None,
        })
    }

    /// Has its Python asked what it has, if it is one and was not asked of late; by which name the answer will be found.
    fn packages(&mut self, start: &Start, argv: &[String], environment: u32, cwd: &Path) -> Option<String> {
        let (venv, shared) = self.environments.get(environment as usize)?;
        let is_there = |path: &str| lookup::find(path, OsStr::new(""), cwd).is_ok();
        let word = packages::interpreter(argv, venv.is_some(), is_there)?;
        // Variables that say which run it is make no other environment.
        let own = || start.env.iter().filter(|(name, _)| !name.starts_with("SHOAL_"));
        let said = |name: &str| own().find(|(own, _)| own == name).map_or("", |(_, value)| value.as_str());
        let place = if word.contains('/') { cwd.join(&word) } else { PathBuf::from(&word) };
        let root = venv.as_deref().unwrap_or(Path::new("")).to_string_lossy();
        let key = packages::key(&[
            &start.setup.join("\n"),
            &root,
            &place.to_string_lossy(),
            said("PATH"),
            said("PYTHONPATH"),
            said("LD_LIBRARY_PATH"),
        ]);
        let file = packages::file(&self.folder.packages(), &key);
        if !packages::is_due(&file) {
            return Some(key);
        }
        let mut env = shared.clone();
        env.extend(own().map(|(name, value)| (name.into(), value.into())));
        let ask = [place.to_string_lossy().into_owned(), "-c".into(), packages::SCRIPT.into()];
        let (program, argv) = match prepare::script(&Prepare { setup: start.setup.clone(), ..Prepare::default() }) {
            None => match self.find(&ask[0], &start.env, environment, cwd) {
                Ok(program) => (program, ask[1..].to_vec()),
                // The run itself will say so.
                Err(_) => (PathBuf::from("/nowhere"), Vec::new()),
            },
            Some(Script { lines, .. }) => {
                env.insert(prepare::VARIABLE.into(), lines.into());
                let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
                let quiet =
                    format!("exec {}>/dev/null\n{}", prepare::PROGRESS_FD, Script::wrapper(prepare::EXEC_WORDS));
                (shell.into(), ["-c".into(), quiet, shell.into()].into_iter().chain(ask).collect())
            }
        };
        packages::ask(Question { file, program, argv, env });
        Some(key)
    }

    /// The place of the environment with this virtualenv among those that are sent along.
    fn environment(&mut self, venv: Option<PathBuf>) -> Result<u32, String> {
        if let Some(at) = self.environments.iter().position(|(of, _)| *of == venv) {
            return Ok(at as u32);
        }
        let mut env = self.login.clone();
        if let Some(venv) = &venv {
            enter_virtualenv(venv, &mut env).map_err(|cannot| cannot.why)?;
        }
        self.environments.push((venv, env));
        Ok(self.environments.len() as u32 - 1)
    }

    /// Those of the runs that were made since; the next ones begin anew.
    pub fn take_environments(&mut self) -> Vec<Vec<(String, String)>> {
        let text = |env: Env| env.into_iter().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        std::mem::take(&mut self.environments).into_iter().map(|(_, env)| text(env).collect()).collect()
    }

    fn find(&mut self, word: &str, env: &[(String, String)], shared: u32, cwd: &Path) -> Result<PathBuf, String> {
        let own = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| OsStr::new(path));
        let shared = self.environments.get(shared as usize).and_then(|(_, env)| env.get(OsStr::new("PATH")));
        let search = own.or(shared.map(|path| path.as_os_str())).unwrap_or_default().to_owned();
        // A word with a slash, or a search from here, depends on the folder.
        let here = word.contains('/') || !std::env::split_paths(&search).all(|folder| folder.is_absolute());
        let key = (word.to_string(), if here { cwd.to_path_buf() } else { PathBuf::from(&search) });
        if let Some((at, path)) = self.found.get(&key)
            && at.elapsed() < FOUND_FOR
        {
            return Ok(path.clone());
        }
        let found = lookup::find(word, &search, cwd).map_err(|cannot| {
            let hint = cannot.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            let missing = !word.contains('/') && cannot.why.contains("was not found");
            let path = search.to_string_lossy();
            match missing {
                true => format!("there is no program `{word}` in PATH of host {} ({path}){hint}", self.host),
                false => format!("{} (host {}){hint}", cannot.why, self.host),
            }
        })?;
        if self.found.len() > 1000 {
            self.found.clear();
        }
        self.found.insert(key, (Instant::now(), found.clone()));
        Ok(found)
    }
}

/// Takes its turn like any other, and then ends as not started.
pub fn refused(start: &Start, why: String, requirements: Option<String>) -> Run {
    Run {
        name: name(&start.attempt, start.rank),
        note: serde_json::to_string(&Note::of(start, Vec::new(), requirements)).unwrap_or_default(),
        program: String::new(),
        argv: Vec::new(),
        environment: 0,
        env: Vec::new(),
        cwd: String::new(),
        after: start.after.as_ref().map(|after| name(after, start.rank)),
        time_limit_ms: None,
        grace_ms: 0,
        memory_bytes: None,
        prepared: None,
        guarded: false,
        refused: Some(why),
    }
}
