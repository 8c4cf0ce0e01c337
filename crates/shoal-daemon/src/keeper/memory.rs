//! Was it the kernel that killed a rank, for want of memory? The counters before and after tell, as well as they can.

use std::fs;

/// How often the kernel has done that: in the narrowest group of processes that counts it, else on the whole machine.
pub struct Kills {
    file: String,
    before: u64,
}

impl Kills {
    /// Called before the rank starts: it inherits the groups of the keeper.
    pub fn watch() -> Option<Kills> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let files = candidates(&groups).into_iter().chain(["/proc/vmstat".to_string()]);
        files.into_iter().find_map(|file| count(&fs::read_to_string(&file).ok()?).map(|before| Kills { file, before }))
    }

    pub fn more(&self) -> bool {
        fs::read_to_string(&self.file).ok().and_then(|text| count(&text)).is_some_and(|now| now > self.before)
    }
}

/// Where the counters may be, for the second and the first kind of control groups. Pure.
fn candidates(groups: &str) -> Vec<String> {
    let path = |prefix: &str| groups.lines().find_map(|l| l.split_once(prefix)).map(|(_, path)| path);
    let unified = path("0::").map(|p| format!("/sys/fs/cgroup{p}/memory.events"));
    let legacy = path(":memory:").map(|p| format!("/sys/fs/cgroup/memory{p}/memory.oom_control"));
    unified.into_iter().chain(legacy).collect()
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_counter_in_both_kinds_of_groups() {
        assert_eq!(candidates("0::/user.slice/x\n"), ["/sys/fs/cgroup/user.slice/x/memory.events"]);
        assert_eq!(candidates("4:memory:/a\n")[0], "/sys/fs/cgroup/memory/a/memory.oom_control");
        assert_eq!(count("low 0\noom 2\noom_kill 7\n"), Some(7));
        assert_eq!(count("oom_kill_disable 0\n"), None);
    }
}
