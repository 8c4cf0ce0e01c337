//! Workers on hosts of their own, with a real network between them: sums, and a host that falls silent (GRAD-5, GANG-2).

mod support;

use serde_json::json;
use shoal_testkit::{Host, Hosts, HostsSpec};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{LONG, Process, SOON, TOKEN};

const PORT: u16 = 5555;

/// Silence is found by the kernel's keep-alive after about seven seconds; a loaded machine may take longer.
const SILENCE: Duration = Duration::from_secs(30);

/// Hosts that see the built programs, which may lie below a folder that hosts have for themselves.
fn hosts(name: &str) -> Option<Hosts> {
    let programs = Path::new(env!("CARGO_BIN_EXE_ps_master")).parent()?.to_path_buf();
    let mut spec = HostsSpec::new(name, 3);
    spec.share = vec![programs];
    Hosts::up_or_skip(spec)
}

fn start(host: &Host, name: &str, folder: &Path, program: &Path, set_up: impl FnOnce(&mut Command)) -> Process {
    let mut command = host.command(&program.to_string_lossy());
    command.env("SHOAL_TOKEN", TOKEN).env("SHOAL_LOG", "info");
    set_up(&mut command);
    Process::start(name, folder, &mut command)
}

/// A master on the first host and some workers on each.
fn gang(hosts: &Hosts, each: usize, folder: &Path, work: &serde_json::Value) -> (Process, Vec<Process>) {
    let address = format!("tcp://{}:{PORT}", hosts.host(0).address);
    let master = start(hosts.host(0), "master", folder, Path::new(env!("CARGO_BIN_EXE_ps_master")), |command| {
        command.args(["--address", &address, "--workers", &(3 * each).to_string()]);
    });
    let me = std::env::current_exe().expect("this test's path");
    let workers = (0..3 * each)
        .map(|id| {
            start(hosts.host(id / each), &format!("worker{id}"), folder, &me, |command| {
                command.args(["support::worker_process", "--exact", "--nocapture", "--test-threads=1"]);
                command.env("SHOAL_MASTER_ADDRESS", &address).env("SHOAL_CLIENT_ID", id.to_string());
                command.env("SHOAL_CONNECT_TIMEOUT", "30").env("SHOAL_TEST_WORK", work.to_string());
            })
        })
        .collect();
    (master, workers)
}

/// The same bytes on all hosts, small and large tensors, and everyone ends well.
#[test]
fn sums_are_the_same_on_all_hosts() {
    let Some(hosts) = hosts("sums") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let work = json!([{ "do": "train", "steps": 3, "lens": [1000, 2_000_000], "check": true }, { "do": "shutdown" }]);
    let (mut master, mut workers) = gang(&hosts, 1, folder.path(), &work);
    let hashes: Vec<_> = workers.iter_mut().map(|w| w.reaches_step(2)["hash"].clone()).collect();
    assert!(hashes[0].is_string() && hashes.iter().all(|h| *h == hashes[0]), "{hashes:?}");
    for process in workers.iter_mut().chain([&mut master]) {
        assert_eq!(process.end(LONG), 0, "{}", process.said());
    }
}

/// Several workers a host: what leaves it is one sum, not one for each.
#[test]
fn one_sum_leaves_each_host() {
    let Some(hosts) = hosts("teams") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let work = json!([{ "do": "train", "steps": 5, "lens": [1000, 2_000_000], "check": true }, { "do": "shutdown" }]);
    let (mut master, mut workers) = gang(&hosts, 2, folder.path(), &work);
    let hashes: Vec<_> = workers.iter_mut().map(|w| w.reaches_step(2)["hash"].clone()).collect();
    assert!(hashes[0].is_string() && hashes.iter().all(|h| *h == hashes[0]), "{hashes:?}");
    for process in workers.iter_mut().chain([&mut master]) {
        assert_eq!(process.end(LONG), 0, "{}", process.said());
    }
    for host in 0..3 {
        // One sum of 8 MB a step; three hosts send each other two thirds of it, twice. Without it, it would be 1.67 times as much.
        let least = 5.0 * 2.0 * 8e6 * 2.0 / 3.0;
        let sent = sent_by(hosts.host(host)) as f64;
        eprintln!("host {host} sent {:.2} of what one sum a step needs", sent / least);
        assert!((least..least * 1.2).contains(&sent), "host {host} sent {sent} bytes, one sum a step needs {least}");
    }
}

fn sent_by(host: &Host) -> u64 {
    let file = "/sys/class/net/eth0/statistics/tx_bytes";
    let output = host.command("cat").arg(file).output().expect("cat");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of bytes")
}

/// A host whose link goes down says nothing and closes nothing; the others end all the same, and name its worker.
#[test]
fn a_silent_host_is_found_and_named() {
    silent_host("silent", 1);
}

#[test]
fn a_silent_host_with_several_workers_is_found_and_named() {
    silent_host("silent2", 2);
}

fn silent_host(name: &str, each: usize) {
    let Some(hosts) = hosts(name) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let work = json!([{ "do": "train", "lens": [1000, 200_000], "pause_ms": 5 }]);
    let (mut master, mut workers) = gang(&hosts, each, folder.path(), &work);
    for worker in &mut workers {
        worker.reaches_step(3);
    }
    let down = Command::new("ip").args(["-netns", &hosts.host(2).namespace, "link", "set", "eth0", "down"]).status();
    assert!(down.is_ok_and(|s| s.success()), "the link could not be switched off");
    let since = Instant::now();
    let names: Vec<String> = (0..each).map(|k| format!("worker {} on {}", 2 * each + k, hosts.host(2).name)).collect();
    for worker in &mut workers[..2 * each] {
        worker.end(SILENCE);
        let text = worker.error()["text"].to_string();
        assert!(names.iter().any(|name| text.contains(name)), "{text}");
    }
    eprintln!("the others ended {:.1} s after the link went down", since.elapsed().as_secs_f32());
    assert_ne!(master.end(SOON), 0);
    assert!(names.iter().any(|name| master.said().contains(&name[..8])), "{}", master.said());
    workers[2 * each..].iter_mut().for_each(|w| assert_ne!(w.end(SILENCE), 0));
}
