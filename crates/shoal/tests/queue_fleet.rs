//! What a fleet's file says for the queue: where results go, what runs find, how much a user may have. Also after the daemon that read it is gone.

mod support;

use std::path::PathBuf;
use std::process::Child;
use support::desk::{BOUND, Desk, read};
use support::until;

/// Serves this file, until it answers.
fn serve(desk: &Desk, fleet: &str) -> Child {
    desk.file("lab.yaml", fleet);
    let daemon = desk.shoal(&["serve", "-f", "lab.yaml"]).spawn().expect("shoal runs");
    let pid = format!("\"pid\":{},", daemon.id());
    until(BOUND, "it to serve", || {
        let lock = std::fs::read_to_string(desk.store().join("lock")).unwrap_or_default();
        (lock.contains(&pid) && desk.store().join("socket").exists()).then_some(())
    });
    until(BOUND, "its host", || (desk.json(&["hosts", "--json"])["hosts"][0]["connected"] == true).then_some(()));
    daemon
}

/// What the first run of a sweep left, among the results of the lab.
fn left(desk: &Desk, sweep: &str, file: &str) -> String {
    let runs = desk.work().join("results").join(sweep).join("runs/param_000");
    let folders = std::fs::read_dir(&runs).unwrap_or_else(|e| panic!("{}: {e}", runs.display()));
    let folder: Vec<PathBuf> =
        folders.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    assert_eq!(folder.len(), 1, "{folder:?}");
    read(&folder[0].join(file))
}

#[test]
fn runs_find_what_the_fleets_file_says_and_results_go_where_it_says() {
    let desk = Desk::new();
    let tool = desk.file("venv/bin/tool", "#!/bin/sh\necho \"the tool of $VIRTUAL_ENV\"\n");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    std::fs::copy(&tool, tool.with_file_name("python")).expect("a file");
    let (venv, results) = (desk.work().join("venv"), desk.work().join("results"));
    std::fs::create_dir(&results).expect("a folder");
    let mut daemon = serve(
        &desk,
        &format!(
            "hosts: [localhost]\nenvironment:\n  virtualenv: {}\n  setup: [export LINE=set-up]\n  env: {{ONE: fleet, TWO: fleet}}\n\
             queue:\n  results: {}\n",
            venv.display(),
            results.display()
        ),
    );
    let look = "{ tool || echo no tool; printenv LINE || echo no line; printenv ONE TWO; } > out.txt; true";
    desk.file("src/look.sh", look);
    let submit = |name: &str| {
        desk.says(&["sweep", "--name", name, "--source", "src", "--env", "TWO=sweep", "--wait", "--", "sh", "look.sh"]);
    };
    let said = format!("the tool of {}\nset-up\nfleet\nsweep\n", venv.display());
    submit("first");
    assert_eq!(left(&desk, "first", "out.txt"), said);
    // One that nobody gave a file: it started because somebody asked.
    desk.says(&["serve", "--stop"]);
    assert!(daemon.wait().expect("an end").success());
    submit("second");
    assert_eq!(left(&desk, "second", "out.txt"), said);
    // What the file does not say any more is gone.
    desk.says(&["serve", "--stop"]);
    let mut daemon = serve(&desk, "hosts: [localhost]\n");
    submit("third");
    let rows = desk.json(&["results", "third", "--json"]);
    let folder = PathBuf::from(rows["rows"][0]["folder"].as_str().expect("a folder"));
    assert!(folder.starts_with(desk.store()), "{}", folder.display());
    assert_eq!(read(&folder.join("out.txt")), "no tool\nno line\nsweep\n");
    desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
    // A slip in the file is told before anything else.
    desk.file("lab.yaml", "hosts: [localhost]\nqueue: {result: /nfs}\n");
    desk.fails(2, &["serve", "-f", "lab.yaml"], &["did you mean `results`?"]);
}

