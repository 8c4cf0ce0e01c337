//! A daemon for tests: starts a real agent (which starts a real keeper), speaks the real line, keeps every end it hears, and proves by
//! `/proc` that nothing is left.

#![allow(dead_code)]

use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION, ToHost};
use shoal_core::queue::work::{Ended, Publish, Start};
use shoal_core::queue::{Attempt, RunId};
use shoal_daemon::queue::framing::{read_message, read_preamble, write_message};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

pub const BOUND: Duration = Duration::from_secs(60);
pub const STORE: &str = "0123456789abcdef";

pub fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The example beside the test's own binary.
pub fn program() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.parent().unwrap().parent().unwrap().join("examples/queue_host");
    assert!(path.exists(), "{} has not been built; `cargo build --examples` builds it", path.display());
    path
}

pub fn attempt(cell: u32, number: u32) -> Attempt {
    Attempt { run: RunId { sweep: "s".into(), cell, rep: 0 }, number }
}

/// A run of a shell line.
pub fn sh(cell: u32, line: &str) -> Start {
    argv(cell, &["sh", "-c", line])
}

pub fn argv(cell: u32, words: &[&str]) -> Start {
    let attempt = attempt(cell, 1);
    Start {
        env: vec![("SHOAL_RUN".into(), attempt.run.to_string()), ("SHOAL_SEED".into(), "7".into())],
        argv: words.iter().map(|word| word.to_string()).collect(),
        attempt,
        setup: Vec::new(),
        virtualenv: None,
        requirements: None,
        trees: Vec::new(),
        folder: None,
        after: None,
        rank: 0,
        hosts: vec!["here".into()],
        files: Vec::new(),
        beside: Vec::new(),
        devices: Vec::new(),
        memory_bytes: None,
        time_limit_seconds: None,
        grace_seconds: 2,
        publish: Publish::Send(format!("s/runs/param_{cell:03}/t_num0")),
        results_mark: None,
        always: false,
        guarded: false,
        origin: None,
    }
}

/// Everything below one temporary folder.
pub struct Place {
    pub base: PathBuf,
    held: Option<tempfile::TempDir>,
    pub env: Vec<(String, String)>,
}

impl Place {
    pub fn new() -> Place {
        let held = tempfile::tempdir().unwrap();
        std::fs::create_dir(held.path().join("results")).unwrap();
        Place { base: held.path().into(), held: Some(held), env: vec![("SHOAL_NVML".into(), String::new())] }
    }

    /// In a folder that somebody else removes.
    pub fn at(base: &Path) -> Place {
        std::fs::create_dir_all(base.join("results")).unwrap();
        Place { base: base.into(), held: None, env: vec![("SHOAL_NVML".into(), String::new())] }
    }

    pub fn store(&self) -> PathBuf {
        self.base.join("host").join(STORE)
    }

    pub fn results(&self, cell: u32) -> Publish {
        Publish::Folder(self.base.join(format!("results/s/runs/param_{cell:03}/t_num0")).to_str().unwrap().into())
    }

    /// Who holds the lock, if somebody does.
    pub fn keeper(&self) -> Option<u32> {
        let pid: u32 = std::fs::read_to_string(self.store().join("keeper.lock")).ok()?.trim().parse().ok()?;
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&cmdline).contains("queue-keeper").then_some(pid)
    }

    /// Pids of processes that the keepers of this place started, and of whatever these started.
    pub fn left(&self) -> Vec<u32> {
        let mark = format!("SHOAL_RUN_DIR={}", self.store().display());
        let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            exists(*pid) && environ.split(|b| *b == 0).any(|v| v.starts_with(mark.as_bytes()))
        })
        .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper() else { return };
        kill(keeper, libc::SIGTERM);
        let end = Instant::now() + BOUND;
        while exists(keeper) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !std::thread::panicking() {
            assert!(!exists(keeper), "the keeper does not leave");
            assert_eq!(self.left(), Vec::<u32>::new(), "somebody is left");
        }
    }
}

pub fn exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub fn kill(pid: u32, signal: i32) {
    // SAFETY: a pid of a process that this test, or its agent, started.
    unsafe { libc::kill(pid as i32, signal) };
}

/// One line to an agent.
pub struct Line {
    pub agent: Child,
    pub to: Option<ChildStdin>,
    pub from: Receiver<(FromHost, Vec<u8>)>,
    /// What the agent said first.
    pub alive: Vec<Attempt>,
    pub facts: HostFacts,
    pub first_ended: Vec<Ended>,
    /// All ends that were told, by their names; told twice has to be told the same.
    pub ended: BTreeMap<(Attempt, u32), Ended>,
    pub seen: Vec<(FromHost, Vec<u8>)>,
    /// Whether ends are acknowledged as they come.
    pub acknowledges: bool,
    /// Whether results that are sent are taken.
    pub takes_results: bool,
    pub results: BTreeMap<(Attempt, u32), Vec<u8>>,
}

impl Line {
    pub fn open(place: &Place) -> Line {
        Line::try_open(place).expect("the agent says hello")
    }

