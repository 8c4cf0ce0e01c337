//! A real daemon in a process of its own, and a host that the test plays word by word.

#![allow(dead_code)]

pub mod scene;

use shoal_core::queue::host::HostFacts;
use shoal_core::queue::line::{FromHost, LINE_VERSION, ToHost};
use shoal_core::queue::request::{Answer, Filter, Request, RunRow, RunState, SweepRow};
use shoal_core::queue::sweep::{
    Axes, Command as Line, Dimension, Pass, Provenance, Rules, SWEEP_VERSION, Sweep, Value, Wants,
};
use shoal_core::queue::work::{Ended, Ending, Start};
use shoal_core::queue::{Attempt, RunId, Target};
use shoal_daemon::queue::client::{Client, ClientError, Where};
use shoal_daemon::queue::framing;
use shoal_daemon::queue::places::Store;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub const BOUND: Duration = Duration::from_secs(60);

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
    exe.parent().unwrap().parent().unwrap().join("examples/shoal_queue")
}

pub struct Daemon {
    pub child: Child,
    pub store: Store,
}

/// How one is started.
pub struct How {
    pub store: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl How {
    pub fn at(store: &Path) -> How {
        How { store: store.into(), args: Vec::new(), env: Vec::new() }
    }

    pub fn arg(mut self, args: &[&str]) -> How {
        self.args.extend(args.iter().map(|arg| arg.to_string()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<Path>) -> How {
        self.env.push((name.into(), value.as_ref().to_string_lossy().into_owned()));
        self
    }

    pub fn spawn(&self) -> Child {
        let mut command = Command::new(program());
        command.arg("serve").arg("--store").arg(&self.store).args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("examples/shoal_queue is built by `cargo test -p shoal-daemon`")
    }

    /// Until it lets us in.
    pub fn start(&self) -> Daemon {
        let mut daemon = Daemon { child: self.spawn(), store: Store::at(&self.store) };
        until("the daemon", || {
            if let Some(status) = daemon.child.try_wait().unwrap() {
                panic!("the daemon ended at once: {status}; {}", daemon.log());
            }
            daemon.try_client().ok()
        });
        daemon
    }
}

impl Daemon {
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.store.log()).unwrap_or_default()
    }

    pub fn try_client(&self) -> Result<Client, ClientError> {
        Client::connect(&Where::Here(self.store.clone()))
    }

    pub fn client(&self) -> Client {
        self.try_client().unwrap_or_else(|e| panic!("{e}; {}", self.log()))
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn end(mut self) -> ExitStatus {
        // SAFETY: a process that this test started and has not reaped.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) }, 0);
        until("the daemon's end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the daemon's agents report to.
pub struct FakeHost {
    listener: UnixListener,
    pub path: PathBuf,
}

/// One line that the test holds the other end of.
pub struct FakeLine {
    pub stream: UnixStream,
}

impl FakeHost {
    pub fn new(folder: &Path) -> FakeHost {
        let path = folder.join("agent.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        FakeHost { listener, path }
    }

    /// The next agent that the daemon starts, after the daemon's hello. One whose daemon was killed before it said that is none.
    pub fn accept(&self) -> FakeLine {
        until("an agent that its daemon greets", || {
            let stream = self.listener.accept().ok()?.0;
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(BOUND)).unwrap();
            (&stream).write_all(framing::PREAMBLE).ok()?;
            let mut line = FakeLine { stream };
            let (hello, _) = framing::read_message::<ToHost>(&mut line.stream).ok()??;
            assert!(matches!(hello, ToHost::Hello { version: LINE_VERSION, .. }), "{hello:?}");
            Some(line)
        })
    }
}

pub fn facts(boot: &str, cpus: u32) -> HostFacts {
    HostFacts {
        boot: boot.into(),
        cpus,
        memory_bytes: 8 << 30,
        gpus: Vec::new(),
        load1: 0.0,
        free_disk_bytes: 100 << 30,
        idle_seconds: None,
        users: Vec::new(),
        address: None,
        caller: None,
        ports: Vec::new(),
        place: None,
    }
}

impl FakeLine {
    pub fn say(&mut self, message: &FromHost) {
        self.say_with(message, &[]);
    }

    pub fn say_with(&mut self, message: &FromHost, body: &[u8]) {
        framing::write_message(&mut self.stream, message, body).unwrap();
    }

    pub fn hello(&mut self, boot: &str, cpus: u32, alive: Vec<Attempt>, ended: Vec<Ended>) {
        self.try_hello(boot, cpus, alive, ended).unwrap();
    }

    /// For a line that may be of a daemon that was killed meanwhile.
    pub fn try_hello(
        &mut self,
        boot: &str,
        cpus: u32,
        alive: Vec<Attempt>,
        ended: Vec<Ended>,
    ) -> Result<(), framing::FramingError> {
        let facts = Box::new(facts(boot, cpus));
        let hello = FromHost::Hello { version: LINE_VERSION, facts, alive, ended, trees: Vec::new(), owed: Vec::new() };
        framing::write_message(&mut self.stream, &hello, &[])
    }

    /// The next word but pings.
    pub fn hear(&mut self) -> ToHost {
        self.hear_with().0
    }

    pub fn hear_with(&mut self) -> (ToHost, Vec<u8>) {
        loop {
            match framing::read_message(&mut self.stream).unwrap().expect("the daemon ended the line") {
                (ToHost::Ping, _) => self.say(&FromHost::Pong),
                message => return message,
            }
        }
    }

    /// Nothing more comes: the daemon has closed it.
    pub fn is_closed(&mut self) -> bool {
        until("the end of the line", || {
            framing::read_message::<ToHost>(&mut self.stream).map_or(Some(()), |m| m.is_none().then_some(()))
        });
        true
    }

    pub fn starts(&mut self) -> Vec<Start> {
        match self.hear() {
            ToHost::Start { starts } => starts,
            other => panic!("not a start: {other:?}"),
        }
    }

    /// Starts until there are as many.
    pub fn starts_of(&mut self, count: usize) -> Vec<Start> {
        let mut all = self.starts();
        while all.len() < count {
            all.extend(self.starts());
        }
        assert_eq!(all.len(), count, "{all:?}");
        all
    }

    pub fn acknowledged(&mut self) -> Vec<Attempt> {
        match self.hear() {
            ToHost::Ended { attempts } => attempts,
            other => panic!("not an acknowledgement: {other:?}"),
        }
    }

    pub fn end(&mut self, attempt: &Attempt, ending: Ending) {
        self.say(&FromHost::Ended { ended: vec![ended(attempt, ending)] });
    }
}

pub fn ended(attempt: &Attempt, ending: Ending) -> Ended {
    Ended {
        attempt: attempt.clone(),
        rank: 0,
        tail: if ending.success() { String::new() } else { "the last line\n".into() },
        ending,
        began: 1_000,
        ended: 3_500,
        cpu_ms: 10,
        peak_memory_bytes: 1 << 20,
        peak_gpu_bytes: 0,
        output_bytes: 12,
        metrics: vec![("loss".into(), "0.25".into())],
        results: None,
    }
}

pub fn attempt(sweep: &str, cell: u32, number: u32) -> Attempt {
    Attempt { run: RunId { sweep: sweep.into(), cell, rep: 0 }, number }
}

/// So many configurations of one parameter, one copy of each.
pub fn sweep(name: &str, cells: u32) -> Sweep {
    let rows = (0..cells).map(|n| vec![Some(Value::Int(n.into()))]).collect();
    Sweep {
        version: SWEEP_VERSION,
        name: name.into(),
        owner: "nobody".into(),
        parts: vec![Axes {
            fixed: BTreeMap::new(),
            dimensions: vec![Dimension { names: vec!["x".into()], rows }],
            only: None,
        }],
        reps: 1,
        command: Line {
            argv: vec!["/bin/true".into()],
            env: BTreeMap::new(),
            pass: Pass::default(),
            trees: Vec::new(),
            folder: None,
            setup: Vec::new(),
            virtualenv: None,
            requirements: None,
        },
        wants: Wants::default(),
        rules: Rules::default(),
        after: Vec::new(),
        provenance: Provenance::default(),
    }
}

pub fn submit(client: &mut Client, sweep: &Sweep) -> Result<Answer, ClientError> {
    client.ask(&Request::Submit { sweep: Box::new(sweep.clone()) }, &[]).map(|(answer, _)| answer)
}

pub fn row(client: &mut Client, name: &str) -> SweepRow {
    match client.ask(&Request::Sweeps { all: true }, &[]).unwrap().0 {
        Answer::Sweeps { sweeps } => sweeps.into_iter().find(|row| row.name == name).expect("the sweep"),
        other => panic!("{other:?}"),
    }
}

pub fn runs(client: &mut Client, sweep: &str) -> Vec<RunRow> {
    let filter = Filter { target: Some(Target::Sweep(sweep.into())), ..Filter::default() };
    match client.ask(&Request::Runs { filter, from: 0, limit: 1000 }, &[]).unwrap().0 {
        Answer::Runs { runs, .. } => runs,
        other => panic!("{other:?}"),
    }
}

pub fn states(client: &mut Client, sweep: &str) -> Vec<RunState> {
    runs(client, sweep).into_iter().map(|row| row.state).collect()
}

pub fn why_refused(result: Result<Answer, ClientError>) -> String {
    match result {
        Err(ClientError::Refused { why, hint }) => format!("{why} / {}", hint.unwrap_or_default()),
        other => panic!("not refused: {other:?}"),
    }
}
