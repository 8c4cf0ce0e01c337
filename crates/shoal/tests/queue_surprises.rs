//! Days on which people burn themselves: a daemon that was killed looks like no queue, a wait has no end, a run kills its neighbours, a program's own
//! file is in the way.

mod support;

use serde_json::Value;
use support::desk::{BOUND, Desk, read, text};
use support::until;

/// Runs that write down that they are there, and wait for a file.
const NEIGHBOUR: &str =
    "echo here >> \"$BASE/ledger\"; touch \"$BASE/neighbour\"; until [ -e \"$BASE/go\" ]; do sleep 0.05; done";

fn daemon(desk: &Desk) -> i32 {
    let lock: Value = serde_json::from_str(&read(&desk.store().join("lock"))).expect("a holder");
    lock["pid"].as_i64().expect("a pid") as i32
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was there");
}

/// What `ps --json` says, and its exit code.
fn ps(desk: &Desk) -> (Value, Option<i32>) {
    let output = desk.ends(&["ps", "--json"]);
    (serde_json::from_slice(&output.stdout).expect("JSON"), output.status.code())
}

#[test]
fn a_queue_that_nobody_answers_for_is_no_empty_queue() {
    let desk = Desk::new();
    let (said, code) = ps(&desk);
    assert_eq!((&said["queue"]["state"], &said["sweeps"], code), (&"none".into(), &Value::Array(vec![]), Some(0)));
    let (base, go) = (format!("BASE={}", desk.work().display()), desk.work().join("go"));
    desk.says(&["sweep", "--name", "long", "--env", &base, "--", "sh", "-c", NEIGHBOUR]);
    desk.until("long", "running", |row| row["running"] == 1);
    assert_eq!(ps(&desk).0["queue"]["state"], "answers");

    kill(daemon(&desk));
    // Whom it dies under is told that it ended the connection.
    let gone = || Some(ps(&desk)).filter(|(said, _)| said["queue"]["state"] == "gone");
    let (said, code) = until(BOUND, "nobody to serve it", gone);
    assert_eq!((&said["sweeps"], code), (&Value::Null, Some(3)));
    assert!(said["queue"]["why"].as_str().is_some_and(|why| why.contains("the daemon is gone")), "{said}");
    desk.fails(3, &["ps"], &["the daemon is gone", "`shoal serve`"]);
    // Whoever asks for more brings it back.
    assert_eq!(desk.json(&["ps", "--all", "--json"])["sweeps"][0]["running"], 1);

    desk.says(&["serve", "--stop"]);
    let (said, code) = ps(&desk);
    assert_eq!((&said["queue"]["state"], &said["sweeps"], code), (&"stopped".into(), &Value::Null, Some(3)));
    std::fs::write(go, "").expect("a file");
    desk.says(&["wait", "long"]);
    assert_eq!(read(&desk.work().join("ledger")), "here\n");
}

#[test]
fn a_wait_for_what_can_never_start_ends() {
    let desk = Desk::new();
    let large = ["sweep", "--name", "large", "--cpus", "4000", "--wait", "--", "true"];
    desk.fails(4, &large, &["no host has 4000 CPUs", "it stays in the queue", "`shoal stop large`"]);
    desk.fails(4, &["wait", "large"], &["no host has 4000 CPUs"]);
    let elsewhere = ["sweep", "--name", "elsewhere", "--on", "nowhere", "--wait", "--json", "--", "true"];
    let output = desk.ends(&elsewhere);
    assert_eq!(output.status.code(), Some(4));
    let last: Value = serde_json::from_str(text(&output.stdout).lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["event"], &last["sweep"]), (&"in_vain".into(), &"elsewhere".into()), "{last}");
    desk.fails(1, &["sweep", "--name", "first", "--wait", "--", "false"], &["first:0.0"]);
    let second = ["sweep", "--name", "second", "--after", "first", "--wait", "--", "true"];
    desk.fails(4, &second, &["`first` has to be complete", "`shoal retry first`"]);
}

