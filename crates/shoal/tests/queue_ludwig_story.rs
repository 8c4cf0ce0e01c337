//! A day of the lab that LudwigCluster's document describes: a file server, four hosts that see its drive, and people who submit from their own
//! machine. First the document's example as it is written there, then what its note says cannot be done: stopping a run, two people at once, a
//! busy host, a host that dies. At the end every configuration has its copies, each once (QUEUE-1, QUEUE-2).
//!
//! Here the machine that runs the test is the file server, and people sit at a fifth host.

mod support;

use serde_json::Value;
use shoal_testkit::{Host, Hosts, HostsSpec, SharedDrive};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::desk::{BOUND, Desk, read, text};
use support::{interpreter, until};

const DRIVE: &str = "/media/research_data";
/// The hosts that run what people submit; the next one is where people sit.
const WORKERS: usize = 4;
/// Whose desk is the last of them.
const DESK: usize = 3;

#[test]
fn the_documents_example_and_what_it_could_not_do() {
    let Some(python) = interpreter::or_skip() else { return };
    let drive = tempfile::Builder::new().prefix("research_data").tempdir().expect("a drive");
    let mut spec = HostsSpec::new("ludwig", WORKERS + 1);
    spec.drive = Some(SharedDrive { folder: drive.path().into(), at: DRIVE.into() });
    spec.share = interpreter::needed_by(&python);
    spec.share.push(env!("CARGO_BIN_EXE_shoal").into());
    let Some(mut hosts) = Hosts::up_or_skip(spec) else { return };
    let mut lab = Lab::open(&hosts, drive.path(), &python);
    sits_down(hosts.host(DESK), true);
    lab.serve();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| lab.user(&hosts, user));

    the_documents_example(&lab, &hosts, &alice);
    a_busy_host_gets_nothing(&lab, &hosts, &bob);
    a_run_is_stopped_and_two_people_share(&lab, &hosts, &alice, &bob, &carol);
    a_host_dies(&lab, &mut hosts);
    every_configuration_has_its_copies(&lab, &alice, &bob);
    lab.close();
}

/// Three configurations, two copies of each. Somebody sits at the last host all the while.
fn the_documents_example(lab: &Lab, hosts: &Hosts, alice: &User) {
    for (name, content) in [
        ("submit.py", include_str!("ludwig/alice/submit.py")),
        ("run.py", include_str!("ludwig/alice/run.py")),
        ("src/your_module.py", include_str!("ludwig/alice/src/your_module.py")),
        ("corpora/words.txt", "a b c"),
        ("tasks/task.txt", "count"),
    ] {
        alice.file(name, content);
    }
    alice.python(&["submit.py", "0.1", "0.2", "0.3"]);
    alice.shoal(&["wait", "alice_net"]);
    let ledger = lab.ledger();
    assert_eq!(counts(&ledger, "end", "alice_net:"), copies(&["0.1", "0.2", "0.3"]));
    let used: BTreeSet<&str> = ledger.iter().map(|line| line.host.as_str()).collect();
    assert!(!used.contains(hosts.host(DESK).name.as_str()), "ann sits there: {used:?}");
    assert!(lab.drive.join("alice_net/data_0.2_1.csv").exists(), "what run.py moves to the drive is there");
    // Users have no shell on the hosts; the log is theirs all the same.
    assert!(alice.shoal(&["logs", "alice_net:1.1"]).contains("\"loss\": 0.2"));
}

/// The document: "retry when the node is no longer busy". Here what waits for a host starts when it is free.
fn a_busy_host_gets_nothing(lab: &Lab, hosts: &Hosts, bob: &User) {
    let desk = hosts.host(DESK);
    bob.shoal(&["sweep", "--name", "desk", "--on", &desk.name, "--", "true"]);
    let why = bob.json(&["why", "desk", "--json"]);
    assert_eq!(why["reasons"][0]["code"], "owner_at_desk", "{why}");
    sits_down(desk, false);
    lab.desk.until("desk", "finished, since ann has gone", |row| row["finished"] == 1);
}

