//! `shoal run` and `psd_run` under test: each launched from a folder of its own, here or at hosts over real ssh.
//!
//! Hosts have `/tmp`, `/root` and `/home` for themselves, so a path below them is another file there than here. Every rank of a case has
//! the case's mark in its environment, by which what is left of it is found wherever it runs.

use super::snapshot::{self, Redactions};
use super::{LONG, Process, until};
use shoal_core::quote::join;
use shoal_testkit::{Hosts, HostsSpec};
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What the issue allows until nothing of a gang is left.
pub const GONE: Duration = Duration::from_secs(10);
/// Cases that run at the same time; most of them wait.
const AT_ONCE: usize = 4;
const MARK: &str = "SHOAL_TEST_MARK";

/// What a case does.
pub type Body = fn(&Case);

/// A place to launch from, with hosts to launch at.
pub struct Lab {
    hosts: Option<Hosts>,
    folder: TempDir,
    cases: AtomicU32,
}

impl Lab {
    /// No hosts: for what this machine can show by itself.
    pub fn local() -> Lab {
        let folder = tempfile::Builder::new().prefix("lab").tempdir().expect("a folder");
        for name in ["home", "run"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Lab { hosts: None, folder, cases: AtomicU32::new(0) }
    }

    pub fn up(name: &str, count: usize) -> Option<Lab> {
        Self::with(HostsSpec::new(name, count))
    }

    pub fn with(spec: HostsSpec) -> Option<Lab> {
        let hosts = Hosts::up_or_skip(spec)?;
        Some(Lab { hosts: Some(hosts), ..Lab::local() })
    }

    pub fn hosts(&self) -> &Hosts {
        self.hosts.as_ref().expect("a lab with hosts")
    }

    /// The launching user's home, where its ssh files would be.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Runs a shell script on host `i`, past ssh, and gives what it printed.
    pub fn on(&self, i: usize, script: &str) -> String {
        let output = self.hosts().host(i).command("sh").args(["-c", script]).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "on host {i}: {script}\n{said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    pub fn case(&self, name: &str) -> Case<'_> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(format!("{name}-{number}"));
        std::fs::create_dir(&folder).expect("a folder");
        Case { lab: self, folder, mark: format!("{name}-{number}-{}", std::process::id()) }
    }

    /// Runs the cases, several at a time, and says which failed.
    pub fn run(&self, cases: &[(&'static str, Body)]) {
        let waiting: Mutex<VecDeque<_>> = Mutex::new(cases.iter().copied().collect());
        let failed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(cases.len()) {
                scope.spawn(|| {
                    while let Some((name, body)) = waiting.lock().ok().and_then(|mut list| list.pop_front()) {
                        let (case, began) = (self.case(name), Instant::now());
                        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&case)));
                        eprintln!("case {name}: {:.1} s", began.elapsed().as_secs_f32());
                        if ended.is_err() {
                            failed.lock().expect("a list").push(name);
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().expect("a list");
        assert!(failed.is_empty(), "failed: {}", failed.join(", "));
    }

    /// No warden, keeper or rank is on any host. Asked after the last case.
    pub fn is_clean(&self) {
        for i in 0..self.hosts().len() {
            until(GONE, &format!("host {i} to be clean"), || {
                let list = self.on(i, "ps -eo args=");
                let ours = |line: &&str| line.contains("shoal") && !line.contains("sshd") && !line.contains("ps -eo");
                list.lines().find(ours).is_none().then_some(())
            });
        }
    }
}

/// One launch, or a few that belong together.
pub struct Case<'l> {
    pub lab: &'l Lab,
    pub folder: PathBuf,
    mark: String,
}

impl Case<'_> {
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// `fleet.yaml` with these hosts as node0, node1 and so on, and `more` below them.
    pub fn fleet(&self, hosts: &[usize], more: &str) {
        let mut text = "name: lab\nhosts:\n".to_string();
        for (k, i) in hosts.iter().enumerate() {
            let _ = writeln!(text, "  - {{name: node{k}, address: {}}}", self.address(*i));
        }
        self.file("fleet.yaml", &(text + more));
    }

    pub fn address(&self, i: usize) -> String {
        self.lab.hosts().host(i).address.to_string()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        // Folded after what differs from time to time is out of it.
        command.env("COLUMNS", "10000");
        command.current_dir(&self.folder).env("HOME", self.lab.home()).env("SHOAL_SSH_PERSIST", "10");
        command.env("XDG_RUNTIME_DIR", self.lab.folder.path().join("run")).env_remove("XDG_STATE_HOME");
        if let Some(hosts) = &self.lab.hosts {
            command.env("SHOAL_SSH_CONFIG", hosts.ssh_config());
        }
        command
    }

    /// `shoal run ...`, about to run.
    pub fn shoal(&self, args: &[&str]) -> Launch<'_> {
        let mut command = self.command(env!("CARGO_BIN_EXE_shoal"));
        command.arg("run").args(["--env", &self.set_mark()]);
        if !args.contains(&"--cwd") && self.lab.hosts.is_some() {
            command.args(["--cwd", "/"]);
        }
        Launch { case: self, command, shown: format!("shoal run {}", join(args)) }.args(args)
    }

    pub fn psd_run(&self, args: &[&str]) -> Launch<'_> {
        let mut command = self.command(env!("CARGO_BIN_EXE_psd_run"));
        command.args(["--env", &self.set_mark()]);
        if !args.contains(&"--cwd") && self.lab.hosts.is_some() {
            command.args(["--cwd", "/"]);
        }
        Launch { case: self, command, shown: format!("psd_run {}", join(args)) }.args(args)
    }

    /// `shoal` with any verb.
    pub fn verb(&self, args: &[&str]) -> Launch<'_> {
        let command = self.command(env!("CARGO_BIN_EXE_shoal"));
        Launch { case: self, command, shown: format!("shoal {}", join(args)) }.args(args)
    }

