//! The queue's verbs as people meet them: what they print is kept in `tests/cli`.

mod support;

use shoal_testkit::{Hosts, HostsSpec};
use support::desk::{Desk, read, text};
use support::until;

/// A sweep of runs that wait for a file.
fn waiting(desk: &Desk, name: &str, runs: usize) -> std::path::PathBuf {
    let go = desk.work().join(format!("{name}.go"));
    desk.file("wait.sh", "echo started; until [ -e \"$GO\" ]; do sleep 0.05; done; echo over\n");
    let numbers: Vec<String> = (0..runs).map(|n| n.to_string()).collect();
    let (axis, set) = (format!("n={}", numbers.join(",")), format!("GO={}", go.display()));
    desk.says(&["sweep", "--grid", &axis, "--name", name, "--env", &set, "--", "sh", "wait.sh"]);
    go
}

#[test]
fn where_no_queue_is_nothing_is_started() {
    let desk = Desk::new();
    assert_eq!(desk.says(&["ps"]), "RUN  STATE  AGE  RANKS  HOSTS  COMMAND\n");
    for args in [
        &["ps", "mlp"][..],
        &["why", "mlp"],
        &["results", "mlp"],
        &["retry", "mlp"],
        &["pause", "mlp"],
        &["resume", "--host", "a"],
        &["drain", "a"],
        &["hosts"],
        &["token", "list"],
        &["logs", "mlp:0.0"],
        &["stop", "mlp:0"],
    ] {
        desk.fails(3, args, &["no queue here yet", "`shoal sweep` starts one"]);
    }
    desk.fails(3, &["serve", "--stop"], &["no daemon has"]);
    // Not the queue's words: detached runs are looked for, as ever.
    desk.fails(2, &["logs", "261116-020304-a1b2c3"], &["no run 261116-020304-a1b2c3 on"]);
    desk.fails(2, &["stop", "261116-020304-a1b2c3"], &["no run 261116-020304-a1b2c3 on"]);
    assert!(!desk.store().exists());
}

#[test]
fn pausing_explaining_following_and_stopping() {
    let mut desk = Desk::new();
    let go = waiting(&desk, "mlp", 3);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    desk.until("mlp", "running", |row| row["running"].as_u64() >= Some(cpus.min(3) as u64));
    for (word, near) in [("mpl", "did you mean mlp?"), ("mlp:9", "from 0 to 2"), ("mlp:0.1", "from 0 to 0")] {
        desk.fails(2, &["why", word], &[near]);
        desk.fails(2, &["retry", word], &[near]);
    }
    desk.fails(2, &["drain", "nowhere"], &["no host nowhere in the queue"]);
    desk.fails(2, &["logs", "mlp"], &["say which"]);

    desk.says(&["pause", "mlp"]);
    let paused = desk.until("mlp", "paused", |row| row["paused"] == true);
    assert_eq!(paused["failed"], 0);
    desk.says(&["resume", "mlp"]);
    desk.until("mlp", "resumed", |row| row["paused"] == false);
    let reasons = desk.json(&["why", "mlp:0.0", "--json"]);
    assert_eq!(reasons["reasons"][0]["state"], "running", "{reasons}");
    desk.says(&["why", "mlp"]);

    // Followed while it writes, to its end.
    let mut follow =
        desk.shoal(&["logs", "-f", "mlp:0.0"]).stdout(std::process::Stdio::piped()).spawn().expect("shoal runs");
    std::fs::write(&go, "").expect("a file");
    desk.until("mlp", "finished", |row| row["finished"] == 3);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut follow.stdout.take().expect("stdout"), &mut said).expect("text");
    assert_eq!(said, "started\nover\n");
    assert!(follow.wait().expect("an end").success());

    desk.hide("1 min", "[time]");
    let table = desk.says(&["ps"]);
    assert!(table.starts_with("SWEEP") && table.contains("3/3"), "{table}");
    assert!(desk.says(&["ps", "--group-by", "state"]).contains("finished"));
    assert!(desk.says(&["ps", "--group-by", "sweep"]).contains("mlp"));
    assert_eq!(desk.json(&["ps", "mlp:1", "--json"])["total"], 1);
    let hosts = desk.json(&["hosts", "--json"]);
    assert_eq!(hosts["hosts"].as_array().map(Vec::len), Some(1), "{hosts}");
    assert!(desk.says(&["hosts"]).contains(" up "));

    // Where runs were is found when they are over, too.
    let name = hosts["hosts"][0]["name"].as_str().expect("a name").to_string();
    assert_eq!(desk.says(&["ps", "mlp", "--host", &name]).matches("finished").count(), 3);
    assert_eq!(desk.json(&["ps", "--state", "finished", "--host", &name, "--json"])["total"], 3);
    assert_eq!(desk.json(&["ps", "--host", &name, "--json"])["total"], 0, "nothing is there now");
    let groups = desk.json(&["ps", "mlp", "--group-by", "host", "--json"]);
    assert_eq!(
        (&groups["groups"][0]["group"], &groups["groups"][0]["runs"]["finished"]),
        (&name.as_str().into(), &3.into())
    );

    // It is all there is: without it, nothing could ever run.
    desk.fails(1, &["hosts", "--remove", &name], &["the only host"]);

    // A drained host gets nothing more, until it is taken back.
    desk.says(&["drain", &name]);
    let again = waiting(&desk, "next", 1);
    std::fs::write(&again, "").expect("a file");
    let why = desk.json(&["why", "next:0.0", "--json"]);
    assert_eq!(why["reasons"][0]["state"], "waiting", "{why}");
    desk.says(&["resume", "--host", &name]);
    desk.until("next", "finished", |row| row["finished"] == 1);
}

