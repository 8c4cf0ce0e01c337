//! Which processes are there, and are they still the same ones?
//!
//! A process is its pid and its start time: a pid alone may have been given to somebody else.

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs;

/// One process, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks after boot, from `/proc/<pid>/stat`.
    pub start: u64,
}

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub process: Process,
    pub parent: u32,
    pub state: u8,
    /// Its own time and that of the children it has reaped, in clock ticks.
    pub cpu_ticks: u64,
    pub rss_pages: u64,
}

impl Stat {
    /// Over, only not reaped by its parent.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// The name is in parentheses and may hold spaces and parentheses itself. Pure.
fn parse(text: &str) -> Option<Stat> {
    let pid = text.split_once(" (")?.0.parse().ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // Field numbers as in proc(5): 14..=17 are the times, 22 the start, 24 the resident pages.
    let mut number = |skip: usize| fields.nth(skip)?.parse::<i64>().ok().map(|n| n.max(0) as u64);
    let mut cpu_ticks = number(9)?;
    for _ in 0..3 {
        cpu_ticks += number(0)?;
    }
    let start = number(4)?;
    let rss_pages = number(1)?;
    Some(Stat { process: Process { pid, start }, parent, state, cpu_ticks, rss_pages })
}

pub fn stat(pid: u32) -> Option<Stat> {
    parse(&String::from_utf8_lossy(&read(&format!("/proc/{pid}/stat"))?))
}

/// A file of `/proc`, which tells no size: three calls instead of the nine that growing from nothing takes. Every rank that ends is
/// looked for in dozens of these.
fn read(path: &str) -> Option<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut bytes = vec![0; 2048];
    let mut length = 0;
    loop {
        match rustix::io::read(&file, &mut bytes[length..]) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        // These files come in one piece; only one that fills the room may have more to say.
        if length < bytes.len() {
            break;
        }
        bytes.resize(bytes.len() * 4, 0);
    }
    bytes.truncate(length);
    Some(bytes)
}

/// The process that has this pid now.
pub fn process(pid: u32) -> Option<Process> {
    stat(pid).map(|s| s.process)
}

pub fn is_alive(process: Process) -> bool {
    stat(process.pid).is_some_and(|s| s.process == process && !s.is_zombie())
}

/// All processes we may see.
pub fn scan() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// What `root` started, directly or not, without the trees below `except`. Pure.
pub fn descendants(all: &[Stat], root: u32, except: &HashSet<u32>) -> Vec<Stat> {
    let mut children: HashMap<u32, Vec<&Stat>> = HashMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(parent) = next.pop() {
        // Taken out, so that a snapshot with a circle in it (pids reused while reading) ends.
        for stat in children.remove(&parent).unwrap_or_default() {
            if !except.contains(&stat.process.pid) {
                found.push(*stat);
                next.push(stat.process.pid);
            }
        }
    }
    found
}

/// What `root` started, without the trees below `except`, from the kernel's lists of children: the work of a small tree on a host with
/// thousands of processes. While processes come and go such a list may leave one out, so that there is none is believed only after a
/// look at all.
pub fn family(root: u32, except: &HashSet<u32>) -> Vec<Stat> {
    let found = below(root, except);
    if found.iter().all(Stat::is_zombie) { descendants(&scan(), root, except) } else { found }
}

/// The same for those who do not mind if one is left out.
pub fn below(root: u32, except: &HashSet<u32>) -> Vec<Stat> {
    let (mut found, mut next, mut seen) = (Vec::new(), vec![root], HashSet::from([root]));
    while let Some(parent) = next.pop() {
        for pid in children(parent) {
            if !except.contains(&pid) && seen.insert(pid) {
                found.extend(stat(pid));
                next.push(pid);
            }
        }
    }
    found
}

/// Of all its threads: each has those that it forked.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| {
        let list = read(&format!("/proc/{pid}/task/{}/children", task.file_name().to_str()?))?;
        String::from_utf8(list).ok()
    });
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Sends a signal to this process and to no other that may have got its pid.
pub fn signal(process: Process, signal: Signal) -> bool {
    let Some(pid) = Pid::from_raw(process.pid as i32) else { return false };
    let same = || stat(process.pid).is_some_and(|s| s.process == process);
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // The descriptor holds whoever has the pid now; if that is still ours, it stays ours.
        Ok(fd) => same() && rustix::process::pidfd_send_signal(fd, signal).is_ok(),
        // Before Linux 5.3: the best there is.
        Err(rustix::io::Errno::NOSYS) => same() && rustix::process::kill_process(pid, signal).is_ok(),
        Err(_) => false,
    }
}

/// This machine since its last start: a pid in a record means nothing elsewhere (homes are shared) or after a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub node: String,
    pub boot: String,
}

pub fn machine() -> Machine {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Machine { node: node_name(), boot: boot.trim().into() }
}

pub fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_with_an_awkward_name() {
        let line =
            "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0 9876 1000 55 18446744073709551615 1";
        let stat = parse(line).unwrap();
        assert_eq!(stat.process, Process { pid: 42, start: 9876 });
        assert_eq!((stat.parent, stat.state, stat.cpu_ticks, stat.rss_pages), (7, b'S', 50, 55));
        for bad in ["", "42", "42 (x", "42 (x) ", "x (y) S 1", "1 (a) S 1 2 3"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn descendants_leave_out_the_trees_they_are_told_to() {
        let stat =
            |pid, parent| Stat { process: Process { pid, start: 0 }, parent, state: b'S', cpu_ticks: 0, rss_pages: 0 };
        // 8 and 9 are each other's parents, which a snapshot can show and no walk may follow for ever.
        let all = [stat(2, 1), stat(3, 2), stat(4, 3), stat(5, 2), stat(6, 5), stat(8, 9), stat(9, 8)];
        let pids = |root, except: &[u32]| {
            let mut pids: Vec<_> =
                descendants(&all, root, &except.iter().copied().collect()).iter().map(|s| s.process.pid).collect();
            pids.sort();
            pids
        };
        assert_eq!(pids(2, &[]), [3, 4, 5, 6]);
        assert_eq!(pids(2, &[5]), [3, 4]);
        assert_eq!(pids(8, &[]), [8, 9]);
    }

    #[test]
    fn a_family_is_what_all_processes_say_it_is() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let pids = |stats: Vec<Stat>| stats.iter().map(|s| s.process.pid).collect::<HashSet<u32>>();
        let none = HashSet::new();
        let there = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            family(child.id(), &none).len() == 1
        });
        assert!(there, "the shell has a child");
        assert_eq!(pids(family(child.id(), &none)), pids(descendants(&scan(), child.id(), &none)));
        assert!(pids(family(std::process::id(), &none)).is_superset(&HashSet::from([child.id()])));
        assert!(!pids(family(std::process::id(), &HashSet::from([child.id()]))).contains(&child.id()));
        for process in family(child.id(), &none) {
            assert!(signal(process.process, Signal::KILL));
        }
        child.wait().unwrap();
        assert!(family(child.id(), &none).is_empty());
    }

    #[test]
    fn a_recycled_pid_is_not_signalled() {
        let me = process(std::process::id()).unwrap();
        assert!(is_alive(me));
        let other = Process { start: me.start + 1, ..me };
        assert!(!is_alive(other));
        assert!(!signal(other, Signal::TERM), "the test would be dead by now");
    }
}
