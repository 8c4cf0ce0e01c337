//! A machine with a queue of its own: a home, a store and a folder to work in that go away with it, and `shoal` in them. Whatever becomes of a test,
//! the daemon and all that it runs end with the desk.

use super::snapshot::{self, Redactions};
use serde_json::Value;
use shoal_core::quote::join;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const BOUND: Duration = Duration::from_secs(60);

pub struct Desk {
    root: tempfile::TempDir,
    ssh_config: Option<PathBuf>,
    hidden: Vec<(String, String)>,
}

#[allow(clippy::new_without_default, reason = "a desk is made, not assumed")]
impl Desk {
    pub fn new() -> Desk {
        let root = tempfile::Builder::new().prefix("desk").tempdir().expect("a folder");
        for name in ["home", "run", "work"] {
            std::fs::create_dir(root.path().join(name)).expect("a folder");
        }
        Desk { root, ssh_config: None, hidden: Vec::new() }
    }

    /// From which the hosts of a test are reached.
    pub fn with_ssh(config: PathBuf) -> Desk {
        let mut desk = Desk::new();
        desk.ssh_config = Some(config);
        desk
    }

    /// Where commands run.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn store(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// Looks otherwise from time to time; shown as `with`.
    pub fn hide(&mut self, what: &str, with: &str) {
        self.hidden.push((what.into(), with.into()));
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn shoal(&self, args: &[&str]) -> Command {
        // Another one where tests run apart from what is built meanwhile.
        let program = std::env::var_os("SHOAL_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_shoal").into());
        let mut command = Command::new(program);
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("SHOAL_") || key.starts_with("XDG_")) {
            command.env_remove(key);
        }
        let at = |name: &str| self.root.path().join(name);
        command.args(args).current_dir(self.work()).env("HOME", at("home")).env("XDG_RUNTIME_DIR", at("run"));
        command.env("SHOAL_STORE", self.store()).env("SHOAL_HOST_DIR", at("host")).env("COLUMNS", "120");
        command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").env("SHOAL_SSH_PERSIST", "10");
        if let Some(config) = &self.ssh_config {
            command.env("SHOAL_SSH_CONFIG", config);
        }
        command.stdin(Stdio::null());
        command
    }

    /// To its end; what it said is shown if the test fails.
    pub fn ends(&self, args: &[&str]) -> Output {
        let output = self.shoal(args).output().expect("shoal runs");
        eprintln!("$ shoal {}\n{}{}", join(args), text(&output.stdout), text(&output.stderr));
        output
    }

    /// What it printed; it must end well.
    #[track_caller]
    pub fn says(&self, args: &[&str]) -> String {
        let output = self.ends(args);
        assert!(output.status.success(), "{args:?}: {:?}\n{}", output.status.code(), text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let said = self.says(args);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}\n{said}"))
    }

    /// It must end with this code, and say all of these on stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, args: &[&str], said: &[&str]) {
        let output = self.ends(args);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{stderr}");
        for what in said {
            assert!(stderr.contains(what), "no `{what}` in what {args:?} said:\n{stderr}");
        }
    }

    /// The command and what it said are as in `tests/cli/NAME.txt`.
    #[track_caller]
    pub fn looks_like(&self, name: &str, args: &[&str]) {
        let output = self.ends(args);
        let code = output.status.code().unwrap_or(-1);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        snapshot::check(name, &self.shown(&format!("$ shoal {}\n{said}[exit code {code}]\n", join(args))));
    }

    pub fn shown(&self, text: &str) -> String {
        let mut redactions = Redactions::default();
        redactions.replace(&self.work().to_string_lossy(), "[folder]");
        redactions.replace(&self.root.path().to_string_lossy(), "[desk]");
        for (what, with) in &self.hidden {
            redactions.replace(what, with);
        }
        redactions.replace(&super::host(), "[here]");
        let text = redactions.apply(text);
        // Widths of columns follow from what is hidden.
        text.lines()
            .map(|line| {
                line.split("   ")
                    .filter(|part| !part.trim().is_empty())
                    .map(str::trim_end)
                    .collect::<Vec<_>>()
                    .join("   ")
                    + "\n"
            })
            .collect()
    }

    /// Waits until `shoal ps --json` has this sweep in such a state; gives its row.
    #[track_caller]
    pub fn until(&self, sweep: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + BOUND;
        loop {
            let output = self.shoal(&["ps", "--json"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let row = all["sweeps"].as_array().into_iter().flatten().find(|row| row["name"] == sweep);
            if let Some(row) = row.filter(|row| is(row)) {
                return row.clone();
            }
            assert!(Instant::now() < end, "waited {BOUND:?} for {sweep} to be {what}; now it is\n{}", self.now(sweep));
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// What the queue says of itself, for whoever has to find out why a test failed.
    fn now(&self, sweep: &str) -> String {
        let says = |args: &[&str]| {
            let output = self.shoal(args).output().expect("shoal runs");
            format!("$ shoal {}\n{}{}", join(args), text(&output.stdout), text(&output.stderr))
        };
        [&["ps", "--sweeps"][..], &["ps", sweep, "--all"], &["why", sweep], &["hosts"]].map(says).join("\n")
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if self.store().exists() {
            let ended = self.shoal(&["serve", "--stop", "--stop-runs"]).output();
            if let Ok(output) = ended.as_ref().map(|output| text(&output.stderr)) {
                eprint!("{output}");
            }
            if std::thread::panicking() {
                eprintln!(
                    "--- daemon.log\n{}",
                    std::fs::read_to_string(self.store().join("daemon.log")).unwrap_or_default()
                );
            }
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file's content, if it is there.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
