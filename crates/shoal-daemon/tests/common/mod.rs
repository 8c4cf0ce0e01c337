//! A launcher for tests: starts a real warden, speaks the real protocol, and proves by `/proc` that nothing is left.

#![allow(dead_code)]

use shoal_core::job::{HostJob, JOB_VERSION, Prepare, Program, RankJob};
use shoal_core::rank::Rank;
use shoal_daemon::Ending;
use shoal_daemon::protocol::{self, FromWarden, Hello, ToWarden};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub const BOUND: Duration = Duration::from_secs(30);

pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The example beside the test's own binary.
pub fn program() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    exe.parent().unwrap().parent().unwrap().join("examples/shoal_host")
}

pub fn run_id(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// Everybody whose environment has the run's mark.
pub fn marked(run: &str) -> Vec<u32> {
    let mark = format!("SHOAL_RUN={run}");
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|b| *b == 0).any(|v| v == mark.as_bytes())
    })
    .collect()
}

pub fn exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub fn kill(pid: u32, signal: i32) {
    // SAFETY: a pid of a process this test started.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

pub struct Launcher {
    pub run: String,
    pub home: tempfile::TempDir,
    pub warden: Child,
    pub stdin: Option<ChildStdin>,
    pub messages: Receiver<FromWarden>,
    pub hello: Hello,
    pub seen: Vec<FromWarden>,
    pub output: BTreeMap<Rank, Vec<u8>>,
}

impl Launcher {
    pub fn new(test: &str) -> Launcher {
        Launcher::with(test, &["--silence-ms", "60000"])
    }

    pub fn with(test: &str, args: &[&str]) -> Launcher {
        let home = tempfile::tempdir().unwrap();
        Launcher::at(run_id(test), home, args)
    }

    pub fn at(run: String, home: tempfile::TempDir, args: &[&str]) -> Launcher {
        let mut warden = Command::new(program())
            .arg("warden")
            .args(args)
            .env("HOME", home.path())
            .env("XDG_STATE_HOME", home.path().join("state"))
            // Wardens and keepers are found by it too.
            .env("SHOAL_RUN", &run)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("examples/shoal_host is built by `cargo test -p shoal-daemon`");
        let stdin = warden.stdin.take();
        let mut stdout = warden.stdout.take().unwrap();
        let (to, messages) = channel();
        std::thread::spawn(move || {
            assert_eq!(protocol::read_preamble(&mut stdout).unwrap(), b"");
            let mut body = Vec::new();
            while let Ok(Some(message)) = protocol::read_from_warden(&mut stdout, &mut body) {
                if to.send(message).is_err() {
                    // Goes on reading, as a launcher would.
                    let _ = std::io::copy(&mut stdout.by_ref().take(u64::MAX), &mut std::io::sink());
                }
            }
        });
        let FromWarden::Hello(hello) = messages.recv_timeout(BOUND).unwrap() else { panic!("no hello") };
        Launcher { run, home, warden, stdin, messages, hello, seen: Vec::new(), output: BTreeMap::new() }
    }

    pub fn send(&mut self, message: &ToWarden) {
        self.stdin.as_mut().unwrap().write_all(&protocol::encode_to_warden(message)).unwrap();
    }

    pub fn job(&self, ranks: Vec<RankJob>) -> HostJob {
        HostJob {
            version: JOB_VERSION,
            run: self.run.clone(),
            host: "test".into(),
            detached: false,
            grace_ms: 300,
            ranks,
            gang: None,
        }
    }

    pub fn start(&mut self, ranks: Vec<RankJob>) {
        let job = self.job(ranks);
        self.send(&ToWarden::Start(job));
    }

    pub fn next(&mut self) -> Option<FromWarden> {
        let message = self.messages.recv_timeout(BOUND).ok()?;
        match message.clone() {
            FromWarden::Output { rank, offset, bytes } => {
                let output = self.output.entry(rank).or_default();
                assert_eq!(offset, output.len() as u64, "output without gaps");
                output.extend_from_slice(&bytes);
            }
            other => self.seen.push(other),
        }
        Some(message)
    }

    /// Until a message that `wanted` takes.
    pub fn wait<T>(&mut self, what: &str, mut wanted: impl FnMut(&FromWarden) -> Option<T>) -> T {
        let end = Instant::now() + BOUND;
        while let Some(message) = self.next() {
            if let Some(value) = wanted(&message) {
                return value;
            }
            assert!(Instant::now() < end, "waited too long for {what}: {:?}", self.seen);
        }
        panic!("the warden was gone before {what}: {:?}", self.seen);
    }

    pub fn started(&mut self) -> u32 {
        self.wait("started", |m| if let FromWarden::Started { pid, .. } = m { Some(*pid) } else { None })
    }

    pub fn ended(&mut self) -> (Ending, u64, String) {
        self.wait("ended", |m| match m {
            FromWarden::Ended { ending, log_bytes, tail, .. } => Some((ending.clone(), *log_bytes, tail.clone())),
            _ => None,
        })
    }

    /// Until the output of a rank holds `text`.
    pub fn wait_output(&mut self, rank: Rank, text: &str) {
        let end = Instant::now() + BOUND;
        while !self.text(rank).contains(text) {
            assert!(Instant::now() < end && self.next().is_some(), "no {text:?} in {:?}", self.text(rank));
        }
    }

    pub fn text(&self, rank: Rank) -> String {
        String::from_utf8_lossy(self.output.get(&rank).map_or(&[][..], Vec::as_slice)).into_owned()
    }

    /// `Bye`, the warden's own end with code 0, and nobody left.
    pub fn bye(&mut self) {
        self.wait("bye", |m| (*m == FromWarden::Bye).then_some(()));
        let status = until("the warden's end", || self.warden.try_wait().unwrap());
        assert!(status.success(), "{status}");
        self.nobody_left();
    }

    pub fn nobody_left(&mut self) {
        let _ = self.warden.try_wait();
        until("nobody left", || {
            let _ = self.warden.try_wait();
            marked(&self.run).is_empty().then_some(())
        });
    }

    pub fn log(&self, rank: Rank) -> PathBuf {
        self.home.path().join(format!("logs/{rank}.log"))
    }

    pub fn state(&self) -> PathBuf {
        self.home.path().join("state/shoal/runs")
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.stdin = None;
        let end = Instant::now() + Duration::from_secs(5);
        while self.warden.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.warden.kill();
        let _ = self.warden.wait();
    }
}

pub fn rank(k: u32, program: Program) -> RankJob {
    RankJob {
        rank: Rank::Worker(k),
        program,
        env: BTreeMap::new(),
        cwd: None,
        log: format!("~/logs/worker{k}.log"),
        prepare: Prepare::default(),
    }
}

pub fn argv(words: &[&str]) -> Program {
    Program::Argv(words.iter().map(|s| s.to_string()).collect())
}

pub fn sh(line: &str) -> Program {
    Program::Shell { line: line.into(), append: vec![] }
}

pub const W0: Rank = Rank::Worker(0);

pub fn write_executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
