//! `shoal exec`, `attach` and `submit` under test: cluster files of test hosts, input, and terminals.

use super::launching::Case;
use super::{LONG, until};
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// `cluster.yaml` with the first of these hosts as its head.
pub fn cluster(case: &Case, hosts: &[usize], more: &str) {
    let addresses: Vec<String> = hosts.iter().map(|i| case.address(*i)).collect();
    cluster_of(case, &addresses, more);
}

pub fn cluster_of(case: &Case, addresses: &[String], more: &str) {
    let (head, workers) = (&addresses[0], addresses[1..].join(", "));
    let provider = format!("provider: {{type: local, head_ip: {head}, worker_ips: [{workers}]}}");
    case.file("cluster.yaml", &format!("cluster_name: lab\n{provider}\n{more}"));
}

/// An address of the hosts' network that nobody has.
pub fn nobody(case: &Case) -> String {
    case.address(0).rsplit_once('.').map(|(net, _)| format!("{net}.250")).expect("an address")
}

/// Runs `shoal` with this as its stdin.
pub fn fed(case: &Case, args: &[&str], input: &[u8]) -> Output {
    let mut command = case.verb(args).command;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("shoal");
    let mut stdin = child.stdin.take().expect("stdin");
    let input = input.to_vec();
    std::thread::spawn(move || stdin.write_all(&input));
    child.wait_with_output().expect("shoal")
}

/// `shoal` in a terminal of its own, made by `script`.
pub struct Terminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn start(case: &Case, args: &[&str]) -> Terminal {
        let inner = case.verb(args).command;
        let line = shoal_core::quote::join([env!("CARGO_BIN_EXE_shoal")].iter().chain(args));
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "/dev/null"]).current_dir(&case.folder).env("TERM", "xterm").env_remove("TMUX");
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut out, keep) = (child.stdout.take().expect("stdout"), shown.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                keep.lock().expect("a list").extend_from_slice(&buffer[..n]);
            }
        });
        Terminal { child, shown }
    }

    pub fn types(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().expect("stdin");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("a terminal");
    }

    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("a list")).into_owned()
    }

    pub fn shows(&self, text: &str) {
        let seen = shoal_testkit::wait::until(LONG, || self.shown().contains(text).then_some(()));
        assert!(seen.is_some(), "no `{text}` in:\n{}", self.shown());
    }

    /// Its exit code.
    pub fn ends(&mut self) -> i32 {
        let status = until(LONG, "the terminal to close", || self.child.try_wait().expect("wait"));
        status.code().unwrap_or(-1)
    }

    /// The process that this terminal belongs to dies without a word.
    pub fn dies(&mut self) {
        self.child.kill().expect("kill");
        let _ = self.child.wait();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