#[test]
fn the_daemon_ends_and_runs_do_not() {
    let desk = Desk::new();
    let go = waiting(&desk, "mlp", 1);
    desk.until("mlp", "running", |row| row["running"] == 1);
    desk.says(&["serve", "--stop"]);
    // Plain `ps` wakes nobody; asking for the sweep does.
    let asleep = desk.ends(&["ps"]);
    assert_eq!(asleep.status.code(), Some(3), "there was work");
    assert!(text(&asleep.stderr).contains("the queue sleeps"), "{}", text(&asleep.stderr));
    std::fs::write(&go, "").expect("a file");
    until(support::desk::BOUND, "the run to be recorded", || {
        let runs = desk.json(&["ps", "mlp", "--json"]);
        (runs["runs"][0]["state"] == "finished").then_some(())
    });
    assert_eq!(desk.says(&["logs", "mlp:0.0"]), "started\nover\n");
    // One store, one daemon: one that a client started gives way to one that somebody means to run, and nobody else does.
    let mut meant = desk.shoal(&["serve"]).spawn().expect("shoal runs");
    until(support::desk::BOUND, "it to take over", || {
        read(&desk.store().join("lock")).contains(&format!("\"pid\":{},", meant.id())).then_some(())
    });
    desk.fails(3, &["serve"], &["is served by process"]);
    until(support::desk::BOUND, "its socket", || desk.store().join("socket").exists().then_some(()));
    desk.says(&["serve", "--stop"]);
    assert!(meant.wait().expect("an end").success());
}

