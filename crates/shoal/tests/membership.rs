//! Coming and going: taken numbers, missing nodes, early leavers (GANG-2, GRAD-5).

mod support;

use serde_json::json;
use shoal_sync::control::{self, FromMaster, Register, ToMaster};
use shoal_sync::error::Role;
use std::net::TcpStream;
use std::time::Instant;
use support::gang::{self, Plan};
use support::{LONG, SOON, TOKEN, host, memory_modes};

/// A worker in this process that only registers; it never connects to anyone.
fn half_a_worker(address: &str, id: u32, on_death: &str) -> TcpStream {
    let mut line = TcpStream::connect(address.trim_start_matches("tcp://")).expect("the master listens");
    shoal_sync::handshake::dial(&mut line, TOKEN, "the master").expect("proven");
    let common = json!({ "block_size": 4 << 20, "deterministic": false, "on_death": on_death });
    let register = Register {
        role: Role::Worker,
        id: Some(id),
        host: host(),
        pid: std::process::id(),
        address: None,
        port: 1,
        memory_domain: None,
        meeting: None,
        num_workers: 0,
        common: Some(serde_json::from_value(common).expect("settings")),
        version: "0.1.0".into(),
    };
    control::send(&mut line, &ToMaster::Register(register)).expect("registered");
    line
}

/// Reads up to the roster.
fn until_complete(line: &mut TcpStream) -> Vec<FromMaster> {
    line.set_read_timeout(Some(LONG)).expect("a time-out");
    let mut heard = Vec::new();
    while !matches!(heard.last(), Some(FromMaster::Complete(_))) {
        heard.push(control::receive(line).expect("the master speaks"));
    }
    heard
}

/// The second to come is refused and told who was first, before the run is complete and after; the first is untouched.
#[test]
fn a_number_is_held_by_one_worker() {
    let mut gang = Plan::new(2, 0).start_without_workers();
    let work = json!([{ "do": "train", "lens": [1000], "steps": 150, "pause_ms": 10 }, { "do": "shutdown" }]);
    gang.add_worker(0, &work, &[]);
    gang.master.says("worker 0 on", LONG);
    let holder = format!("worker 0 on {} (pid {})", host(), gang.workers[0].pid());
    let mut second = gang::worker("second", gang.folder.path(), &gang.address, 0, &work, &gang.plan.env);
    assert_eq!(second.end(LONG), 1);
    assert!(second.error()["text"].to_string().contains(&holder), "{}", second.said());
    gang.add_worker(1, &work, &[]);
    gang.all_reach_step(1);
    let mut late = gang::worker("late", gang.folder.path(), &gang.address, 0, &work, &gang.plan.env);
    assert_eq!(late.end(LONG), 1);
    assert!(late.error()["text"].to_string().contains(&holder), "{}", late.said());
    gang.ends_well();
}

/// Whoever waits says who has not come, and for how long it waited.
#[test]
fn missing_nodes_are_named() {
    let mut gang = Plan::new(3, 1).env("SHOAL_CONNECT_TIMEOUT", "2").start_without_workers();
    gang.add_worker(1, &json!([]), &[]);
    assert_eq!(gang.workers[0].end(LONG), 1);
    let text = gang.workers[0].error()["text"].to_string();
    assert!(text.contains("waited 2 s") && text.contains("worker 0, 2"), "{text}");

    let mut gang = Plan::new(1, 2).env("SHOAL_CONNECT_TIMEOUT", "2").start_without_workers();
    gang.servers[0].kill();
    gang.servers.remove(0);
    gang.add_worker(0, &json!([]), &[]);
    assert_eq!(gang.workers[0].end(LONG), 1);
    let text = gang.workers[0].error()["text"].to_string();
    assert!(text.contains("server 0"), "{text}");
}

/// Without a master, the error says where it was looked for.
#[test]
fn an_absent_master_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("SHOAL_CONNECT_TIMEOUT".to_string(), "1".to_string())];
    let mut worker = gang::worker("worker", folder.path(), &format!("tcp://{free}"), 0, &json!([]), &env);
    assert_eq!(worker.end(LONG), 1);
    let text = worker.error()["text"].to_string();
    assert!(text.contains("the master") && text.contains(&free), "{text}");
    let args = ["--master_address", &free, "--connect-timeout", "1"];
    let mut server = gang::program("ps_server", "server", folder.path(), &args);
    assert_eq!(server.end(LONG), 3, "{}", server.said());
    assert!(server.stderr().contains("the master") && server.stderr().contains(&free), "{}", server.stderr());
}

/// A worker dies after the roster is out and before anyone has met it: the others don't wait for it till their patience ends.
#[test]
fn a_death_between_roster_and_first_meeting_is_seen() {
    for servers in [0, 2] {
        let mut gang = Plan::new(3, servers).start_without_workers();
        let mut half = half_a_worker(&gang.address, 1, "fail");
        gang.add_worker(0, &json!([{ "do": "push" }]), &[]);
        gang.add_worker(2, &json!([{ "do": "push" }]), &[]);
        until_complete(&mut half);
        let left = Instant::now();
        drop(half);
        let took = gang.all_end(left, SOON);
        eprintln!("servers {servers}: all ended after {took:?}");
        let said = gang.said();
        let name = format!("worker 1 on {} (pid {}) died", host(), std::process::id());
        for process in gang.everyone() {
            assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
            let text =
                if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
            assert!(text.contains(&name), "{} says {text}, not {name}\n{said}", process.name);
        }
    }
}

