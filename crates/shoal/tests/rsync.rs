//! `shoal rsync-up` and `rsync-down` on test hosts: real sshd, real rsync or none, chains of nodes that break.

mod support;

use serde_json::Value;
use shoal_testkit::{Hosts, HostsSpec, wait};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use support::laptop::{Laptop, stderr};

struct Lab {
    hosts: Hosts,
    laptop: Laptop,
}

impl Lab {
    fn new(name: &str, count: usize) -> Option<Lab> {
        let hosts = Hosts::up_or_skip(HostsSpec::new(name, count))?;
        let laptop = Laptop::new(&hosts);
        let lab = Lab { hosts, laptop };
        lab.cluster("");
        Some(lab)
    }

    /// Writes `cluster.yaml` with these further lines.
    fn cluster(&self, more: &str) {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let (head, workers) = names.split_first().expect("a head");
        let provider = format!("provider: {{type: local, head_ip: {head}, worker_ips: [{}]}}", workers.join(", "));
        self.write("cluster.yaml", format!("cluster_name: lab\n{provider}\n{more}").as_bytes());
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.laptop.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    fn up(&self, args: &[&str]) -> Output {
        self.laptop.ends(&[&["rsync-up", "cluster.yaml"], args].concat())
    }

    fn report(&self, args: &[&str]) -> Value {
        let output = self.up(&[args, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }

    fn on(&self, i: usize, line: &str) -> String {
        let out = self.hosts.host(i).command("sh").args(["-c", line]).output().expect("sh runs");
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// From now on that host's logins find no rsync.
    fn hide_rsync(&self, i: usize) {
        self.on(i, "touch /tmp/none && mount --bind /tmp/none $(readlink -f $(command -v rsync))");
    }

    /// Where a path of a host lies on this machine.
    fn inside(&self, i: usize, path: &str) -> PathBuf {
        self.hosts.folder().join(&self.hosts.host(i).name).join(format!("files{path}"))
    }
}

/// Everything about a tree that has to be the same: names, kinds, modes, targets, contents, times of files.
fn portrait(root: &Path) -> String {
    fn walk(folder: &Path, below: &Path, out: &mut String) {
        let mut items: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().collect();
        items.sort_by_key(|item| item.file_name());
        for item in items {
            let (path, name) = (item.path(), below.join(item.file_name()));
            let meta = std::fs::symlink_metadata(&path).expect("meta");
            let mode = meta.permissions().mode() & 0o7777;
            let shown = name.as_os_str().as_bytes().escape_ascii().to_string();
            if meta.is_symlink() {
                let _ = writeln!(out, "{shown} -> {}", std::fs::read_link(&path).expect("a target").display());
            } else if meta.is_dir() {
                let _ = writeln!(out, "{shown}/ {mode:o}");
                walk(&path, &name, out);
            } else {
                let bytes = std::fs::read(&path).expect("bytes");
                let hash = bytes.iter().fold(0u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(*b)));
                let time =
                    meta.modified().expect("a time").duration_since(std::time::UNIX_EPOCH).expect("after").as_nanos();
                let _ = writeln!(out, "{shown} {mode:o} {} {hash:x} {time}", bytes.len());
            }
        }
    }
    let mut out = String::new();
    walk(root, Path::new(""), &mut out);
    out
}

/// Names nobody should use, modes, links, empty folders.
fn odd_tree(root: &Path) {
    let file = |name: &[u8], bytes: &[u8]| {
        let path = root.join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, bytes).expect("a file");
    };
    file(b"plain.py", b"print(1)\n");
    file(b"with space/and 'quote\".txt", b"x");
    file("ünï/çödé".as_bytes(), b"y");
    file(b"new\nline", b"z");
    file(b"not\xffutf8", b"w");
    file(b"-rf", b"dash");
    file(b"~/tilde", b"t");
    file(b"empty file", b"");
    file(b"run.sh", b"#!/bin/sh\n");
    std::fs::set_permissions(root.join("run.sh"), std::fs::Permissions::from_mode(0o750)).expect("a mode");
    std::fs::create_dir_all(root.join("empty/folder")).expect("folders");
    std::fs::create_dir_all(root.join("closed")).expect("folders");
    file(b"closed/in", b"in");
    std::fs::set_permissions(root.join("closed"), std::fs::Permissions::from_mode(0o500)).expect("a mode");
    symlink("plain.py", root.join("link")).expect("a link");
    symlink("/etc/passwd", root.join("out")).expect("a link");
    symlink("nowhere", root.join("dangling")).expect("a link");
}

/// Bytes that do not get smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend(state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

#[test]
fn a_tree_arrives_as_it_is_by_every_way() {
    let Some(lab) = Lab::new("files-ways", 3) else { return };
    let tree = lab.laptop.path().join("tree");
    odd_tree(&tree);
    lab.hide_rsync(2);
    // Small: over the open line, to one node and to all.
    assert!(lab.up(&["tree/", "~/small"]).status.success());
    assert_eq!(portrait(&tree), portrait(&lab.inside(0, "/root/small")));
    assert_eq!(lab.on(0, "stat -c %U /root/small/plain.py"), "root\n");
    // Larger: rsync to one node; without it there, a stream.
    lab.write("tree/large", &noise(5 << 20));
    let way = |report: &Value, i: usize| report["nodes"][i]["way"].as_str().unwrap_or_default().to_string();
    assert_eq!(way(&lab.report(&["tree/", "~/by rsync/deep/"]), 0), "rsync");
    assert_eq!(portrait(&tree), portrait(&lab.inside(0, "/root/by rsync/deep")));
    let bare = lab.hosts.host(2).name.clone();
    assert_eq!(way(&lab.report(&["tree/", "streamed", "--node", &bare]), 0), "stream");
    assert_eq!(portrait(&tree), portrait(&lab.inside(2, "/root/streamed")));
    // To all: from node to node.
    let report = lab.report(&["tree", "/root/all", "-A"]);
    for i in 0..3 {
        assert_eq!(way(&report, i), "relay", "{report}");
        assert_eq!(portrait(&tree), portrait(&lab.inside(i, "/root/all/tree")));
    }
    // A second time there is nothing to do, and a change of one byte sends one file.
    let report = lab.report(&["tree", "/root/all", "-A"]);
    assert!((0..3).all(|i| way(&report, i) == "nothing to send"), "{report}");
    lab.write("tree/plain.py", b"print(2)\n");
    let report = lab.report(&["tree", "/root/all", "-A"]);
    assert!((0..3).all(|i| report["nodes"][i]["files"] == 1 && report["nodes"][i]["bytes"] == 9), "{report}");
    // A large file that changed a little: rsync sends the difference, where it is.
    let mut large = noise(5 << 20);
    large[1000] ^= 1;
    lab.write("tree/large", &large);
    let report = lab.report(&["tree", "/root/all", "-A"]);
    assert_eq!([way(&report, 0), way(&report, 1), way(&report, 2)], ["rsync", "rsync", "stream"]);
    // New times alone send nothing.
    let old = std::time::SystemTime::now() - Duration::from_secs(9999);
    std::fs::File::options().write(true).open(tree.join("large")).and_then(|f| f.set_modified(old)).expect("a time");
    let report = lab.report(&["tree", "/root/all", "-A"]);
    assert!((0..3).all(|i| way(&report, i) == "nothing to send"), "{report}");
    for i in 0..3 {
        assert_eq!(portrait(&tree), portrait(&lab.inside(i, "/root/all/tree")));
        assert!(!lab.on(i, "find /root /tmp -name '.shoal-*'").contains("shoal-"), "something is left");
    }
    // What is not of the tree stays, unless it is to go; what is excluded stays even then.
    lab.on(0, "mkdir /root/all/tree/more && touch /root/all/tree/more/x /root/all/tree/x.log");
    assert!(lab.up(&["tree", "/root/all"]).status.success());
    assert_eq!(lab.on(0, "ls /root/all/tree/more"), "x\n");
    assert!(lab.up(&["tree", "/root/all", "--delete", "--exclude", "*.log"]).status.success());
    assert_eq!(
        lab.on(0, "ls -d /root/all/tree/more /root/all/tree/x.log 2>/dev/null || true"),
        "/root/all/tree/x.log\n"
    );
    // And back: with rsync and without it, from one and from all.
    for (node, to) in [(0, "back0"), (2, "back2")] {
        let name = lab.hosts.host(node).name.clone();
        let output = lab.laptop.ends(&[
            "rsync-down",
            "cluster.yaml",
            "/root/all/tree/",
            to,
            "--node",
            &name,
            "--exclude",
            "*.log",
        ]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(portrait(&tree), portrait(&lab.laptop.path().join(to)));
        lab.write(&format!("{to}/extra"), b"not there");
        let delete = ["--node", &name, "--exclude", "*.log", "--delete", "--json"];
        let said = lab.laptop.says(&[&["rsync-down", "cluster.yaml", "/root/all/tree/", to], &delete[..]].concat());
        let report: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!((&report["nodes"][0]["deleted"], &report["nodes"][0]["files"]), (&1.into(), &0.into()), "{report}");
        assert_eq!(portrait(&tree), portrait(&lab.laptop.path().join(to)));
    }
    assert!(lab.laptop.ends(&["rsync-down", "cluster.yaml", "~/all/tree/plain.py", "plain", "-A"]).status.success());
    for host in lab.hosts.iter() {
        assert_eq!(
            std::fs::read(lab.laptop.path().join("plain").join(&host.name).join("plain.py")).expect("it"),
            b"print(2)\n"
        );
    }
}

#[test]
fn mounts_of_the_file_with_its_excludes() {
    let Some(lab) = Lab::new("files-mounts", 2) else { return };
    for name in ["code/a.py", "code/a.pyc", "code/data/x", "code/sub/.gitignore", "code/sub/keep", "code/sub/drop"] {
        lab.write(name, name.as_bytes());
    }
    lab.write("code/sub/.gitignore", b"drop\n");
    lab.write("one.txt", b"one");
    let (code, one) = (lab.laptop.path().join("code"), lab.laptop.path().join("one.txt"));
    let mounts = format!("file_mounts: {{~/deep/code: {}, ~/other/name.txt: {}}}", code.display(), one.display());
    lab.cluster(&format!("{mounts}\nrsync_exclude: ['*.pyc', /data/]\nrsync_filter: [.gitignore]\n"));
    assert!(lab.up(&["-A"]).status.success());
    for i in 0..2 {
        assert_eq!(
            lab.on(i, "cd /root && find deep other -type f | sort"),
            "deep/code/a.py\ndeep/code/sub/.gitignore\ndeep/code/sub/keep\nother/name.txt\n"
        );
    }
    // Back to where they come from.
    lab.on(0, "echo changed > /root/other/name.txt");
    assert!(lab.laptop.ends(&["rsync-down", "cluster.yaml"]).status.success());
    assert_eq!(std::fs::read_to_string(one).expect("it"), "changed\n");
}

/// Patterns see a folder under the name by which it is sent, on both sides: what they leave out is neither sent nor removed.
#[test]
fn what_is_left_out_is_not_removed_either() {
    let Some(lab) = Lab::new("files-left-out", 2) else { return };
    lab.hide_rsync(1);
    lab.write("src/new", b"new");
    for i in 0..2 {
        lab.on(i, "cd /root; mkdir -p dst/src/keep/deep dst/src/old; touch dst/src/keep/deep/model dst/src/old/x");
        let name = lab.hosts.host(i).name.clone();
        let report = lab.report(&["src", "~/dst", "--delete", "--exclude", "/src/keep", "--node", &name]);
        assert_eq!(lab.on(i, "cd /root/dst/src; find . -type f | sort"), "./keep/deep/model\n./new\n", "{report}");
        // As rsync counts: the file and its folder.
        assert_eq!(report["nodes"][0]["deleted"], 2, "{report}");
        // The folder itself is left out: nothing is sent, nothing goes, and that is said.
        let output = lab.up(&["src", "~/dst", "--delete", "--exclude", "src", "--node", &name]);
        assert!(stderr(&output).contains("src: left out by --exclude"), "{}", stderr(&output));
        assert_eq!(lab.on(i, "cd /root/dst/src; find . -type f | sort"), "./keep/deep/model\n./new\n");

        // And the other way round, here.
        lab.write("back/src/keep/mine", b"mine");
        lab.write("back/src/stale", b"stale");
        let down = ["rsync-down", "cluster.yaml", "~/dst/src", "back", "--node", &name];
        let output = lab.laptop.ends(&[&down[..], &["--delete", "--exclude", "/src/keep"]].concat());
        assert!(output.status.success(), "{output:?}");
        let there = |file: &str| lab.laptop.path().join("back/src").join(file).exists();
        assert!(there("keep/mine") && there("new") && !there("stale") && !there("keep/deep"), "host {i}");

        // A name that only begins like a home is a name: not the whole home comes.
        lab.on(i, "mkdir -p '/root/~old'; echo old > '/root/~old/x'");
        let into = format!("old{i}");
        let output = lab.laptop.ends(&["rsync-down", "cluster.yaml", "~old", &into, "--node", &name]);
        assert!(output.status.success(), "{output:?}");
        let inside: Vec<_> = std::fs::read_dir(lab.laptop.path().join(&into)).expect("it").flatten().collect();
        assert_eq!(inside.iter().map(|item| item.file_name()).collect::<Vec<_>>(), ["~old"]);
        // What is in the home, by both ways.
        let into = format!("home{i}");
        let output = lab.laptop.ends(&["rsync-down", "cluster.yaml", "~", &into, "--node", &name, "--exclude", ".*"]);
        assert!(output.status.success() && lab.laptop.path().join(&into).join("dst/src/new").exists(), "{output:?}");
    }
    let output = lab.laptop.ends(&["rsync-down", "cluster.yaml", "", "out"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn one_that_cannot_be_reached_and_one_that_is_full_leave_the_others_alone() {
    let Some(lab) = Lab::new("files-ill", 4) else { return };
    let down = std::process::Command::new("ip")
        .args(["-netns", &lab.hosts.host(1).namespace, "link", "set", "eth0", "down"])
        .status();
    assert!(down.is_ok_and(|status| status.success()));
    lab.on(2, "mkdir /root/data && mount -t tmpfs -o size=2m tmpfs /root/data");
    lab.write("data/large", &noise(20 << 20));
    let output = lab.up(&["data/", "~/data", "-A"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let line = |i: usize| {
        said.lines()
            .find(|l| l.contains(&format!("rsync-up: {}:", lab.hosts.host(i).name)))
            .unwrap_or_default()
            .to_string()
    };
    assert!(line(1).contains("does not answer"), "{said}");
    assert!(said.contains("No space left on device") && said.contains("hint: free space there"), "{said}");
    for i in [0, 3] {
        assert_eq!(lab.on(i, "stat -c %s /root/data/large"), format!("{}\n", 20 << 20), "{said}");
    }
    assert_eq!(lab.on(2, "ls -A /root/data"), "", "half a file is left");
    let mut redactions = support::snapshot::Redactions::default();
    lab.hosts.iter().for_each(|host| redactions.replace(&host.address.to_string(), "[address]"));
    // Which of the two it is depends on how soon the network notices.
    ["Connection timed out", "No route to host"].iter().for_each(|words| redactions.replace(words, "[why]"));
    // On a slow machine it says how far it is.
    let end: String = said.lines().filter(|line| !line.contains(" sent, ")).map(|line| format!("{line}\n")).collect();
    support::snapshot::check("rsync_up_partial", &redactions.apply(&end));
    // Read-only, no permission, a folder in the way, nothing to send: named, each with what to do.
    lab.on(0, "mkdir /root/ro && mount -t tmpfs -o ro tmpfs /root/ro && mkdir -p /root/taken/large/x");
    for (target, words, hint) in [
        ("~/ro/x", "Read-only file system", "mounted read-only"),
        ("~/taken", "Directory not empty", "a folder with things in it"),
    ] {
        let output = lab.up(&["data/", target]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words) && said.contains(hint), "{said}");
    }
    let output = lab.up(&["nothing", "~/x"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = lab.up(&["data", "~/x", "--node", "files-ill-9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean"), "{}", stderr(&output));
}

/// Processes of a host that receive files.
fn receivers(host: &shoal_testkit::Host) -> Vec<u32> {
    let output = std::process::Command::new("ip").args(["netns", "pids", &host.namespace]).output().expect("ip");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let receives = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|b| *b == 0).nth(2) == Some(b"files")
    };
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(receives).collect()
}

#[test]
fn a_chain_that_breaks_loses_nothing() {
    // Slow links, so that there is a middle to break in.
    let spec = HostsSpec { rate: Some("200mbit".into()), ..HostsSpec::new("files-chain", 4) };
    let Some(hosts) = Hosts::up_or_skip(spec) else { return };
    let laptop = Laptop::new(&hosts);
    let lab = Lab { hosts, laptop };
    lab.cluster("");
    lab.write("small/x", b"x");
    assert!(lab.up(&["small", "~/", "-A"]).status.success(), "shoal is there");
    let bytes = noise(60 << 20);
    for name in ["a", "b", "c", "d"] {
        lab.write(&format!("data/{name}"), &bytes[..15 << 20]);
    }
    // Killed, stopped, and a whole host gone, each in the middle of a transfer.
    for (round, how) in ["KILL", "STOP", "host"].iter().enumerate() {
        let to = format!("~/round{round}");
        let mut child = lab
            .laptop
            .shoal(&["rsync-up", "cluster.yaml", "data/", &to, "-A"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("shoal");
        let victim = lab.hosts.host(1);
        let part = format!("/root/round{round}");
        let under_way = wait::until(Duration::from_secs(60), || {
            let arrived = std::fs::read_dir(lab.inside(1, &part)).map_or(0, Iterator::count);
            let pids = receivers(victim);
            (arrived > 0 && !pids.is_empty()).then_some(pids)
        });
        let pids = under_way.expect("a transfer under way");
        match *how {
            "host" => victim.kill().expect("killed"),
            signal => pids.iter().for_each(|pid| {
                let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
                assert!(sent.is_ok_and(|s| s.success()));
            }),
        }
        let mut said = String::new();
        let ended = wait::until(Duration::from_secs(150), || child.try_wait().expect("its end"));
        let _ = std::io::Read::read_to_string(&mut child.stderr.take().expect("stderr"), &mut said);
        if *how == "STOP" {
            pids.iter().for_each(|pid| support::laptop::kill(*pid));
        }
        eprintln!("--- {how}\n{said}");
        assert_eq!(ended.and_then(|status| status.code()), Some(4), "{said}");
        assert!(said.contains("1 of 4 nodes did not get everything"), "{said}");
        for i in [0, 2, 3] {
            assert_eq!(portrait(&lab.laptop.path().join("data")), portrait(&lab.inside(i, &part)), "node {i}: {said}");
        }
        if *how != "host" {
            // The next time completes it, and sends what was missing alone.
            let report = lab.report(&["data/", &to, "-A"]);
            assert_eq!(report["nodes"][1]["ok"], true, "{report}");
            assert!((0..4).all(|i| i == 1 || report["nodes"][i]["bytes"] == 0), "{report}");
            assert_eq!(portrait(&lab.laptop.path().join("data")), portrait(&lab.inside(1, &part)));
        }
    }
}

#[test]
fn nodes_that_cannot_reach_each_other_get_it_from_here() {
    let Some(lab) = Lab::new("files-apart", 4) else { return };
    let (one, two) = (lab.hosts.host(1), lab.hosts.host(2));
    let hole = std::process::Command::new("ip")
        .args(["-netns", &one.namespace, "route", "add", "blackhole", &format!("{}/32", two.address)])
        .status();
    assert!(hole.is_ok_and(|status| status.success()));
    lab.write("data/large", &noise(10 << 20));
    let output = lab.up(&["data/", "~/data", "-A"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("{} cannot reach {}", one.name, two.name)) && said.contains("from here"), "{said}");
    for i in 0..4 {
        assert_eq!(portrait(&lab.laptop.path().join("data")), portrait(&lab.inside(i, "/root/data")));
    }
}

#[test]
fn many_small_files_and_a_large_one() {
    let Some(lab) = Lab::new("files-many", 2) else { return };
    for i in 0..10_000 {
        lab.write(&format!("data/{}/{}/f{i}", i % 10, i % 100), format!("file {i}").as_bytes());
    }
    let mut large = std::fs::File::create(lab.laptop.path().join("data/large")).expect("a file");
    let block = noise(1 << 20);
    (0..200).for_each(|i| {
        large.write_all(&block[i..]).and_then(|()| large.write_all(&block[..i])).expect("written");
    });
    let report = lab.report(&["data/", "~/data", "-A"]);
    assert!((0..2).all(|i| report["nodes"][i]["files"] == 10_001 && report["nodes"][i]["way"] == "relay"), "{report}");
    eprintln!("{report}");
    for i in 0..2 {
        assert_eq!(portrait(&lab.laptop.path().join("data")), portrait(&lab.inside(i, "/root/data")));
    }
    let report = lab.report(&["data/", "~/data", "-A"]);
    eprintln!("{report}");
    assert!((0..2).all(|i| report["nodes"][i]["bytes"] == 0), "{report}");
}

#[test]
fn a_watch_sends_what_changes_and_ends_when_asked() {
    let Some(lab) = Lab::new("files-watch", 2) else { return };
    lab.write("code/a.py", b"1");
    let code = lab.laptop.path().join("code");
    let mounts = format!("file_mounts: {{~/code: {}}}\nfile_mounts_sync_continuously: true\n", code.display());
    lab.cluster(&format!("{mounts}rsync_exclude: ['*.log']\n"));
    let mut child =
        lab.laptop.shoal(&["rsync-up", "cluster.yaml", "-A", "--watch"]).stderr(Stdio::piped()).spawn().expect("shoal");
    let is = |file: &str, text: &str| {
        let seen = wait::until(Duration::from_secs(60), || {
            let there =
                |i| std::fs::read_to_string(lab.inside(i, &format!("/root/code/{file}"))).unwrap_or_default() == text;
            (there(0) && there(1)).then_some(())
        });
        assert!(seen.is_some(), "{file} is not `{text}` there");
    };
    is("a.py", "1");
    lab.write("code/a.py", b"two");
    is("a.py", "two");
    lab.write("code/new/b.py", b"b");
    is("new/b.py", "b");
    // What is left out is no reason to speak.
    for i in 0..5 {
        lab.write("code/run.log", format!("line {i}\n").as_bytes());
        std::thread::sleep(Duration::from_millis(300));
    }
    lab.write("code/a.py", b"three");
    is("a.py", "three");
    let asked = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(asked.is_ok_and(|status| status.success()));
    let ended = wait::until(Duration::from_secs(30), || child.try_wait().expect("its end"));
    assert!(ended.is_some(), "it does not end");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("its words");
    // A folder may come a moment before what is in it.
    assert!(said.contains("watching") && said.matches("nothing to send").count() <= 2, "{said}");
}
