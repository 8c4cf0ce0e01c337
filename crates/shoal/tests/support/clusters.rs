//! Clusters of test hosts: a file of Ray's dialect, `shoal up` and its like on it, and what the nodes have to say.

use super::laptop::Laptop;
use super::snapshot;
use serde_json::Value;
use shoal_testkit::{Hosts, HostsSpec};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub struct Lab {
    pub hosts: Hosts,
    pub laptop: Laptop,
}

#[derive(Debug)]
pub struct Out {
    pub code: Option<i32>,
    pub text: String,
    pub errors: String,
}

impl Out {
    #[track_caller]
    pub fn exits(self, code: i32) -> Out {
        assert_eq!(self.code, Some(code), "{}{}", self.text, self.errors);
        self
    }

    #[track_caller]
    pub fn says(self, words: &str) -> Out {
        assert!(self.errors.contains(words), "no `{words}` in\n{}", self.errors);
        self
    }

    #[track_caller]
    pub fn does_not_say(self, words: &str) -> Out {
        assert!(!self.errors.contains(words), "`{words}` in\n{}", self.errors);
        self
    }

    /// The last JSON line.
    #[track_caller]
    pub fn json(&self) -> Value {
        let line = self.text.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.text, self.errors))
    }

    /// What it says in the end, as kept in `tests/cli`. In which order nodes speak before that is theirs.
    #[track_caller]
    pub fn looks_like(self, name: &str) -> Out {
        let end = self.errors.lines().skip_while(|line| !line.starts_with("shoal "));
        let end: String = end.map(|line| format!("{line}\n")).collect();
        snapshot::check(name, &snapshot::Redactions::default().apply(&format!("{}{end}", self.text)));
        self
    }
}

impl Lab {
    pub fn new(name: &str, count: usize) -> Option<Lab> {
        Lab::with(HostsSpec::new(name, count))
    }

    pub fn with(spec: HostsSpec) -> Option<Lab> {
        let hosts = Hosts::up_or_skip(spec)?;
        let laptop = Laptop::new(&hosts);
        Some(Lab { hosts, laptop })
    }

    pub fn name(&self, i: usize) -> &str {
        &self.hosts.host(i).name
    }

    /// A file for the nodes `0..count`; `rest` is what comes after the provider.
    pub fn file(&self, count: usize, rest: &str) {
        let workers: Vec<&str> = (1..count).map(|i| self.name(i)).collect();
        let provider =
            format!("provider:\n  type: local\n  head_ip: {}\n  worker_ips: [{}]\n", self.name(0), workers.join(", "));
        self.write("lab.yaml", &format!("cluster_name: lab\n{provider}{rest}"));
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.laptop.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        std::fs::write(path, text).expect("a file");
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.laptop.shoal(args);
        command.env("USER", "ann").env("COLUMNS", "100");
        command
    }

    pub fn shoal(&self, args: &[&str]) -> Out {
        self.run(&mut self.command(args))
    }

    pub fn run(&self, command: &mut Command) -> Out {
        let out = command.output().expect("shoal runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = Out { code: out.status.code(), text: text(&out.stdout), errors: text(&out.stderr) };
        eprintln!("{:?}: {:?}\n{}{}", command.get_args().collect::<Vec<_>>(), out.code, out.text, out.errors);
        out
    }

    pub fn up(&self, args: &[&str]) -> Out {
        self.shoal(&[&["up", "lab.yaml", "-y"], args].concat())
    }

    pub fn down(&self) -> Out {
        self.shoal(&["down", "lab.yaml", "-y"])
    }

    /// In the background, its words in files `NAME.err` and `NAME.out`.
    pub fn start(&self, name: &str, command: &mut Command) -> Child {
        let file =
            |kind: &str| std::fs::File::create(self.laptop.path().join(format!("{name}.{kind}"))).expect("a file");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn().expect("shoal runs")
    }

    pub fn heard(&self, name: &str) -> String {
        std::fs::read_to_string(self.laptop.path().join(format!("{name}.err"))).unwrap_or_default()
    }

    pub fn ends(&self, name: &str, child: &mut Child) -> Out {
        let status = super::until(super::LONG, &format!("the end of {name}: {}", self.heard(name)), || {
            child.try_wait().expect("its end")
        });
        let text = std::fs::read_to_string(self.laptop.path().join(format!("{name}.out"))).unwrap_or_default();
        let out = Out { code: status.code(), text, errors: self.heard(name) };
        eprintln!("{name}: {:?}\n{}{}", out.code, out.text, out.errors);
        out
    }

    /// A shell line on a host, past ssh.
    #[track_caller]
    pub fn on(&self, i: usize, line: &str) -> String {
        let out = self.hosts.host(i).command("sh").args(["-c", line]).env("HOME", "/root").output().expect("sh runs");
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim_end().to_string()
    }

    /// What the set-up commands of a node wrote into `~/ran`, in a line.
    pub fn ran(&self, i: usize) -> String {
        self.on(i, "cat ~/ran 2>/dev/null | tr '\\n' ' '; rm -f ~/ran").trim_end().to_string()
    }

    pub fn until(&self, i: usize, what: &str, line: &str) {
        super::until(Duration::from_secs(60), what, || {
            let out = self.hosts.host(i).command("sh").args(["-c", line]).env("HOME", "/root").output().ok()?;
            out.status.success().then_some(())
        });
    }

    pub fn link(&self, i: usize, state: &str) {
        let namespace = &self.hosts.host(i).namespace;
        let done = Command::new("ip").args(["-netns", namespace, "link", "set", "eth0", state]).status();
        assert!(done.is_ok_and(|status| status.success()), "the link of host {i}");
    }

    /// From now on what a host gets and sends takes its time, as over a home's line.
    pub fn slow(&self, i: usize, rate: &str) {
        let space = self.hosts.host(i).namespace.as_str();
        let limit = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"];
        for end in [&["qdisc", "replace", "dev", space][..], &["-netns", space, "qdisc", "replace", "dev", "eth0"]] {
            let done = Command::new("tc").args(end).args(limit).status();
            assert!(done.is_ok_and(|status| status.success()), "the link of host {i}");
        }
    }

    /// Nothing of ours on the host: no file of shoal's, no process but its sshd.
    pub fn is_clean(&self, i: usize) {
        super::until(Duration::from_secs(20), "nothing of ours to be left", || {
            let processes = self.on(i, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '");
            (!processes.contains("shoal host") && !processes.contains("sleep")).then_some(())
        });
        assert_eq!(self.on(i, "find ~/.cache/shoal 2>/dev/null || true"), "", "host {i}");
    }
}

pub fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(status.is_ok_and(|s| s.success()), "cannot send {signal}");
}

impl Lab {
    pub fn on_this_machine(&self) -> String {
        shoal_sync::host::name()
    }
}
