//! `shoal run` on hosts over real ssh: getting there in spite of how hosts are, and bringing back what was written.

mod support;

use support::launching::{Case, Lab, cmdline, holds, pids, variable};
use support::{LONG, quoting, until};

#[test]
fn hosts_as_they_are() {
    let Some(lab) = Lab::up("run", 5) else { return };
    // First of all: it looks at what the very first run does to a host.
    lab.run(&[("delivered-once", delivered_once)]);
    lab.run(&[
        ("quoting", |case| {
            case.fleet(&[1], "");
            quoting::check(case, &["-f", "fleet.yaml"]);
        }),
        ("slow-login", slow_login),
        ("corrupted", corrupted),
        ("logs-are-the-same", logs_are_the_same),
        ("noisy-login", noisy_login),
        ("jump", jump),
        ("token", token),
        ("from-afar", from_afar),
        ("two-at-once", two_at_once),
        ("few-sessions", few_sessions),
    ]);
    lab.is_clean();
}

const BIN: &str = "/root/.cache/shoal/bin";

/// Our program gets there by itself, under the name of its content, once.
fn delivered_once(case: &Case) {
    case.fleet(&[0, 1], "");
    let args = ["-f", "fleet.yaml", "--", "sh", "-c", "uname -n; echo $RANK of $WORLD_SIZE"];
    case.shoal(&args).run().exits(0);
    let seen =
        || case.lab.on(0, &format!("stat -c '%n %i %a' {BIN}/*/shoal; cat {BIN}/*/shoal | sha256sum; ls -A {BIN}/*"));
    let first = seen();
    let digest = first.split('/').nth(5).expect("a folder").to_string();
    assert!(first.contains(" 700") && first.lines().nth(1).is_some_and(|sum| sum.starts_with(&digest)), "{first}");
    assert!(first.ends_with("ps_master\nps_server\npsd_run\nshoal"), "{first}");
    let again = case.lab.case("again");
    again.fleet(&[0, 1], "");
    again.shoal(&args).run().exits(0);
    assert_eq!(seen(), first);
    let names: Vec<String> = [0, 1].map(|k| again.log("logs", &format!("worker{k}"))).into();
    assert_eq!(names, [0, 1].map(|k| format!("{}\n{k} of 2\n", case.lab.hosts().host(k).name)));
}

/// Byte for byte, on the node and here, at the same path, whatever the bytes are.
fn logs_are_the_same(case: &Case) {
    case.fleet(&[0, 1], "");
    let script = "head -c 3000000 /dev/urandom; echo end of $RANK >&2";
    case.shoal(&["-f", "fleet.yaml", "-o", "out", "--servers", "1", "--", "sh", "-c", script]).run().exits(0);
    let logs = case.logs("out");
    let names: Vec<&str> = logs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["master.log", "server0.log", "worker0.log", "worker1.log"]);
    let folder = case.log_folder("out");
    for (name, host) in [("master.log", 0), ("server0.log", 0), ("worker0.log", 0), ("worker1.log", 1)] {
        let path = folder.join(name);
        let there = case.lab.on(host, &format!("sha256sum < {}", path.display()));
        let here = std::process::Command::new("sha256sum").arg(&path).output().expect("sha256sum");
        assert_eq!(there.split(' ').next(), String::from_utf8_lossy(&here.stdout).split(' ').next(), "{name}");
    }
    let worker = &logs[3].1;
    assert!(worker.len() == 3_000_009 && worker.ends_with(b"end of 1\n"), "{}", worker.len());
}

/// A login that prints, even on a host that our program has yet to get to.
fn noisy_login(case: &Case) {
    case.lab.on(2, "echo 'echo Welcome to the lab; echo warning: quota >&2' > /root/.bashrc");
    case.fleet(&[2], "");
    case.shoal(&["-f", "fleet.yaml", "--", "echo", "works"]).run().exits(0).looks_like("noisy_login");
    assert_eq!(case.log("logs", "worker0"), "works\n");
    case.lab.on(2, "rm /root/.bashrc");
}