    /// A command of a shell that bears the mark, and all that it starts.
    pub fn marked(&self, command: &str) -> String {
        format!("export {}; {command}", self.set_mark())
    }

    fn set_mark(&self) -> String {
        format!("{MARK}={}", self.mark)
    }

    /// Processes of this case's ranks, on whatever host: pid, as this machine sees it, and command line.
    pub fn ranks(&self) -> Vec<(u32, String)> {
        let mark = self.set_mark().into_bytes();
        let marked = |pid: &u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|b| *b == 0).any(|v| v == mark)
        };
        pids().filter(marked).map(|pid| (pid, cmdline(pid))).filter(|(_, line)| !line.is_empty()).collect()
    }

    /// Waits until so many ranks have a command line with this in it, and gives their pids.
    pub fn running(&self, count: usize, what: &str) -> Vec<u32> {
        until(LONG, &format!("{count} ranks that are `{what}`"), || {
            let found: Vec<u32> = self.ranks().into_iter().filter(|(_, l)| l.contains(what)).map(|(p, _)| p).collect();
            (found.len() == count).then_some(found)
        })
    }

    /// GANG-1.
    pub fn nothing_is_left(&self) {
        let end = Instant::now() + GONE;
        while !self.ranks().is_empty() {
            assert!(Instant::now() < end, "left after {GONE:?}: {:?}", self.ranks());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The files in the only log folder below `out`, by name, without the lists of times.
    pub fn logs(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let folder = self.log_folder(out);
        let files = std::fs::read_dir(&folder).expect("a log folder").flatten();
        let named = files.map(|f| (f.file_name().to_string_lossy().into_owned(), f.path()));
        let mut logs: Vec<_> = named
            .filter(|(name, _)| name.ends_with(".log"))
            .map(|(name, path)| (name, std::fs::read(path).expect("a log")))
            .collect();
        logs.sort();
        logs
    }

    pub fn log_folder(&self, out: &str) -> PathBuf {
        let folders: Vec<PathBuf> =
            std::fs::read_dir(self.folder.join(out)).expect("logs").flatten().map(|f| f.path()).collect();
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].clone()
    }

    /// The log of a rank on this machine.
    pub fn log(&self, out: &str, rank: &str) -> String {
        let file = self.log_folder(out).join(format!("{rank}.log"));
        String::from_utf8_lossy(&std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())))
            .into_owned()
    }

    fn redactions(&self) -> Redactions {
        let mut redactions = Redactions::default();
        redactions.replace(&self.folder.to_string_lossy(), "[folder]");
        redactions.replace(&self.lab.home().to_string_lossy(), "[home]");
        redactions.replace(&self.mark, "[mark]");
        redactions.replace(&super::host(), "[here]");
        if let Some(hosts) = &self.lab.hosts {
            let gateway = hosts.gateway().to_string();
            redactions.replace(&hosts.folder().to_string_lossy(), "[hosts]");
            redactions.replace(gateway.trim_end_matches('1'), "10.0.0.");
            for host in hosts.iter() {
                redactions.replace(&host.name, &format!("host{}", host.name.rsplit('-').next().unwrap_or_default()));
            }
        }
        redactions
    }
}