/// Carol has all four hosts. The others wait, and nobody but her may end what she runs; when she does, the two have two hosts each.
fn a_run_is_stopped_and_two_people_share(lab: &Lab, hosts: &Hosts, alice: &User, bob: &User, carol: &User) {
    lab.hold();
    // A program that is not alone: what it started ends with it.
    let long = ["sh", "-c", "sleep 86341 & sleep 86341; wait"];
    let sweep = ["sweep", "--name", "long", "--grid", "n=0,1,2,3", "--"];
    carol.shoal(&[&sweep[..], &long].concat());
    lab.desk.until("long", "on all hosts", |row| row["running"] == 4);
    until(BOUND, "all of what carol runs", || (sleepers(hosts) == 2 * WORKERS).then_some(()));

    alice.python(&["submit.py", "0.1", "0.2", "0.3", "0.4", "0.5"]);
    for (name, content) in [
        ("Letters/letters/params.py", include_str!("ludwig/Letters/letters/params.py")),
        ("Letters/letters/job.py", include_str!("ludwig/Letters/letters/job.py")),
        ("Letters/letters/__init__.py", ""),
        ("Letters/show.py", include_str!("ludwig/Letters/show.py")),
    ] {
        bob.file(name, content);
    }
    bob.is_under_git("Letters");
    let told = bob.ludwig(&["-r", "2"]);
    assert!(told.contains("2 configurations, 4 runs to do"), "{told}");
    for (user, sweep) in [(alice, "alice_net"), (bob, "Letters")] {
        let row = lab.desk.until(sweep, "waiting", |row| row["waiting"] == 4 && row["running"] == 0);
        assert_eq!(row["owner"], user.name.as_str());
    }
    let why = bob.json(&["why", "Letters:0.0", "--json"]);
    assert_eq!(why["reasons"][0]["state"], "waiting", "{why}");
    let refused = bob.tries(&["stop", "long"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("carol"), "{}", text(&refused.stderr));

    // One run of hers, and then the rest.
    assert_eq!(carol.json(&["stop", "long:2", "--json"])["runs"], 1);
    lab.desk.until("long", "less one", |row| row["stopped"] == 1 && row["running"] == 3);
    assert_eq!(carol.json(&["stop", "long", "--json"])["runs"], 3);
    lab.desk.until("long", "stopped", |row| row["stopped"] == 4 && row["running"] == 0);
    assert_eq!(sleepers(hosts), 0, "the whole group of each run has ended");

    for sweep in ["alice_net", "Letters"] {
        lab.desk.until(sweep, "on two hosts", |row| row["running"] == 2 && row["waiting"] == 2);
    }
    until(BOUND, "four runs that have begun", || (lab.unfinished().len() == WORKERS).then_some(()));
    let where_they_are: BTreeSet<String> = lab.unfinished().into_iter().map(|line| line.host).collect();
    assert_eq!(where_they_are.len(), WORKERS, "each on a host of its own, also on ann's, who is away");
}

/// Without a word, in the middle of a run of each kind of project, if need be.
fn a_host_dies(lab: &Lab, hosts: &mut Hosts) {
    let victim = lab.unfinished().into_iter().find(|line| line.run.starts_with("alice_net:")).expect("a run of alice");
    let i = hosts.iter().position(|host| host.name == victim.host).expect("its host");
    hosts.power_off(i).expect("a host that is off");
    lab.desk.until("alice_net", "without that run", |row| row["running"] == 1 && row["waiting"] == 3);
    lab.let_go();
    for sweep in ["alice_net", "Letters"] {
        lab.desk.until(sweep, "complete", |row| row["waiting"] == 0 && row["running"] == 0);
    }
    let again = lab.ledger().into_iter().filter(|line| line.run == victim.run && line.attempt != victim.attempt);
    let again: Vec<Line> = again.collect();
    assert_eq!(again.iter().map(|line| line.word.as_str()).collect::<Vec<_>>(), ["begin", "end"], "{again:?}");
    assert_ne!(again[0].host, victim.host);
    let begun: usize = lab.ledger().iter().filter(|line| line.word == "begin").count();
    assert_eq!(begun, 6 + 8 + 1, "only the lost run has begun twice");
}

fn every_configuration_has_its_copies(lab: &Lab, alice: &User, bob: &User) {
    let ledger = lab.ledger();
    let rates = ["0.1", "0.2", "0.3", "0.4", "0.5"];
    assert_eq!(counts(&ledger, "end", "alice_net:"), copies(&rates));
    assert_eq!(counts(&ledger, "end", "Letters:"), copies(&["1", "2"]));
    for (name, _) in copies(&rates) {
        let data = read(&lab.drive.join(format!("alice_net/data_{name}.csv")));
        assert_eq!(data.lines().count(), 3, "{name}: {data}");
    }
    let alices = lab.results("alice_net", &["run.json", "weights.txt"]);
    let bobs = lab.results("Letters", &["bits.csv", "metrics.jsonl", "run.json", "saves"]);
    assert_eq!((alices.len(), bobs.len()), (rates.len(), 2));
    origin_is_told(lab, bob, &alices, &bobs);
    for (param, runs) in alices.iter().chain(&bobs) {
        assert_eq!(runs.iter().map(|run| &run.copy).collect::<Vec<_>>(), ["0", "1"], "{param}");
        for run in runs {
            let ended = ledger.iter().find(|line| line.word == "end" && line.run == run.id).expect("its end");
            assert_eq!((&run.host, run.attempt), (&ended.host, ended.attempt), "{param}");
            assert_eq!(run.seed, run.copy, "{param}");
        }
    }
    for (number, rate) in rates.iter().enumerate() {
        let param2val = read(&lab.drive.join(format!("alice_net/runs/param_{number:03}/param2val.yaml")));
        assert!(param2val.contains(&format!("lr: {rate}\n")), "{param2val}");
        for run in &alices[&format!("param_{number:03}")] {
            assert_eq!(read(&run.folder.join("weights.txt")), format!("{rate}_{}", run.copy));
        }
    }
    let shown = bob.python_in("Letters", &["show.py"]);
    let expected: Vec<String> = (0..2).map(|n| format!("param_00{n} order={} n=2", n + 1)).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    let bits = read(&bobs["param_001"][0].folder.join("bits.csv"));
    assert_eq!(bits.lines().last(), Some("2,1.0"), "{bits}");

    // The same again is nothing to do.
    alice.python(&["submit.py", "0.1", "0.2", "0.3", "0.4", "0.5"]);
    assert!(bob.ludwig(&["-r", "2"]).contains("0 runs to do, 4 done before"));
    assert_eq!(lab.ledger().len(), ledger.len());
}

/// Of bob's runs: commit, difference, Python, packages, where and with which seed. The difference is there once for all of them.
fn origin_is_told(lab: &Lab, bob: &User, alices: &Results, bobs: &Results) {
    let commit = bob.well("Letters", &["git", "rev-parse", "HEAD"]);
    let mut diffs = BTreeSet::new();
    for run in bobs.values().flatten() {
        let told = &run.told;
        assert_eq!(
            (&told["source"]["commit"], &told["source"]["dirty"]),
            (&commit.trim().into(), &true.into()),
            "{told}"
        );
        let diff = run.folder.join(told["source"]["diff"].as_str().expect("a difference"));
        diffs.insert(diff.canonicalize().expect("a file"));
        let has = |name: &str| {
            told["packages"].as_array().into_iter().flatten().any(|p| p.as_str().is_some_and(|p| p.starts_with(name)))
        };
        assert!(has("pandas==") && has("shoal=="), "{told}");
        assert!(told["python"].as_str().is_some_and(|python| python.contains("/bin/python")), "{told}");
    }
    let all: Vec<PathBuf> = diffs.into_iter().collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(read(&all[0]).contains("+# later"));
    assert_eq!(all[0].parent(), Some(lab.drive.join("Letters/runs").as_path()));
    for run in alices.values().flatten() {
        assert_eq!(run.told["source"], Value::Null, "alice uses no git");
    }
}

/// The file server: the drive's own folder, and the daemon.
struct Lab {
    desk: Desk,
    drive: PathBuf,
    python: PathBuf,
    listen: String,
    daemon: Option<std::process::Child>,
}

impl Lab {
    fn open(hosts: &Hosts, drive: &Path, python: &Path) -> Lab {
        let desk = Desk::with_ssh(hosts.ssh_config());
        let names: Vec<&str> = hosts.iter().take(WORKERS).map(|host| host.name.as_str()).collect();
        let lines: String = names.iter().map(|name| format!("  - {{name: {name}, groups: [workers]}}\n")).collect();
        let owner = format!("    {}: {{owner: ann, idle: 15m, grace: 1s}}\n", names[DESK]);
        let queue = format!("queue:\n  lost_after: 2s\n  hosts:\n    workers: {{slots: 1}}\n{owner}");
        desk.file("lab.yaml", &format!("hosts:\n{lines}{queue}"));
        let free = std::net::TcpListener::bind((hosts.gateway(), 0)).expect("a port");
        let listen = free.local_addr().expect("an address").to_string();
        Lab { desk, drive: drive.into(), python: python.into(), listen, daemon: None }
    }

    /// Serves the people who have been let in, and waits for its hosts.
    fn serve(&mut self) {
        let args = ["serve", "-f", "lab.yaml", "--listen", &self.listen];
        self.daemon = Some(self.desk.shoal(&args).spawn().expect("shoal runs"));
        until(BOUND, "four hosts", || {
            let output = self.desk.shoal(&["hosts", "--json"]).output().expect("shoal runs");
            let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let up = all["hosts"].as_array().into_iter().flatten().filter(|host| host["connected"] == true);
            (up.count() == WORKERS).then_some(())
        });
    }

    fn close(mut self) {
        self.desk.says(&["serve", "--stop", "--stop-runs"]);
        assert!(self.daemon.take().expect("a daemon").wait().expect("an end").success());
    }

    fn hold(&self) {
        std::fs::write(self.drive.join("hold"), "").expect("a file");
    }

    fn let_go(&self) {
        std::fs::remove_file(self.drive.join("hold")).expect("a file");
    }

    fn ledger(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.drive.join("ledger")).unwrap_or_default();
        text.lines().map(Line::read).collect()
    }

    /// What has begun and not ended.
    fn unfinished(&self) -> Vec<Line> {
        let (begun, ended): (Vec<Line>, Vec<Line>) = self.ledger().into_iter().partition(|line| line.word == "begin");
        let over = |line: &Line| ended.iter().any(|end| (&end.run, end.attempt) == (&line.run, line.attempt));
        begun.into_iter().filter(|line| !over(line)).collect()
    }

    /// The folders of a project's results, each of which holds exactly `files`.
    fn results(&self, project: &str, files: &[&str]) -> Results {
        let mut all = BTreeMap::new();
        let names = listed(&self.drive.join(project).join("runs"));
        for param in names.into_iter().filter(|name| !name.starts_with("source-")) {
            let inside = self.drive.join(project).join("runs").join(&param);
            let (beside, runs): (Vec<String>, Vec<String>) =
                listed(&inside).into_iter().partition(|name| !name.contains("_num"));
            assert_eq!(beside, ["param2val.yaml"], "{param}: nothing is left over");
            let mut runs: Vec<Published> = runs.iter().map(|name| Published::read(&inside.join(name), files)).collect();
            runs.sort_by(|a, b| a.copy.cmp(&b.copy));
            all.insert(param, runs);
        }
        all
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = self.desk.ends(&["serve", "--stop", "--stop-runs"]);
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A line of the ledger that runs write: `begin alice_net:0.1#1 ludwig-2 0.1_1`.
#[derive(Debug, Clone)]
struct Line {
    word: String,
    run: String,
    attempt: u64,
    host: String,
    what: String,
}

impl Line {
    fn read(text: &str) -> Line {
        let words: Vec<&str> = text.split(' ').collect();
        let [word, run, host, what] = words[..] else { panic!("a torn line in the ledger: {text:?}") };
        let (run, attempt) = run.split_once('#').expect("an attempt");
        let attempt = attempt.parse().expect("a number");
        Line { word: word.into(), run: run.into(), attempt, host: host.into(), what: what.into() }
    }
}

/// How often the ledger has this word for what, of one project.
fn counts(ledger: &[Line], word: &str, project: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in ledger.iter().filter(|line| line.word == word && line.run.starts_with(project)) {
        *counts.entry(line.what.clone()).or_default() += 1;
    }
    counts
}

/// Two of each, each once.
fn copies(of: &[&str]) -> BTreeMap<String, u32> {
    of.iter().flat_map(|name| [0, 1].map(|copy| (format!("{name}_{copy}"), 1))).collect()
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect();
    names.sort();
    names
}

/// By configuration.
type Results = BTreeMap<String, Vec<Published>>;

/// A result folder, and what its `run.json` says.
struct Published {
    folder: PathBuf,
    copy: String,
    id: String,
    attempt: u64,
    host: String,
    seed: String,
    told: Value,
}

impl Published {
    fn read(folder: &Path, files: &[&str]) -> Published {
        assert_eq!(listed(folder), files, "{}", folder.display());
        let told: Value = serde_json::from_str(&read(&folder.join("run.json"))).expect("json");
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let run = &told["attempt"]["run"];
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), Into::into);
        Published {
            folder: folder.into(),
            copy: name.rsplit_once("_num").expect("a copy").1.into(),
            id: format!("{}:{}.{}", word(&run["sweep"]), run["cell"], run["rep"]),
            attempt: told["attempt"]["number"].as_u64().expect("a number"),
            host: word(&told["host"]),
            seed: word(&told["seed"]),
            told,
        }
    }
}

