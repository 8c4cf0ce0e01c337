//! What this host and this process are called.

/// The host's name, as people know it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The same for all processes that can see each other's ids and memory: one boot, one pid namespace.
pub fn memory_domain() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let pids = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}/{}", boot.trim(), pids.display()))
}