/// First alone, then with a file that names this machine, too: two agents of one store would send each other away for ever, and end each
/// other's runs.
#[test]
fn a_machine_that_was_the_queue_alone_is_one_host_of_the_lab() {
    let desk = Desk::new();
    let go = desk.work().join("go");
    desk.file("src/wait.sh", &format!("echo up; until [ -e {} ]; do sleep 0.05; done\n", go.display()));
    desk.says(&["sweep", "--name", "early", "--source", "src", "--", "sh", "wait.sh"]);
    desk.until("early", "running", |row| row["running"] == 1);
    let mut daemon = serve(&desk, "hosts: [localhost]\nqueue: {hosts: {localhost: {slots: 3}}}\n");
    let hosts = desk.json(&["hosts", "--json"]);
    assert_eq!(hosts["hosts"].as_array().map(Vec::len), Some(1), "{hosts}");
    assert_eq!((&hosts["hosts"][0]["slots"], &hosts["hosts"][0]["running"]), (&3.into(), &1.into()), "{hosts}");
    // What ran goes on, and the name in the file means it.
    desk.says(&["sweep", "--name", "late", "--on", "localhost", "--cpus", "0.1", "--wait", "--", "true"]);
    std::fs::write(&go, "").expect("a file");
    desk.until("early", "finished", |row| row["finished"] == 1);
    assert_eq!(desk.json(&["ps", "early", "--json"])["runs"][0]["attempt"], 1);
    assert_eq!(desk.says(&["logs", "early"]), "up\n");
    desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
}

#[test]
fn a_host_that_cannot_be_reached_says_why_to_whoever_waits_for_it() {
    let desk = Desk::new();
    desk.file("lab.yaml", "hosts: [{name: far, address: 127.0.0.1, port: 1}]\n");
    let mut daemon = desk.shoal(&["serve", "-f", "lab.yaml"]).spawn().expect("shoal runs");
    until(BOUND, "a socket", || desk.store().join("socket").exists().then_some(()));
    desk.says(&["sweep", "--name", "s", "--", "true"]);
    until(BOUND, "what ssh says", || {
        let why = desk.json(&["why", "s", "--json"]);
        let reason = why["reasons"][0]["reason"].as_str().unwrap_or_default().to_string();
        (why["reasons"][0]["code"] == "host_silent" && reason.contains("far: ") && reason.contains("refused"))
            .then_some(())
    });
    desk.says(&["serve", "--stop"]);
    assert!(daemon.wait().expect("an end").success());
}

#[test]
fn nobody_has_more_at_once_than_their_quota() {
    let desk = Desk::new();
    let go = desk.work().join("go");
    desk.file("src/wait.sh", &format!("until [ -e {} ]; do sleep 0.05; done\n", go.display()));
    desk.says(&["sweep", "--name", "who", "--source", "src", "--wait", "--", "true"]);
    let me = desk.until("who", "finished", |row| row["finished"] == 1)["owner"].as_str().expect("a name").to_string();
    let lab = |quotas: &str| {
        format!("hosts: [localhost]\nqueue: {{hosts: {{localhost: {{slots: 4}}}}, quotas: {{{quotas}}}}}\n")
    };
    let mut daemon = serve(&desk, &lab(&format!("{me}: 1")));
    desk.says(&["sweep", "--name", "s", "--source", "src", "--cpus", "0.1", "--grid", "n=1..3", "--", "sh", "wait.sh"]);
    desk.until("s", "running", |row| row["running"] == 1);
    let why = desk.json(&["why", "s:2.0", "--json"]);
    assert_eq!((&why["reasons"][0]["code"], &why["reasons"][0]["forever"]), (&"quota".into(), &false.into()), "{why}");
    assert!(desk.says(&["why", "s:2.0"]).contains(&format!("{me} may have 1 process")), "{why}");
    std::fs::write(&go, "").expect("a file");
    desk.until("s", "finished", |row| row["finished"] == 3);
    // Who may have nothing is told that it will not change by itself; and without the word, there is no bound.
    desk.says(&["serve", "--stop"]);
    assert!(daemon.wait().expect("an end").success());
    let mut daemon = serve(&desk, &lab(&format!("{me}: 0")));
    desk.fails(4, &["sweep", "--name", "t", "--wait", "--", "true"], &[&format!("{me} may have no processes here")]);
    desk.says(&["serve", "--stop"]);
    assert!(daemon.wait().expect("an end").success());
    let mut daemon = serve(&desk, &lab(""));
    desk.until("t", "finished", |row| row["finished"] == 1);
    desk.says(&["serve", "--stop", "--stop-runs"]);
    assert!(daemon.wait().expect("an end").success());
}