#[test]
fn a_project_without_the_package_is_told_so() {
    let desk = Desk::new();
    let python = desk.file("venv/bin/python", "#!/bin/sh\nexec python3 -S -I \"$@\"\n");
    let mut permissions = std::fs::metadata(&python).expect("a file").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&python, permissions).expect("its mode");
    let mut ludwig = desk.shoal(&["ludwig", "-n"]);
    let done = ludwig.env("VIRTUAL_ENV", desk.work().join("venv")).output().expect("shoal runs");
    assert_eq!(done.status.code(), Some(3));
    assert!(
        text(&done.stderr).contains("has no package `shoal`\n  hint: activate the virtualenv"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn help_says_when_to_use_it() {
    let desk = Desk::new();
    for verb in [
        "sweep", "serve", "why", "results", "hosts", "drain", "pause", "resume", "retry", "token", "ps", "logs", "stop",
    ] {
        let help = desk.says(&[verb, "--help"]);
        for part in ["Use it ", "Exit codes:", "Examples:"] {
            assert!(help.contains(part), "no `{part}` in the help of {verb}:\n{help}");
        }
    }
    let unit = desk.says(&["serve", "--unit", "-f", "lab.yaml", "--listen", "0.0.0.0:7420"]);
    assert!(unit.contains("serve -f") && unit.contains("KillMode=process"), "{unit}");
    let unit = desk.says(&["serve", "--unit", "--agent", "shoal://queue.lab:7420#ab"]);
    assert!(unit.contains("host agent --connect"), "{unit}");
    desk.looks_like("serve_wrong_fleet", &["serve", "-f", "none.yaml"]);
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address").port()
}

#[test]
fn people_and_hosts_elsewhere_come_in_with_tokens() {
    let desk = Desk::new();
    let listen = format!("127.0.0.1:{}", port());
    let mut daemon = desk.shoal(&["serve", "--listen", &listen]).spawn().expect("shoal runs");
    until(support::desk::BOUND, "a daemon", || desk.store().join("socket").exists().then_some(()));
    let token = |user: &str, role: &str| {
        let made = desk.json(&["token", "add", user, "--role", role, "--json"]);
        let queue = made["queue"].as_str().expect("a queue").to_string();
        assert!(queue.contains(&format!(":{}#", listen.rsplit(':').next().expect("a port"))), "{queue}");
        let fingerprint = queue.split('#').nth(1).expect("a fingerprint").to_string();
        (format!("shoal://{listen}#{fingerprint}"), made["token"].as_str().expect("a token").to_string())
    };
    let elsewhere = |(queue, token): &(String, String), args: &[&str]| {
        let mut command = desk.shoal(args);
        command.env_remove("SHOAL_STORE").env("SHOAL_QUEUE", queue).env("SHOAL_QUEUE_TOKEN", token);
        let output = command.output().expect("shoal runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (alice, eve) = (token("alice", "submit"), token("eve", "read"));
    let (code, _, said) = elsewhere(&alice, &["sweep", "--name", "hers", "--wait", "--", "echo", "hello"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(elsewhere(&alice, &["logs", "hers"]).1, "hello\n");
    assert!(elsewhere(&eve, &["ps"]).1.contains("alice"), "whose it is");
    let (code, _, said) = elsewhere(&eve, &["stop", "hers"]);
    assert!(code == Some(1) && said.contains("eve may not do this"), "{said}");
    let (code, _, said) = elsewhere(&alice, &["token", "list"]);
    assert!(code == Some(1) && said.contains("alice may not do this"), "{said}");
    let wrong = (alice.0.clone(), "0".repeat(64));
    let (code, _, said) = elsewhere(&wrong, &["hosts"]);
    assert!(matches!(code, Some(1 | 3)) && said.contains("not admitted") && !said.contains("alice"), "{said}");
    desk.says(&["token", "remove", "eve"]);
    assert_ne!(elsewhere(&eve, &["hosts"]).0, Some(0));
    assert!(desk.says(&["token", "list"]).contains("alice"));

    // A host that calls: nobody logs in there.
    let node = token("node9", "host");
    let mut command = desk.shoal(&["host", "agent", "--connect", &node.0]);
    command.env("SHOAL_QUEUE_TOKEN", &node.1).env("SHOAL_HOST_DIR", desk.work().join("node9"));
    let mut agent = Ends(command.spawn().expect("an agent"));
    until(support::desk::BOUND, "node9", || is_there(&desk, "node9").then_some(()));
    desk.says(&["sweep", "--name", "there", "--on", "node9", "--wait", "--", "sh", "-c", "echo there > out.txt"]);
    let rows = desk.json(&["results", "there", "--json"]);
    assert_eq!(rows["rows"][0]["host"], "node9");
    assert_eq!(
        read(&std::path::Path::new(rows["rows"][0]["folder"].as_str().expect("a folder")).join("out.txt")),
        "there\n"
    );
    // The daemon dies and comes back; the run goes on meanwhile and is found again, once.
    let (go, ledger) = (desk.work().join("go"), desk.work().join("ledger"));
    let script = format!(
        "env > env.txt; echo $SHOAL_RUN >> {0}; until [ -e {1} ]; do sleep 0.05; done",
        ledger.display(),
        go.display()
    );
    desk.says(&["sweep", "--name", "long", "--on", "node9", "--", "sh", "-c", &script]);
    desk.until("long", "running", |row| row["running"] == 1);
    until(support::desk::BOUND, "its first line", || ledger.exists().then_some(()));
    daemon.kill().expect("a daemon");
    daemon.wait().expect("an end");
    // Whoever asks meanwhile gets a daemon of this machine alone, which gives way to the real one.
    let asked = desk.ends(&["ps", "long"]);
    let said = text(&asked.stderr);
    assert!(
        asked.status.success() && said.contains(&format!("the daemon that listened on {listen} is gone")),
        "{said}"
    );
    let mut daemon = desk.shoal(&["serve", "--listen", &listen]).spawn().expect("shoal runs");
    until(support::desk::BOUND, "node9 to call again", || is_there(&desk, "node9").then_some(()));
    std::fs::write(&go, "").expect("a file");
    desk.until("long", "done", |row| row["finished"] == 1);
    assert_eq!(read(&ledger).lines().count(), 1, "QUEUE-2");
    let rows = desk.json(&["results", "long", "--json"]);
    let folder = std::path::PathBuf::from(rows["rows"][0]["folder"].as_str().expect("a folder"));
    let env = read(&folder.join("env.txt"));
    assert!(env.contains("SHOAL_RUN=") && !env.contains(&node.1), "SEC-2: a run has its host's token");

    desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
    // It goes on calling, and ends when it is told to.
    assert!(agent.0.try_wait().expect("an agent").is_none());
    rustix::process::kill_process(rustix::process::Pid::from_child(&agent.0), rustix::process::Signal::TERM)
        .expect("an agent");
    assert!(agent.0.wait().expect("an end").success());
}

/// Ends with the test, also with one that fails: whoever reads the test's output waits for all that can write to it.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(desk: &Desk, name: &str) -> bool {
    let output = desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
    let hosts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    hosts["hosts"].as_array().into_iter().flatten().any(|host| host["name"] == name && host["connected"] == true)
}

#[test]
fn four_hosts_share_a_sweep_and_send_results_back() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("queue", 4)) else { return };
    let desk = Desk::with_ssh(hosts.ssh_config());
    let lines: String = hosts.iter().map(|host| format!("  - {{name: {}}}\n", host.name)).collect();
    desk.file("lab.yaml", &format!("hosts:\n{lines}queue:\n  hosts:\n    {}: {{slots: 1}}\n", hosts.host(0).name));
    let mut daemon = desk.shoal(&["serve", "-f", "lab.yaml"]).spawn().expect("shoal runs");
    until(support::desk::BOUND, "four hosts", || {
        let output = desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let up = all["hosts"].as_array().into_iter().flatten().filter(|host| host["connected"] == true).count();
        (up == 4).then_some(())
    });
    desk.file("train.sh", "echo \"$(hostname) $1\" > out.txt; echo \"{\\\"n\\\": $1}\"; sleep 0.3\n");
    let numbers: Vec<String> = (0..16).map(|n| n.to_string()).collect();
    let axis = format!("n={}", numbers.join(","));
    desk.says(&["sweep", "--grid", &axis, "--name", "wide", "--wait", "--", "sh", "train.sh", "{n}"]);
    let results = desk.json(&["results", "wide", "--json"]);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 16);
    let mut used = std::collections::BTreeSet::new();
    for row in rows {
        let host = row["host"].as_str().expect("a host");
        let folder = row["folder"].as_str().expect("a folder");
        let out = read(&std::path::Path::new(folder).join("out.txt"));
        assert_eq!(out.trim(), format!("{host} {}", row["config"]["n"]), "{row}");
        assert_eq!(row["metrics"]["n"], row["config"]["n"], "numbers are numbers: {row}");
        used.insert(host.to_string());
    }
    assert_eq!(used.len(), 4, "{used:?}");
    desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
}
