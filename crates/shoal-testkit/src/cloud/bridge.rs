//! Test hosts in the place of a mock cloud's instances: one for each, with the instance's key, ended with it.

use super::Cloud;
use crate::{Hosts, HostsSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Follows the cloud in a thread of its own until it is dropped. The hosts are brought up beforehand, as many as the test will have instances.
pub struct Bridge {
    hosts: Arc<Hosts>,
    /// Instance -> which host, and the instance's private address.
    taken: Arc<Mutex<BTreeMap<String, (usize, String)>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    config: PathBuf,
}

impl Bridge {
    pub fn up_or_skip(cloud: &Cloud, spec: HostsSpec) -> Option<Bridge> {
        let hosts = Arc::new(Hosts::up_or_skip(spec)?);
        let config = hosts.folder().join("cloud_ssh_config");
        let bridge = Bridge { hosts, taken: Arc::default(), over: Arc::default(), thread: None, config };
        bridge.write();
        Some(bridge.follow(cloud.port))
    }

    fn follow(mut self, port: u16) -> Bridge {
        let (over, taken, hosts, config) =
            (self.over.clone(), self.taken.clone(), self.hosts.clone(), self.config.clone());
        let me = Bridge { hosts, taken, over: over.clone(), thread: None, config };
        self.thread = Some(std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let instances = super::http::get(port, "/shoal/instances");
                me.look(instances.as_array().map_or(&[][..], Vec::as_slice));
                std::thread::sleep(LOOK);
            }
        }));
        self
    }

    fn look(&self, instances: &[Value]) {
        let mut changed = false;
        let mut taken = self.taken.lock().expect("no test thread panics while it holds this");
        for instance in instances {
            let text = |field: &str| instance[field].as_str().unwrap_or_default().to_string();
            let (id, state) = (text("id"), text("state"));
            let known = taken.get(&id).map(|(host, _)| *host);
            match (known, state.as_str()) {
                (None, "pending" | "running") => {
                    let used: Vec<usize> = taken.values().map(|(host, _)| *host).collect();
                    let Some(free) = (0..self.hosts.len()).find(|host| !used.contains(host)) else {
                        panic!("more instances than the {} test hosts of this bridge", self.hosts.len())
                    };
                    self.authorise(free, &text("key"));
                    taken.insert(id, (free, text("address")));
                    changed = true;
                }
                // It stays in the table, so that its host is not given to another.
                (Some(host), "terminated") => drop(self.hosts.host(host).kill()),
                _ => {}
            }
        }
        drop(taken);
        if changed {
            self.write();
        }
    }

    /// The key pair's public half logs in, and no other.
    fn authorise(&self, host: usize, key: &str) {
        let file = self.hosts.folder().join(&self.hosts.host(host).name).join("files/root/.ssh/authorized_keys");
        std::fs::write(file, key).expect("the host's own folder");
    }

    /// Written beside and renamed: ssh may read it at any time.
    fn write(&self) {
        let taken = self.taken.lock().expect("no test thread panics while it holds this");
        let entries: String = taken
            .values()
            .map(|(host, address)| {
                let host = self.hosts.host(*host);
                format!("Host {address}\n  HostName {}\n  Port 22\n  HostKeyAlias {}\n", host.address, host.name)
            })
            .collect();
        let known = self.hosts.folder().join("known_hosts");
        let common = format!(
            "Host *\n  IdentityAgent none\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  BatchMode yes\n  \
             ConnectTimeout 10\n  LogLevel ERROR\n",
            known.display()
        );
        // The first value wins: whatever is no instance of ours goes to a port of this machine where nobody listens.
        let nowhere = "Match originalhost *\n  HostName 127.0.0.1\n  Port 1\n";
        let beside = self.config.with_extension("new");
        std::fs::write(&beside, entries + nowhere + &common).expect("the set's own folder");
        std::fs::rename(&beside, &self.config).expect("the set's own folder");
    }

    /// For SHOAL_SSH_CONFIG.
    pub fn ssh_config(&self) -> PathBuf {
        self.config.clone()
    }

    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// For a guard that refuses to dial anything else: the addresses of the instances, as the cloud gives them.
    pub fn addresses(&self) -> Vec<String> {
        let taken = self.taken.lock().expect("no test thread panics while it holds this");
        taken.values().map(|(_, address)| address.clone()).collect()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
