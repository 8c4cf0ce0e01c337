//! Test hosts in the place of a mock cloud's instances: one for each, with the instance's key and private address, and with the files of the
//! instance that its image was baked from; ended with it.

use super::Cloud;
use crate::{Hosts, HostsSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Where an instance is.
#[derive(Clone)]
struct Place {
    host: usize,
    /// Its private address.
    address: String,
    /// What a mock invents for it: a stranger's address, that leads to the host too, as far as ssh is concerned.
    public: Option<String>,
}

/// Follows the cloud in a thread of its own until it is dropped. The hosts are brought up beforehand, as many as the test will have instances.
pub struct Bridge {
    hosts: Arc<Hosts>,
    /// Instance -> its place.
    taken: Arc<Mutex<BTreeMap<String, Place>>>,
    /// How long an instance runs until it knows its key, in milliseconds.
    late_ms: Arc<AtomicU64>,
    /// Hosts whose instances are over.
    ended: Arc<Mutex<BTreeSet<usize>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    config: PathBuf,
    port: u16,
}

impl Bridge {
    pub fn up_or_skip(cloud: &Cloud, spec: HostsSpec) -> Option<Bridge> {
        let hosts = Arc::new(Hosts::up_or_skip(spec)?);
        let config = hosts.folder().join("cloud_ssh_config");
        let (taken, ended, over, port) = (Arc::default(), Arc::default(), Arc::default(), cloud.port);
        let bridge = Bridge { hosts, taken, late_ms: Arc::default(), ended, over, thread: None, config, port };
        bridge.write();
        bridge.tell();
        Some(bridge.follow())
    }

    fn follow(mut self) -> Bridge {
        let (over, taken, ended) = (self.over.clone(), self.taken.clone(), self.ended.clone());
        let (hosts, config, port, late_ms) = (self.hosts.clone(), self.config.clone(), self.port, self.late_ms.clone());
        let me = Bridge { hosts, taken, late_ms, ended, over: over.clone(), thread: None, config, port };
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
            let known = taken.get(&id).map(|place| place.host);
            match (known, state.as_str()) {
                (None, "pending" | "running") => {
                    let used: Vec<usize> = taken.values().map(|place| place.host).collect();
                    let Some(free) = (0..self.hosts.len()).find(|host| !used.contains(host)) else {
                        panic!("more instances than the {} test hosts of this bridge", self.hosts.len())
                    };
                    if let Some(from) = taken.get(&text("baked_from")) {
                        self.unpack(from.host, free);
                    }
                    self.authorise(free, &text("key"));
                    self.call(free, &text("address"), &taken);
                    let public = Some(text("public")).filter(|public| !public.is_empty());
                    taken.insert(id, Place { host: free, address: text("address"), public });
                    changed = true;
                }
                // It stays in the table, so that its host is not given to another.
                (Some(host), "terminated") => {
                    self.ended.lock().expect("no test thread panics while it holds this").insert(host);
                    drop(self.hosts.host(host).kill());
                }
                _ => {}
            }
        }
        drop(taken);
        if changed {
            self.write();
            self.tell();
        }
    }

    /// The cloud answers a launch only when its instances have their hosts: nobody can dial them before.
    fn tell(&self) {
        let taken = self.taken.lock().expect("no test thread panics while it holds this");
        let ids: Vec<&String> = taken.keys().collect();
        super::http::post(self.port, "/shoal/mapped", &serde_json::json!(ids));
    }

    /// The folder that is `/root` on a host, as this machine sees it; it outlives the host.
    pub fn home(&self, host: usize) -> PathBuf {
        self.hosts.folder().join(&self.hosts.host(host).name).join("files/root")
    }

    /// The key pair's public half logs in, and no other.
    fn authorise(&self, host: usize, key: &str) {
        let (file, key, late) = (self.home(host).join(".ssh/authorized_keys"), key.to_string(), self.late_ms.clone());
        let write = move |key: &str| std::fs::write(&file, key);
        match late.load(Ordering::SeqCst) {
            0 => write(&key).expect("the host's own folder"),
            late => {
                write("").expect("the host's own folder");
                // The set may be down by then, and its folder gone.
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(late));
                    drop(write(&key));
                });
            }
        }
    }

    /// Instances of now on answer before they know their key, for so long.
    pub fn authorise_late(&self, late: Duration) {
        self.late_ms.store(late.as_millis() as u64, Ordering::SeqCst);
    }

    /// What an image has of the instance it was baked from. Programs that were delivered there are large and never written to again: linked, not
    /// copied, because the answer to a launch waits for this.
    fn unpack(&self, from: usize, to: usize) {
        let script = "set -e; cd \"$1\"; p=.cache/shoal/bin; tar -cf - --exclude=\"./$p\" . | tar -C \"$2\" -xpf -; \
                      if [ -d $p ]; then mkdir -p \"$2/.cache/shoal\"; cp -al $p \"$2/$p\"; fi";
        let copied = Command::new("sh").args(["-c", script, "sh"]).arg(self.home(from)).arg(self.home(to)).status();
        assert!(copied.is_ok_and(|status| status.success()), "the files of host {from} go to host {to}");
    }

    /// The host gets the instance's private address, and the instances find each other by theirs. This machine has no way to them.
    fn call(&self, host: usize, address: &str, taken: &BTreeMap<String, Place>) {
        let me = self.hosts.host(host);
        let way = |space: &str, args: &[&str]| {
            let done = Command::new("ip").args(["-netns", space]).args(args).status();
            assert!(done.is_ok_and(|status| status.success()), "ip -netns {space} {}", args.join(" "));
        };
        way(&me.namespace, &["address", "add", &format!("{address}/32"), "dev", "eth0"]);
        for Place { host, address: theirs, .. } in taken.values().filter(|other| self.answers(other.host)) {
            let other = self.hosts.host(*host);
            way(&me.namespace, &["route", "replace", theirs, "via", &other.address.to_string()]);
            way(&other.namespace, &["route", "replace", address, "via", &me.address.to_string()]);
        }
    }

    /// The network of a host that has ended may be gone.
    fn answers(&self, host: usize) -> bool {
        !self.ended.lock().expect("no test thread panics while it holds this").contains(&host)
    }

    /// Written beside and renamed: ssh may read it at any time.
    fn write(&self) {
        let taken = self.taken.lock().expect("no test thread panics while it holds this");
        // An address may be given out again: whose instance is over comes last, and the first one counts.
        let mut places: Vec<&Place> = taken.values().collect();
        places.sort_by_key(|place| !self.answers(place.host));
        let entries: String = places
            .into_iter()
            .map(|Place { host, address, public }| {
                let (host, public) = (self.hosts.host(*host), public.as_deref().unwrap_or_default());
                format!(
                    "Host {address} {public}\n  HostName {}\n  Port 22\n  HostKeyAlias {}\n",
                    host.address, host.name
                )
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

    /// For SHOAL_DIAL_ONLY: the network of the test hosts.
    pub fn network(&self) -> String {
        let [a, b, c, _] = self.hosts.gateway().octets();
        format!("{a}.{b}.{c}.0/24")
    }

    /// The host that is the instance of this address, and has not ended.
    pub fn host_of(&self, address: &str) -> Option<usize> {
        let taken = self.taken.lock().expect("no test thread panics while it holds this");
        let is = |place: &&Place| place.address == address || place.public.as_deref() == Some(address);
        taken.values().filter(is).find(|place| self.answers(place.host)).map(|place| place.host)
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