/// Somebody at the fifth host, with a home of their own, who knows the queue by address and token alone.
struct User {
    name: String,
    home: String,
    host: Host,
    virtualenv: PathBuf,
}

impl Lab {
    /// Lets somebody in.
    fn user(&self, hosts: &Hosts, name: &str) -> User {
        let made = self.desk.json(&["token", "add", name, "--role", "submit", "--json"]);
        let (queue, token) = (made["queue"].as_str().expect("a queue"), made["token"].as_str().expect("a token"));
        let fingerprint = queue.split('#').nth(1).expect("a fingerprint");
        let user = User {
            name: name.into(),
            home: format!("/home/{name}"),
            host: hosts.host(WORKERS).clone(),
            virtualenv: interpreter::virtualenv(&self.python),
        };
        let place = format!("shoal://{}#{fingerprint}", self.listen);
        user.file("notes.txt", "");
        user.file("../.config/shoal/queue.json", &format!(r#"{{"queue": "{place}", "token": "{token}"}}"#));
        user
    }
}

impl User {
    /// A commit of all of it, and a line that was changed since.
    fn is_under_git(&self, folder: &str) {
        let git = ["git", "-c", "user.name=b", "-c", "user.email=b@c", "-c", "init.defaultBranch=main"];
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "as it was"]] {
            self.well(folder, &[&git[..], words].concat());
        }
        self.well(folder, &["sh", "-c", "echo '# later' >> letters/params.py"]);
    }

