//! What is up, on disk: so that a later process can take down what a crashed one left, and reach what another one keeps.
//!
//! `/run/shoal-hosts/NAME-SUBNET/record.json` is written before anything of the set is made. A lock on `/run/shoal-hosts` orders
//! claims and removals, so a folder without a record, seen with the lock held, is one whose maker died.

use super::error::{Error, IoContext, Result};
use super::process::Process;
use super::tools;
use super::{HostsSpec, SharedDrive};
use crate::wait;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const BASE: &str = "/run/shoal-hosts";
const FILE: &str = "record.json";
const VERSION: u32 = 1;
/// Removing a set takes well under a second; this many may stand in line.
const LOCK_BOUND: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    pub name: String,
    /// N of 10.77.N.0/24; names of namespaces and links come from it, so two sets never share any.
    pub subnet: u8,
    /// The process the set lives and dies with; none: it is kept until it is taken down by name.
    pub owner: Option<Process>,
    pub hosts: Vec<HostRecord>,
    /// As in the spec, for a host that starts anew.
    #[serde(default)]
    pub rate: Option<String>,
    #[serde(default)]
    pub share: Vec<PathBuf>,
    #[serde(default)]
    pub drive: Option<SharedDrive>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostRecord {
    pub name: String,
    pub address: Ipv4Addr,
    pub namespace: String,
    /// `unshare`, as this machine sees it.
    pub outer: Option<Process>,
    /// Process 1 of the host, as this machine sees it.
    pub init: Option<Process>,
}

impl Record {
    /// The folder of the whole set.
    pub fn folder(&self) -> PathBuf {
        Path::new(BASE).join(format!("{}-{}", self.name, self.subnet))
    }

    pub fn bridge(&self) -> String {
        format!("shoal{}", self.subnet)
    }

    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, 1)
    }

    /// A leftover is what no living process owns and nobody asked to keep.
    pub fn is_leftover(&self) -> bool {
        self.owner.is_some_and(|owner| !owner.is_alive())
    }

    /// By rename, so that a reader sees the old record or the new one.
    pub fn save(&self) -> Result<()> {
        let file = self.folder().join(FILE);
        let fresh = file.with_extension("new");
        let text = serde_json::to_vec_pretty(self).map_err(|source| Error::Record { path: file.clone(), source })?;
        std::fs::write(&fresh, text).context("write", &fresh)?;
        std::fs::rename(&fresh, &file).context("write", &file)
    }
}

/// Held while sets are claimed or removed, by one process at a time; dying lets go of it.
pub struct Lock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Lock {
    pub fn take() -> Result<Self> {
        let attempt = || -> Result<Option<Self>> {
            DirBuilder::new().recursive(true).mode(0o700).create(BASE).context("make", BASE)?;
            let Ok(folder) = File::open(BASE) else { return Ok(None) };
            if folder.try_lock().is_err() {
                return Ok(None);
            }
            // The last set's removal takes the folder along: a lock on a removed folder is no lock.
            let held = folder.metadata().context("look at", BASE)?.ino();
            Ok(std::fs::metadata(BASE).is_ok_and(|now| now.ino() == held).then_some(Self(folder)))
        };
        wait::until(LOCK_BOUND, || attempt().transpose()).unwrap_or_else(|| {
            Err(Error::Timeout { what: format!("the lock on {BASE}"), bound: LOCK_BOUND, log: String::new() })
        })
    }

    /// Every record there is, and the folders that have none.
    pub fn all(&self) -> Result<(Vec<Record>, Vec<PathBuf>)> {
        let (mut records, mut bare) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(BASE).context("list", BASE)? {
            let folder = entry.context("list", BASE)?.path();
            match load(&folder.join(FILE))? {
                Some(record) => records.push(record),
                None => bare.push(folder),
            }
        }
        records.sort_by_key(|record| record.subnet);
        Ok((records, bare))
    }

    /// Takes a free subnet and writes the record of a set that is about to be made.
    pub fn claim(&self, spec: &HostsSpec, count: u8) -> Result<Record> {
        let name = spec.name.as_str();
        let (taken, _) = self.all()?;
        let addresses = tools::run("list addresses", "ip", &["-4", "-oneline", "address"])?;
        let free = |subnet: &u8| {
            taken.iter().all(|record| record.subnet != *subnet) && !addresses.contains(&format!(" 10.77.{subnet}."))
        };
        let first = first_subnet(name);
        let subnet = (0..=u8::MAX).map(|step| first.wrapping_add(step)).find(free).ok_or(Error::NoSubnet)?;
        let hosts = (0..count).map(|i| HostRecord {
            name: format!("{name}-{i}"),
            address: Ipv4Addr::new(10, 77, subnet, 10 + i),
            namespace: format!("shoal{subnet}h{i}"),
            outer: None,
            init: None,
        });
        let record = Record {
            version: VERSION,
            name: name.into(),
            subnet,
            owner: Process::me(),
            hosts: hosts.collect(),
            rate: spec.rate.clone(),
            share: spec.share.clone(),
            drive: spec.drive.clone(),
        };
        let folder = record.folder();
        DirBuilder::new().mode(0o700).create(&folder).context("make", &folder)?;
        record.save()?;
        Ok(record)
    }

    /// Removes the common folder once the last set has gone.
    pub fn tidy(&self) {
        let _ = std::fs::remove_dir(BASE);
    }
}

fn load(file: &Path) -> Result<Option<Record>> {
    match std::fs::read(file) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|source| Error::Record { path: file.into(), source })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("read", file),
    }
}

/// Spreads names over the subnets (FNV-1a), so that a set usually gets the same addresses again.
fn first_subnet(name: &str) -> u8 {
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash % 256) as u8
}
