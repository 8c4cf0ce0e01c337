//! `ps_master` and `ps_server` as people meet them: help, status, metrics, signals, exit codes, and a secret that stays one (SEC-2).

mod support;

use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use support::gang::{self, Plan};
use support::{LONG, Process, SOON, TOKEN, host};

const PROGRAMS: [(&str, &str); 2] =
    [("ps_master", env!("CARGO_BIN_EXE_ps_master")), ("ps_server", env!("CARGO_BIN_EXE_ps_server"))];

fn training() -> serde_json::Value {
    json!([{ "do": "train", "lens": [1000, 300_000], "pause_ms": 5 }])
}

/// Help says what each exit code means and where the token comes from.
#[test]
fn help_states_exit_codes() {
    for (name, path) in PROGRAMS {
        let out = Command::new(path).arg("--help").output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success());
        for part in ["Usage:", "Exit codes:", "  0  ", "  1  ", "  2  ", "  3  ", "SHOAL_TOKEN"] {
            assert!(text.contains(part), "{name} --help does not say {part}:\n{text}");
        }
        let wrong = Command::new(path).arg("--no-such-flag").output().expect("it runs");
        assert_eq!(wrong.status.code(), Some(2), "{name}");
    }
}

/// Without a token nothing starts, and the hint says how to make one.
#[test]
fn no_token_is_a_usage_error_with_a_hint() {
    for (name, path) in PROGRAMS {
        let out = Command::new(path).env_remove("SHOAL_TOKEN").output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{name}: {text}");
        assert!(text.contains("SHOAL_TOKEN") && text.contains("openssl rand"), "{name}: {text}");
    }
}

/// A taken port is called that, with the port.
#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let mut master = gang::program("ps_master", "master", folder.path(), &["--address", &address]);
    assert_eq!(master.end(LONG), 3, "{}", master.said());
    let text = master.stderr();
    assert!(text.contains(&address) && text.contains("in use") && text.contains("another ps_master"), "{text}");
    let args = ["--address", "127.0.0.1:0", "--metrics", &address];
    let mut master = gang::program("ps_master", "metrics", folder.path(), &args);
    assert_eq!(master.end(LONG), 3, "{}", master.said());
    assert!(master.stderr().contains("metrics") && master.stderr().contains(&address), "{}", master.stderr());
}

/// The state of a run as a table and as JSON: gathering, complete, with names, processes and addresses.
#[test]
fn status_shows_the_run() {
    let mut gang = Plan::new(2, 1).start_without_workers();
    gang.add_worker(0, &training(), &[]);
    gang.master.says("worker 0 on", LONG);
    let table = |gang: &support::Gang| {
        let args = ["--status", "--address", &gang.address];
        let mut asking = gang::program("ps_master", "table", gang.folder.path(), &args);
        assert_eq!(asking.end(LONG), 0, "{}", asking.said());
        asking.stdout()
    };
    let text = table(&gang);
    assert!(text.starts_with("gathering: still missing worker 1"), "{text}");
    gang.add_worker(1, &training(), &[]);
    gang.all_reach_step(1);
    let text = table(&gang);
    assert!(text.starts_with("complete\nNODE"), "{text}");
    for (name, pid) in
        [("worker 0", gang.workers[0].pid()), ("worker 1", gang.workers[1].pid()), ("server 0", gang.servers[0].pid())]
    {
        let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name} in\n{text}"));
        assert!(line.contains(&pid.to_string()) && line.contains(&host()) && line.ends_with("alive"), "{line}");
    }
    let status = gang.status();
    assert_eq!((&status["version"], &status["complete"], &status["missing"]), (&json!(1), &json!(true), &json!(null)));
    assert_eq!(status["nodes"].as_array().map(Vec::len), Some(3));
    assert_eq!(status["nodes"][2]["role"], "server");
}

fn scrape(url: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches("/metrics");
    let mut stream = TcpStream::connect(address).expect("metrics are served");
    stream.set_read_timeout(Some(LONG)).expect("a time-out");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    body.to_string()
}

/// Prometheus text of master and server during a run; the port that the system chose is in the log.
#[test]
fn metrics_of_master_and_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["--address", "127.0.0.1:0", "--workers", "1", "--servers", "1", "--metrics", "127.0.0.1:0"];
    let master = gang::program("ps_master", "master", folder.path(), &args);
    let said = master.says("listening on ", LONG);
    let address = said.split_whitespace().next().expect("an address").to_string();
    let args = ["--master_address", &address, "--metrics", "127.0.0.1:0"];
    let server = gang::program("ps_server", "server", folder.path(), &args);
    let mut worker = gang::worker("worker", folder.path(), &address, 0, &training(), &[]);
    worker.reaches_step(3);
    let body = scrape(&master.says("metrics at ", LONG));
    for line in [
        "shoal_nodes{role=\"worker\",state=\"alive\"} 1",
        "shoal_nodes{role=\"server\",state=\"alive\"} 1",
        "shoal_run_complete 1",
    ] {
        assert!(body.contains(line), "{body}");
    }
    let body = scrape(&server.says("metrics at ", LONG));
    let value = |name: &str| -> u64 {
        let line =
            body.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("no {name} in\n{body}"));
        line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
    };
    assert!(value("shoal_bytes_received_total") > 1_000_000 && value("shoal_chunks_summed_total") > 3, "{body}");
}

