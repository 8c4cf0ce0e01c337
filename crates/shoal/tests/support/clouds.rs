//! Clusters of a mock cloud under test: moto on loopback, a test host for every instance, and a laptop that may dial nothing else.

use super::clusters::Out;
use super::laptop::Laptop;
use super::snapshot::{self, Redactions};
use shoal_testkit::HostsSpec;
pub use shoal_testkit::cloud::AMI;
use shoal_testkit::cloud::{Bridge, Cloud};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const REGION: &str = "us-west-2";

pub struct Sky {
    /// Dropped before the cloud that it follows.
    pub bridge: Bridge,
    pub cloud: Cloud,
    pub laptop: Laptop,
}

/// What the images of these tests bring along, as a word in `~/ran` each: nothing is fetched, mounted or installed for real.
const PROGRAMS: [(&str, &str); 4] = [
    ("pip", "echo pip \"$@\" >> ~/ran"),
    ("ray", "echo ray \"$@\" >> ~/ran"),
    ("sudo", "echo sudo \"$@\" >> ~/ran"),
    // The port of a file system: the mock's answers nothing.
    ("timeout", "case \"$*\" in *2049*) exit 0;; esac; exec /usr/bin/timeout \"$@\""),
];

impl Sky {
    /// With hosts for so many instances, counted over the whole test.
    pub fn new(name: &str, instances: usize) -> Option<Sky> {
        let cloud = Cloud::up_or_skip()?;
        let bridge = Bridge::up_or_skip(&cloud, HostsSpec::new(name, instances))?;
        let helper = Path::new(env!("CARGO_BIN_EXE_shoal")).with_file_name("shoal-aws");
        assert!(helper.is_file(), "shoal looks for shoal-aws beside itself; `cargo build -p shoal-aws` builds it");
        let laptop = Laptop::new(bridge.hosts());
        let sky = Sky { cloud, bridge, laptop };
        (0..instances).for_each(|i| sky.furnish(i));
        Some(sky)
    }

    fn furnish(&self, host: usize) {
        let home = self.bridge.home(host);
        let bin = home.join("bin");
        std::fs::create_dir(&bin).expect("a folder");
        for (name, does) in PROGRAMS {
            let file = bin.join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{does}\n")).expect("a program");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        std::fs::write(home.join(".bash_profile"), "PATH=~/bin:$PATH\n").expect("a file");
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.laptop.path().join(name), text).expect("a file");
    }