/// The same where the run goes on without the dead.
#[test]
fn a_death_before_the_first_meeting_can_be_survived() {
    let mut gang = Plan::new(3, 2).on_death("continue").start_without_workers();
    let mut half = half_a_worker(&gang.address, 1, "continue");
    let work = json!([{ "do": "push", "len": 500_000 }, { "do": "shutdown" }]);
    gang.add_worker(0, &work, &[]);
    gang.add_worker(2, &work, &[]);
    until_complete(&mut half);
    drop(half);
    gang.ends_well();
    for worker in &gang.workers {
        let pushed = worker.events().into_iter().find(|e| e["event"] == "pushed");
        assert_eq!(pushed.expect("a sum")["value"], 2.0);
    }
}

/// All register in one moment: each hears its own number before it hears that the run is complete.
#[test]
fn nobody_hears_the_roster_before_its_welcome() {
    for round in 0..25 {
        let gang = Plan::new(8, 0).start_without_workers();
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for id in 0..8 {
                let (start, address) = (&start, &gang.address);
                scope.spawn(move || {
                    start.wait();
                    let mut line = half_a_worker(address, id, "fail");
                    let heard = until_complete(&mut line);
                    let first = heard.first();
                    assert_eq!(first, Some(&FromMaster::Welcome { id }), "round {round}");
                });
            }
        });
    }
}

/// Unequal numbers of steps: whoever finishes early is not waited for, and its shard still serves.
#[test]
fn finishing_early_is_not_dying() {
    for (memory, servers) in memory_modes().into_iter().flat_map(|m| [(m, 0), (m, 2)]) {
        let mut gang = Plan::new(3, servers).shared_memory(memory).start_without_workers();
        for id in 0..3u64 {
            let train = json!({ "do": "train", "lens": [100, 600_000], "steps": 3 + 4 * id, "check": true });
            gang.add_worker(id as u32, &json!([train, { "do": "finish" }, { "do": "shutdown" }]), &[]);
        }
        gang.ends_well();
        let last = gang.workers[2].events().into_iter().rfind(|e| e["event"] == "step");
        assert_eq!(last.expect("steps")["means"], json!([16.0, 16.0]), "the last one trains alone");
    }
}

/// A script that just ends, with exit code 0, in the middle of a run has died for the others.
#[test]
fn leaving_without_a_word_is_dying() {
    for servers in [0, 1] {
        let mut gang = Plan::new(3, servers).start_without_workers();
        let work = json!([{ "do": "train", "lens": [100, 600_000] }]);
        gang.add_worker(0, &work, &[]);
        gang.add_worker(1, &work, &[]);
        gang.add_worker(
            2,
            &json!([{ "do": "train", "lens": [100, 600_000], "steps": 5 }, { "do": "exit", "code": 0 }]),
            &[],
        );
        assert_eq!(gang.workers[2].end(LONG), 0);
        gang.all_end(Instant::now(), SOON);
        let name = format!("worker 2 on {} (pid {}) died", host(), gang.workers[2].pid());
        let said = gang.said();
        for process in gang.everyone().filter(|p| p.name != "worker2") {
            assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
            let text =
                if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
            assert!(text.contains(&name), "{} says {text}\n{said}", process.name);
        }
    }
}

/// A worker that has finished still carries a shard; when it is killed, all (and the master) blame it and not each other.
#[test]
fn a_finished_worker_can_still_be_missed() {
    let mut gang = Plan::new(3, 0).start_without_workers();
    let work = json!([{ "do": "train", "lens": [100, 600_000] }]);
    gang.add_worker(
        0,
        &json!([{ "do": "train", "lens": [100, 600_000], "steps": 2 }, { "do": "finish" }, { "do": "shutdown" }]),
        &[],
    );
    gang.add_worker(1, &work, &[]);
    gang.add_worker(2, &work, &[]);
    gang.workers[0].event("finish", LONG, |e| e["did"] == "finish");
    gang.workers[2].reaches_step(5);
    let (pid, killed) = (gang.workers[0].pid(), Instant::now());
    gang.workers[0].kill();
    let took = gang.all_end(killed, SOON);
    eprintln!("all ended after {took:?}");
    let name = format!("worker 0 on {} (pid {pid}) died", host());
    let said = gang.said();
    for process in gang.everyone().filter(|p| p.name != "worker0") {
        assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
        let text = if process.name == "master" {
            process.stderr().lines().last().unwrap_or_default().to_string()
        } else {
            process.error()["text"].to_string()
        };
        assert!(text.contains(&name), "{} says {text}\n{said}", process.name);
    }
}

/// A worker that gives up says why, and all hear its words.
#[test]
fn giving_up_is_told_to_all() {
    for servers in [0, 1] {
        let mut gang = Plan::new(3, servers).start_without_workers();
        let work = json!([{ "do": "train", "lens": [100, 600_000] }]);
        gang.add_worker(0, &work, &[]);
        gang.add_worker(1, &json!([{ "do": "train", "lens": [100, 600_000], "steps": 3 }, { "do": "abort", "why": "the loss is NaN" }]), &[]);
        gang.add_worker(2, &work, &[]);
        assert_eq!(gang.workers[1].end(LONG), 4);
        gang.all_end(Instant::now(), SOON);
        let said = gang.said();
        for process in gang.everyone().filter(|p| p.name != "worker1") {
            assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
            let text =
                if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
            assert!(
                text.contains("worker 1 on") && text.contains("gave up: the loss is NaN"),
                "{} says {text}\n{said}",
                process.name
            );
        }
    }
}
