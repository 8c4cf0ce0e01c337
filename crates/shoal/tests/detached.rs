//! Runs that go on alone on three hosts with real ssh between: seen, followed and stopped from anywhere, and never left in part
//! (GANG-1: no rank outlives its gang; GANG-2: every failure is named; SEC-2: no secret is seen).

mod support;

use shoal_testkit::{Hosts, HostsSpec};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::laptop::{Laptop, kill, marked, stderr, wardens};
use support::until;

/// Nothing here may come near it.
const SILENCE: u64 = 30_000;
const BOUND: Duration = Duration::from_secs(30);

/// Until a file is there, and then the rest.
fn waiting(rest: &str) -> String {
    format!("echo started; while [ ! -e /tmp/go ]; do sleep 0.05; done; {rest}")
}

fn on(hosts: &Hosts, i: usize, line: &str) -> Vec<u8> {
    hosts.host(i).command("sh").args(["-c", line]).output().expect("a command on a host").stdout
}

fn gone(run: &str, bound: Duration) -> Duration {
    let since = Instant::now();
    until(bound, &format!("nothing left of {run}: {:?}", marked(run)), || marked(run).is_empty().then_some(()));
    since.elapsed()
}

#[test]
fn it_survives_the_laptop_and_is_found_and_followed_from_another() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("detached", 3)) else { return };
    let laptop = Laptop::new(&hosts);
    let script = waiting("head -c 300000 /dev/urandom > /tmp/noise; cat /tmp/noise");
    let id = laptop.detach(SILENCE, &[], &script);
    no_secret_is_seen(&hosts, &laptop, &id);
    let connections = laptop.connections();
    assert_eq!(connections.len(), 3);
    laptop.dies();
    until(BOUND, "the connections to be gone", || laptop.connections().is_empty().then_some(()));
    assert!(marked(&id).len() > hosts.len(), "a master, and on each host a shell that sleeps now and then");

    // Another machine, which knows nothing but the fleet.
    let other = Laptop::new(&hosts);
    assert!(!other.says(&["ps"]).contains(&id), "it was not launched there");
    let seen = other.run_by(&["ps", "--json", "--fleet", "shoal.yaml"], &id);
    assert_eq!((&seen["state"], &seen["alive"], &seen["total"]), (&"running".into(), &4.into(), &4.into()), "{seen}");
    let table = other.says(&["ps", "--fleet", "shoal.yaml"]);
    assert!(table.contains(&id) && table.contains(" running ") && table.contains(" 4/4 "), "{table}");

    let mut raw = other.starts(&["logs", "-f", &id, "--rank", "worker1", "--fleet", "shoal.yaml"]);
    let mut all = laptop.starts(&["logs", "--follow", &id]);
    let mut lines = BufReader::new(all.stdout.take().expect("stdout"));
    let mut first = String::new();
    while !first.starts_with("worker") {
        first.clear();
        assert_ne!(lines.read_line(&mut first).expect("a line"), 0, "it ended early");
    }
    assert!(first.ends_with(" | started\n"), "live: {first}");
    for i in 0..3 {
        on(&hosts, i, "touch /tmp/go");
    }
    let mut bytes = Vec::new();
    raw.stdout.take().expect("stdout").read_to_end(&mut bytes).expect("the log");
    let noise = [b"started\n".to_vec(), on(&hosts, 1, "cat /tmp/noise")].concat();
    assert_eq!(noise.len(), 300_008);
    assert!(bytes == noise, "{} bytes of {}", bytes.len(), noise.len());
    let mut rest = Vec::new();
    lines.read_to_end(&mut rest).expect("the rest");
    assert!(raw.wait().expect("end").success() && all.wait().expect("end").success());
    assert!(rest.len() > 900_000, "all three: {}", rest.len());

    let over = laptop.until(&id, "finished", BOUND);
    assert_eq!((&over["alive"], &over["total"]), (&0.into(), &4.into()));
    assert_eq!(gone(&id, BOUND).as_secs(), 0);
    // Kept, and still to be read; stopping it does nothing.
    assert!(other.says(&["ps", "--fleet", "shoal.yaml"]).contains(" finished "));
    let again = other.ends(&["logs", &id, "--rank", "worker1", "--fleet", "shoal.yaml"]);
    assert!(again.stdout == noise);
    assert!(stderr(&other.ends(&["stop", &id, "--fleet", "shoal.yaml"])).contains("was alive"));
    for host in hosts.iter() {
        until(BOUND, "the warden's end", || wardens(host).is_empty().then_some(()));
    }
}

