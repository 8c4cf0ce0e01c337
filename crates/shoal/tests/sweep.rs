//! `shoal sweep` as people meet it, against a real daemon that starts by itself: grids, files, top-ups, waiting, results (QUEUE-1).

mod support;

use serde_json::Value;
use support::desk::{Desk, read, text};
use support::until;

/// Prints a metric and leaves a file.
const TRAIN: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in --lr) lr=$2; shift;; --width) width=$2; shift;; esac; shift; done
echo "rate $lr, width $width, seed $SHOAL_SEED"
echo "{\"loss\": $lr}"
echo "$lr $width" > weights.txt
"#;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.file("train.sh", TRAIN);
    desk
}

const GRID: [&str; 9] = ["sweep", "--grid", "lr=0.1,0.01", "--grid", "width=64,256", "--name", "mlp", "--reps", "2"];

#[test]
fn a_grid_runs_to_its_end_and_is_topped_up() {
    let desk = desk();
    let with = |more: &[&'static str]| [&GRID[..], more].concat();
    let done = desk.ends(&with(&["--wait", "--", "sh", "train.sh"]));
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("mlp: 4 configurations; 8 runs to do"), "{}", text(&done.stderr));

    let runs = desk.json(&["ps", "mlp", "--json"]);
    assert_eq!(runs["total"], 8);
    assert!(runs["runs"].as_array().expect("runs").iter().all(|run| run["state"] == "finished"), "{runs}");
    assert_eq!(desk.says(&["logs", "mlp:1.1"]).lines().next(), Some("rate 0.1, width 256, seed 1"));

    let results = desk.json(&["results", "mlp", "--json"]);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 8);
    let folder = rows[0]["folder"].as_str().expect("a folder");
    assert_eq!(read(&std::path::Path::new(folder).join("weights.txt")), "0.1 64\n");
    assert!(folder.contains("/mlp/runs/param_000/"), "{folder}");
    let csv = desk.says(&["results", "mlp", "--csv"]);
    assert_eq!(csv.lines().count(), 9, "{csv}");
    assert!(desk.says(&["results", "mlp"]).contains("0.01"));
    desk.says(&["results", "mlp", "--svg", "mlp.svg", "--metric", "loss", "--over", "width"]);
    assert!(read(&desk.work().join("mlp.svg")).contains("<svg"));

    // The same again: nothing is left. More of it: exactly that.
    let same = desk.json(&with(&["--json", "--", "sh", "train.sh"]));
    assert_eq!((&same["new_cells"], &same["waiting"], &same["already_done"]), (&0.into(), &0.into(), &8.into()));
    let more = ["sweep", "--grid", "lr=0.1,0.01,0.001", "--grid", "width=64,256", "--name", "mlp", "--reps", "2"];
    let more = desk.ends(&[&more[..], &["--wait", "--json", "--", "sh", "train.sh"]].concat());
    let lines: Vec<Value> = text(&more.stdout).lines().map(|l| serde_json::from_str(l).expect("json")).collect();
    assert_eq!((&lines[0]["new_cells"], &lines[0]["waiting"]), (&2.into(), &4.into()), "{lines:?}");
    let last = lines.last().expect("an end");
    assert_eq!((&last["event"], &last["complete"], &last["finished"]), (&"over".into(), &true.into(), &12.into()));
}

#[test]
fn a_file_says_it_all_and_a_dry_run_shows_it() {
    let mut desk = desk();
    desk.file(
        "mlp.yaml",
        "command: sh train.sh\ngrid:\n  lr: [0.1, 0.01]\n  width: [64, 256]\nwhen: width < 100 or lr > 0.05\nreps: 3\nresources: {cpus: 0.5}\n",
    );
    desk.hide("1 kB", "[size]");
    desk.looks_like("sweep_dry_run", &["sweep", "mlp.yaml", "--dry-run"]);
    let all = desk.json(&["sweep", "mlp.yaml", "--dry-run", "--json"]);
    assert_eq!((all["cells"].as_array().map(Vec::len), &all["sweep"]), (Some(3), &"mlp".into()));
    assert!(!desk.store().exists(), "a dry run starts nothing");
    let wide: Vec<String> = (0..30).map(|n| n.to_string()).collect();
    let axis = format!("n={}", wide.join(","));
    let first = desk.says(&["sweep", "--grid", &axis, "--dry-run", "--", "true"]);
    assert!(first.contains("... and 10 more; --all shows them"), "{first}");
    assert!(!desk.says(&["sweep", "--grid", &axis, "--dry-run", "--all", "--", "true"]).contains("more;"));
}

