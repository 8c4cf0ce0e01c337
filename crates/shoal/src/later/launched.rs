//! Where did the detached runs go that were launched from this machine? A small file for each below
//! `~/.local/state/shoal/launched/`, for its owner alone, with no secret in it (SEC-2): so that `shoal logs ID` needs no fleet.

use serde::{Deserialize, Serialize};
use shoal_core::fleet::{Fleet, Host, HostKey, Reach};
use shoal_daemon::records;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Changes whenever the meaning of a field does (WIRE-1).
pub const LAUNCHED_VERSION: u32 = 1;
/// How many are remembered.
const KEEP: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    pub version: u32,
    pub run: String,
    /// The fleet's file at that time, for people; what it said then is below.
    pub file: Option<PathBuf>,
    /// The hosts of the run.
    pub hosts: Vec<String>,
    /// How hosts are reached, those in between included.
    pub reach: Vec<Way>,
    /// `shoal ps` has seen its end.
    pub over: bool,
    /// Its ranks are pods of this pool (JSON of a `shoal_core::fleet::pool::Pool`), and its hosts this machine alone. As with `proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    pub name: String,
    pub address: String,
    /// It is this machine.
    pub local: bool,
    pub user: Option<String>,
    pub port: Option<u16>,
    /// The name of a file, not what is in it.
    pub key: Option<String>,
    pub jump: Option<String>,
    /// Not in older files; absent where there is none, so that older programs read what newer ones write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The file with its host key, and its name there; of machines of a cloud. As with `proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key: Option<(String, String)>,
}

impl Launched {
    pub fn new(run: &str, file: Option<&Path>, fleet: &Fleet, hosts: &[String]) -> Launched {
        let file = file.and_then(|f| std::path::absolute(f).ok());
        let reach = fleet.hosts.iter().map(way).collect();
        Launched {
            version: LAUNCHED_VERSION,
            run: run.into(),
            file,
            hosts: hosts.to_vec(),
            reach,
            over: false,
            pool: None,
        }
    }

    /// As much of the fleet as is needed to reach its hosts.
    pub fn fleet(&self) -> Fleet {
        let host = |way: &Way| {
            let ssh = || Reach::Ssh {
                user: way.user.clone(),
                port: way.port,
                key: way.key.clone(),
                jump: way.jump.clone(),
                proxy: way.proxy.clone(),
                host_key: way.host_key.clone().map(|(file, name)| HostKey { file, name }),
            };
            Host {
                name: way.name.clone(),
                address: way.address.clone(),
                internal: None,
                reach: if way.local { Reach::Local } else { ssh() },
                groups: Vec::new(),
                slots: shoal_core::fleet::Slots::default(),
            }
        };
        Fleet { hosts: self.reach.iter().map(host).collect(), ..Fleet::local() }
    }

    /// Written beside and renamed: a reader never sees half of it.
    pub fn save(&self) -> io::Result<()> {
        let folder = folder();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let path = folder.join(format!("{}.json", self.run));
        let beside = folder.join(format!("{}.{}.tmp", self.run, std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        fs::rename(&beside, &path)?;
        prune(&folder);
        Ok(())
    }
}

fn way(host: &Host) -> Way {
    let (name, address, local) = (host.name.clone(), host.address.clone(), host.reach == Reach::Local);
    let mut way =
        Way { name, address, local, user: None, port: None, key: None, jump: None, proxy: None, host_key: None };
    if let Reach::Ssh { user, port, key, jump, proxy, host_key } = host.reach.clone() {
        (way.user, way.port, way.key, way.jump, way.proxy) = (user, port, key, jump, proxy);
        way.host_key = host_key.map(|HostKey { file, name }| (file, name));
    }
    way
}

fn folder() -> PathBuf {
    records::root().with_file_name("launched")
}

pub fn read(run: &str) -> Option<Launched> {
    let path = records::is_safe_name(run).then(|| folder().join(format!("{run}.json")))?;
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// All that can be read, oldest first: ids begin with the time.
pub fn list() -> Vec<Launched> {
    let mut all: Vec<Launched> =
        files(&folder()).filter_map(|p| serde_json::from_slice(&fs::read(p).ok()?).ok()).collect();
    all.sort_by(|a, b| a.run.cmp(&b.run));
    all
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    files.filter(|p| p.extension().is_some_and(|e| e == "json"))
}

/// By name alone, which begins with the time: reading hundreds of files would take longer than starting a gang.
fn prune(folder: &Path) {
    let mut all: Vec<PathBuf> = files(folder).collect();
    all.sort();
    all.truncate(all.len().saturating_sub(KEEP));
    for old in all {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WIRE-1: files of this shape are on people's disks.
    const SAMPLE: &str = r#"{"version":1,"run":"r1","file":"/f/shoal.yaml","hosts":["a"],"reach":[{"name":"a","address":"a.lab","local":false,"user":"ann","port":2222,"key":"/k","jump":"gate"},{"name":"gate","address":"gate.lab","local":false,"user":null,"port":null,"key":null,"jump":null}],"over":false}"#;

    #[test]
    fn a_run_on_a_pool_says_which() {
        let mut launched: Launched = serde_json::from_str(SAMPLE).expect("the sample");
        launched.pool = Some("{}".into());
        let text = serde_json::to_string(&launched).expect("json");
        assert_eq!(text, SAMPLE.replace(r#""over":false"#, r#""over":false,"pool":"{}""#));
        assert_eq!(serde_json::from_str::<Launched>(&text).expect("read"), launched);
    }

    #[test]
    fn the_kept_sample_reads_and_writes_and_is_a_fleet_again() {
        let launched: Launched = serde_json::from_str(SAMPLE).expect("the sample");
        assert_eq!(launched.version, LAUNCHED_VERSION);
        assert_eq!(serde_json::to_string(&launched).expect("json"), SAMPLE);
        let again = Launched::new("r1", launched.file.as_deref(), &launched.fleet(), &launched.hosts);
        assert_eq!(again, launched);
    }
}
