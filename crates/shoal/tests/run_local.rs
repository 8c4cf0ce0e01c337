//! `shoal run` on this machine: how ranks end, what is said about it, and that nothing is left (GANG-1, GANG-2, SEC-2).

mod support;

use std::path::Path;
use std::time::Duration;
use support::launching::{Case, Lab, cmdline, holds, pids, variable};
use support::{LONG, until};

#[test]
fn ends_of_ranks() {
    Lab::local().run(&[
        ("exits-3", exits_3),
        ("by-signal", by_signal),
        ("at-once", at_once),
        ("after-others", after_others),
        ("not-found", not_found),
        ("no-python", no_python),
        ("no-virtualenv", no_virtualenv),
        ("setup-fails", setup_fails),
        ("no-folder", no_folder),
        ("many-fail", many_fail),
        ("ignores-sigterm", ignores_sigterm),
        ("leaves-a-daemon", leaves_a_daemon),
        ("floods", floods),
        ("out-of-memory", out_of_memory),
    ]);
}

fn exits_3(case: &Case) {
    let script = "echo loading; echo 'no such file: data.bin' >&2; exit 3";
    case.shoal(&["-n", "1", "--", "sh", "-c", script]).run().exits(3).looks_like("worker_exits_3");
}

fn by_signal(case: &Case) {
    case.shoal(&["--", "sh", "-c", "echo step 7; kill -SEGV $$"]).run().exits(139).looks_like("worker_by_signal");
}

/// A rank that is over before anybody has looked.
fn at_once(case: &Case) {
    case.shoal(&["-n", "2", "--", "true"]).run().exits(0).looks_like("finished");
    case.shoal(&["-n", "2", "--", "false"]).run().exits(1);
}

fn after_others(case: &Case) {
    let script = "[ $RANK = 0 ] && exit 0; sleep 0.4; exit 3";
    case.shoal(&["-n", "3", "--", "sh", "-c", script]).run().exits(3).says(&["exited with code 3"]);
}

fn not_found(case: &Case) {
    case.shoal(&["--env", "PATH=/usr/bin:/bin", "--", "pyhton3", "train.py"])
        .run()
        .exits(126)
        .looks_like("command_not_found");
    case.file("train.py", "print(1)\n");
    case.shoal(&["--", "./train.py"]).run().exits(126).looks_like("command_not_executable");
}

fn no_python(case: &Case) {
    case.shoal(&["--env", "PATH=/sbin", "--", "python", "train.py"]).run().exits(126).looks_like("no_python");
}

fn no_virtualenv(case: &Case) {
    case.file("fleet.yaml", "hosts: [localhost]\nenvironment: {virtualenv: /opt/no/venv}\n");
    case.shoal(&["-f", "fleet.yaml", "--", "python", "train.py"]).run().exits(126).looks_like("no_virtualenv");
}

fn setup_fails(case: &Case) {
    let text = "hosts: [localhost]\nenvironment: {setup: [\"cd /data/cifar10\"]}\n";
    case.file("fleet.yaml", text);
    case.shoal(&["-f", "fleet.yaml", "--", "python3", "train.py"]).run().exits(126).looks_like("setup_fails");
}

fn no_folder(case: &Case) {
    case.shoal(&["--cwd", "/no/such/folder", "--", "true"]).run().exits(126).looks_like("no_folder");
}

/// The first failure has the word and the others are named; more than a few are counted.
fn many_fail(case: &Case) {
    let script = "[ $RANK = 4 ] && exit 9; trap 'exit 1' TERM; sleep 60 & wait";
    let done = case.shoal(&["-n", "9", "--no-master", "--", "sh", "-c", script]).run().exits(9);
    assert!(done.says(&["worker4 on localhost: exited with code 9"]).took < Duration::from_secs(45));
}

fn ignores_sigterm(case: &Case) {
    let script = "[ $RANK = 1 ] && exit 3; trap '' TERM INT HUP; while :; do sleep 0.1; done";
    let done = case.shoal(&["-n", "2", "--grace", "1", "--", "sh", "-c", script]).run().exits(3);
    assert!(done.took < Duration::from_secs(45), "{:?}", done.took);
}

/// A rank that leaves processes in other sessions, orphaned, deaf to SIGTERM, with the output still open.
fn leaves_a_daemon(case: &Case) {
    let script = "setsid sh -c 'trap \"\" TERM HUP; (sleep 301 & sleep 302) & while :; do sleep 1; done' & sleep 0.2";
    // One of them without our mark.
    let odd = format!("{}.25", 300 + std::process::id());
    let script = format!("env -i setsid sleep {odd} & {script}");
    let done = case.shoal(&["--grace", "1", "--", "sh", "-c", &script]).run().exits(0);
    assert!(done.took < Duration::from_secs(45), "{:?}", done.took);
    assert!(!pids().any(|pid| cmdline(pid) == format!("sleep {odd}")), "a process without our mark is left");
}

