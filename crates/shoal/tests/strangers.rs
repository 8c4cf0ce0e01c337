//! Peers that don't belong here: the silent, the wrong, the garbled, the old (SEC-1). The run does not notice them.

mod support;

use serde_json::json;
use shoal_sync::control::{self, FromMaster, Register, ToMaster};
use shoal_sync::error::Role;
use shoal_sync::wire::PROTOCOL_VERSION;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use support::gang::{self, Plan};
use support::{Gang, LONG, SOON, TOKEN, host};

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address.trim_start_matches("tcp://")).expect("somebody listens");
    stream.set_read_timeout(Some(LONG)).expect("a time-out");
    stream
}

/// What can be read until the other end hangs up; panics if it does not.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        // Hung up with unread bytes of ours.
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(e) => panic!("not closed: {e}"),
    }
    all
}

fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a live process");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// Where a registered node listens.
fn data_port(gang: &Gang, index: usize) -> String {
    gang.status()["nodes"][index]["address"].as_str().expect("an address").to_string()
}

fn training() -> serde_json::Value {
    json!([{ "do": "train", "lens": [1000, 600_000], "steps": 10, "check": true }, { "do": "shutdown" }])
}

/// Silent and garbled connections to the master, to a worker's and to a server's port while the run gathers: it starts and trains.
#[test]
fn the_run_does_not_notice_them() {
    let mut gang = Plan::new(2, 1).start_without_workers();
    gang.add_worker(0, &training(), &[]);
    gang.master.says("worker 0 on", LONG);
    gang.master.says("server 0 on", LONG);
    let ports = [gang.address.clone(), data_port(&gang, 0), data_port(&gang, 1)];
    let before = memory_kib(gang.master.pid());
    let mut kept = Vec::new();
    for port in &ports {
        kept.push(connect(port));
        for garbage in
            [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n........................"[..], &[0xff; 200_000], b"SHOAL\0", &[0; 3]]
        {
            let mut stream = connect(port);
            // The other end may hang up before all is written.
            let _ = stream.write_all(garbage);
            kept.push(stream);
        }
    }
    gang.add_worker(1, &training(), &[]);
    gang.ends_well();
    for worker in &gang.workers {
        let last = worker.events().into_iter().rfind(|e| e["event"] == "step").expect("steps");
        assert_eq!(last["means"], json!([2.5, 2.5]));
    }
    eprintln!("the master's memory before the strangers: {before} KiB");
    let log = gang.master.stderr();
    assert!(log.contains("turned away: it does not speak this protocol"), "{log}");
}

/// Nothing is allocated for what a stranger announces, and it is hung up on.
#[test]
fn a_stranger_costs_nothing() {
    let mut gang = Plan::new(1, 0).start_without_workers();
    let before = memory_kib(gang.master.pid());
    for _ in 0..20 {
        let mut stream = connect(&gang.address);
        let _ = stream.write_all(&[0xff; 1 << 20]);
        read_to_end(stream);
    }
    // One that has the token, and then announces 4 GiB, and one whose words make no sense.
    for words in [&[0xff; 8][..], &[5, 0, 0, 0, b'{', b'"', b'?', b'"', b'}']] {
        let mut stream = connect(&gang.address);
        shoal_sync::handshake::dial(&mut stream, TOKEN, "the master").expect("proven");
        stream.write_all(words).expect("written");
        stream.set_read_timeout(Some(SOON)).expect("a time-out");
        assert_eq!(read_to_end(stream), Vec::<u8>::new(), "hung up without a word");
    }
    let after = memory_kib(gang.master.pid());
    assert!(after < before + 16 * 1024, "the master grew from {before} to {after} KiB");
    gang.add_worker(0, &training(), &[]);
    gang.ends_well();
}

/// More silent connections than the master keeps at a time: those who belong here come again until there is room.
#[test]
fn a_flood_of_them_only_delays() {
    let mut gang = Plan::new(2, 0).start_without_workers();
    let flood: Vec<TcpStream> = (0..80).map(|_| connect(&gang.address)).collect();
    gang.add_worker(0, &training(), &[]);
    gang.add_worker(1, &training(), &[]);
    gang.ends_well();
    drop(flood);
}

/// After the start nobody listens on a data port any more: a late stranger is refused at once, and the run goes on.
#[test]
fn late_ones_find_the_door_closed() {
    let mut gang = Plan::new(2, 1).start_without_workers();
    let work = json!([{ "do": "train", "lens": [1000], "steps": 200, "pause_ms": 10 }, { "do": "shutdown" }]);
    gang.add_worker(0, &work, &[]);
    gang.add_worker(1, &work, &[]);
    gang.all_reach_step(0);
    for index in 0..3 {
        let port = data_port(&gang, index);
        if let Ok(stream) = TcpStream::connect(&port) {
            stream.set_read_timeout(Some(SOON)).expect("a time-out");
            read_to_end(stream);
        }
    }
    gang.ends_well();
}

/// A wrong token is refused by that name, on both sides; the others are untouched.
#[test]
fn a_wrong_token_is_refused_by_name() {
    let mut gang = Plan::new(2, 0).start_without_workers();
    gang.add_worker(0, &training(), &[]);
    gang.master.says("worker 0 on", LONG);
    let mut env = gang.plan.env.clone();
    env.push(("SHOAL_TOKEN".into(), "guess".into()));
    let mut wrong = gang::worker("wrong", gang.folder.path(), &gang.address, 1, &training(), &env);
    assert_eq!(wrong.end(LONG), 1);
    let error = wrong.error();
    assert_eq!(error["fields"]["error"], "token", "{error}");
    assert!(
        error["text"].to_string().contains("SHOAL_TOKEN") && error["text"].to_string().contains("master"),
        "{error}"
    );
    assert!(gang.master.says("turned away: ", LONG).contains("token is wrong"));
    let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_ps_server"));
    server.args(["--master_address", &gang.address]).env("SHOAL_TOKEN", "guess");
    let mut server = support::Process::start("wrong-server", gang.folder.path(), &mut server);
    assert_eq!(server.end(LONG), 3, "{}", server.said());
    assert!(server.stderr().contains("SHOAL_TOKEN"), "{}", server.stderr());
    gang.add_worker(1, &training(), &[]);
    gang.ends_well();
}

/// Another version is told ours, and both sides name both.
#[test]
fn another_version_is_named_by_both_sides() {
    let mut hello = [7u8; 40];
    hello[..6].copy_from_slice(b"SHOAL\0");
    hello[6] = 9;
    let mut gang = Plan::new(1, 0).start_without_workers();
    let mut old = connect(&gang.address);
    old.write_all(&hello).expect("written");
    let reply = read_to_end(old);
    assert_eq!((&reply[..6], reply[6]), (&b"SHOAL\0"[..], PROTOCOL_VERSION));
    let line = gang.master.says("turned away: ", LONG);
    assert!(line.contains("version 9") && line.contains(&format!("speaks {PROTOCOL_VERSION}")), "{line}");
    gang.add_worker(0, &training(), &[]);
    gang.ends_well();

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let mut worker = gang::worker("new", gang.folder.path(), &address, 0, &json!([]), &[]);
    let (mut stream, _) = listener.accept().expect("the worker dials");
    stream.write_all(&hello).expect("written");
    assert_eq!(worker.end(LONG), 1);
    let text = worker.error()["text"].to_string();
    assert!(text.contains("version 9") && text.contains(&format!("speaks {PROTOCOL_VERSION}")), "{text}");
}

/// A master that isn't one is told from one that is away: the error comes at once.
#[test]
fn a_port_of_something_else_is_named_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("tcp://{}", listener.local_addr().expect("an address"));
    let folder = tempfile::tempdir().expect("a folder");
    let since = Instant::now();
    let mut worker = gang::worker("lost", folder.path(), &address, 0, &json!([]), &[]);
    let (mut stream, _) = listener.accept().expect("the worker dials");
    stream.write_all(&[b'?'; 100]).expect("written");
    assert_eq!(worker.end(LONG), 1);
    assert!(since.elapsed() < Duration::from_secs(30), "its time-out is 60 s");
    let text = worker.error()["text"].to_string();
    assert!(text.contains("does not speak this protocol") && text.contains("127.0.0.1"), "{text}");
}

