//! `shoal-aws` as a program, a cloud on loopback, and a home of its own.
#![allow(dead_code, reason = "each test binary uses its own part")]

use shoal_core::cluster::cloud::difference::Instance;
use shoal_core::cluster::cloud::efs::Shared;
use shoal_core::cluster::cloud::ledger::{self, Ledger};
use shoal_core::cluster::cloud::protocol::{Ask, Ending, Event, Failure, Request, VERSION};
use shoal_core::cluster::cloud::removal::Scan;
use shoal_core::cluster::read::{self, Given};
use shoal_core::cluster::{Aws, Cluster, Efs, Provider};
use shoal_testkit::cloud::{Cloud, cluster_file};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub struct Lab {
    pub cloud: Cloud,
    pub home: tempfile::TempDir,
    pub patience_s: u32,
}

/// All that a run of the program said.
pub struct Said {
    pub told: Vec<String>,
    pub last: Event,
    pub raw: String,
}

pub fn plain(name: &str) -> Cluster {
    let text = cluster_file(name, "availability_zone: 'us-west-2a,us-west-2b'");
    read::read("test.yaml", &text, &Given::default()).unwrap_or_else(|errors| panic!("{errors}")).cluster
}

pub fn aws(cluster: &mut Cluster) -> &mut Aws {
    match &mut cluster.provider {
        Provider::Aws(aws) => aws,
        Provider::Local(_) => unreachable!("these tests are of AWS"),
    }
}

/// With everything there is to make.
pub fn full(name: &str) -> Cluster {
    let mut cluster = plain(name);
    let said = aws(&mut cluster);
    said.placement_group = true;
    said.efs = Some(Efs { id: None, mount: "~/efs".into() });
    cluster
}

impl Lab {
    pub fn new() -> Option<Lab> {
        let cloud = Cloud::up_or_skip()?;
        Some(Lab { cloud, home: tempfile::tempdir().expect("a home"), patience_s: 30 })
    }

    pub fn folder(&self, cluster: &Cluster) -> PathBuf {
        self.home.path().join(&cluster.name)
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shoal-aws"));
        for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("AWS_") || key.starts_with("SHOAL_")) {
            command.env_remove(key);
        }
        command.envs(self.cloud.settings()).env("SHOAL_AWS_PATIENCE_S", self.patience_s.to_string());
        command.env("HOME", self.home.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn request(&self, cluster: &Cluster, ask: Ask, take_over: bool) -> Request {
        let folder = self.folder(cluster).to_string_lossy().into_owned();
        Request { version: VERSION, cluster: cluster.clone(), folder, by: "me@test".into(), take_over, ask }
    }

    /// Its input stays open until the child is dropped or asked to end.
    pub fn start(&self, mut command: Command, request: &Request) -> Child {
        let mut child = command.spawn().expect("shoal-aws starts");
        let text = serde_json::to_string(request).expect("a text") + "\n";
        child.stdin.as_mut().expect("piped").write_all(text.as_bytes()).expect("it reads");
        child
    }

    pub fn says(&self, command: Command, request: &Request) -> Said {
        let mut child = self.start(command, request);
        // Held open: its end would ask the program to stop.
        let input = child.stdin.take();
        let output = child.wait_with_output().expect("it ends");
        drop(input);
        heard(&output.stdout, &output.stderr)
    }

    pub fn ask(&self, cluster: &Cluster, ask: Ask) -> Said {
        self.says(self.command(), &self.request(cluster, ask, false))
    }

    pub fn up(&self, cluster: &Cluster) -> (Vec<Instance>, Option<Shared>, Option<String>) {
        let said = self.ask(cluster, Ask::Ensure { replace: false });
        match said.last {
            Event::Nodes { nodes, shared, key } => (nodes, shared, key),
            other => panic!("{other:?}\n{}", said.raw),
        }
    }

    pub fn up_fails(&self, cluster: &Cluster) -> Failure {
        self.ask(cluster, Ask::Ensure { replace: false }).failure()
    }

    pub fn down(&self, cluster: &Cluster) -> (Vec<String>, Scan) {
        self.ask(cluster, Ask::End { how: Ending::default() }).ended()
    }

    pub fn scan(&self, cluster: &Cluster) -> Scan {
        self.ask(cluster, Ask::Scan).ended().1
    }

    pub fn ledger(&self, cluster: &Cluster) -> Ledger {
        let text = std::fs::read_to_string(self.folder(cluster).join("ledger.jsonl")).expect("a ledger");
        ledger::read(&text).expect("whole").expect("opened")
    }

    /// Nothing of the cluster is anywhere, and the ledger knows it.
    #[track_caller]
    pub fn is_clean(&self, cluster: &Cluster) {
        assert_eq!(self.scan(cluster), Scan::default());
        assert_eq!(self.ledger(cluster).open().collect::<Vec<_>>(), Vec::<&ledger::Item>::new());
    }
}

impl Said {
    #[track_caller]
    pub fn failure(self) -> Failure {
        match self.last {
            Event::Failed(failure) => failure,
            other => panic!("{other:?}\n{}", self.raw),
        }
    }

    #[track_caller]
    pub fn ended(self) -> (Vec<String>, Scan) {
        match self.last {
            Event::Ended { gone, scan } => (gone, scan),
            other => panic!("{other:?}\n{}", self.raw),
        }
    }
}

pub fn heard(stdout: &[u8], stderr: &[u8]) -> Said {
    let text = String::from_utf8_lossy(stdout).into_owned();
    let errors = String::from_utf8_lossy(stderr).into_owned();
    let mut told = Vec::new();
    let mut last = None;
    for line in text.lines() {
        match serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")) {
            Event::Tell { text } => told.push(text),
            other => last = Some(other),
        }
    }
    let raw = format!("{text}{errors}");
    // SEC-2: the secret of the settings is nowhere.
    assert!(!raw.contains("never-seen"), "{raw}");
    Said { told, last: last.unwrap_or_else(|| panic!("no last word: {raw}")), raw }
}