/// Much output, without an end of line, and bytes that are no text.
fn floods(case: &Case) {
    let script = "head -c 20000000 /dev/zero; printf '\\377\\376\\n'; exit 4";
    let done = case.shoal(&["-v", "-n", "1", "--", "sh", "-c", script]).run().exits(4);
    assert!(done.err.len() < 20_000, "{} bytes for people to read", done.err.len());
    for (name, bytes) in case.logs("logs").iter().filter(|(name, _)| name.starts_with("worker")) {
        assert_eq!(bytes.len(), 20_000_003, "{name}");
    }
}

/// The kernel kills a rank in a group that has no memory left; the run says that and not only "signal 9".
fn out_of_memory(case: &Case) {
    let Some(group) = Group::make() else { return };
    // The launcher joins the group, and everything it starts is born there.
    let mut launch = case.shoal(&["--", "sh", "-c", "exec /usr/bin/python3 -c \"b = b'x' * (400 << 20)\""]);
    let inner: Vec<String> = std::iter::once(launch.command.get_program())
        .chain(launch.command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &join, "sh"]).args(inner).current_dir(&case.folder).env("HOME", case.lab.home());
    launch.command = command;
    let done = launch.run();
    drop(group);
    done.exits(137).says(&["out of memory"]).looks_like("out_of_memory");
}

/// A memory group of 64 MB, where this machine lets us make one.
struct Group(String);

impl Group {
    fn make() -> Option<Group> {
        let name = format!("shoal-test-{}", std::process::id());
        for (base, limit) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let folder = format!("{base}/{name}");
            if std::fs::create_dir(&folder).is_ok() {
                let group = Group(folder);
                if std::fs::write(format!("{}/{limit}", group.0), "67108864").is_ok() {
                    return Some(group);
                }
            }
        }
        shoal_testkit::skip("no memory control group can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It can go once its processes are gone, which takes the kernel a moment.
        shoal_testkit::wait::until(Duration::from_secs(5), || std::fs::remove_dir(&self.0).ok());
    }
}

/// What is wrong with a command line or a file is said before anything starts, with what was probably meant.
#[test]
fn mistakes_are_explained() {
    let lab = Lab::local();
    let case = lab.case("mistakes");
    case.shoal(&["-f", "no.yaml", "--", "true"]).run().exits(2).looks_like("no_fleet_file");
    case.file("fleet.yaml", "hosts:\n  - {name: a, adress: 10.0.0.1}\n  - {name: b, slots: {rank: 2}}\nworker: [a]\n");
    case.shoal(&["-f", "fleet.yaml", "--", "true"]).run().exits(2).looks_like("misspelt_yaml");
    case.file(
        "config.json",
        "{\"workers_nodes\": [\"10.0.0.1\"], \"server_nodes\": [\"10.0.0.2\"], \"user_name\": \"ann\"}\n",
    );
    case.psd_run(&["-c", "config.json", "true"]).run().exits(2).looks_like("misspelt_json");
    case.file("config.json", "{\"worker_nodes\": [\"10.0.0.1\", ],\n \"server_nodes\": [\"ann@10.0.0.2:22\"]}\n");
    case.psd_run(&["-c", "config.json", "true"]).run().exits(2).looks_like("broken_json");
    case.file("config.json", "{\"worker_nodes\": [\"localhost\"], \"server_nodes\": [\"localhost\"]}\n");
    case.psd_run(&["-c", "config.json", "python", "train.py"]).run().exits(2).looks_like("psd_run_unquoted_command");
    case.psd_run(&["-c", "config.json", "'a', 'b'"]).run().exits(2).looks_like("psd_run_too_many_commands");
    case.psd_run(&["--cluster", "config.json", "true"]).run().exits(2).looks_like("psd_run_unknown_option");
    case.file("fleet.yaml", "hosts: [{name: gpu1, slots: 2}, {name: gpu2, slots: 2}]\n");
    case.shoal(&["-f", "fleet.yaml", "-n", "9", "--", "true"]).run().exits(2).looks_like("too_few_slots");
    case.shoal(&["-f", "fleet.yaml", "--on", "gpu3", "--", "true"]).run().exits(2).looks_like("unknown_group");
    case.shoal(&["--env", "RANK=1", "--", "true"]).run().exits(2).looks_like("reserved_variable");
    case.shoal(&["-n", "2"]).run().exits(2).looks_like("no_command");
    case.shoal(&["-n", "0", "--", "true"]).run().exits(2).looks_like("no_workers");
}

