//! Bad days of a queue over several hosts: hosts go and come back, daemon and agents are killed while 500 runs are under way (QUEUE-1, QUEUE-2).
//!
//! `SHOAL_ROUNDS` says how often, `SHOAL_RUNS` how many runs; a few by default.

mod support;

use serde_json::Value;
use shoal_testkit::{Again, Dice, Hosts, HostsSpec, Ledger, figures, rounds, spread};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::desk::{Desk, read, text};
use support::until;

/// Hosts, a desk that reaches them, and a folder that all of them see.
struct Lab {
    desk: Desk,
    shared: tempfile::TempDir,
    hosts: Hosts,
}

impl Lab {
    fn up_or_skip(name: &str, count: usize) -> Option<Lab> {
        let hosts = Hosts::up_or_skip(HostsSpec::new(name, count))?;
        let shared = tempfile::Builder::new().prefix("shoal-test-").tempdir_in("/srv").expect("a folder all hosts see");
        let desk = Desk::with_ssh(hosts.ssh_config());
        let lines: String = hosts.iter().map(|host| format!("  - {{name: {}}}\n", host.name)).collect();
        desk.file("lab.yaml", &format!("hosts:\n{lines}"));
        Some(Lab { desk, shared, hosts })
    }

    fn serve(&self) -> Child {
        let mut command = self.desk.shoal(&["serve", "-f", "lab.yaml"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("shoal runs")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.desk.store().join("daemon.log")).unwrap_or_default()
    }

    /// How often this host has said hello.
    fn hellos(&self, host: &str) -> usize {
        self.log().matches(&format!("{host} is there: ")).count()
    }

    fn until_up(&self) {
        until(support::desk::BOUND, "all hosts", || {
            let output = self.desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let up = all["hosts"].as_array().into_iter().flatten().filter(|host| host["connected"] == true).count();
            (up == self.hosts.len()).then_some(())
        });
    }

    fn sweep(&self, name: &str, runs: u64, script: &str, more: &[&str]) {
        self.desk.file(&format!("{name}.sh"), script);
        let numbers: Vec<String> = (0..runs).map(|n| n.to_string()).collect();
        let (axis, file) = (format!("n={}", numbers.join(",")), format!("{name}.sh"));
        let args = [&["sweep", "--grid", &axis, "--name", name][..], more, &["--", "sh", &file]].concat();
        self.desk.says(&args);
    }

    /// Agents of this test's store, on whichever host.
    fn agents(&self) -> Vec<u32> {
        let store = read(&self.desk.store().join("store-id"));
        let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
        let is_agent = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
            let wanted: [&[u8]; 4] = [b"host", b"agent", b"--store", store.trim().as_bytes()];
            words.windows(4).any(|four| four == wanted)
        };
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_agent).collect()
    }

    /// Until nothing of it waits or runs; all of it has to have finished.
    fn finish(&self, name: &str, runs: u64) {
        let end = Instant::now() + Duration::from_secs(600);
        loop {
            let output = self.desk.shoal(&["ps", "--json", "--all"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let row = all["sweeps"].as_array().into_iter().flatten().find(|row| row["name"] == name).cloned();
            let row = row.unwrap_or_default();
            if row["finished"] == runs {
                return;
            }
            let lost = row["failed"].as_u64().unwrap_or(0) + row["stopped"].as_u64().unwrap_or(0);
            assert!(lost == 0 && Instant::now() < end, "{row}\n{}\n{}", text(&output.stderr), self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Each run has one result, and that says what the run wrote.
    fn check_results(&self, name: &str, runs: u64) -> Vec<PathBuf> {
        let results = self.desk.json(&["results", name, "--json"]);
        let rows = results["rows"].as_array().expect("rows");
        assert_eq!(rows.len() as u64, runs);
        let mut seen = std::collections::BTreeSet::new();
        let folder = |row: &Value| {
            let run = &row["run"];
            let id = format!("{name}:{}.{}", run["cell"], run["rep"]);
            let folder = PathBuf::from(row["folder"].as_str().unwrap_or_else(|| panic!("{row}")));
            assert_eq!(read(&folder.join("out.txt")), format!("{id}\n"), "{row}");
            assert!(seen.insert(id), "{row} is there twice");
            folder
        };
        rows.iter().map(folder).collect()
    }
}

/// A process of this test's own store; whether it was still there.
fn kill(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok()
}

fn pause(dice: &mut Dice, from: u64, to: u64) {
    std::thread::sleep(Duration::from_millis(from + dice.below(to - from)));
}

fn names(sweep: &str, runs: u64) -> impl Iterator<Item = String> {
    (0..runs).map(move |cell| format!("{sweep}:{cell}.0"))
}

/// Folders of results on disk, complete or not.
fn on_disk(root: &Path, sweep: &str) -> Vec<String> {
    let cells = std::fs::read_dir(root.join(sweep).join("runs")).expect("results").flatten();
    let inside = cells.flat_map(|cell| std::fs::read_dir(cell.path()).expect("a folder").flatten());
    // Files beside them are not results: whoever is killed while it writes `param2val.yaml` leaves half of it under another name.
    let folders = inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[test]
fn hosts_go_and_come_back() {
    let Some(mut lab) = Lab::up_or_skip("gone", 2) else { return };
    let (rounds, mut dice) = (rounds(3), Dice::new(6));
    let runs = rounds * 20;
    let ledger = Ledger::at(lab.shared.path().join("ledger"));
    let root = lab.shared.path().join("results");
    std::fs::create_dir(&root).expect("a folder");
    let mut daemon = lab.serve();
    lab.until_up();
    let script = ledger.around("echo $SHOAL_RUN > out.txt; sleep 0.$((SHOAL_CELL % 4))");
    lab.sweep("led", runs, &script, &["--results", &root.to_string_lossy()]);
    let mut back = Vec::new();
    for _ in 0..rounds {
        pause(&mut dice, 0, 1500);
        let i = dice.below(2) as usize;
        let name = lab.hosts.host(i).name.clone();
        let before = lab.hellos(&name);
        // Half of the time its kernel still says that its connections end; else the cable is cut before.
        if dice.below(2) == 0 {
            lab.hosts.host(i).kill().expect("a host that lives");
        }
        lab.hosts.power_off(i).expect("no power");
        ledger.killed(&name);
        pause(&mut dice, 0, 500);
        lab.hosts.power_on(i).expect("power");
        let began = Instant::now();
        until(support::desk::BOUND, "the host to be there again", || (lab.hellos(&name) > before).then_some(()));
        back.push(began.elapsed());
    }
    lab.finish("led", runs);
    let count =
        ledger.check(names("led", runs), Again::AfterItsHost).unwrap_or_else(|why| panic!("{why}\n{}", lab.log()));
    lab.check_results("led", runs);
    // A host may be gone after it put results in place and before it said so: then they are there twice, and one of them counts.
    let found = on_disk(&root, "led");
    assert!(found.len() as u64 >= runs && found.len() <= count.attempts, "{} folders of {count:?}", found.len());
    let again = format!(" | started again {}", count.attempts - count.runs);
    figures("host gone and back", rounds, count.runs, &(again + &spread("heard again", back)));
    lab.desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
}

/// The show: every result once, whatever is killed.
#[test]
fn daemon_and_agents_are_killed_under_a_sweep_over_four_hosts() {
    let Some(lab) = Lab::up_or_skip("show", 4) else { return };
    let runs: u64 = std::env::var("SHOAL_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(500);
    let mut dice = Dice::new(7);
    let ledger = Ledger::at(lab.shared.path().join("ledger"));
    let mut daemon = lab.serve();
    lab.until_up();
    let middle = "echo $SHOAL_RUN > out.txt; echo \"{\\\"n\\\": $SHOAL_CELL}\"; sleep 0.$((SHOAL_CELL % 5))";
    lab.sweep("show", runs, &ledger.around(middle), &[]);
    let (mut daemons, mut agents, mut adopted) = (0, 0, Vec::new());
    let end = Instant::now() + Duration::from_secs(600);
    loop {
        assert!(Instant::now() < end, "{}", lab.log());
        pause(&mut dice, 100, 1500);
        let all = lab.desk.json(&["ps", "--json", "--all"]);
        let row = &all["sweeps"][0];
        if row["finished"] == runs {
            break;
        }
        let chosen = lab.agents();
        if dice.below(3) == 0 || chosen.is_empty() {
            let before: Vec<usize> = lab.hosts.iter().map(|host| lab.hellos(&host.name)).collect();
            daemon.kill().expect("a daemon");
            daemon.wait().expect("an end");
            let began = Instant::now();
            daemon = lab.serve();
            daemons += 1;
            until(support::desk::BOUND, "the hosts to be there again", || {
                let back = lab.hosts.iter().zip(&before).all(|(host, before)| lab.hellos(&host.name) > *before);
                back.then_some(())
            });
            adopted.push(began.elapsed());
        } else {
            let pid = chosen[dice.below(chosen.len() as u64) as usize];
            agents += u64::from(kill(pid));
        }
    }
    lab.finish("show", runs);
    let count = ledger.check(names("show", runs), Again::Never).unwrap_or_else(|why| panic!("{why}\n{}", lab.log()));
    let folders = lab.check_results("show", runs);
    let root = lab.desk.store().join("results");
    assert!(folders.iter().all(|folder| folder.starts_with(&root)));
    let found = on_disk(&root, "show");
    assert_eq!(found.len() as u64, runs, "each once, and nothing half: {found:?}");
    let more = format!(" | daemons killed {daemons}, agents {agents}{}", spread("all hosts adopted", adopted));
    figures("the show", daemons + agents, count.runs, &more);
    lab.desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
}

#[test]
fn a_daemon_that_was_killed_is_said_to_be_gone() {
    let desk = Desk::new();
    let go = desk.work().join("go");
    desk.file("wait.sh", "until [ -e \"$GO\" ]; do sleep 0.05; done\n");
    desk.says(&["sweep", "--name", "mlp", "--env", &format!("GO={}", go.display()), "--", "sh", "wait.sh"]);
    desk.until("mlp", "running", |row| row["running"] == 1);
    let holder: Value = serde_json::from_str(&read(&desk.store().join("lock"))).expect("who serves it");
    let pid = holder["pid"].as_u64().expect("a pid") as u32;
    assert!(kill(pid), "the daemon that the lock names");
    until(support::desk::BOUND, "its end", || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    let said = desk.ends(&["ps"]);
    for part in ["the daemon is gone", &format!("process {pid} on"), "`shoal serve`"] {
        assert!(text(&said.stderr).contains(part), "no `{part}` in\n{}", text(&said.stderr));
    }
    std::fs::write(&go, "").expect("a file");
    assert!(desk.says(&["ps", "--all"]).contains("mlp"), "it is back");
    desk.until("mlp", "finished", |row| row["finished"] == 1);
}

#[test]
fn a_folder_for_results_that_is_not_there_is_named_with_its_host() {
    let desk = Desk::new();
    let results = desk.work().join("nfs");
    std::fs::create_dir(&results).expect("a folder");
    let folder = results.to_string_lossy().into_owned();
    desk.file("slow.sh", "until [ ! -e \"$1\" ]; do sleep 0.05; done; echo hi > out.txt\n");
    desk.says(&["sweep", "--name", "mlp", "--results", &folder, "--", "sh", "slow.sh", &folder]);
    desk.until("mlp", "running", |row| row["running"] == 1);
    let away = desk.work().join("away");
    std::fs::rename(&results, &away).expect("away");
    let host = desk.json(&["hosts", "--json"])["hosts"][0]["name"].as_str().expect("a host").to_string();
    let what = format!("{folder}, is not there on host {host}");
    let why = until(support::desk::BOUND, "a reason", || {
        let why = desk.says(&["why", "mlp:0.0"]);
        why.contains("results wait").then_some(why)
    });
    // Folded where the terminal ends.
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains(&what), "{why}");
    assert!(desk.json(&["hosts", "--json"])["hosts"][0]["problem"].as_str().is_some_and(|it| it.contains(&what)));
    assert!(desk.json(&["ps", "mlp", "--json"])["runs"][0]["trouble"].as_str().is_some_and(|it| it.contains(&what)));
    assert!(desk.says(&["ps", "mlp"]).contains("running: results wait on this host"), "in the table, too");
    std::fs::rename(&away, &results).expect("back");
    desk.until("mlp", "finished", |row| row["finished"] == 1);
    assert_eq!(on_disk(&results, "mlp").len(), 1);
    assert_eq!(desk.json(&["hosts", "--json"])["hosts"][0]["problem"], Value::Null, "nothing is wrong any more");
}