#[test]
fn the_source_is_what_it_was_at_submit() {
    let desk = desk();
    desk.file(".gitignore", "big.bin\n");
    desk.file("big.bin", "not sent");
    desk.file("corpus/a.txt", "words");
    desk.file("slow.sh", "until [ -e \"$GO\" ]; do sleep 0.05; done; . ./old.sh; cat corpus/a.txt; ls\n");
    desk.file("old.sh", "echo as it was\n");
    let go = desk.work().join("go");
    let set = format!("GO={}", go.display());
    desk.says(&["sweep", "--name", "snap", "--env", &set, "--data", "corpus", "--", "sh", "slow.sh"]);
    desk.until("snap", "running", |row| row["running"] == 1);
    desk.file("old.sh", "echo changed\n");
    std::fs::write(&go, "").expect("a file");
    desk.until("snap", "finished", |row| row["finished"] == 1);
    let said = desk.says(&["logs", "snap:0.0"]);
    assert!(said.starts_with("as it was\nwords"), "{said}");
    assert!(!said.contains("big.bin"), "{said}");
}

#[test]
fn failures_are_told_and_retried() {
    let desk = desk();
    let allowed = desk.work().join("allowed");
    let script = format!("echo trying; [ \"$1\" = 0 ] || [ -e {} ] || exit 3", allowed.display());
    desk.file("flaky.sh", &script);
    let args = ["sweep", "--grid", "n=0,1,2", "--name", "flaky", "--wait", "--", "sh", "flaky.sh", "{n}"];
    desk.fails(1, &args, &["flaky: 1 finished, 2 failed", "flaky:1.0", "exit code 3", "`shoal logs flaky:1.0`"]);
    let failed = desk.says(&["ps", "flaky", "--state", "failed"]);
    assert_eq!(failed.matches("failed: exit code 3").count(), 2, "{failed}");
    std::fs::write(&allowed, "").expect("a file");
    assert_eq!(desk.json(&["retry", "flaky", "--json"])["runs"], 2);
    desk.until("flaky", "finished", |row| row["finished"] == 3);
    assert_eq!(desk.json(&["retry", "flaky", "--json"])["runs"], 0);
}

/// Submitting again does what is missing, and says what it does not do.
#[test]
fn what_a_top_up_does_and_does_not_is_said() {
    let desk = desk();
    let allowed = desk.work().join("allowed");
    desk.file("flaky.sh", &format!("[ \"$1\" = 0 ] || [ -e {} ] || exit 3\n", allowed.display()));
    let args = ["sweep", "--grid", "n=0,1", "--name", "flaky", "--reps", "2", "--wait", "--", "sh", "flaky.sh", "{n}"];
    desk.fails(1, &args, &["flaky: 2 finished, 2 failed", "flaky:1.0, flaky:1.1 on "]);
    std::fs::write(&allowed, "").expect("a file");
    desk.file("other.txt", "new");
    let more = ["sweep", "--grid", "n=0,2", "--name", "flaky", "--wait", "--", "sh", "flaky.sh", "{n}"];
    desk.fails(
        1,
        &more,
        &[
            "note: changed since flaky was submitted before: source or data",
            "`shoal forget flaky`",
            "note: flaky has 2 copies of each configuration already; asking for 1 takes none back",
            "flaky: 4 finished, 2 failed",
        ],
    );
    let again = desk.ends(&args);
    let said = text(&again.stderr);
    assert!(again.status.success() && said.contains("note: 2 failed before and start again"), "{said}");
    let runs = desk.json(&["ps", "flaky", "--json"]);
    let tries: Vec<u64> = runs["runs"].as_array().expect("runs").iter().filter_map(|r| r["attempt"].as_u64()).collect();
    assert_eq!(tries, [1, 1, 2, 2, 1, 1], "QUEUE-2: what is done is not done again: {runs}");
    desk.fails(
        1,
        &["sweep", "--name", "none", "--wait", "--", "no-such-program"],
        &["there is no program `no-such-program`"],
    );
}