/// SEC-2: not in argv, not in records, not in what others may read.
fn no_secret_is_seen(hosts: &Hosts, laptop: &Laptop, id: &str) {
    let environ = marked(id).iter().find_map(|pid| {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let token = bytes.split(|b| *b == 0).find_map(|v| v.strip_prefix(b"SHOAL_TOKEN="))?;
        Some(String::from_utf8_lossy(token).into_owned())
    });
    let token = environ.expect("a token in a rank's environment");
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(&token), "{:?}", entry.path());
    }
    let seen =
        format!("grep -rlF {token} /root /tmp /home /run /var/tmp 2>/dev/null; find /root/.local -type f -perm /077");
    for i in 0..hosts.len() {
        assert_eq!(String::from_utf8_lossy(&on(hosts, i, &seen)), "", "on host {i}");
    }
    let file = laptop.path().join(format!(".local/state/shoal/launched/{id}.json"));
    assert_eq!(std::fs::metadata(&file).expect("a record").permissions().mode() & 0o777, 0o600);
    let fleet = laptop.path().join("shoal.yaml");
    let text = std::fs::read_to_string(&file).expect("a record");
    assert!(!text.contains(&token) && text.contains(fleet.to_str().expect("a path")), "{text}");
}

#[test]
fn a_failure_anywhere_ends_it_everywhere_and_stop_leaves_nothing() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("detends", 3)) else { return };
    let laptop = Laptop::new(&hosts);
    let name = |i: usize| hosts.host(i).name.clone();

    // The first failure, on the second host.
    let id = laptop.detach(
        SILENCE,
        &[],
        "[ $RANK = 1 ] || exec sleep 1000; while [ ! -e /tmp/fail ]; do sleep 0.05; done; exit 3",
    );
    on(&hosts, 1, "touch /tmp/fail");
    let took = gone(&id, Duration::from_secs(10));
    eprintln!("a failure ended all after {took:?}");
    let run = laptop.until(&id, "failed", BOUND);
    assert_eq!(run["why"], format!("worker1 on {}: exited with code 3", name(1)), "{run}");

    // One that cannot be started is told at once, and leaves nothing.
    let output = laptop.ends(&["run", "--detach", "-f", "shoal.yaml", "--", "/no/such/program"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(126), 0));
    assert!(stderr(&output).contains("/no/such/program"));

    // Stop: ranks that do not want to end, with a daemon of their own.
    let stubborn = "trap '' TERM; (trap '' TERM; setsid sleep 1000 &) ; while :; do sleep 1; done";
    let id = laptop.detach(SILENCE, &["--grace", "1"], stubborn);
    let since = Instant::now();
    laptop.says(&["stop", &id, "--grace", "1"]);
    assert_eq!(marked(&id), [0u32; 0]);
    eprintln!("stopped after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(45));
    assert_eq!(laptop.until(&id, "stopped", BOUND)["why"], serde_json::Value::Null);
    assert!(stderr(&laptop.ends(&["stop", &id])).contains("nothing of run"), "twice is harmless");
    let close = format!("{}x", &id);
    let output = laptop.ends(&["stop", &close, "--fleet", "shoal.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!((0..3).all(|i| said.contains(&name(i))) && said.contains(&format!("did you mean {id}?")), "{said}");

    // One rank: the others go on. Then through one host alone, which tells the others.
    let id = laptop.detach(SILENCE, &["--no-master"], "echo here; exec sleep 1000");
    laptop.says(&["stop", &id, "--rank", "worker2"]);
    let run = laptop.run(&id);
    assert_eq!((&run["state"], &run["alive"]), (&"running".into(), &2.into()), "{run}");
    assert_eq!(laptop.says(&["logs", &id, "--rank", "worker2"]), "here\n");
    assert_eq!(laptop.ends(&["logs", &id, "--rank", "worker7"]).status.code(), Some(2));
    std::fs::write(laptop.path().join("one.yaml"), format!("hosts:\n  - {{name: {}}}\n", name(1))).expect("a file");
    laptop.says(&["stop", &id, "--fleet", "one.yaml"]);
    gone(&id, Duration::from_secs(10));

    // Wardens killed: a member's, then the head's.
    for (victim, who) in [(2, "a member's"), (0, "the head's")] {
        // Those of the run before end a little later than its ranks do.
        until(BOUND, "the warden's end", || wardens(hosts.host(victim)).is_empty().then_some(()));
        let id = laptop.detach(SILENCE, &["--no-master", "--grace", "1"], "exec sleep 1000");
        // A keeper that was forked a moment ago, and a look at the run, still look like wardens.
        let warden = until(BOUND, "one warden, the run's", || match wardens(hosts.host(victim))[..] {
            [warden] => Some(warden),
            _ => None,
        });
        kill(warden);
        eprintln!("{who} warden killed: all over after {:?}", gone(&id, Duration::from_secs(40)));
        let run = laptop.until(&id, "failed", BOUND);
        let why = run["why"].as_str().unwrap_or_default().to_string();
        assert!(why.starts_with(&format!("host {} was lost: its warden", name(victim))), "{run}");
    }
}

#[test]
fn a_host_whose_network_is_cut_ends_the_run_on_both_sides_and_is_named() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("detcut", 3)) else { return };
    let laptop = Laptop::new(&hosts);
    let name = |i: usize| hosts.host(i).name.clone();
    // Away for less than the silence: nobody minds.
    let id = laptop.detach(8_000, &["--no-master"], "exec sleep 1000");
    link(&hosts, 2, "down");
    std::thread::sleep(Duration::from_secs(5));
    link(&hosts, 2, "up");
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(marked(&id).len(), 3);
    laptop.dies();
    laptop.says(&["stop", &id]);
    gone(&id, BOUND);

    let id = laptop.detach(4_000, &["--no-master", "--grace", "1"], "exec sleep 1000");
    link(&hosts, 2, "down");
    let took = gone(&id, Duration::from_secs(40));
    eprintln!("cut off: all over after {took:?}");
    assert!(took >= Duration::from_secs(3), "{took:?}");
    // The laptop cannot reach the third host; the others are listed and say which one was lost.
    let output = laptop.shoal(&["ps", "--fleet", "shoal.yaml"]).output().expect("shoal runs");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(255), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{} could not be asked", name(2))), "{}", stderr(&output));
    let lost = format!("failed: host {} was lost: it has not been heard for 4 s", name(2));
    assert!(table.contains(&lost), "{table}");
    // On its own side it was the head that was lost.
    let record = on(&hosts, 2, &format!("cat /root/.local/state/shoal/runs/{id}/*/worker2.json"));
    let record = String::from_utf8_lossy(&record).into_owned();
    assert!(record.contains(&format!("host {} was lost: it has not been heard for 4 s", name(0))), "{record}");
    for host in hosts.iter() {
        until(BOUND, "the warden's end", || wardens(host).is_empty().then_some(()));
    }
}

