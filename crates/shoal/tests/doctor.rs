//! `shoal doctor` on hosts that are well and on hosts that are not, over the real ssh.

use serde_json::Value;
use shoal_testkit::hosts::find_program;
use shoal_testkit::{Host, Hosts, HostsSpec, wait};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SHOAL: &str = env!("CARGO_BIN_EXE_shoal");

struct Lab {
    hosts: Hosts,
    folder: tempfile::TempDir,
}

struct Out {
    code: Option<i32>,
    text: String,
    errors: String,
}

impl Lab {
    fn new(name: &str, count: usize) -> Option<Lab> {
        let hosts = Hosts::up_or_skip(HostsSpec::new(name, count))?;
        Some(Lab { hosts, folder: tempfile::tempdir().expect("a folder") })
    }

    fn name(&self, i: usize) -> &str {
        &self.hosts.host(i).name
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    fn doctor(&self, fleet: &str, columns: u32, args: &[&str]) -> Out {
        self.doctor_with(&self.hosts.ssh_config(), fleet, columns, args)
    }

    fn doctor_with(&self, config: &Path, fleet: &str, columns: u32, args: &[&str]) -> Out {
        let out = out_of(&mut self.command(config, fleet, columns, args));
        assert!(!self.sockets().exists(), "connections are left");
        out
    }

    fn command(&self, config: &Path, fleet: &str, columns: u32, args: &[&str]) -> Command {
        let file = self.write("lab.yaml", fleet);
        let mut command = Command::new(SHOAL);
        command.arg("doctor").arg(&file).args(args).env("SHOAL_SSH_CONFIG", config).env("HOME", self.folder.path());
        command.env("COLUMNS", columns.to_string()).env_remove("XDG_RUNTIME_DIR");
        command
    }

    /// Where an examination keeps its connections while it lasts: a folder of its own in here.
    fn sockets(&self) -> PathBuf {
        let ssh = self.folder.path().join(".cache/shoal/ssh");
        let left = std::fs::read_dir(&ssh).into_iter().flatten().flatten().next();
        left.map_or_else(|| ssh.join("none"), |entry| entry.path())
    }

    /// A shell line on a host, past ssh.
    fn on(&self, i: usize, line: &str) -> String {
        let out = self.hosts.host(i).command("sh").args(["-c", line]).output().expect("sh runs");
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

fn out_of(command: &mut Command) -> Out {
    let out = command.output().expect("shoal runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Out { code: out.status.code(), text: text(&out.stdout), errors: text(&out.stderr) }
}

fn names(lab: &Lab, range: std::ops::Range<usize>) -> String {
    range.map(|i| lab.name(i)).collect::<Vec<_>>().join(", ")
}

fn json(out: &Out) -> Value {
    serde_json::from_str(&out.text).unwrap_or_else(|e| panic!("{e}: {}\n{}", out.text, out.errors))
}

fn finding<'r>(report: &'r Value, host: &str, check: &str) -> &'r Value {
    let hosts = report["hosts"].as_array().expect("hosts");
    let host = hosts.iter().find(|h| h["name"] == host).expect("the host");
    let findings = host["findings"].as_array().expect("findings");
    findings.iter().find(|f| f["check"] == check).unwrap_or(&Value::Null)
}

fn is(report: &Value, host: &str, check: &str, level: &str, words: &str) {
    let finding = finding(report, host, check);
    assert_eq!(finding["level"], level, "{host} {check}: {finding}");
    assert!(finding["text"].as_str().is_some_and(|text| text.contains(words)), "{host} {check}: {finding}");
    let needs_hint = level == "red" || level == "yellow";
    assert_eq!(finding["hint"].is_string(), needs_hint, "{host} {check}: {finding}");
}

/// The table without what differs from machine to machine: numbers with units, versions, how busy this machine is.
fn redact(text: &str) -> String {
    let mut busy = 0;
    let mut kept = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("! ") && line.contains(", cpus: ") {
            busy += 1;
            while lines.next_if(|next| next.starts_with("   ")).is_some() {}
            continue;
        }
        kept.push(line);
    }
    // A blank line stood before the notes; without notes there is none.
    if busy > 0 && kept.len() > 2 && kept[kept.len() - 2].is_empty() && kept[kept.len() - 3].is_empty() {
        kept.remove(kept.len() - 2);
    }
    let cell = |cell: &str| {
        let cell = cell.strip_prefix("! ").filter(|_| cell == "! busy").unwrap_or(cell);
        let words: Vec<&str> = cell.split(' ').collect();
        let kind = |unit: &str| match unit {
            "KiB" | "MiB" | "GiB" | "TiB" => Some("SIZE"),
            "kb/s" | "Mb/s" | "Gb/s" => Some("RATE"),
            "us" | "ms" | "s" => Some("TIME"),
            _ => None,
        };
        let mut out: Vec<String> = Vec::new();
        for word in words {
            let bare = word.trim_end_matches([';', ',']);
            let number = out.last().is_some_and(|w| w.trim_start_matches(['±', '+', '-']).parse::<f64>().is_ok());
            match kind(bare) {
                Some(kind) if number => *out.last_mut().expect("a number") = kind.into(),
                _ if word.split('.').count() == 3 && word.split('.').all(|p| p.parse::<u32>().is_ok()) => {
                    out.push("VERSION".into());
                }
                _ => out.push(word.into()),
            }
        }
        let text = out.join(" ").replace("TIME to TIME", "TIME").replace("RATE to RATE", "RATE");
        if text.contains("TIME bandwidth") { text.replace("TIME bandwidth", "TIME; bandwidth") } else { text }
    };
    let mut out = String::new();
    for line in kept {
        let indent = line.len() - line.trim_start().len();
        let cells: Vec<String> = line.trim().split("  ").map(str::trim).filter(|c| !c.is_empty()).map(cell).collect();
        let line = match cells.first().map(String::as_str) {
            Some(name @ ("cpus" | "files")) => format!("{name}  (of this machine)"),
            _ => cells.join("  "),
        };
        out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
    }
    // Nothing but the load of this machine is yellow in these.
    if let Some((start, red)) = out.clone().rsplit_once("hosts: ") {
        let red = red.trim().split(", ").find(|words| words.ends_with("red")).unwrap_or("all green");
        out = format!("{start}hosts: {red}\n");
    }
    out
}

/// Compares with a file in `tests/cli`, or writes it with `SHOAL_BLESS=1`.
fn snapshot(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli").join(format!("{name}.txt"));
    let text = redact(text);
    if std::env::var_os("SHOAL_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(&file, &text).expect("a snapshot");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, kept, "{} differs; SHOAL_BLESS=1 takes it over", file.display());
}

#[test]
fn a_healthy_fleet_is_green_and_nothing_is_left() {
    let Some(lab) = Lab::new("well", 3) else { return };
    let fleet = format!("name: lab\nhosts: [{}]\n", names(&lab, 0..3));
    // Wide, because where lines are wrapped depends on what was measured.
    let out = lab.doctor(&fleet, 120, &[]);
    assert_eq!(out.code, Some(0), "{}{}", out.text, out.errors);
    eprintln!("{}", out.text);
    snapshot("doctor_first", &out.text);
    // The second time our program is there already. A narrow terminal gets a narrow table.
    let out = lab.doctor(&fleet, 60, &[]);
    eprintln!("{}", out.text);
    assert!(out.text.lines().all(|line| line.chars().count() <= 60), "{}", out.text);
    assert!(!out.text.contains("sent"), "{}", out.text);
    let out = lab.doctor(&fleet, 80, &["--json"]);
    let report = json(&out);
    assert_eq!(report["version"], 1);
    let pairs = report["pairs"].as_array().expect("pairs");
    assert_eq!(pairs.len(), 6);
    assert!(pairs.iter().all(|pair| pair["round_trip_ns"].is_u64() && pair["error"].is_null()), "{pairs:?}");
    assert_eq!(pairs.iter().filter(|pair| pair["bits_per_s"].is_u64()).count(), 3, "{pairs:?}");
    // This machine beside others: they know it by the address the connection comes from. And a first contact is said to be one.
    let config = std::fs::read_to_string(lab.hosts.ssh_config()).expect("a configuration").replace("ERROR", "INFO");
    let known = lab.hosts.folder().join("known_hosts").display().to_string();
    let none = lab.folder.path().join("none_known").display().to_string();
    let config = lab.write("ssh_config", &config.replace(&known, &none));
    let fleet = format!("hosts: [localhost, {}]\n", lab.name(0));
    let mixed = json(&lab.doctor_with(&config, &fleet, 80, &["--json"]));
    is(&mixed, "localhost", "peers", "green", "reaches the other,");
    is(&mixed, lab.name(0), "host-key", "yellow", "was not known until now");
    assert!(finding(&mixed, "localhost", "key").is_null());
    for i in 0..3 {
        is(&report, lab.name(i), "clock", "green", "its clock is");
        is(&report, lab.name(i), "sessions", "green", "10 sessions");
        assert_eq!(report["hosts"][i]["facts"]["machine"], lab.name(i));
        // What is left on the host: our program, in its cache, and no process. Sessions end a moment after us.
        let gone = wait::until(Duration::from_secs(20), || {
            let processes = lab.on(i, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '");
            (!processes.contains("shoal host") && !processes.contains("sshd: root")).then_some(())
        });
        assert!(gone.is_some(), "{}", lab.on(i, "ps ax"));
        assert_eq!(
            lab.on(i, "ls -A /tmp ~ ~/.cache ~/.cache/shoal"),
            lab.on(i, "echo '/root:\n.cache\n.ssh\n\n/root/.cache:\nshoal\n\n/root/.cache/shoal:\nbin\n\n/tmp:'")
        );
    }
}

/// An sshd that allows two sessions on a connection, on another port of the host.
fn strict_sshd(host: &Host) -> Child {
    let sshd = find_program("sshd").expect("sshd");
    let mut command = host.command(&sshd.to_string_lossy());
    command.args(["-D", "-f", "/dev/null", "-h", "/run/shoal/host_key", "-p", "2222", "-o", "PidFile=none"]);
    command.args(["-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "MaxSessions=2"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sshd starts")
}

#[test]
fn every_trouble_is_named_with_a_hint() {
    let Some(lab) = Lab::new("ill", 7) else { return };
    let (well, key, off, noisy, few, full, other) = (0, 1, 2, 3, 4, 5, 6);
    for i in [well, noisy, full] {
        lab.on(i, "mkdir -p /root/venv/bin && ln -s /usr/bin/python3 /root/venv/bin/python");
    }
    lab.on(noisy, "echo 'echo Welcome to the machine' > /root/.bashrc");
    // A driver that hangs, and one that works.
    let smi = |i: usize, body: &str| {
        lab.on(i, "mkdir -p /root/bin && echo 'PATH=/root/bin:$PATH' >> /root/.bashrc");
        lab.on(i, &format!("printf '#!/bin/sh\n{body}\n' > /root/bin/nvidia-smi && chmod +x /root/bin/nvidia-smi"));
    };
    smi(noisy, "sleep 1234");
    smi(well, "echo RTX 3090, 550.54, 24576, 10; echo RTX 3090, 550.54, 24576, 20");
    lab.on(full, "cp -a /root/.ssh /tmp/ssh && mount -t tmpfs -o size=1m tmpfs /root && cp -a /tmp/ssh /root/.ssh");
    lab.on(key, ": > /root/.ssh/authorized_keys");
    let down =
        Command::new("ip").args(["-netns", &lab.hosts.host(off).namespace, "link", "set", "eth0", "down"]).status();
    assert!(down.is_ok_and(|status| status.success()));
    let mut sshd = strict_sshd(lab.hosts.host(few));
    // One host whose key is known as another's.
    let known = std::fs::read_to_string(lab.hosts.folder().join("known_hosts")).expect("known hosts");
    let keys: Vec<&str> = known.lines().filter_map(|line| line.split_once(' ')).map(|(_, key)| key).collect();
    let mut known = known.replace(keys[other], keys[well]);
    let address = lab.hosts.host(few).address;
    known.push_str(&format!("[{address}]:2222 {}\n", keys[few]));
    let known = lab.write("known_hosts", &known);
    let config = std::fs::read_to_string(lab.hosts.ssh_config()).expect("a configuration");
    let theirs = lab.hosts.folder().join("known_hosts").display().to_string();
    let config = lab.write("ssh_config", &config.replace(&theirs, &known.display().to_string()));

    let list = names(&lab, 0..7).replace(lab.name(few), &format!("{{name: {}, port: 2222}}", lab.name(few)));
    let fleet = format!("name: lab\nenvironment: {{virtualenv: ~/venv}}\nhosts: [{list}]\n");
    let out = lab.doctor_with(&config, &fleet, 80, &["--json"]);
    assert_eq!(out.code, Some(1), "{}", out.errors);
    let report = json(&out);
    is(&report, lab.name(well), "key", "green", "accepted");
    is(&report, lab.name(well), "python", "green", "/root/venv/bin/python");
    is(&report, lab.name(well), "peers", "green", "reaches all 2 others");
    is(&report, lab.name(key), "ssh", "green", "answers");
    is(&report, lab.name(key), "key", "red", "refused the key");
    is(&report, lab.name(key), "disk", "unknown", "not looked at");
    is(&report, lab.name(off), "ssh", "red", "it does not answer");
    is(&report, lab.name(noisy), "shell", "red", "\"Welcome to the machine\"");
    is(&report, lab.name(well), "gpus", "green", "2 x RTX 3090, 24 GiB, driver 550.54");
    is(&report, lab.name(noisy), "gpus", "yellow", "no answer within 5 s");
    assert!(!lab.on(noisy, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").contains("sleep 1234"), "it is left");
    is(&report, lab.name(noisy), "shoal", "green", "sent");
    is(&report, lab.name(few), "sessions", "yellow", "only 2 sessions");
    is(&report, lab.name(few), "python", "red", "/root/venv/bin/python does not exist");
    is(&report, lab.name(full), "shoal", "red", "could not be put into");
    is(&report, lab.name(full), "disk", "red", "of 1.0 MiB free in /root");
    is(&report, lab.name(other), "host-key", "red", "is not the one that is known");
    let out = lab.doctor_with(&config, &fleet, 80, &[]);
    eprintln!("{}", out.text);
    assert_eq!(out.code, Some(1), "{}", out.errors);
    assert!(out.text.contains(&format!("!! {}, shell: its shell prints", lab.name(noisy))), "{}", out.text);
    let _ = sshd.kill();
    let _ = sshd.wait();
}

#[test]
fn hosts_that_cannot_reach_each_other_are_named() {
    let Some(lab) = Lab::new("apart", 3) else { return };
    let (one, two) = (lab.hosts.host(1), lab.hosts.host(2));
    let hole = Command::new("ip")
        .args(["-netns", &one.namespace, "route", "add", "blackhole", &format!("{}/32", two.address)])
        .status();
    assert!(hole.is_ok_and(|status| status.success()));
    let out = lab.doctor(&format!("name: lab\nhosts: [{}]\n", names(&lab, 0..3)), 120, &[]);
    eprintln!("{}", out.text);
    assert_eq!(out.code, Some(1), "{}", out.errors);
    let text = out.text.replace(&two.address.to_string(), "ADDRESS2").replace(&one.address.to_string(), "ADDRESS1");
    snapshot("doctor_apart", &text);
}

/// Its shell never ends: it is in the table, and the others are not held up by it.
#[test]
fn a_host_that_hangs_does_not_hold_up_the_table() {
    let Some(lab) = Lab::new("hangs", 2) else { return };
    lab.on(1, "echo 'sleep 1000' > /root/.bashrc");
    // Time for a busy machine to bring the program to the other one, and less than a shell has by itself.
    let out = lab.doctor(&format!("hosts: [{}]\n", names(&lab, 0..2)), 80, &["--json", "--timeout", "14"]);
    assert_eq!(out.code, Some(1), "{}", out.errors);
    let report = json(&out);
    eprintln!("{}", out.text);
    is(&report, lab.name(0), "disk", "green", "free in");
    is(&report, lab.name(1), "key", "green", "accepted");
    is(&report, lab.name(1), "shell", "red", "starting a shell took longer than 14 s");
    is(&report, lab.name(1), "disk", "unknown", "not looked at");

    // Who does not want to wait says so, and nothing stays behind.
    let mut command = lab.command(&lab.hosts.ssh_config(), &format!("hosts: [{}]\n", lab.name(1)), 80, &[]);
    let mut doctor = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("shoal runs");
    let connected = wait::until(Duration::from_secs(30), || lab.sockets().exists().then_some(()));
    assert!(connected.is_some(), "it does not connect");
    let stop = Command::new("kill").args(["-TERM", &doctor.id().to_string()]).status();
    assert!(stop.is_ok_and(|status| status.success()));
    let ended = wait::until(Duration::from_secs(30), || doctor.try_wait().expect("its end"));
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    assert!(!lab.sockets().exists(), "connections are left");
}

#[test]
fn this_machine_alone_needs_no_file_and_wrong_files_are_wrong() {
    let out = out_of(Command::new(SHOAL).args(["doctor", "--json"]));
    let report = json(&out);
    is(&report, "localhost", "ssh", "green", "this machine");
    assert!(report["hosts"][0]["facts"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    for args in [&["doctor", "/no/such/file"][..], &["doctor", "--no-such-flag"], &["doctor", "--timeout", "0"]] {
        let out = out_of(Command::new(SHOAL).args(args));
        assert_eq!(out.code, Some(2), "{args:?}: {}", out.errors);
    }
}