/// Results of a sweep that was forgotten stay, and nothing runs for a place that they have.
#[test]
fn results_of_a_forgotten_sweep_are_in_nobodys_way_unawares() {
    let desk = desk();
    let results = desk.work().join("results");
    std::fs::create_dir(&results).expect("a folder");
    let root = results.to_string_lossy().into_owned();
    let sweep = |lr: &'static str| {
        ["sweep", "--grid", lr, "--name", "old", "--results", &root, "--wait", "--", "sh", "train.sh"].map(String::from)
    };
    let args = sweep("lr=1,2");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    desk.says(&args);
    let dry = [&args[..7], &["--dry-run", "--json", "--", "sh", "train.sh"]].concat();
    let files = |said: &Value| said["trees"][0]["files"].clone();
    let planned = desk.json(&dry);
    assert_eq!(files(&planned), 1, "results are no source: {planned}");
    desk.says(&["forget", "old"]);
    let others = sweep("lr=7,8");
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    desk.fails(1, &others, &["param_000/param2val.yaml is of another configuration", "another --name"]);
    desk.says(&args);
}

#[test]
fn a_wait_says_what_it_waits_for() {
    let desk = desk();
    let args = ["sweep", "--name", "wide", "--cpus", "4000", "--wait", "--", "true"];
    let mut waiting = desk.shoal(&args).stderr(std::process::Stdio::piped()).spawn().expect("shoal runs");
    let stderr = waiting.stderr.take().expect("stderr");
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        std::io::BufRead::lines(std::io::BufReader::new(stderr))
            .map_while(Result::ok)
            .for_each(|line| drop(send.send(line)));
    });
    let reason = until(support::desk::BOUND, "a reason", || {
        lines.try_iter().find(|line| line.starts_with("shoal sweep: wide:0.0: "))
    });
    assert!(reason.contains("4000"), "{reason}");
    let pid = waiting.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let code = until(support::desk::BOUND, "its end", || waiting.try_wait().expect("wait"));
    assert_eq!(code.code(), Some(130));
    let file = desk.file("file.txt", "no folder");
    let results = ["sweep", "--results", &file.to_string_lossy(), "--", "true"];
    desk.fails(2, &results, &["is no folder"]);
    let below = file.join("sub");
    desk.fails(2, &["sweep", "--results", &below.to_string_lossy(), "--", "true"], &["is no folder"]);
}

#[test]
fn ctrl_c_leaves_the_sweep_running() {
    let desk = desk();
    let args = ["sweep", "--name", "long", "--wait", "--", "sleep", "600"];
    let mut waiting = desk.shoal(&args).stderr(std::process::Stdio::piped()).spawn().expect("shoal runs");
    desk.until("long", "running", |row| row["running"] == 1);
    let pid = waiting.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let code = until(support::desk::BOUND, "its end", || waiting.try_wait().expect("wait"));
    assert_eq!(code.code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut waiting.stderr.take().expect("stderr"), &mut said).expect("text");
    assert!(said.contains("long goes on") && said.contains("`shoal stop long`"), "{said}");
    assert_eq!(desk.until("long", "running", |row| row["running"] == 1)["stopped"], 0);
    assert_eq!(desk.json(&["stop", "long", "--json"])["runs"], 1);
    desk.until("long", "stopped", |row| row["stopped"] == 1 && row["running"] == 0);
}

#[test]
fn what_is_wrong_is_said_where_it_is() {
    let desk = desk();
    desk.file("wrong.yaml", "command: sh train.sh\ngird:\n  lr: [1]\n");
    desk.looks_like("sweep_misspelt", &["sweep", "wrong.yaml"]);
    desk.looks_like("sweep_no_values", &["sweep", "--grid", "lr", "--", "sh", "train.sh"]);
    desk.looks_like("sweep_nothing", &["sweep"]);
    desk.fails(2, &["sweep", "none.yaml"], &["none.yaml: No such file"]);
    // Which of the two should run?
    desk.file("good.yaml", "command: sh train.sh\ngrid:\n  lr: [1]\n");
    desk.fails(2, &["sweep", "good.yaml", "--dry-run", "--", "sh", "other.sh"], &["cannot be used with"]);
    desk.fails(2, &["sweep", "--name", "-x y", "--", "true"], &[]);
    desk.fails(2, &["sweep", "--gpu-memory", "4G", "--", "true"], &["--gpus"]);
    desk.fails(2, &["sweep", "--env", "SHOAL_RUN=1", "--", "true"], &["set by every run itself"]);
    desk.fails(2, &["sweep", "--source", "nothing", "--", "true"], &["nothing: No such file"]);
    assert!(!desk.store().exists(), "nothing was started for it");
}

