//! The place of a plane on this machine: a folder, ports and addresses that no other plane has, and that whoever comes next clears when its
//! owner died.

use super::error::{Error, IoContext, Result};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

const BASE: &str = "/run/shoal-kubernetes";
/// How many planes may be up at once, and how many nodes each may have: both are of the shape of the addresses.
pub const PLACES: u8 = 16;
pub const NODES: u8 = 16;
/// Below the range that the kernel takes for outgoing connections: a server that is away for a moment finds its port free.
const FIRST_PORT: u16 = 21_000;

/// What listens in a place, and where.
#[derive(Debug, Clone, Copy)]
pub enum Port {
    Etcd,
    EtcdPeer,
    Api,
    Kubelet(u8),
}

pub struct Place {
    number: u8,
    /// Locked as long as the plane is up; dying lets go of it.
    _lock: File,
}

impl Place {
    /// Takes the first free place, and clears what a dead owner left there.
    pub fn take() -> Result<Self> {
        std::fs::create_dir_all(BASE).context("make", BASE)?;
        for number in 0..PLACES {
            let file = Path::new(BASE).join(format!("{number}.lock"));
            let lock = File::options().create(true).append(true).open(&file).context("make", &file)?;
            if lock.try_lock().is_ok() {
                let place = Self { number, _lock: lock };
                place.clear()?;
                std::fs::create_dir_all(place.folder()).context("make", place.folder())?;
                place.bridge_up()?;
                return Ok(place);
            }
        }
        Err(Error::NoPlace { places: PLACES })
    }

    pub fn folder(&self) -> PathBuf {
        Path::new(BASE).join(self.number.to_string())
    }

    pub fn port(&self, what: Port) -> u16 {
        let offset = match what {
            Port::Etcd => 0,
            Port::EtcdPeer => 1,
            Port::Api => 2,
            Port::Kubelet(node) => 10 + u16::from(node),
        };
        FIRST_PORT + u16::from(self.number) * 100 + offset
    }

    pub fn bridge(&self) -> String {
        format!("shoalk{}", self.number)
    }

    /// Node `i` has 10.78.X.0/24 for itself and its pods, and is the first address of it; all of a plane are on one bridge.
    pub fn node(&self, i: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, self.number * NODES + i, 1)
    }

    fn bridge_up(&self) -> Result<()> {
        let bridge = self.bridge();
        ip("make the bridge", &["link", "add", &bridge, "type", "bridge"])?;
        for node in 0..NODES {
            let address = format!("{}/20", self.node(node));
            ip("give a node its address", &["address", "add", &address, "dev", &bridge])?;
        }
        ip("switch the bridge on", &["link", "set", &bridge, "up"])
    }

    /// What is mounted below the folder goes first: a volume that a pod had is not the plane's to remove.
    fn clear(&self) -> Result<()> {
        if Path::new("/sys/class/net").join(self.bridge()).exists() {
            ip("remove the bridge", &["link", "delete", &self.bridge()])?;
        }
        let folder = self.folder();
        for mount in mounts_below(&folder) {
            let done = Command::new("umount").arg("--lazy").arg(&mount).output().context("unmount", &mount)?;
            if !done.status.success() {
                return Err(failed("unmount what a pod left", "umount", &[&mount.to_string_lossy()], &done));
            }
        }
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("remove", &folder),
            _ => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whoever takes the place next clears it too, and says what is wrong.
        let _ = self.clear();
    }
}

/// The deepest first.
fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut below: Vec<PathBuf> = points.filter(|point| point.starts_with(folder)).collect();
    below.reverse();
    below
}

fn ip(what: &str, args: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(args).output().context("start", "ip")?;
    if done.status.success() { Ok(()) } else { Err(failed(what, "ip", args, &done)) }
}

fn failed(what: &str, program: &str, args: &[&str], output: &std::process::Output) -> Error {
    Error::Command {
        what: what.into(),
        command: format!("{program} {}", args.join(" ")),
        status: output.status.to_string(),
        stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}