/// How often the neighbour was started, and how the one that kills ended.
fn beside(kill: &str, ended: impl Fn(&Value) -> bool) -> (Desk, usize) {
    let desk = Desk::new();
    let base = format!("BASE={}", desk.work().display());
    let script = format!(
        "if [ \"$1\" = 0 ]; then until [ -e \"$BASE/neighbour\" ]; do sleep 0.05; done; {kill}\nelse {NEIGHBOUR}; fi\n"
    );
    desk.file("run.sh", &script);
    let args =
        ["sweep", "--name", "s", "--grid", "n=0,1", "--cpus", "0.1", "--env", &base, "--", "sh", "run.sh", "{n}"];
    desk.says(&args);
    desk.until("s", "rid of the one that kills", &ended);
    until(BOUND, "the neighbour to be there", || {
        let rows = desk.json(&["ps", "s:1", "--json"]);
        (rows["runs"][0]["state"] == "running").then_some(())
    });
    std::fs::write(desk.work().join("go"), "").expect("a file");
    desk.until("s", "over", |row| row["running"] == 0 && row["waiting"] == 0);
    let times = read(&desk.work().join("ledger")).lines().count();
    (desk, times)
}

#[test]
fn a_run_that_kills_its_parent_is_found_out() {
    let (desk, times) = beside("kill -9 $PPID; sleep 60", |row| row["failed"] == 1);
    assert_eq!(times, 2, "its neighbour was taken down once, and not again");
    let row = desk.until("s", "over", |_| true);
    assert_eq!((&row["finished"], &row["failed"]), (&1.into(), &1.into()), "{row}");
    let said = desk.says(&["logs", "s:0.0"]);
    assert!(said.contains("killed its parent process"), "{said}");
}

#[test]
fn a_run_that_asks_its_parent_to_end_is_not_heard() {
    for signal in ["TERM", "INT", "HUP", "USR1", "QUIT"] {
        let (_desk, times) = beside(&format!("kill -{signal} $PPID; sleep 0.3"), |row| row["finished"] == 1);
        assert_eq!(times, 1, "{signal}");
    }
}

#[test]
fn a_keeper_that_was_stopped_goes_on() {
    let (_desk, times) = beside("kill -STOP $PPID", |row| row["finished"] == 1);
    assert_eq!(times, 1);
}

#[test]
fn a_stop_may_have_another_grace() {
    let desk = Desk::new();
    let base = format!("BASE={}", desk.work().display());
    // Hears nothing, and is given an hour to hear it.
    let stubborn = "trap '' TERM; touch \"$BASE/up\"; while :; do sleep 0.1; done";
    desk.says(&["sweep", "--name", "s", "--grace", "1h", "--env", &base, "--", "sh", "-c", stubborn]);
    until(BOUND, "it to be up", || desk.work().join("up").exists().then_some(()));
    desk.says(&["stop", "s"]);
    desk.until("s", "stopping", |row| row["running"] == 1);
    desk.says(&["stop", "s", "--grace", "1"]);
    desk.until("s", "stopped", |row| row["stopped"] == 1);
}

#[test]
fn a_programs_own_run_json_is_among_its_results() {
    let desk = Desk::new();
    let results = desk.work().join("results");
    std::fs::create_dir(&results).expect("a folder");
    let to = results.to_string_lossy();
    let script = "echo theirs > run.json";
    desk.says(&["sweep", "--name", "s", "--results", &to, "--wait", "--", "sh", "-c", script]);
    let folder = desk.json(&["results", "s", "--json"])["rows"][0]["folder"].as_str().expect("a folder").to_string();
    assert_eq!(read(&std::path::Path::new(&folder).join("run.json")), "theirs\n");
    let ours: Value = serde_json::from_str(&read(&std::path::Path::new(&folder).join("run.shoal.json"))).expect("JSON");
    assert_eq!(ours["run"], "s:0.0");
}

/// What went wrong in a gang is often said by another process than the first.
#[test]
fn every_process_of_a_gang_can_be_read() {
    let desk = Desk::new();
    desk.file(
        "gang.yaml",
        "command: [sh, -c, 'echo this is $RANK; [ $RANK = 0 ] || exit 3']\nresources: {ranks: 2, cpus: 0.1}\n",
    );
    desk.fails(1, &["sweep", "gang.yaml", "--wait"], &["exit code 3"]);
    assert_eq!(desk.says(&["logs", "gang:0.0"]), "this is 0\n");
    assert_eq!(desk.says(&["logs", "gang:0.0", "--rank", "worker1"]), "this is 1\n");
    desk.fails(1, &["logs", "gang:0.0", "--rank", "worker2"], &["has no process 2: they are 0 to 1"]);
    desk.fails(2, &["stop", "gang:0.0", "--rank", "worker1"], &["ends as a whole"]);
    // Nor is a command shown with a hole where the run's folder will be.
    let shown = desk.says(&["sweep", "--dry-run", "--", "echo", "{run_dir}"]);
    assert!(shown.contains("echo '{run_dir}'"), "{shown}");
}