/// What is there under our name is not believed: neither half of it, nor nothing, nor something else.
fn corrupted(case: &Case) {
    case.fleet(&[3], "");
    let run = || case.shoal(&["-f", "fleet.yaml", "--", "true"]).run();
    run().exits(0);
    let file = case.lab.on(3, &format!("ls {BIN}/*/shoal"));
    let sum = case.lab.on(3, &format!("sha256sum {file}"));
    for damage in ["truncate -s 1000000", ": >", "chmod -x"] {
        case.lab.on(3, &format!("{damage} {file}"));
        run().exits(0);
        assert_eq!(case.lab.on(3, &format!("sha256sum {file}")), sum, "after {damage}");
    }
    // One that dies by a signal, as a file with a hole in it would.
    case.lab.on(3, &format!("printf '#!/bin/sh\\nkill -SEGV $$\\n' > {file}"));
    run().exits(0);
}

/// One host takes longer to log in than others wait for a word from us.
fn slow_login(case: &Case) {
    case.fleet(&[0, 4], "");
    let run = || case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(0);
    run();
    case.lab.on(4, "echo 'sleep 8' > /root/.bashrc");
    run();
}

/// Through another host of the fleet, which alone can reach it; and what is said when that one is in the way.
fn jump(case: &Case) {
    let (gate, inner) = (case.address(0), case.address(1));
    let fleet = |gate_port: u16, inner_port: u16| {
        let first = format!("{{name: gate, address: {gate}, port: {gate_port}, slots: 0}}");
        let second = format!("{{name: inner, address: {inner}, port: {inner_port}, jump: gate}}");
        case.file("fleet.yaml", &format!("hosts:\n  - {first}\n  - {second}\n"));
    };
    fleet(22, 22);
    let script = "echo $SSH_CONNECTION";
    case.shoal(&["-f", "fleet.yaml", "--", "sh", "-c", script]).run().exits(0);
    let from = case.log("logs", "worker0");
    assert!(from.starts_with(&format!("{gate} ")), "it came from {from}");
    let fails = || case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(255).says(&["worker0 on inner"]);
    fleet(2222, 22);
    fails().looks_like("jump_host_down");
    fleet(22, 2222);
    fails().looks_like("behind_jump_host_down");
}

/// Launched by somebody who is logged in here over ssh: hosts must find the master here, not at that person's laptop.
fn from_afar(case: &Case) {
    let hosts = format!("hosts: [{{name: localhost, slots: 0}}, {{name: node0, address: {}}}]\n", case.address(0));
    case.file("fleet.yaml", &format!("{hosts}master: localhost\n"));
    let args = ["-f", "fleet.yaml", "--", "sh", "-c", "echo $SHOAL_MASTER_ADDRESS"];
    case.shoal(&args).env("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.8 22").run().exits(0);
    let address = case.log("logs", "worker0");
    assert!(address.starts_with(&format!("tcp://{}:", case.lab.hosts().gateway())), "{address}");
}

/// SEC-2, with hosts.
fn token(case: &Case) {
    case.fleet(&[0, 1], "");
    let run = case.shoal(&["-f", "fleet.yaml", "--servers", "1", "--", "sh", "-c", "exec sleep 300"]).start();
    let ranks = case.running(2, "sleep 300");
    until(LONG, "master and server", || (case.ranks().len() >= 4).then_some(()));
    let token = variable(ranks[0], "SHOAL_TOKEN").expect("a token");
    for pid in pids() {
        assert!(!cmdline(pid).contains(&token), "{}", cmdline(pid));
    }
    let search = format!("grep -rlF {token} /root /tmp /home /run /var/tmp /dev/shm || true");
    assert_eq!([case.lab.on(0, &search), case.lab.on(1, &search)], ["", ""]);
    run.process.signal("INT");
    let done = run.end().exits(130);
    assert!(!done.err.contains(&token));
    assert_eq!([case.lab.on(0, &search), case.lab.on(1, &search)], ["", ""]);
    assert!(case.logs("logs").iter().all(|(name, _)| !holds(&case.log_folder("logs").join(name), &token)));
}

