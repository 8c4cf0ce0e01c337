//! `shoal run` and hosts that fail: before they are reached, and in the middle. Each is named, with what to do about it (GANG-2), and
//! nothing of the gang is left anywhere (GANG-1).

mod support;

use std::process::Command;
use std::time::{Duration, Instant};
use support::launching::{Case, Lab, parent, variable};
use support::{LONG, until};

/// Hosts that cannot be reached. Nothing is started on the others.
#[test]
fn hosts_that_are_not_reached() {
    let Some(lab) = Lab::up("reach", 3) else { return };
    lab.run(&[
        ("port-closed", |case| {
            entry(case, "port: 2222");
            fails(case).looks_like("port_closed");
        }),
        ("host-down", |case| {
            // An address of the hosts' network that nobody has.
            let nobody = case.address(0).rsplit_once('.').map(|(net, _)| format!("{net}.250")).expect("an address");
            case.file("fleet.yaml", &format!("hosts:\n  - {{name: node0, address: {}}}\n  - {{name: node1, address: {nobody}}}\n", case.address(0)));
            fails(case).looks_like("host_down");
        }),
        ("wrong-key", |case| {
            let key = case.folder.join("other_key");
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
            assert!(made.is_ok_and(|s| s.success()));
            // The configuration's own key must not help.
            let config = ssh_config(case, |line| (!line.contains("IdentityFile")).then(|| line.into()));
            case.file("fleet.yaml", &format!("hosts: [{{name: node0, address: {}, key: other_key}}]\n", case.address(0)));
            case.shoal(&ARGS).env("SHOAL_SSH_CONFIG", config).run().exits(255).looks_like("wrong_key");
        }),
        ("missing-key", |case| {
            entry(case, "key: ~/.ssh/lab.pem");
            fails(case).looks_like("missing_key");
        }),
        ("unknown-user", |case| {
            entry(case, "user: nobody-here");
            fails(case).looks_like("unknown_user");
        }),
        ("unknown-name", |case| {
            case.file("fleet.yaml", &format!("hosts:\n  - {{name: node0, address: {}}}\n  - node1.invalid\n", case.address(0)));
            fails(case).looks_like("unknown_name");
        }),
        ("changed-key", |case| {
            let known = case.lab.hosts().folder().join("known_hosts");
            let known = std::fs::read_to_string(known).expect("known hosts");
            let lines: Vec<&str> = known.lines().collect();
            // The second host under the key of the third.
            let (names, third) = (lines[1].split_once(' ').expect("a line").0, lines[2].split_once(' ').expect("a line").1);
            let file = case.file("known_hosts", &format!("{}\n{names} {third}\n", lines[0]));
            let config = ssh_config(case, |line| match line.trim().starts_with("UserKnownHostsFile") {
                true => Some(format!("  UserKnownHostsFile {}", file.display())),
                false => Some(line.into()),
            });
            entry(case, "");
            case.shoal(&ARGS).env("SHOAL_SSH_CONFIG", config).run().exits(255).looks_like("changed_host_key");
        }),
        ("several", |case| {
            let address = case.address(1);
            let hosts = format!(
                "  - {{name: node0, address: {}}}\n  - {{name: node1, address: {address}, port: 2222}}\n  - {{name: node2, address: {address}, user: nobody-here}}\n",
                case.address(0)
            );
            case.file("fleet.yaml", &format!("hosts:\n{hosts}"));
            let done = fails(case);
            done.says(&["on node1: not started", "on node2: not started"]);
        }),
        ("no-folder-there", |case| {
            case.fleet(&[0, 1], "");
            // Logs go there too: the first rank that opens its own makes the folder, which is no working folder for the others by that.
            let cwd = case.folder.to_string_lossy();
            case.shoal(&["-f", "fleet.yaml", "--cwd", &cwd, "-n", "4", "--oversubscribe", "--", "python", "train.py"])
                .run()
                .exits(126)
                .says(&["does not exist on this host", "copy the code"]);
        }),
        ("no-shell", |case| {
            case.lab.on(2, "mkdir -p /root/.ssh; echo 'echo This account is closed.; exit 1' > /root/.bashrc");
            case.fleet(&[2], "");
            case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(255).looks_like("login_refuses");
            case.lab.on(2, "rm /root/.bashrc");
        }),
    ]);
    lab.is_clean();
}

const SLEEP: [&str; 7] = ["-f", "fleet.yaml", "-v", "--", "sh", "-c", "echo up; exec sleep 300"];
const ARGS: [&str; 4] = ["-f", "fleet.yaml", "--", "true"];

/// The lab's configuration with other lines.
fn ssh_config(case: &Case, change: impl Fn(&str) -> Option<String>) -> std::path::PathBuf {
    let config = std::fs::read_to_string(case.lab.hosts().ssh_config()).expect("a configuration");
    let lines: Vec<String> = config.lines().filter_map(change).collect();
    case.file("ssh_config", &(lines.join("\n") + "\n"))
}

/// node0 is well; node1 has something of its own.
fn entry(case: &Case, more: &str) {
    let (first, second) = (case.address(0), case.address(1));
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    case.file(
        "fleet.yaml",
        &format!("hosts:\n  - {{name: node0, address: {first}}}\n  - {{name: node1, address: {second}{more}}}\n"),
    );
}

fn fails<'c>(case: &'c Case) -> support::launching::Done<'c> {
    case.shoal(&ARGS).run().exits(255)
}