#[test]
fn too_much_is_said_before_anything_is_sent() {
    let desk = desk();
    desk.file("many.yaml", "command: sh train.sh\ngrid:\n  lr: [1, 2, 3, 4, 5]\n");
    desk.fails(2, &["sweep", "many.yaml", "--reps", "1000000"], &["5000000 runs", "at most 4000000", "fewer --reps"]);
    desk.fails(2, &["sweep", "many.yaml", "--reps", "1000000", "--dry-run"], &["at most 4000000"]);
    let long = ["sweep", "--grid", "n=0..699999", "--", "true"];
    desk.fails(2, &long, &["`n` has 700000 values", "at most 4.0 MiB", "two shorter axes"]);
    assert!(!desk.store().exists(), "nothing was started for it");
    let two = ["sweep", "--name", "wide", "--grid", "a=0..999", "--grid", "b=0..999", "--on", "nowhere", "--json"];
    assert_eq!(desk.json(&[&two[..], &["--", "true"]].concat())["waiting"], 1_000_000, "as two axes it is short");
}

#[test]
fn editors_get_a_schema() {
    let desk = desk();
    let schema = desk.json(&["sweep", "--schema"]);
    assert_eq!(schema["$id"], "shoal-sweep-1");
    assert!(schema["properties"]["grid"].is_object());
    desk.fails(2, &["sweep", "--schema", "mlp.yaml"], &["--schema"]);
}

#[test]
fn what_is_needed_to_do_it_again_is_recorded() {
    let desk = desk();
    let git = |words: &[&str]| {
        let name = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let mut command = std::process::Command::new("git");
        let done = command.current_dir(desk.work()).args(name).args(words).output().expect("git");
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout).trim().to_string()
    };
    desk.file("run.py", "open('out.txt', 'w').write('one')\n");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let sweep = ["sweep", "--name", "py", "--grid", "n=0,1", "--wait", "--", "python3", "run.py"];
    desk.says(&sweep);
    desk.file("run.py", "open('out.txt', 'w').write('two')\n");
    let more = ["sweep", "--name", "py", "--grid", "n=2,3", "--seed", "7", "--wait", "--", "python3", "run.py"];
    desk.says(&more);

    let rows = desk.json(&["results", "py", "--json"]);
    let rows = rows["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    let mut diffs = std::collections::BTreeSet::new();
    for row in rows {
        let folder = std::path::Path::new(row["folder"].as_str().expect("a folder"));
        let told: Value = serde_json::from_str(&read(&folder.join("run.json"))).expect("json");
        let late = row["config"]["n"].as_u64() >= Some(2);
        assert_eq!(told["source"]["commit"], commit.as_str());
        assert_eq!((&told["source"]["dirty"], &told["seed"]), (&late.into(), &(if late { 7 } else { 0 }).into()));
        assert!(told["python"].as_str().is_some_and(|python| python.starts_with("3.")), "{told}");
        assert!(told["packages"].is_array(), "{told}");
        match told["source"]["diff"].as_str() {
            Some(diff) => drop(diffs.insert(folder.join(diff).canonicalize().expect("a file"))),
            None => assert!(!late, "{told}"),
        }
    }
    assert_eq!(diffs.len(), 1, "{diffs:?}");
    let diff = read(diffs.first().expect("a file"));
    assert!(diff.contains("+open('out.txt', 'w').write('two')"), "{diff}");
}

#[test]
fn json_from_a_program_is_a_sweep() {
    use std::io::Write;
    let desk = desk();
    let asked = r#"{"name": "py", "command": ["sh", "train.sh"], "list": [{"lr": 1, "width": 2}, {"lr": 3, "width": 4}], "pass": "flags"}"#;
    let mut command = desk.shoal(&["sweep", "--from-json", "-", "--json", "--wait"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("shoal runs");
    child.stdin.take().expect("stdin").write_all(asked.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success());
    assert!(text(&output.stdout).lines().last().expect("a line").contains("\"complete\":true"));
    assert!(desk.says(&["logs", "py:1"]).contains("rate 3, width 4"));
}