/// SIGTERM: the program ends well, and the others hear who stopped.
#[test]
fn sigterm_ends_a_run_by_name() {
    for (victim, name) in
        [("master", format!("the master on {}", host())), ("server0", format!("server 0 on {}", host()))]
    {
        let mut gang = Plan::new(2, 2).start(&training());
        gang.all_reach_step(2);
        let since = Instant::now();
        gang.named(victim).signal("TERM");
        let took = gang.all_end(since, SOON);
        eprintln!("SIGTERM of {victim}: all ended after {took:?}");
        let said = gang.said();
        for process in gang.everyone() {
            if process.name == victim {
                assert_eq!(process.end(SOON), 0, "{said}");
                continue;
            }
            assert_eq!(process.end(SOON), 1, "{}\n{said}", process.name);
            let text =
                if process.name.starts_with("worker") { process.error()["text"].to_string() } else { process.stderr() };
            assert!(text.contains(&name) && text.contains("told to stop"), "{} says {text}\n{said}", process.name);
        }
    }
}

/// SIGTERM before the run has begun ends both programs as well, at once.
#[test]
fn sigterm_while_gathering() {
    let mut gang = Plan::new(2, 1).start_without_workers();
    gang.master.says("server 0 on", LONG);
    gang.servers[0].signal("TERM");
    assert_eq!(gang.servers[0].end(SOON), 0, "{}", gang.servers[0].said());
    gang.master.signal("TERM");
    assert_eq!(gang.master.end(SOON), 0, "{}", gang.master.said());

    // And one that has no master to reach.
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = gang::program("ps_server", "server", folder.path(), &["--master_address", "127.0.0.1:1"]);
    std::thread::sleep(Duration::from_millis(300));
    server.signal("TERM");
    assert_eq!(server.end(SOON), 0, "{}", server.said());
}

/// The second SIGTERM does not wait for anything: here, for a run whose loop is stopped from looking.
#[test]
fn a_second_sigterm_ends_at_once() {
    let mut gang = Plan::new(2, 1).start_without_workers();
    gang.master.says("server 0 on", LONG);
    gang.servers[0].signal("STOP");
    gang.servers[0].signal("TERM");
    gang.servers[0].signal("INT");
    gang.servers[0].signal("CONT");
    let code = gang.servers[0].end(SOON);
    assert!([0, 128 + 2, 128 + 15].contains(&code), "{code}: {}", gang.servers[0].said());
}

/// The token is in no log, in no error and on no command line.
#[test]
fn the_token_is_nowhere_to_be_seen() {
    let mut gang = Plan::new(2, 1).env("SHOAL_LOG", "trace").start(&training());
    gang.all_reach_step(2);
    let _ = gang.status();
    for pid in gang.everyone().map(|p| p.pid()).collect::<Vec<_>>() {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("a live process");
        assert!(!String::from_utf8_lossy(&line).contains(TOKEN), "the token is on a command line");
    }
    gang.workers[1].kill();
    gang.all_end(Instant::now(), SOON);
    for file in std::fs::read_dir(gang.folder.path()).expect("outputs").flatten() {
        let text = std::fs::read(file.path()).expect("an output");
        assert!(!String::from_utf8_lossy(&text).contains(TOKEN), "the token is in {}", file.path().display());
    }
}

/// Logs that go to a file hold no terminal codes; as JSON, every line is an object.
#[test]
fn logs_are_plain_or_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = gang::program("ps_master", "plain", folder.path(), &["--address", "127.0.0.1:0"]);
    plain.says("listening on", LONG);
    assert!(!plain.stderr().contains('\u{1b}'), "{:?}", plain.stderr());
    let objects = gang::program("ps_master", "json", folder.path(), &["--address", "127.0.0.1:0", "--log-json"]);
    objects.says("listening on", LONG);
    for line in objects.stderr().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    }
}

/// The harness itself: whatever a test leaves behind is gone when its gang is.
#[test]
fn nothing_is_left() {
    let mut gang = Plan::new(2, 1).start(&training());
    gang.all_reach_step(1);
    gang.workers[0].signal("STOP");
    let pids: Vec<u32> = gang.everyone().map(|p: &mut Process| p.pid()).collect();
    drop(gang);
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
}
