//! Four workers of one contestant, started once, idle between orders, and never waited for without a bound.

use crate::gang::Gang;
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const WORKERS: usize = 4;
/// No answer for this long is a failure of the contestant; the bench goes on without it.
const ANSWER_BOUND: Duration = Duration::from_secs(120);
const START_BOUND: Duration = Duration::from_secs(90);

/// What `bench/sync/common.py` takes.
#[derive(Debug, Clone, Serialize)]
pub struct Order<'a> {
    pub size: Option<&'a str>,
    pub mode: &'a str,
    pub iterations: u32,
    pub verify: bool,
}

#[derive(Deserialize)]
struct Hello {
    group: String,
    rank: usize,
}

/// What it answers, per operation.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    error: Option<String>,
    seconds: f64,
    cpu: f64,
    peak_bytes: f64,
    bytes_sent: f64,
    tensor_bytes: f64,
}

/// One round of a contestant.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// Per operation, of the slowest rank.
    pub seconds: f64,
    /// Of all ranks, per GB of tensor times ranks.
    pub cpu_per_gb: f64,
    /// Of the rank with most of it, above what the process had before the first buffer.
    pub peak_bytes: f64,
    pub bytes_sent: f64,
    pub tensor_bytes: f64,
}

/// Where workers report.
pub struct Hub {
    listener: UnixListener,
    folder: PathBuf,
}

impl Hub {
    /// In a folder that test hosts see too and may write to: they have a `/tmp` and homes of their own, and what they see of ours (cargo's
    /// target folder may lie there) is not theirs to write. So: below the checkout.
    pub fn new() -> Result<Self> {
        let folder = crate::root().join("target/bench").join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let socket = folder.join("hub");
        let listener = UnixListener::bind(&socket).with_context(|| {
            format!(
                "cannot listen on {}\nhint: such a path has at most 107 bytes, and the checkout should lie in no home",
                socket.display()
            )
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, folder })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("hub")
    }

    pub fn logs(&self) -> &Path {
        &self.folder
    }

    /// When all went well, nobody needs the logs.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }
}

/// A worker is idle in a blocking read while others are measured.
pub struct Group {
    name: String,
    gang: Gang,
    ranks: Vec<BufReader<UnixStream>>,
}

impl Group {
    /// Starts the commands and waits until every worker has found the others.
    pub fn start(hub: &Hub, name: &str, commands: Vec<(String, Command)>) -> Result<Self> {
        let mut gang = Gang::new(hub.folder.join(name.replace('/', "-")))?;
        for (member, mut command) in commands {
            command.env("BENCH_SOCKET", hub.socket()).env("BENCH_GROUP", name);
            gang.start(member, &mut command)?;
        }
        let deadline = Instant::now() + START_BOUND;
        let mut ranks: [Option<BufReader<UnixStream>>; WORKERS] = Default::default();
        let mut calling: Vec<BufReader<UnixStream>> = Vec::new();
        while ranks.iter().any(Option::is_none) {
            gang.all_ended("none").with_context(|| format!("cannot start {name}"))?;
            if Instant::now() > deadline {
                let logs = gang.log("*");
                bail!("{name} did not start within {START_BOUND:?}\nhint: see {}", logs.display());
            }
            match hub.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_read_timeout(Some(Duration::from_millis(10)))?;
                    calling.push(BufReader::new(stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => return Err(error).context("cannot accept workers"),
            }
            // A worker calls before it has found the others and says hello after it: none of them may block the rest.
            for mut stream in std::mem::take(&mut calling) {
                match hello(&mut stream)? {
                    Some(hello) if hello.group == name && hello.rank < WORKERS => ranks[hello.rank] = Some(stream),
                    Some(_) => {}
                    None => calling.push(stream),
                }
            }
        }
        Ok(Self { name: name.to_owned(), gang, ranks: ranks.into_iter().flatten().collect() })
    }

    /// Whether an order failed before.
    pub fn is_lost(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Has all workers do it; after an error the group is of no use, and its processes are gone.
    pub fn order(&mut self, order: &Order) -> Result<Measure> {
        let result = self.try_order(order);
        if result.is_err() {
            self.ranks.clear();
            self.gang.stop();
        }
        result.with_context(|| format!("{} failed", self.name))
    }

    fn try_order(&mut self, order: &Order) -> Result<Measure> {
        if self.is_lost() {
            bail!("it had failed before");
        }
        let line = serde_json::to_string(order)? + "\n";
        for rank in &mut self.ranks {
            rank.get_mut().write_all(line.as_bytes()).map_err(|error| anyhow!(error)).context("a worker is gone")?;
        }
        let deadline = Instant::now() + ANSWER_BOUND;
        let mut answers = Vec::new();
        for rank in 0..self.ranks.len() {
            let answer = self.answer(rank, deadline)?;
            if let Some(error) = answer.error {
                bail!("{error}");
            }
            answers.push(answer);
        }
        let most = |of: fn(&Answer) -> f64| answers.iter().map(of).fold(0.0, f64::max);
        let tensor_bytes = most(|answer| answer.tensor_bytes);
        let cpu: f64 = answers.iter().map(|answer| answer.cpu).sum();
        Ok(Measure {
            seconds: most(|answer| answer.seconds),
            cpu_per_gb: cpu / (tensor_bytes * WORKERS as f64 / 1e9),
            peak_bytes: most(|answer| answer.peak_bytes),
            bytes_sent: most(|answer| answer.bytes_sent),
            tensor_bytes,
        })
    }

    fn answer(&mut self, rank: usize, deadline: Instant) -> Result<Answer> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.ranks[rank].get_ref().set_read_timeout(Some(left))?;
        let mut line = String::new();
        match self.ranks[rank].read_line(&mut line) {
            Ok(0) => {
                // Its exit status comes a moment after the end of its connection.
                let bound = Duration::from_secs(2);
                let told = shoal_testkit::wait::until(bound, || self.gang.all_ended("none").err());
                Err(told.unwrap_or_else(|| anyhow!("rank {rank} left")))
            }
            Ok(_) => serde_json::from_str(&line).with_context(|| format!("rank {rank} answered {line:?}")),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("rank {rank} gave no answer for {ANSWER_BOUND:?}; its processes are ended")
            }
            Err(error) => Err(error).with_context(|| format!("cannot hear rank {rank}")),
        }
    }
}

/// None: it has not spoken yet. One that hung up is dropped with an error; its process will be seen to have ended.
fn hello(stream: &mut BufReader<UnixStream>) -> Result<Option<Hello>> {
    match stream.fill_buf() {
        Ok(_) => {
            stream.get_ref().set_read_timeout(Some(Duration::from_secs(5)))?;
            let mut line = String::new();
            stream.read_line(&mut line).context("cannot hear a worker")?;
            let nobody = Hello { group: String::new(), rank: 0 };
            if line.is_empty() { Ok(Some(nobody)) } else { Ok(Some(serde_json::from_str(&line)?)) }
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error).context("cannot hear a worker"),
    }
}
