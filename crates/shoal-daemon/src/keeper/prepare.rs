//! Which shell lines come before the program? (pure)
//!
//! They travel in an environment variable and not in argv: setup lines may export secrets (SEC-2). Before each step its
//! number goes to descriptor 9, so that a failure can be named; `ok` means that the program's turn has come.

use shoal_core::job::{FIND_CONDA, FIND_MODULE, Prepare};

/// Where the wrapper finds the lines.
pub const VARIABLE: &str = "SHOAL_PREPARE";
/// Where it says how far it is. One digit: a POSIX shell knows no more.
pub const PROGRESS_FD: i32 = 9;

/// The lines, and what each numbered step is called.
#[derive(Debug, PartialEq, Eq)]
pub struct Script {
    pub lines: String,
    pub steps: Vec<String>,
}

/// Nothing if no shell is needed.
pub fn script(prepare: &Prepare) -> Option<Script> {
    if prepare.conda.is_none() && prepare.modules.is_empty() && prepare.setup.is_empty() {
        return None;
    }
    let mut script = Script { lines: "set -e\n".into(), steps: Vec::new() };
    if !prepare.modules.is_empty() {
        script.step("finding the `module` command".into(), FIND_MODULE);
    }
    for module in &prepare.modules {
        script.step(format!("`module load {module}`"), &format!("module load {}", quote(module)));
    }
    if let Some(env) = &prepare.conda {
        script.step("finding conda".into(), FIND_CONDA);
        script.step(format!("`conda activate {env}`"), &format!("conda activate {}", quote(env)));
    }
    for (i, line) in prepare.setup.iter().enumerate() {
        script.step(format!("setup line {}, `{}`,", i + 1, line.lines().next().unwrap_or_default()), line);
    }
    script.lines.push_str("set +e\n");
    Some(script)
}

impl Script {
    fn step(&mut self, name: String, lines: &str) {
        // `set -e` does not see `a && b`; the check after it does.
        let n = self.steps.len();
        self.lines
            .push_str(&format!("echo {n} >&{PROGRESS_FD}\n{lines}\nshoal_s=$?; [ $shoal_s = 0 ] || exit $shoal_s\n"));
        self.steps.push(name);
    }

    /// For `sh -c`: the lines, then `program`, which finds its words in `"$@"`.
    pub fn wrapper(program: &str) -> String {
        format!(
            "shoal_p=${VARIABLE}; unset {VARIABLE}; eval \"$shoal_p\"; unset shoal_p shoal_s shoal_c shoal_f\n{program}"
        )
    }
}

/// For programs given as words: they are looked up after the preparation, which may have changed PATH and folder.
pub const EXEC_WORDS: &str = r#"command -v -- "$1" >/dev/null 2>&1 || { echo "missing $PATH" >&9; exit 127; }
echo ok >&9; exec 9>&-
exec "$@""#;

/// For a shell line.
pub fn exec_line(line: &str) -> String {
    format!("echo ok >&9; exec 9>&-\n{line}")
}

/// One exact word for a POSIX shell.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// What went wrong, from what the wrapper said on its descriptor; nothing once the program's turn had come. Pure.
pub fn failure(said: &str, steps: &[String], argv0: &str, ended: &str) -> Option<String> {
    let last = said.lines().rev().find(|l| !l.is_empty()).unwrap_or("");
    if last == "ok" {
        return None;
    }
    if let Some(path) = last.strip_prefix("missing ") {
        return Some(format!("command `{argv0}` was not found after the preparation; PATH is {path}"));
    }
    let step = last.parse().ok().and_then(|n: usize| steps.get(n));
    Some(format!("{} failed ({ended})", step.map_or("the preparation", String::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_shell_unless_asked_for_and_failures_are_named() {
        assert_eq!(script(&Prepare { virtualenv: Some("~/v".into()), ..Prepare::default() }), None);
        let script = script(&Prepare { setup: vec!["a".into(), "b".into()], ..Prepare::default() }).unwrap();
        assert_eq!(
            failure("0\n1\n", &script.steps, "x", "exited with code 3").as_deref(),
            Some("setup line 2, `b`, failed (exited with code 3)")
        );
        assert_eq!(failure("0\n1\nok\n", &script.steps, "x", "exited with code 3"), None);
        assert!(failure("missing /bin", &script.steps, "pyhton", "").unwrap().contains("`pyhton`"));
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
