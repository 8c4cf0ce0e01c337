//! One process under test: its output in files, its end awaited with a bound, its life ended with its owner's.

use super::until;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub struct Process {
    pub name: String,
    child: Child,
    folder: PathBuf,
    ended: Option<(ExitStatus, Instant)>,
}

impl Process {
    /// Starts `command` under a name that is unique in `folder`, with none of the caller's settings.
    pub fn start(name: &str, folder: &Path, command: &mut Command) -> Process {
        for (key, _) in std::env::vars() {
            let ours = key.starts_with("SHOAL_") || key == "RANK" || key == "WORLD_SIZE";
            if ours && !command.get_envs().any(|(k, _)| k == key.as_str()) {
                command.env_remove(key);
            }
        }
        let file = |kind: &str| std::fs::File::create(folder.join(format!("{name}.{kind}"))).expect("an output file");
        let child = command
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        Process { name: name.into(), child, folder: folder.into(), ended: None }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read(&self, kind: &str) -> String {
        let bytes = std::fs::read(self.folder.join(format!("{}.{kind}", self.name))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn stdout(&self) -> String {
        self.read("out")
    }

    pub fn stderr(&self) -> String {
        self.read("err")
    }

    /// Sends a signal by its name, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([&format!("-{signal}"), &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|s| s.success()), "cannot send {signal} to {}", self.name);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap_or_else(|e| panic!("cannot kill {}: {e}", self.name));
    }

    /// The exit status and when it was first seen, if the process has ended.
    pub fn poll(&mut self) -> Option<(ExitStatus, Instant)> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("wait").map(|status| (status, Instant::now()));
        }
        self.ended
    }

    /// The exit code (a death by signal is -1); panics with all that was said if it does not end in time.
    pub fn end(&mut self, bound: Duration) -> i32 {
        let deadline = Instant::now() + bound;
        loop {
            if let Some((status, _)) = self.poll() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "{} did not end within {bound:?}; it said:\n{}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    pub fn said(&self) -> String {
        format!("--- {} stdout\n{}--- {} stderr\n{}", self.name, self.stdout(), self.name, self.stderr())
    }

    /// Waits until stderr holds `text`, and returns what follows it on its line.
    pub fn says(&self, text: &str, bound: Duration) -> String {
        until(bound, &format!("{} to say `{text}`", self.name), || {
            let all = self.stderr();
            let at = all.find(text)? + text.len();
            all[at..].find('\n').map(|end| all[at..at + end].to_string())
        })
    }

    /// What a worker process reported so far (see `worker::report`).
    pub fn events(&self) -> Vec<Value> {
        let all = self.stdout();
        let whole = all.rfind('\n').map_or("", |end| &all[..end]);
        whole.lines().filter_map(|l| l.strip_prefix("@ ")).filter_map(|l| serde_json::from_str(l).ok()).collect()
    }

    /// Waits for the first event that `wanted` accepts.
    pub fn event(&mut self, what: &str, bound: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + bound;
        loop {
            let over = self.poll().is_some();
            if let Some(found) = self.events().into_iter().find(&wanted) {
                return found;
            }
            assert!(!over && Instant::now() < deadline, "no {what} from {}; it said:\n{}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// The error this worker ended with.
    pub fn error(&self) -> Value {
        let found = self.events().into_iter().find(|e| e["event"] == "error");
        found.unwrap_or_else(|| panic!("{} reported no error; it said:\n{}", self.name, self.said()))
    }

    /// Waits until this worker has completed a step with this number or a later one.
    pub fn reaches_step(&mut self, step: u64) -> Value {
        self.event(&format!("step {step}"), super::LONG, |e| e["step"].as_u64().is_some_and(|s| s >= step))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