/// Found while somebody still watches: the run does not start in part.
#[test]
fn hosts_that_cannot_reach_each_other_are_named_and_nothing_is_left() {
    let Some(hosts) = Hosts::up_or_skip(HostsSpec::new("detwall", 3)) else { return };
    let laptop = Laptop::new(&hosts);
    let head = hosts.host(0).address;
    on(&hosts, 1, &format!("ip route add blackhole {head}/32"));
    let args =
        ["run", "--detach", "-f", "shoal.yaml", "--no-master", "--grace", "1", "--", "sh", "-c", "exec sleep 1000"];
    let output = laptop.shoal(&args).env("SHOAL_GANG_SILENCE_MS", "9000").output().expect("shoal runs");
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(255), 0), "{said}");
    let place = format!("{}: the first host of this run cannot be reached from here: {head}:", hosts.host(1).name);
    assert!(said.contains(&place) && said.contains("did not meet within 6 s"), "{said}");
    let left: Vec<Vec<u32>> = hosts.iter().map(wardens).filter(|w| !w.is_empty()).collect();
    eprintln!("{said}still there: {left:?}");
    for host in hosts.iter() {
        until(BOUND, "the warden's end", || wardens(host).is_empty().then_some(()));
        assert_eq!(
            on(&hosts, 0, "ls /root/.local/state/shoal/runs").split(|b| *b == b'\n').count(),
            2,
            "{}",
            host.name
        );
    }
}