/// A command that is about to be run.
pub struct Launch<'c> {
    case: &'c Case<'c>,
    pub command: Command,
    shown: String,
}

impl<'c> Launch<'c> {
    fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn start(mut self) -> Running<'c> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // Its own settings, which `Process::start` leaves alone.
        let name = format!("launch{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let process = Process::start(&name, &self.case.folder, &mut self.command);
        Running { case: self.case, process, shown: self.shown, began: Instant::now() }
    }

    /// To its end, whatever that is; nothing may be left of it.
    pub fn run(self) -> Done<'c> {
        self.start().end()
    }
}

pub struct Running<'c> {
    case: &'c Case<'c>,
    pub process: Process,
    shown: String,
    began: Instant,
}

impl<'c> Running<'c> {
    /// Waits until so many ranks have printed `up`, in a run with `-v`: then the launcher knows that they have started.
    pub fn is_up(&self, ranks: usize) {
        until(LONG, &format!("{ranks} ranks to be up"), || {
            (self.process.stdout().matches("| up\n").count() == ranks).then_some(())
        });
    }

    pub fn end(mut self) -> Done<'c> {
        let code = self.process.end(LONG);
        self.case.nothing_is_left();
        let (out, err) = (self.process.stdout(), self.process.stderr());
        Done { case: self.case, shown: self.shown, code, out, err, took: self.began.elapsed() }
    }
}

/// How a launch went.
pub struct Done<'c> {
    case: &'c Case<'c>,
    shown: String,
    pub code: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Done<'_> {
    /// The exit code, with everything that was said if it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}{}", self.shown, self.out, self.err);
        self
    }

    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.err.contains(text), "no `{text}` in what {} said:\n{}{}", self.shown, self.out, self.err);
        }
        self
    }

    /// For a run with `-v`, in which the order of lines is nobody's.
    pub fn without_output(mut self) -> Self {
        self.out.clear();
        self
    }

    /// What people see, as it is in `tests/cli/NAME.txt`.
    #[track_caller]
    pub fn looks_like(self, name: &str) -> Self {
        let text = format!("$ {}\n{}{}[exit code {}]\n", self.shown, self.out, self.err, self.code);
        snapshot::check(name, &snapshot::folded(&self.case.redactions().apply(&text)));
        self
    }
}

pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub fn cmdline(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_string()
}

pub fn parent(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    status.lines().find_map(|l| l.strip_prefix("PPid:")).and_then(|p| p.trim().parse().ok()).expect("a parent")
}

/// The value of a variable of a process.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let text = String::from_utf8_lossy(&environ).into_owned();
    text.split('\0').find_map(|v| v.strip_prefix(name)?.strip_prefix('=').map(Into::into))
}

/// Whether a file's content holds these bytes.
pub fn holds(path: &Path, needle: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    bytes.windows(needle.len()).any(|w| w == needle.as_bytes())
}