    fn file(&self, name: &str, content: &str) {
        let script = "umask 077; mkdir -p \"${1%/*}\" && cat > \"$1\"";
        put(
            self.host.command("sh").args(["-c", script, "sh", &format!("{}/work/{name}", self.home)]),
            content.as_bytes(),
        );
    }

    fn command(&self, folder: &str, words: &[&str]) -> Output {
        let mut command = self.host.command("env");
        let set = |name: &str, value: &str| format!("{name}={value}");
        command.args(["-i", &format!("--chdir={}/work/{folder}", self.home), &set("HOME", &self.home)]);
        command.args([&set("SHOAL_BIN", env!("CARGO_BIN_EXE_shoal")), &set("LANG", "C.UTF-8")]);
        command.args([&set("VIRTUAL_ENV", &self.virtualenv.to_string_lossy()), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"]);
        let output = command.args(words).stdin(Stdio::null()).output().expect("a command");
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        eprintln!("{}$ {}\n{said}{complained}", self.name, shoal_core::quote::join(words));
        output
    }

    #[track_caller]
    fn well(&self, folder: &str, words: &[&str]) -> String {
        let output = self.command(folder, words);
        assert!(output.status.success(), "{}: {words:?}\n{}", self.name, text(&output.stderr));
        text(&output.stdout)
    }

    fn tries(&self, args: &[&str]) -> Output {
        self.command("", &[&[env!("CARGO_BIN_EXE_shoal")], args].concat())
    }

    #[track_caller]
    fn shoal(&self, args: &[&str]) -> String {
        self.well("", &[&[env!("CARGO_BIN_EXE_shoal")], args].concat())
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let said = self.shoal(args);
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}\n{said}"))
    }

    #[track_caller]
    fn python(&self, args: &[&str]) -> String {
        self.python_in("", args)
    }

    #[track_caller]
    fn python_in(&self, folder: &str, args: &[&str]) -> String {
        let python = self.virtualenv.join("bin/python");
        self.well(folder, &[&[&*python.to_string_lossy()], args].concat())
    }

    #[track_caller]
    fn ludwig(&self, args: &[&str]) -> String {
        let words = [env!("CARGO_BIN_EXE_shoal"), "ludwig", "-mnt", DRIVE];
        self.well("Letters", &[&words[..], args].concat())
    }
}

fn put(command: &mut Command, content: &[u8]) {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a command");
    child.stdin.take().expect("its input").write_all(content).expect("written");
    assert!(child.wait().expect("an end").success());
}

/// Ann logs in and touches the keyboard, or logs out: what `who` shows, and when her terminal was last used.
fn sits_down(host: &Host, there: bool) {
    let mut entry = [0u8; 384];
    entry[..2].copy_from_slice(&7i16.to_ne_bytes());
    for (at, word) in [(8, "shm/terminal"), (44, "ann")] {
        entry[at..at + word.len()].copy_from_slice(word.as_bytes());
    }
    let content = if there { &entry[..] } else { &[] };
    put(host.command("sh").args(["-c", "touch /dev/shm/terminal; cat > /run/utmp"]), content);
}

/// Processes of carol's program, on all hosts.
fn sleepers(hosts: &Hosts) -> usize {
    let script = "for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $file; echo; done 2>/dev/null";
    let count = |host: &Host| {
        let listed = host.command("sh").args(["-c", script]).output().expect("a shell");
        text(&listed.stdout).lines().filter(|line| line.starts_with("sleep 86341")).count()
    };
    hosts.iter().take(WORKERS).map(count).sum()
}
