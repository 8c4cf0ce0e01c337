//! How is a cluster of HyperQueue set up, asked and taken down? Server and worker in one process, the client in another, as `peer.py` has them.

use super::{Tools, child};
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// One of its processes, with which we speak in lines.
struct Talk {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Value>,
}

pub struct HyperQueue {
    server: Talk,
    client: Talk,
    folder: PathBuf,
}

impl HyperQueue {
    /// A server without a worker, and a client that has connected to it.
    pub fn new(tools: &Tools, name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("shoal-bench-{}-hq-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).context("a folder for HyperQueue")?;
        let talk = |role: &str| {
            let script = crate::root().join("xtask/src/bench/queue/peer.py");
            let mut command = Command::new(&tools.python);
            command.arg(script).arg(role).arg(&folder).current_dir(&folder);
            // Workers leave folders behind.
            command.env("HOME", &folder).env("TMPDIR", &folder);
            Talk::open(&mut command)
        };
        let server = talk("serve")?;
        server.hear()?;
        let client = talk("client")?;
        client.hear()?;
        Ok(Self { server, client, folder })
    }

    pub fn add_worker(&mut self, cpus: usize) -> Result<()> {
        self.server.ask(&format!("worker {cpus}")).map(drop)
    }

    /// Describes a job of so many tasks; `submit` sends it.
    pub fn make(&mut self, tasks: usize) -> Result<()> {
        self.client.ask(&format!("make {tasks}")).map(drop)
    }

    /// Seconds until the server has it.
    pub fn submit(&mut self) -> Result<f64> {
        self.client.ask("submit").and_then(seconds)
    }

    /// Seconds until all of it is done.
    pub fn wait(&mut self) -> Result<f64> {
        self.client.ask("wait").and_then(seconds)
    }

    /// Seconds of what comes nearest to a list of a job's tasks: the interface has none, but it can ask which of them failed.
    pub fn failed(&mut self) -> Result<f64> {
        self.client.ask("failed").and_then(seconds)
    }

    pub fn memory(&self) -> Result<u64> {
        child::memory(self.server.child.id())
    }
}

fn seconds(answer: Value) -> Result<f64> {
    Ok(answer["ms"].as_f64().context("HyperQueue's client gave no time")? / 1e3)
}

impl Talk {
    fn open(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("HyperQueue's Python did not start")?;
        let to = child.stdin.take();
        let out = child.stdout.take().context("a pipe")?;
        let (send, from) = sync_channel(16);
        // Ends with the process, or when nobody listens any more. The server greets with a table, which is not for us.
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            let answers = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
            answers.filter(Value::is_object).try_for_each(|answer| send.send(answer))
        });
        Ok(Self { child, to, from })
    }

    fn hear(&self) -> Result<Value> {
        self.from.recv_timeout(PATIENCE).context("HyperQueue does not answer")
    }

    fn ask(&mut self, what: &str) -> Result<Value> {
        let to = self.to.as_mut().context("a pipe")?;
        writeln!(to, "{what}").and_then(|()| to.flush()).context("HyperQueue has ended")?;
        self.hear().with_context(|| format!("`{what}`"))
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        drop(self.to.take());
        child::put_away(&mut self.child, Duration::from_secs(5));
    }
}

impl Drop for HyperQueue {
    fn drop(&mut self) {
        // The client first: the server would wait for it.
        drop(self.client.to.take());
        child::put_away(&mut self.client.child, Duration::from_secs(5));
        drop(self.server.to.take());
        child::put_away(&mut self.server.child, Duration::from_secs(5));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