/// One who knows the token and has a number, but whose frames make no sense, ends the run: its sums could not be trusted.
#[test]
fn a_member_that_breaks_the_protocol_is_named() {
    let mut gang = Plan::new(2, 0).start_without_workers();
    gang.add_worker(0, &training(), &[]);
    gang.master.says("worker 0 on", LONG);
    let mut line = connect(&gang.address);
    shoal_sync::handshake::dial(&mut line, TOKEN, "the master").expect("proven");
    let common = json!({ "block_size": 4 << 20, "deterministic": false, "on_death": "fail" });
    let register = Register {
        role: Role::Worker,
        id: Some(1),
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
    let roster = loop {
        if let FromMaster::Complete(roster) = control::receive(&mut line).expect("the master speaks") {
            break roster;
        }
    };
    let mut peer = connect(&roster.workers[0].address);
    shoal_sync::handshake::dial(&mut peer, TOKEN, "worker 0").expect("proven");
    let mut introduction = Vec::new();
    for word in [1, roster.run, roster.generation, 0] {
        introduction.extend_from_slice(&word.to_le_bytes());
    }
    peer.write_all(&introduction).expect("introduced");
    gang.workers[0].event("joined", LONG, |e| e["event"] == "joined");
    peer.write_all(&[0xee; 4096]).expect("written");
    gang.all_end(Instant::now(), SOON);
    let name = format!("worker 1 on {} (pid {}) broke the protocol", host(), std::process::id());
    let said = gang.said();
    assert!(gang.workers[0].error()["text"].to_string().contains(&name), "{said}");
    assert!(gang.master.stderr().contains(&name), "{said}");
}