/// Two runs on the same hosts at the same time, over the same connections.
fn two_at_once(case: &Case) {
    let cases = [case.lab.case("two-a"), case.lab.case("two-b")];
    let start = |case: &Case| case.fleet(&[0, 1], "");
    cases.iter().for_each(start);
    let script = "echo up; exec sleep 300";
    let runs: Vec<_> = cases
        .iter()
        .map(|c| c.shoal(&["-f", "fleet.yaml", "--servers", "2", "--", "sh", "-c", script]).start())
        .collect();
    let mut ports: Vec<String> = Vec::new();
    for case in &cases {
        let pids = case.running(2, "sleep 300");
        let master = variable(pids[0], "SHOAL_MASTER_ADDRESS").expect("an address");
        ports.extend([master, variable(pids[0], "MASTER_PORT").expect("a port")]);
        until(LONG, "all of them", || (case.ranks().len() == 5).then_some(()));
        // Nobody of them has come to grief over a port.
        assert!(!case.log("logs", "master").contains("in use"));
    }
    let all = ports.len();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), all, "{ports:?}");
    // One ends; the other goes on.
    let mut runs = runs.into_iter();
    let first = runs.next().expect("a run");
    first.process.signal("INT");
    first.end().exits(130);
    assert_eq!(cases[1].ranks().len(), 5);
    let second = runs.next().expect("a run");
    second.process.signal("INT");
    second.end().exits(130);
}

/// A host that allows one session a connection and one stranger at a time, and four runs that want it at the same time.
fn few_sessions(case: &Case) {
    let options = "-o MaxSessions=1 -o MaxStartups=1 -o PasswordAuthentication=no -o UsePAM=no -o StrictModes=no";
    let sshd = format!("exec /usr/sbin/sshd -D -f /dev/null -h /run/shoal/host_key -o PidFile=none {options} -p 2222");
    let mut child = case.lab.hosts().host(2).command("sh").args(["-c", &sshd]).spawn().expect("sshd");
    let address = format!("{}:2222", case.address(2));
    until(LONG, "sshd", || std::net::TcpStream::connect(&address).ok());
    // Its key is known under the usual port only.
    let config = std::fs::read_to_string(case.lab.hosts().ssh_config()).expect("a configuration");
    let config = case.file("ssh_config", &format!("HostKeyAlias {}\n{config}", case.address(2)));
    let cases: Vec<_> = (0..4).map(|k| case.lab.case(&format!("few{k}"))).collect();
    let runs: Vec<_> = cases
        .iter()
        .map(|one| {
            one.file("fleet.yaml", &format!("hosts: [{{name: small, address: {}, port: 2222}}]\n", case.address(2)));
            let script = "echo up; exec sleep 300";
            one.shoal(&["-f", "fleet.yaml", "--", "sh", "-c", script]).env("SHOAL_SSH_CONFIG", &config).start()
        })
        .collect();
    for (case, mut run) in cases.iter().zip(runs) {
        until(LONG, "a rank that is up, or the end of its run", || {
            (run.process.poll().is_some() || case.ranks().iter().any(|(_, l)| l == "sleep 300")).then_some(())
        });
        run.process.signal("INT");
        run.end().exits(130);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Hosts on which our program cannot be put.
#[test]
fn hosts_without_room() {
    let Some(lab) = Lab::up("room", 3) else { return };
    lab.on(0, "mount -t tmpfs -o size=1m tmpfs /root && mkdir -p /root/.ssh");
    lab.on(1, "mount -o remount,bind,ro /root");
    lab.on(2, "mount -t tmpfs -o noexec tmpfs /root && mkdir -p /root/.ssh");
    let key = std::fs::read_to_string(lab.hosts().folder().join("key.pub")).expect("a key");
    for host in [0, 2] {
        lab.on(host, &format!("echo '{}' > /root/.ssh/authorized_keys", key.trim()));
    }
    lab.run(&[
        ("full-home", |case| {
            case.fleet(&[0], "");
            case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(255).looks_like("home_is_full");
        }),
        ("read-only-home", |case| {
            case.fleet(&[1], "");
            case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(255).looks_like("home_is_read_only");
        }),
        ("noexec-home", |case| {
            case.fleet(&[2], "");
            case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(255).looks_like("home_is_noexec");
        }),
    ]);
    assert_eq!(lab.on(0, "find /root/.cache -type f | wc -l"), "0", "half a program is left");
}
