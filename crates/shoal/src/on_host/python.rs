//! The Python that programs of this fleet find: after its virtualenv, conda environment and modules, as for ranks.

use super::bounded::program;
use super::items::expand;
use shoal_core::checkup::facts::{Item, Python};
use shoal_core::job::Prepare;
use shoal_core::quote::is_variable_name;
use shoal_daemon::keeper::prepare::{PROGRESS_FD, Script, VARIABLE, script};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// Begins the line we look for: modules and environments may print theirs.
const MARK: &str = "shoal-python|";
const QUESTION: &str = "import sys
try:
    from importlib.metadata import version
    shoal = version('shoal')
except Exception:
    shoal = ''
print('shoal-python|%d.%d.%d|%s|%s' % (sys.version_info[:3] + (sys.executable, shoal)))";
const FIND: &str = r#"p=$(command -v python3 || command -v python) || { echo "neither python3 nor python is in PATH" >&2; exit 127; }
exec "$p" -c "$1""#;

pub fn python(prepare: &Prepare, env: &BTreeMap<String, String>, limit: Duration) -> Item<Python> {
    let mut command = match &prepare.virtualenv {
        Some(venv) => {
            let python = expand(venv).join("bin/python");
            if !python.exists() {
                let why = if python.is_symlink() { "leads nowhere" } else { "does not exist" };
                return Err(format!("{} {why}", python.display()));
            }
            let mut command = Command::new(python);
            command.args(["-c", QUESTION]).env_remove("PYTHONHOME");
            command
        }
        None => Command::new("sh"),
    };
    // What the system cannot take as a variable would be a panic; ranks with it do not start, and say so.
    command.envs(env.iter().filter(|(name, value)| is_variable_name(name) && !value.contains('\0')));
    let mut steps = Vec::new();
    if prepare.virtualenv.is_none() {
        // Setup lines are left out: they may take long, and change things.
        let before = script(&Prepare { setup: Vec::new(), ..prepare.clone() });
        let line = match before {
            Some(before) => {
                steps = before.steps;
                command.env(VARIABLE, before.lines);
                format!("exec {PROGRESS_FD}>&2\n{}", Script::wrapper(FIND))
            }
            None => FIND.into(),
        };
        command.args(["-c", &line, "sh", QUESTION]);
    }
    let Some(said) = program(command, limit)? else { return Err("it cannot be run".into()) };
    if let Some(python) = said.output.lines().find_map(read) {
        return Ok(python);
    }
    // The last number on stderr is the step that failed.
    let step = said.errors.lines().rev().find_map(|line| steps.get(line.trim().parse::<usize>().ok()?));
    Err(step.map_or_else(|| said.complaint(), |step| format!("{step} fails: {}", said.complaint())))
}

fn read(line: &str) -> Option<Python> {
    let mut words = line.split_once(MARK)?.1.splitn(3, '|').map(str::to_string);
    let (version, path, shoal) = (words.next()?, words.next()?, words.next()?);
    Some(Python { path, version, shoal: Some(shoal).filter(|shoal| !shoal.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_among_other_words() {
        let python = read("noise shoal-python|3.11.2|/usr/bin/python3|0.1.0").expect("an answer");
        assert_eq!((python.version.as_str(), python.shoal.as_deref()), ("3.11.2", Some("0.1.0")));
        assert_eq!(read("shoal-python|3.11.2|/p|").and_then(|p| p.shoal), None);
        assert_eq!(read("Python 3"), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let limit = Duration::from_secs(20);
        let venv = Prepare { virtualenv: Some("/no/such/venv".into()), ..Prepare::default() };
        assert_eq!(python(&venv, &BTreeMap::new(), limit), Err("/no/such/venv/bin/python does not exist".into()));
        let conda = Prepare { conda: Some("no-such-environment".into()), ..Prepare::default() };
        assert!(python(&conda, &BTreeMap::new(), limit).is_err_and(|why| why.contains("conda")));
    }
}