    pub fn try_open(place: &Place) -> Option<Line> {
        let mut agent = Command::new(program())
            .args(["host", "agent", "--store", STORE])
            .env("SHOAL_HOST_DIR", place.base.join("host"))
            .envs(place.env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = agent.stdin.take().unwrap();
        let mut out = agent.stdout.take().unwrap();
        let hello = ToHost::Hello { version: LINE_VERSION, store: STORE.into(), host: "here".into() };
        let said = write_message(&mut to, &hello, &[]);
        let (send, from) = channel();
        std::thread::spawn(move || {
            if read_preamble(&mut out).is_ok() {
                while let Ok(Some(message)) = read_message::<FromHost>(&mut out) {
                    if send.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let first = said.ok().and_then(|()| from.recv_timeout(BOUND).ok());
        let Some((FromHost::Hello { alive, ended, facts, .. }, _)) = first else {
            let _ = agent.kill();
            let _ = agent.wait();
            return None;
        };
        let mut line = Line {
            agent,
            to: Some(to),
            from,
            alive,
            facts: *facts,
            first_ended: ended.clone(),
            ended: BTreeMap::new(),
            seen: Vec::new(),
            acknowledges: true,
            takes_results: true,
            results: BTreeMap::new(),
        };
        line.take_ends(ended);
        Some(line)
    }

    pub fn say(&mut self, message: &ToHost) {
        self.say_with(message, &[]);
    }

    pub fn say_with(&mut self, message: &ToHost, body: &[u8]) {
        if let Some(to) = &mut self.to {
            let _ = write_message(to, message, body);
        }
    }

    pub fn start(&mut self, starts: Vec<Start>) {
        self.say(&ToHost::Start { starts });
    }

    fn take_ends(&mut self, ended: Vec<Ended>) {
        let attempts: Vec<(Attempt, u32)> = ended.iter().map(|e| (e.attempt.clone(), e.rank)).collect();
        for one in ended {
            if let Some(known) = self.ended.insert((one.attempt.clone(), one.rank), one.clone()) {
                assert_eq!(known, one, "told twice, and differently");
            }
        }
        if self.acknowledges && !attempts.is_empty() {
            self.say(&ToHost::EndedRanks { ended: attempts });
        }
    }

    /// The next message, after ends and results were taken in; nothing if the line is over.
    pub fn next(&mut self, within: Duration) -> Option<Option<FromHost>> {
        let (message, body) = match self.from.recv_timeout(within) {
            Ok(came) => came,
            Err(RecvTimeoutError::Timeout) => return Some(None),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        match &message {
            FromHost::Ended { ended } => self.take_ends(ended.clone()),
            FromHost::Result { attempt, at, last, rank } => {
                let bytes = self.results.entry((attempt.clone(), *rank)).or_default();
                if *at == 0 {
                    bytes.clear();
                }
                bytes.extend_from_slice(&body);
                if *last && self.takes_results {
                    self.say(&ToHost::Published { attempt: attempt.clone(), problem: None, later: false, rank: *rank });
                }
            }
            _ => {}
        }
        self.seen.push((message.clone(), body));
        Some(Some(message))
    }

    pub fn wait<T>(&mut self, what: &str, mut probe: impl FnMut(&mut Line) -> Option<T>) -> T {
        let end = Instant::now() + BOUND;
        loop {
            if let Some(value) = probe(self) {
                return value;
            }
            assert!(Instant::now() < end, "waited too long for {what}; heard {:?}", self.seen);
            assert!(self.next(Duration::from_millis(20)).is_some(), "the line ended while waiting for {what}");
        }
    }

    pub fn end_of(&mut self, attempt: &Attempt) -> Ended {
        self.wait(&format!("the end of {attempt}"), |line| line.ended.get(&(attempt.clone(), 0)).cloned())
    }

    /// Starts one and waits for its end.
    pub fn run(&mut self, start: Start) -> Ended {
        let attempt = start.attempt.clone();
        self.start(vec![start]);
        self.end_of(&attempt)
    }

    /// What is wrong, as soon as somebody says so.
    pub fn trouble(&mut self, part: &str) -> String {
        self.wait(&format!("trouble with `{part}`"), |line| {
            line.seen.iter().find_map(|(m, _)| match m {
                FromHost::Trouble { what, over: false, .. } if what.contains(part) => Some(what.clone()),
                _ => None,
            })
        })
    }

    pub fn wait_alive(&mut self, attempt: &Attempt) {
        self.wait("its beginning", |line| {
            line.seen
                .iter()
                .any(|(m, _)| matches!(m, FromHost::Began { attempt: of, .. } if of == attempt))
                .then_some(())
        });
    }

    /// All output of a run, from byte `from` on.
    pub fn log(&mut self, ask: u64, attempt: &Attempt, from: u64, follow: bool) -> Result<Vec<u8>, String> {
        self.say(&ToHost::Log { ask, attempt: attempt.clone(), from, follow, rank: 0 });
        self.log_end(ask)
    }

    pub fn log_end(&mut self, ask: u64) -> Result<Vec<u8>, String> {
        self.wait("the end of a log", |line| {
            let mut bytes = Vec::new();
            for (message, body) in &line.seen {
                match message {
                    FromHost::Log { ask: of, end, .. } if *of == ask => {
                        bytes.extend_from_slice(body);
                        if *end {
                            return Some(Ok(bytes));
                        }
                    }
                    FromHost::NoLog { ask: of, why } if *of == ask => return Some(Err(why.clone())),
                    _ => {}
                }
            }
            None
        })
    }

    pub fn kill_agent(mut self) -> BTreeMap<(Attempt, u32), Ended> {
        kill(self.agent.id(), libc::SIGKILL);
        let _ = self.agent.wait();
        self.ended.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.to = None;
        let end = Instant::now() + Duration::from_secs(10);
        while self.agent.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                kill(self.agent.id(), libc::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
