//! When does Ray itself see all nodes? Its own store is asked, by a process that was there before: `ray status` takes a second of a core
//! each time, which would slow down what is timed. In the end `ray status` has to agree.

use super::ground::PORT;
use anyhow::{Context, Result, bail};
use shoal_testkit::hosts::Hosts;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// Ends by itself when all are there, or when its time is over.
const SCRIPT: &str = "
import signal, sys, time
address, wanted, bound = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
signal.alarm(bound)
from ray._raylet import GcsClient
print('ready', flush=True)
sys.stdin.readline()
client = None
while True:
    try:
        client = client or GcsClient(address=address)
        alive = sum(node.state == 0 for node in client.get_all_node_info(timeout=10).values())
        if alive >= wanted:
            break
    except Exception:
        client = None
    time.sleep(0.05)
print('all', flush=True)
";

/// For the whole life of a counter: the command before it, and nodes that come late.
const BOUND_S: u64 = 420;
/// `ray status` may be older than the store.
const AGREES: Duration = Duration::from_secs(60);

pub struct Census {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Census {
    /// Stands ready on the head, and does nothing yet.
    pub fn ready(hosts: &Hosts, ray: &Path, count: usize) -> Result<Self> {
        let head = hosts.host(0);
        let mut command = head.command(&ray.join("bin/python").to_string_lossy());
        command.args(["-c", SCRIPT, &format!("{}:{PORT}", head.address), &count.to_string(), &BOUND_S.to_string()]);
        let mut child =
            command.env("HOME", "/root").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("a census")?;
        let stdout = child.stdout.take().context("the census has no stdout")?;
        let mut census = Self { child, says: BufReader::new(stdout) };
        census.hear("ready", "it does not start")?;
        Ok(census)
    }

    /// Returns at the moment when Ray sees all nodes.
    pub fn complete(mut self) -> Result<()> {
        let mut stdin = self.child.stdin.take().context("the census has no stdin")?;
        stdin.write_all(b"go\n").context("the census")?;
        self.hear("all", &format!("after {BOUND_S} s Ray does not see all nodes"))
    }

    fn hear(&mut self, word: &str, or: &str) -> Result<()> {
        let mut line = String::new();
        self.says.read_line(&mut line).context("the census")?;
        anyhow::ensure!(line.trim() == word, "the census of Ray's nodes: {or}");
        Ok(())
    }
}

impl Drop for Census {
    fn drop(&mut self) {
        // It has ended already unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `ray status` on the head shows that many nodes.
pub fn status_shows(hosts: &Hosts, ray: &Path, count: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let head = hosts.host(0);
        let mut command = head.command(&ray.join("bin/ray").to_string_lossy());
        let out = command.args(["status", "--address", &format!("{}:{PORT}", head.address)]).env("HOME", "/root");
        let out = out.stdin(Stdio::null()).output().context("ray status")?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        if present(&text) == count {
            return Ok(());
        }
        if began.elapsed() > AGREES {
            bail!("`ray status` does not show {count} nodes after {AGREES:?}:\n{text}");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// How many nodes are listed between `Active:` and `Pending:`; those that have nothing to do are `Idle:` for Ray, and there.
fn present(status: &str) -> usize {
    let lines = status.lines().map(str::trim);
    let lines = lines.skip_while(|line| *line != "Active:").take_while(|line| *line != "Pending:");
    lines.filter_map(|line| line.split_whitespace().next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn nodes_with_and_without_work_are_present_others_are_not() {
        let idle = "Active:\n 1 head\nIdle:\n 7 local.cluster.node\nPending:\n 3 more\nTotal: 9\n";
        assert_eq!(super::present(idle), 8);
        assert_eq!(super::present("Active:\n 1 node_a\n 1 node_b\nPending:\n (no pending nodes)\n"), 2);
        assert_eq!(super::present("no cluster status"), 0);
    }
}