    /// One of `examples/aws-cluster`, for this cloud: its image, a user of test hosts, and the addresses that lead to them.
    pub fn example(&self, name: &str, change: impl Fn(String) -> String) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/aws-cluster").join(name);
        let text = std::fs::read_to_string(path).expect("an example");
        let text = text.replace("ami-0a2363a9cff180a64", AMI).replace("ssh_user: ubuntu", "ssh_user: root");
        let text = text
            .replace("    type: aws\n", "    type: aws\n    use_internal_ips: true\n    allow_from: [10.0.0.0/8]\n");
        assert!(text.contains("use_internal_ips: true") && text.contains("ssh_user: root"), "{text}");
        self.write(name, &change(text));
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.laptop.shoal(args);
        for name in ["AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"] {
            command.env_remove(name);
        }
        command.envs(self.cloud.settings());
        command.env("SHOAL_SSH_CONFIG", self.bridge.ssh_config()).env("SHOAL_DIAL_ONLY", self.bridge.network());
        command.env("SHOAL_UP_FIRST_PATIENCE_S", "60").env("USER", "ann").env("COLUMNS", "100");
        command
    }

    pub fn run(&self, command: &mut Command) -> Out {
        let out = command.output().expect("shoal runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = Out { code: out.status.code(), text: text(&out.stdout), errors: text(&out.stderr) };
        eprintln!("{:?}: {:?}\n{}{}", command.get_args().collect::<Vec<_>>(), out.code, out.text, out.errors);
        // Whatever happens, a secret is never said (SEC-2).
        assert!(!out.text.contains("never-seen") && !out.errors.contains("never-seen"));
        out
    }

    pub fn shoal(&self, args: &[&str]) -> Out {
        self.run(&mut self.command(args))
    }

    /// What this machine keeps of a cluster.
    pub fn folder(&self, cluster: &str) -> PathBuf {
        self.laptop.path().join(".local/state/shoal/clusters").join(cluster)
    }

    /// What ran on the instance of this address since the last question, a line each.
    pub fn ran(&self, address: &str) -> Vec<String> {
        let file = self.home(address).join("ran");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        text.lines().map(Into::into).collect()
    }

    pub fn home(&self, address: &str) -> PathBuf {
        self.bridge.home(self.bridge.host_of(address).unwrap_or_else(|| panic!("no instance has {address}")))
    }

    /// What EC2 itself lists of a cluster, by the tag that everything of it bears; images aside.
    pub fn listed(&self, cluster: &str) -> Vec<String> {
        let by_tag = format!("Filter.1.Name=tag:shoal-cluster&Filter.1.Value.1={cluster}");
        let ask = |action: &str, open: &str| {
            let xml = self.cloud.ask(REGION, &format!("Action={action}&{by_tag}"));
            let ids = xml.split(open).skip(1).filter_map(|rest| Some(rest.split_once('<')?.0.to_string()));
            ids.collect::<Vec<_>>()
        };
        let alive: Vec<String> = self.cloud.alive().iter().map(|one| one["id"].to_string()).collect();
        let instances = ask("DescribeInstances", "<instanceId>").into_iter();
        let instances = instances.filter(|id| alive.iter().any(|one| one.contains(id.as_str())));
        instances
            .chain(ask("DescribeSecurityGroups", "<groupId>"))
            .chain(ask("DescribeKeyPairs", "<keyName>"))
            .chain(ask("DescribeVolumes", "<volumeId>"))
            .collect()
    }

    pub fn placement_groups(&self) -> String {
        self.cloud.ask(REGION, "Action=DescribePlacementGroups")
    }
}

/// As kept in `tests/cli`: `$ what`, its output, its exit code; without what differs from one time to the next.
#[track_caller]
pub fn looks_like(out: &Out, name: &str, command: &str) {
    let mut text = format!("$ {command}\n{}{}[exit code {}]\n", out.text, out.errors, out.code.unwrap_or(-1));
    for (start, word) in
        [("ami-", "[image]"), ("i-", "[instance]"), ("sg-", "[group]"), ("vol-", "[disk]"), ("key-", "[key]")]
    {
        text = without_hex(&text, start, word);
    }
    for cluster in ["initial", "training"] {
        text = without_hex(&text, &format!("shoal-{cluster}-"), &format!("shoal-{cluster}-[ledger]"));
    }
    // Made at the same time, so the order is theirs; and it costs more by the second.
    let mut lines: Vec<String> = text.lines().map(without_amount).collect();
    lines.chunk_by_mut(|a, b| a.starts_with("making ") && b.starts_with("making ")).for_each(<[String]>::sort);
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let mut cut = Redactions::default();
    for (i, address) in addresses(&text).iter().enumerate() {
        cut.replace(address, &format!("[address {i}]"));
    }
    snapshot::check(name, &cut.apply(&text));
}

/// `start` and the hexadecimal digits behind it, eight or more, become `word`.
fn without_hex(text: &str, start: &str, word: &str) -> String {
    let mut parts = text.split(start);
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_hexdigit).count();
        match digits >= 8 {
            true => out = out + word + &part[digits..],
            false => out = out + start + part,
        }
    }
    out
}

fn without_amount(line: &str) -> String {
    match line.split_once(" since the start") {
        Some((before, after)) => {
            let kept = before.rsplit_once('$').map_or(before, |(kept, _)| kept);
            format!("{kept}$[so far] since the start{after}")
        }
        None => line.into(),
    }
}

/// In the order in which they are named.
fn addresses(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_digit() && c != '.') {
        let word = word.trim_matches('.');
        if word.parse::<std::net::Ipv4Addr>().is_ok() && !found.iter().any(|known| known == word) {
            found.push(word.into());
        }
    }
    found
}
