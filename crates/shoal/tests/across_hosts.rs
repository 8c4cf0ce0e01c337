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

/// A master on the first host and a worker on each.
fn gang(hosts: &Hosts, folder: &Path, work: &serde_json::Value) -> (Process, Vec<Process>) {
    let address = format!("tcp://{}:{PORT}", hosts.host(0).address);
    let master = start(hosts.host(0), "master", folder, Path::new(env!("CARGO_BIN_EXE_ps_master")), |command| {
        command.args(["--address", &address, "--workers", "3"]);
    });
    let me = std::env::current_exe().expect("this test's path");
    let workers = (0..3)
        .map(|id| {
            start(hosts.host(id), &format!("worker{id}"), folder, &me, |command| {
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
    let (mut master, mut workers) = gang(&hosts, folder.path(), &work);
    let hashes: Vec<_> = workers.iter_mut().map(|w| w.reaches_step(2)["hash"].clone()).collect();
    assert!(hashes[0].is_string() && hashes.iter().all(|h| *h == hashes[0]), "{hashes:?}");
    for process in workers.iter_mut().chain([&mut master]) {
        assert_eq!(process.end(LONG), 0, "{}", process.said());
    }
}

/// A host whose link goes down says nothing and closes nothing; the others end all the same, and name its worker.
#[test]
fn a_silent_host_is_found_and_named() {
    let Some(hosts) = hosts("silent") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let work = json!([{ "do": "train", "lens": [1000, 200_000], "pause_ms": 5 }]);
    let (mut master, mut workers) = gang(&hosts, folder.path(), &work);
    for worker in &mut workers {
        worker.reaches_step(3);
    }
    let down = Command::new("ip").args(["-netns", &hosts.host(2).namespace, "link", "set", "eth0", "down"]).status();
    assert!(down.is_ok_and(|s| s.success()), "the link could not be switched off");
    let since = Instant::now();
    for worker in &mut workers[..2] {
        worker.end(SILENCE);
        let text = worker.error()["text"].to_string();
        assert!(text.contains(&format!("worker 2 on {}", hosts.host(2).name)), "{text}");
    }
    eprintln!("the others ended {:.1} s after the link went down", since.elapsed().as_secs_f32());
    assert_ne!(master.end(SOON), 0);
    assert!(master.said().contains("worker 2"), "{}", master.said());
    workers[2].end(SILENCE);
}
