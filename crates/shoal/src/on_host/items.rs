//! What is this host like? One function a thing; those that may hang are called through `bounded`.

use super::bounded::program;
use shoal_core::checkup::facts::{Item, Memory, OpenFiles, Ports, Space, Sudo};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub fn home() -> PathBuf {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map_or_else(|| "/".into(), PathBuf::from)
}

/// `~` and `~/...` are the home, as for ranks.
pub fn expand(path: &str) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home(),
        Some(rest) if rest.starts_with('/') => home().join(rest.trim_start_matches('/')),
        _ => home().join(path),
    }
}

pub fn memory() -> Item<Memory> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
    };
    let missing = || "/proc/meminfo does not say".to_string();
    Ok(Memory {
        total_bytes: bytes("MemTotal:").ok_or_else(missing)?,
        available_bytes: bytes("MemAvailable:").ok_or_else(missing)?,
    })
}

pub fn space(path: &Path) -> Item<Space> {
    let fault = |e: rustix::io::Errno| match e {
        rustix::io::Errno::NOENT => format!("{} does not exist", path.display()),
        e => format!("{}: {e}", path.display()),
    };
    if !std::fs::metadata(path).map_err(|e| e.to_string()).is_ok_and(|meta| meta.is_dir()) {
        rustix::fs::stat(path).map_err(fault)?;
        return Err(format!("{} is not a folder", path.display()));
    }
    let disk = rustix::fs::statvfs(path).map_err(fault)?;
    Ok(Space {
        path: path.display().to_string(),
        total_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
        free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        writable: is_writable(path),
    })
}

/// A file without a name proves it and leaves nothing; file systems that cannot have one are asked.
fn is_writable(folder: &Path) -> bool {
    use rustix::fs::{Access, Mode, OFlags};
    use rustix::io::Errno;
    match rustix::fs::open(folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(_) => true,
        // Full is not the same as closed; how much is free is said elsewhere.
        Err(Errno::NOSPC | Errno::DQUOT) => true,
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            rustix::fs::access(folder, Access::WRITE_OK).is_ok()
        }
        Err(_) => false,
    }
}

pub fn sudo(limit: Duration) -> Item<Sudo> {
    if rustix::process::geteuid().is_root() {
        return Ok(Sudo::Root);
    }
    let mut command = Command::new("sudo");
    command.args(["-n", "true"]);
    Ok(match program(command, limit)? {
        None => Sudo::Missing,
        Some(said) if said.code == Some(0) => Sudo::Free,
        Some(_) => Sudo::Asks,
    })
}

pub fn open_files() -> OpenFiles {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    OpenFiles { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Takes ports as a run would, all at once, and lets them go.
pub fn ports(tried: u32) -> Item<Ports> {
    let bound: Vec<TcpListener> =
        (0..tried).map_while(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()).collect();
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut range = range.split_whitespace().map(|word| word.parse().ok());
    let (low, high) = (range.next().flatten().unwrap_or(32768), range.next().flatten().unwrap_or(60999));
    Ok(Ports { tried, taken: bound.len() as u32, low, high })
}

/// A word of what sshd says about the connection: its client and port, its server and port.
pub fn connection(word: usize) -> Option<String> {
    std::env::var("SSH_CONNECTION").ok()?.split(' ').nth(word).map(str::to_string)
}
