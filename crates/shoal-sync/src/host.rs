//! What this host and this process are called.

/// The host's name, as people know it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The same for all processes that can see each other's ids, sockets and memory: one boot, one user, one set of namespaces.
pub fn memory_domain() -> Option<String> {
    let mut domain = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    for kind in ["pid", "net", "user"] {
        domain = format!("{domain} {}", std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?.display());
    }
    Some(format!("{domain} uid {}", rustix::process::geteuid().as_raw()))
}