/// What a plan says is what would run, without the token.
#[test]
fn a_dry_run_shows_everything_and_starts_nothing() {
    let lab = Lab::local();
    let case = lab.case("dry");
    case.file(
        "fleet.yaml",
        "hosts: [{name: a, address: 10.0.0.1}, {name: b, address: 10.0.0.2, slots: 2}]\nservers: [a]\n",
    );
    case.shoal(&["-f", "fleet.yaml", "--dry-run", "--flags", "--cwd", "/", "--", "python", "my train.py"])
        .run()
        .exits(0)
        .looks_like("dry_run");
    assert!(!case.folder.join("logs").exists(), "a dry run has made logs");
}

/// Arguments arrive as given, whatever is in them; so do a shell line and the variables.
#[test]
fn quoting_is_exact() {
    let lab = Lab::local();
    support::quoting::check(&lab.case("quoting"), &["-n", "1"]);
}

/// The token is on no command line, in no log, in no file that others can read.
#[test]
fn the_token_is_nowhere_to_be_seen() {
    let lab = Lab::local();
    let case = lab.case("token");
    let args = ["-n", "2", "--servers", "1", "-v", "--", "sh", "-c", "echo up; exec sleep 300"];
    let run = case.shoal(&args).env("SHOAL_LOG", "trace").start();
    let ranks = case.running(2, "sleep 300");
    until(LONG, "master and server", || (case.ranks().len() >= 4).then_some(()));
    let token = variable(ranks[0], "SHOAL_TOKEN").expect("a token");
    assert!(token.len() >= 32, "{token}");
    for pid in pids() {
        assert!(!cmdline(pid).contains(&token), "{}", cmdline(pid));
    }
    assert!(variable(run.process.pid(), "SHOAL_TOKEN").is_none());
    no_file_holds(&case.folder, &token);
    no_file_holds(&lab.home(), &token);
    run.process.signal("INT");
    let done = run.end().exits(130);
    assert!(!done.out.contains(&token) && !done.err.contains(&token));
    no_file_holds(&case.folder, &token);
    no_file_holds(&lab.home(), &token);
}

fn no_file_holds(folder: &Path, token: &str) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            no_file_holds(&path, token);
        } else {
            assert!(!holds(&path, token), "the token is in {}", path.display());
        }
    }
}

/// Two runs at once get ports of their own, for the master and for torch.
#[test]
fn two_runs_at_once_share_no_port() {
    let lab = Lab::local();
    let script = "echo $SHOAL_MASTER_ADDRESS; echo tcp://x:$MASTER_PORT; exec sleep 300";
    let cases = [lab.case("one"), lab.case("two")];
    let runs: Vec<_> = cases.iter().map(|case| case.shoal(&["-n", "2", "--", "sh", "-c", script]).start()).collect();
    let mut ports: Vec<String> = Vec::new();
    for case in &cases {
        let pids = case.running(2, "sleep 300");
        let master = variable(pids[0], "SHOAL_MASTER_ADDRESS").expect("an address");
        ports.push(master.rsplit(':').next().expect("a port").to_string());
        ports.push(variable(pids[0], "MASTER_PORT").expect("a port"));
    }
    ports.sort();
    let all = ports.len();
    ports.dedup();
    assert_eq!(ports.len(), all, "{ports:?}");
    for run in runs {
        run.process.signal("TERM");
        run.end().exits(130);
    }
}

/// Said before anything starts.
#[test]
fn logs_that_cannot_be_written() {
    let lab = Lab::local();
    let case = lab.case("nowhere");
    case.shoal(&["-o", "/proc/nowhere", "--", "touch", "started"]).run().exits(1).looks_like("logs_cannot_be_written");
    assert!(!case.folder.join("started").exists());
}

/// A run that goes on by itself: its id is all that is printed; it ends when its workers do.
#[test]
fn detached() {
    let lab = Lab::local();
    let case = lab.case("detached");
    let script = "while [ ! -e go ]; do sleep 0.1; done; echo went";
    let mut run = case.shoal(&["--detach", "-n", "2", "--", "sh", "-c", script]).start();
    assert_eq!(run.process.end(LONG), 0, "{}", run.process.said());
    let id = run.process.stdout().trim().to_string();
    assert!(run.process.stderr().contains(&id) && id.len() == 20, "{}", run.process.said());
    assert!(case.ranks().len() >= 3, "{:?}", case.ranks());
    case.file("go", "");
    case.nothing_is_left();
    assert_eq!(case.log("logs", "worker1"), "went\n");
}

/// Events for programs: one object a line, the last of them says how it went.
#[test]
fn events_are_json() {
    let lab = Lab::local();
    let case = lab.case("json");
    let done = case.shoal(&["--json", "-n", "2", "--", "sh", "-c", "echo hello; exit $RANK"]).run().exits(1);
    let events: Vec<serde_json::Value> =
        done.out.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    let last = events.last().expect("events");
    assert_eq!((&last["event"], &last["exit_code"]), (&"over".into(), &1.into()), "{last}");
    assert!(events.iter().any(|e| e["event"] == "started") && events.iter().any(|e| e["event"] == "ended"));
    assert!(done.err.is_empty(), "{}", done.err);
}