/// Failures of ranks, seen from afar: code, host, rank, command and the last lines, as if they were here.
#[test]
fn ranks_that_fail_there() {
    let Some(lab) = Lab::up("ranks", 2) else { return };
    lab.on(1, "mkdir /tmp/small && mount -t tmpfs -o size=64k tmpfs /tmp/small");
    lab.run(&[
        ("exits-3", |case| {
            case.fleet(&[0, 1], "");
            let script = "echo epoch 1; [ $RANK = 1 ] && { echo no data >&2; exit 3; }; exec sleep 300";
            let done = case.shoal(&["-f", "fleet.yaml", "--", "sh", "-c", script]).run().exits(3);
            done.says(&["worker1 on node1: exited with code 3", "no data"]).looks_like("worker_exits_3_on_a_host");
        }),
        ("deaf-and-daemon", |case| {
            case.fleet(&[0, 1], "");
            let script = "[ $RANK = 1 ] && exit 4; trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & while :; do sleep 0.2; done";
            let done = case.shoal(&["-f", "fleet.yaml", "--grace", "2", "--", "sh", "-c", script]).run().exits(4);
            assert!(done.took < Duration::from_secs(45), "{:?}", done.took);
        }),
        ("full-disk", |case| {
            case.fleet(&[1], "");
            let script = "for i in $(seq 20000); do echo line $i; done";
            let out = "/tmp/small/logs";
            let done = case.shoal(&["-f", "fleet.yaml", "-o", out, "--", "sh", "-c", script]).run().exits(0);
            let log = std::fs::read_dir(out).expect("logs").flatten().next().expect("a run").path().join("worker0.log");
            let text = std::fs::read_to_string(&log).expect("a log");
            let _ = std::fs::remove_dir_all("/tmp/small");
            assert!(text.ends_with("line 20000\n") && text.lines().count() == 20000, "{} lines", text.lines().count());
            done.says(&["worker0 on node0", "No space left"]).looks_like("full_disk_for_logs");
        }),
        ("keeper-killed", |case| {
            case.fleet(&[0, 1], "");
            let run = case.shoal(&SLEEP).start();
            run.is_up(2);
            let pids = case.running(2, "sleep 300");
            kill(parent(second(&pids)));
            run.end().exits(255).without_output().looks_like("keeper_killed");
        }),
        ("warden-killed", |case| {
            case.fleet(&[0, 1], "");
            let run = case.shoal(&SLEEP).start();
            run.is_up(2);
            let pids = case.running(2, "sleep 300");
            kill(parent(parent(second(&pids))));
            run.end().exits(255).without_output().looks_like("warden_killed");
        }),
    ]);
    lab.is_clean();
}

/// The one that is worker 1.
fn second(pids: &[u32]) -> u32 {
    *pids.iter().find(|pid| variable(**pid, "RANK").as_deref() == Some("1")).expect("worker 1")
}

fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().is_ok_and(|s| s.success()));
}

/// A whole host dies in the middle: the run is over in under five seconds, and the host is named.
#[test]
fn a_host_that_dies_is_named() {
    let Some(lab) = Lab::up("dies", 3) else { return };
    let case = lab.case("dies");
    case.fleet(&[0, 1, 2], "");
    let run =
        case.shoal(&["-f", "fleet.yaml", "--servers", "1", "-v", "--", "sh", "-c", "echo up; exec sleep 300"]).start();
    run.is_up(3);
    // Its process 1, which takes all others with it.
    let inside = lab.hosts().host(2).command("readlink").arg("/proc/1/ns/pid").output().expect("a namespace").stdout;
    let inside = String::from_utf8_lossy(&inside).trim().to_string();
    let of_host =
        |pid: &u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|l| l.to_string_lossy() == inside);
    let first = support::launching::pids().filter(of_host).min().expect("process 1");
    let since = Instant::now();
    kill(first);
    let mut run = run;
    run.process.end(LONG);
    let took = since.elapsed();
    let done = run.end().exits(255);
    assert!(took < Duration::from_secs(30), "{took:?}\n{}", done.err);
    done.says(&["worker2 on node2: lost"]).without_output().looks_like("host_dies");
}

/// The network to one host is cut: both sides end by themselves.
#[test]
fn a_cut_network_ends_both_sides() {
    let Some(lab) = Lab::up("cut", 2) else { return };
    let case = lab.case("cut");
    case.fleet(&[0, 1], "");
    // The one that is cut off does not even end when asked to.
    let script = "[ $RANK = 1 ] && trap '' TERM; echo up; sleep 300; sleep 300";
    let mut run = case.shoal(&["-f", "fleet.yaml", "-v", "--", "sh", "-c", script]).start();
    run.is_up(2);
    let link = |state: &str| {
        let args = ["-netns", &lab.hosts().host(1).namespace, "link", "set", "eth0", state];
        assert!(Command::new("ip").args(args).status().is_ok_and(|s| s.success()));
    };
    link("down");
    let since = Instant::now();
    until(support::launching::GONE, "all ranks to be gone, on both sides", || case.ranks().is_empty().then_some(()));
    run.process.end(LONG);
    eprintln!("over {:.1} s after the cut", since.elapsed().as_secs_f32());
    run.end().exits(255).says(&["worker1 on node1: lost"]).without_output().looks_like("network_cut");
    link("up");
}
