//! What is this machine like now? Each source is one small file of the kernel's; what cannot be known is left out.

use super::gpus::Gpus;
use super::net::Net;
use super::people;
use crate::proc;
use shoal_core::queue::host::HostFacts;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub fn gather(disk: &Path, gpus: &mut Gpus, keeper: u32, net: &Net) -> HostFacts {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (users, idle_seconds) = people::here();
    HostFacts {
        boot: proc::machine().boot,
        cpus: cpus(),
        memory_bytes: memory(&text("/proc/meminfo"), limit()),
        gpus: gpus.look(keeper),
        load1: text("/proc/loadavg").split_ascii_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
        free_disk_bytes: rustix::fs::statvfs(disk).map_or(0, |s| s.f_bavail * s.f_frsize),
        idle_seconds,
        users,
        address: net.address.clone(),
        caller: net.caller.clone(),
        ports: net.ports(),
        place: fs::metadata(disk).ok().map(|folder| format!("{}:{}", folder.dev(), folder.ino())),
    }
}

/// Those we may use: of the machine, less what affinity and the group's quota forbid. The standard library knows both.
fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// What the machine has, or what its group may use if that is less. Pure.
fn memory(meminfo: &str, limit: Option<u64>) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0);
    limit.filter(|limit| *limit > 0).map_or(kib * 1024, |limit| limit.min(kib * 1024))
}

/// The narrowest limit of the groups we are in.
fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = limit_files(&groups);
    files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

/// Every group has those above it. Pure.
fn limit_files(groups: &str) -> Vec<String> {
    let path = |prefix: &str| groups.lines().find_map(|l| l.split_once(prefix)).map(|(_, path)| path.to_string());
    let mut files = Vec::new();
    for (prefix, root, name) in
        [("0::", "/sys/fs/cgroup", "memory.max"), (":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
    {
        let Some(path) = path(prefix) else { continue };
        for ancestor in Path::new(&path).ancestors() {
            let at = ancestor.to_string_lossy();
            files.push(format!("{root}{}/{name}", at.trim_end_matches('/')));
        }
    }
    files
}

/// Whether what is worth telling has changed: load, disk and idle time move all the time.
pub fn differ(old: &HostFacts, new: &HostFacts) -> bool {
    let rough = |facts: &HostFacts| HostFacts {
        load1: (facts.load1 * 2.0).round(),
        free_disk_bytes: facts.free_disk_bytes >> 30,
        // Minutes are enough while nobody is there; that somebody is back is seen at once.
        idle_seconds: facts.idle_seconds.map(|seconds| if seconds < 60 { seconds / 5 } else { 60 + seconds / 60 }),
        gpus: facts
            .gpus
            .iter()
            .cloned()
            .map(|mut gpu| {
                gpu.foreign_bytes >>= 26;
                gpu
            })
            .collect(),
        ..facts.clone()
    };
    rough(old) != rough(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_machines_or_the_groups() {
        let text = "MemFree: 1 kB\nMemTotal:       1000 kB\n";
        assert_eq!(memory(text, None), 1_024_000);
        assert_eq!(memory(text, Some(5000)), 5000);
        assert_eq!(memory(text, Some(u64::MAX)), 1_024_000);
        assert_eq!(
            limit_files("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(limit_files("4:memory:/a\n").len(), 2);
    }

    #[test]
    fn small_changes_are_not_told() {
        let facts = gather(Path::new("/"), &mut Gpus::default(), 0, &Net::default());
        assert!(facts.cpus > 0 && facts.memory_bytes > 1 << 20 && !facts.boot.is_empty() && facts.free_disk_bytes > 0);
        let with = |change: fn(&mut HostFacts)| {
            let mut new = facts.clone();
            change(&mut new);
            differ(&facts, &new)
        };
        assert!(!with(|f| f.free_disk_bytes ^= 1));
        assert!(with(|f| f.cpus += 1));
        assert!(with(|f| f.load1 += 3.0));
        assert!(with(|f| f.users.push("ann".into())));
    }
}
