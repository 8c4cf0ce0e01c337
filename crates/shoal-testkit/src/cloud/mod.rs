//! A cloud for tests: moto's EC2 and EFS on loopback, and test hosts in the place of its instances.
//!
//! Moto invents addresses that belong to strangers. Nothing may dial them: a [`Bridge`] gives each instance a test host, and writes an ssh configuration
//! in which the instance's addresses mean that host and every other address leads nowhere.

mod bridge;
mod http;

pub use bridge::Bridge;

use crate::wait;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Names the interpreter of an environment that has moto[server].
pub const PYTHON: &str = "SHOAL_TEST_MOTO";
const SERVER: &str = include_str!("server.py");
/// Many tests begin at the same time, each with an interpreter of its own and all of moto to import.
const START_BOUND: Duration = Duration::from_secs(180);

/// An image that moto knows.
pub const AMI: &str = "ami-03cf127a";

/// A cluster file for this cloud: a head and two workers; `provider` is what its provider says beside type and region, as fields of a flow map.
pub fn cluster_file(name: &str, provider: &str) -> String {
    let node = format!("{{ImageId: {AMI}, InstanceType: t3.micro}}");
    format!(
        "cluster_name: {name}\nmax_workers: 2\nprovider: {{type: aws, region: us-west-2, {provider}}}\nauth: {{ssh_user: root}}\n\
         head_node_type: head\navailable_node_types:\n  head: {{node_config: {node}}}\n  \
         worker: {{min_workers: 2, max_workers: 2, node_config: {node}}}\n"
    )
}

/// A server of its own; it ends with this value.
pub struct Cloud {
    server: Child,
    pub port: u16,
}

impl Cloud {
    /// Where there is no moto, the test is skipped.
    pub fn up_or_skip() -> Option<Cloud> {
        let Some(python) = std::env::var_os(PYTHON).map(PathBuf::from) else {
            crate::skip(format_args!("{PYTHON} names no interpreter of an environment with moto[server]"));
            return None;
        };
        let mut command = Command::new(python);
        command.args(["-c", SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("the interpreter starts");
        let out = server.stdout.take().expect("piped");
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(out).read_line(&mut line);
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(START_BOUND).expect("moto starts within three minutes");
        let port = line.trim().parse().expect("moto says its port");
        Some(Cloud { server, port })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What makes the SDK talk to this cloud and to nothing else: no files of the user's, no metadata service, our own checkip.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.url()),
            ("AWS_ACCESS_KEY_ID", "test".into()),
            ("AWS_SECRET_ACCESS_KEY", "test-secret-never-seen-4c1d".into()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
            ("AWS_CONFIG_FILE", "/dev/null".into()),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".into()),
            ("SHOAL_CHECKIP_URL", format!("{}/shoal/address", self.url())),
            ("SHOAL_AWS_POLL_MS", "50".into()),
        ]
    }

    /// The next calls of this kind that are refused, as `server.py` has it.
    pub fn refuse(&self, faults: &Value) {
        http::post(self.port, "/shoal/faults", faults);
    }

    /// The answer to the `n`th call from now that changes something never comes, although the call is done. 0: all come.
    pub fn hold(&self, n: usize) {
        http::post(self.port, "/shoal/hold", &serde_json::json!({ "calls": n }));
    }

    /// Instances never come to run, as far as the cloud says, until this is taken back.
    pub fn keep_pending(&self, pending: bool) {
        http::post(self.port, "/shoal/pending", &Value::Bool(pending));
    }

    /// Waits until a call is held; `false` if `over` says first that none will be.
    pub fn held(&self, mut over: impl FnMut() -> bool) -> bool {
        let held = || http::get(self.port, "/shoal/calls")["held"] == true;
        wait::until(START_BOUND, || if held() { Some(true) } else { over().then_some(false) }).unwrap_or(false)
    }

    pub fn calls(&self) -> Vec<String> {
        let calls = http::get(self.port, "/shoal/calls");
        calls["calls"].as_array().into_iter().flatten().filter_map(|call| Some(call.as_str()?.to_string())).collect()
    }

    /// As moto has them; terminated ones too.
    pub fn instances(&self) -> Vec<Value> {
        http::get(self.port, "/shoal/instances").as_array().cloned().unwrap_or_default()
    }

    /// Those that are not over.
    pub fn alive(&self) -> Vec<Value> {
        self.instances().into_iter().filter(|one| one["state"] != "terminated").collect()
    }

    /// The file systems of a region, as EFS itself lists them.
    pub fn file_systems(&self, region: &str) -> Vec<Value> {
        http::efs(self.port, region)["FileSystems"].as_array().cloned().unwrap_or_default()
    }

    /// Asks EC2 something that `shoal-aws` has no word for, in EC2's own form; gives the XML.
    pub fn ask(&self, region: &str, query: &str) -> String {
        http::ec2(self.port, region, query)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