fn link(hosts: &Hosts, i: usize, state: &str) {
    let status = Command::new("ip").args(["-netns", &hosts.host(i).namespace, "link", "set", "eth0", state]).status();
    assert!(status.is_ok_and(|s| s.success()), "the link could not be switched {state}");
}

/// Without any network: this machine alone.
#[test]
fn here_it_goes_on_too_and_ends_with_its_first_failure() {
    let home = tempfile::tempdir().expect("a home");
    let shoal = |args: &[&str]| shoal_here(home.path(), args);
    let id = shoal(&[
        "run",
        "--detach",
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        "echo $RANK; [ $RANK = 0 ] || exec sleep 1000; while [ ! -e go ]; do sleep 0.05; done; exit 4",
    ]);
    let id = id.trim();
    assert!(shoal(&["ps"]).contains(" running "));
    std::fs::write(home.path().join("go"), "").expect("a file");
    gone(id, Duration::from_secs(10));
    until(BOUND, "its failure", || {
        shoal(&["ps"]).contains("failed: worker0 on localhost: exited with code 4").then_some(())
    });
    let logs = shoal(&["logs", id]);
    assert!(logs.contains("worker0 | 0\n") && logs.contains("worker1 | 1\n"), "{logs}");
    // The end of the workers is the end of the master.
    let id = shoal(&["run", "--detach", "--", "sh", "-c", "sleep 0.3"]);
    gone(id.trim(), Duration::from_secs(10));
    until(BOUND, "its end", || {
        shoal(&["ps"]).lines().any(|l| l.contains(id.trim()) && l.contains(" finished ")).then_some(())
    });
}

/// Whoever should have ended it was killed: stop finds it by its mark.
#[test]
fn what_nobody_keeps_any_more_is_said_to_be_lost_and_can_be_stopped() {
    let home = tempfile::tempdir().expect("a home");
    let id = shoal_here(
        home.path(),
        &["run", "--detach", "--no-master", "--", "sh", "-c", "(setsid sleep 1000 &); exec sleep 1000"],
    );
    let id = id.trim();
    until(BOUND, "its daemon", || (marked(id).len() == 2).then_some(()));
    let folder = home.path().join(format!(".local/state/shoal/runs/{id}/localhost"));
    let json = |file: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join(file)).expect("a record")).expect("json")
    };
    let (warden, rank) = (json("warden.pid"), json("worker0.json"));
    for pid in [&warden[1]["pid"], &rank["keeper"]["pid"]] {
        kill(u32::try_from(pid.as_u64().expect("a pid")).expect("a pid"));
    }
    until(BOUND, "it to be lost", || {
        shoal_here(home.path(), &["ps"]).contains(" lost: worker0 on localhost").then_some(())
    });
    assert_eq!(marked(id).len(), 1, "the daemon, which nobody keeps");
    shoal_here(home.path(), &["stop", id]);
    assert!(marked(id).is_empty());
}

fn shoal_here(home: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.env_remove("XDG_STATE_HOME").env("HOME", home).current_dir(home).args(args);
    let output = command.output().expect("shoal runs");
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
