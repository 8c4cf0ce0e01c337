//! What a host's facts mean: enough, little, or too little for what the fleet wants. The limits are here and nowhere else.

use super::facts::{Facts, Item, Memory, OpenFiles, Ports, Space, Sudo};
use super::judge_python;
use super::{Check, Finding};
use crate::fleet::Slots;

const GIB: u64 = 1 << 30;
/// Below: runs fail soon. A checkpoint or a log alone needs more.
pub const DISK_RED: u64 = GIB;
pub const DISK_YELLOW: u64 = 10 * GIB;
/// Below: any training will be killed for memory.
pub const MEMORY_YELLOW: u64 = 2 * GIB;
/// Of a program that talks to every other: files, sockets, libraries.
pub const FILES_RED: u64 = 256;
pub const FILES_YELLOW: u64 = 1024;
/// Ranks on one host and their ports, generously.
pub const PORTS_TRIED: u32 = 64;

/// What the fleet wants of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    pub slots: Slots,
    /// The fleet's environment, in which Python must be.
    pub prepare: crate::job::Prepare,
    /// The version of the program that asks.
    pub shoal: String,
}

/// Everything that follows from one host's facts.
pub fn host(facts: &Facts, wants: &Wants) -> Vec<Finding> {
    let mut findings = vec![
        judge_python::python(&facts.python, wants),
        disk(&facts.home, &facts.tmp),
        memory(&facts.memory, wants.slots.memory_bytes),
        cpus(facts.cpus, facts.load, wants.slots.cpus),
        gpus(&facts.gpus, wants.slots.gpus),
        ports(&facts.ports),
        files(&facts.open_files),
        sudo(&facts.sudo),
    ];
    findings.extend(facts.shared.as_ref().map(shared));
    findings
}

fn not_told(check: Check, why: &str) -> Finding {
    Finding::yellow(
        check,
        "?",
        format!("could not be looked at: {why}"),
        "try it by hand there; something of it hangs or is missing",
    )
}

fn disk(home: &Item<Space>, tmp: &Item<Space>) -> Finding {
    let spaces = match (home, tmp) {
        (Ok(home), Ok(tmp)) => [home, tmp],
        (Err(why), _) | (_, Err(why)) => {
            return Finding::red(
                Check::Disk,
                "hangs",
                format!("the disk could not be looked at: {why}"),
                "is a network drive gone? `df` there shows which",
            );
        }
    };
    if let Some(closed) = spaces.iter().find(|space| !space.writable) {
        return Finding::red(
            Check::Disk,
            "read-only",
            format!("{} cannot be written to", closed.path),
            "who owns it, is the quota used up, was the disk mounted read-only after an error (dmesg)?",
        );
    }
    let least = if spaces[1].free_bytes < spaces[0].free_bytes { spaces[1] } else { spaces[0] };
    let cell = size(least.free_bytes);
    let text = format!("{cell} of {} free in {}", size(least.total_bytes), least.path);
    let hint = || {
        let path = &least.path;
        format!("make room: `du -xh {path} | sort -h | tail` there shows what is large")
    };
    match least.free_bytes {
        ..DISK_RED => Finding::red(Check::Disk, cell, text, hint()),
        DISK_RED..DISK_YELLOW => Finding::yellow(Check::Disk, cell, text, hint()),
        _ => Finding::green(Check::Disk, cell, text),
    }
}

/// From the two lines of `df -Pk ~ /tmp`, where our own program could not be put. Whether they can be written to is not known then.
pub fn disks_of_df(text: &str) -> Option<Finding> {
    let space = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kib = |word: &str| Some(word.parse::<u64>().ok()?.saturating_mul(1024));
        let [_, total, _, free, _, path, ..] = words[..] else { return None };
        Some(Space { path: path.into(), total_bytes: kib(total)?, free_bytes: kib(free)?, writable: true })
    };
    // What a noisy shell says comes first; the last two lines are ours.
    let mut spaces = text.lines().rev().filter_map(space);
    let (tmp, home) = (spaces.next()?, spaces.next()?);
    Some(disk(&Ok(home), &Ok(tmp)))
}

fn shared(folder: &Item<Space>) -> Finding {
    match folder {
        Err(why) => Finding::red(
            Check::Shared,
            "missing",
            format!("the shared folder cannot be used: {why}"),
            "mount it there (see /etc/fstab or autofs on a host that has it), or mend `shared:` in the fleet file",
        ),
        Ok(space) if !space.writable => Finding::red(
            Check::Shared,
            "read-only",
            format!("the shared folder {} cannot be written to", space.path),
            "is the user id the same on all hosts, and is it exported with `rw`?",
        ),
        Ok(space) => {
            let free = size(space.free_bytes);
            let text = format!("{free} free in {}", space.path);
            if space.free_bytes < DISK_RED {
                Finding::red(Check::Shared, free, text, "make room on the shared drive")
            } else if space.free_bytes < DISK_YELLOW {
                Finding::yellow(Check::Shared, free, text, "make room on the shared drive")
            } else {
                Finding::green(Check::Shared, "ok", text)
            }
        }
    }
}

fn memory(memory: &Item<Memory>, wanted: Option<u64>) -> Finding {
    let memory = match memory {
        Ok(memory) => memory,
        Err(why) => return not_told(Check::Memory, why),
    };
    let (cell, total) = (size(memory.available_bytes), size(memory.total_bytes));
    let text = format!("{cell} of {total} free");
    // What the kernel keeps for itself is missing in its total: 64 GiB show as 62.5.
    match wanted {
        Some(wanted) if memory.total_bytes < wanted / 100 * 95 => Finding::red(
            Check::Memory,
            cell,
            format!("{text}, but the fleet says {}", size(wanted)),
            "mend `memory:` of this host in the fleet file",
        ),
        _ if memory.available_bytes < MEMORY_YELLOW => {
            Finding::yellow(Check::Memory, cell, text, "who uses it? `ps aux --sort=-rss | head` there shows it")
        }
        _ => Finding::green(Check::Memory, cell, text),
    }
}

fn cpus(cpus: u32, load: f64, wanted: Option<u32>) -> Finding {
    let text = format!("{cpus} CPUs, load {load:.1}");
    if let Some(wanted) = wanted.filter(|wanted| cpus < *wanted) {
        let text = format!("{text}, but the fleet says {wanted}");
        return Finding::red(Check::Cpus, cpus.to_string(), text, "mend `cpus:` of this host in the fleet file");
    }
    if load > f64::from(cpus) * 1.5 {
        return Finding::yellow(Check::Cpus, "busy", text, "somebody computes there; `top` shows who");
    }
    Finding::green(Check::Cpus, cpus.to_string(), text)
}

fn gpus(gpus: &Item<Vec<super::facts::Gpu>>, wanted: Option<u32>) -> Finding {
    let wanted = wanted.unwrap_or(0);
    let gpus = match gpus {
        Ok(gpus) => gpus,
        Err(why) => {
            let text = format!("nvidia-smi fails: {why}");
            let hint = "after an update of the driver the host must be restarted; `nvidia-smi` and `dmesg | grep -i nv` there say more";
            return if wanted > 0 {
                Finding::red(Check::Gpus, "fail", text, hint)
            } else {
                Finding::yellow(Check::Gpus, "fail", text, hint)
            };
        }
    };
    let there = gpus.len() as u32;
    let Some(first) = gpus.first() else {
        return if wanted > 0 {
            Finding::red(
                Check::Gpus,
                "none",
                format!("no GPU is seen, but the fleet says {wanted}"),
                "is the NVIDIA driver installed (`nvidia-smi`)? Otherwise mend `gpus:` in the fleet file",
            )
        } else {
            Finding::green(Check::Gpus, "none", "no GPUs")
        };
    };
    let kind = if gpus.iter().all(|gpu| gpu.name == first.name) { first.name.as_str() } else { "mixed" };
    let text = format!("{there} x {kind}, {}, driver {}", size(first.total_bytes), first.driver);
    if there < wanted {
        return Finding::red(
            Check::Gpus,
            there.to_string(),
            format!("{text}, but the fleet says {wanted}"),
            "has one fallen off the bus (`dmesg | grep -i xid` there)? Otherwise mend `gpus:` in the fleet file",
        );
    }
    let used = gpus.iter().filter(|gpu| gpu.used_bytes > gpu.total_bytes / 10).count();
    if used > 0 {
        return Finding::yellow(
            Check::Gpus,
            format!("{there}, {used} used"),
            format!("{text}; {used} in use"),
            "somebody computes there; `nvidia-smi` shows who",
        );
    }
    Finding::green(Check::Gpus, there.to_string(), text)
}

fn ports(ports: &Item<Ports>) -> Finding {
    let ports = match ports {
        Ok(ports) => ports,
        Err(why) => return not_told(Check::Ports, why),
    };
    let text = format!("{} of {} free ports of {}-{} could be taken", ports.taken, ports.tried, ports.low, ports.high);
    let hint = "who has so many open? `ss -tan | wc -l` there; see also net.ipv4.ip_local_port_range";
    match ports.taken {
        0 => Finding::red(Check::Ports, "none", text, hint),
        some if some < ports.tried => Finding::yellow(Check::Ports, some.to_string(), text, hint),
        _ => Finding::green(Check::Ports, "ok", text),
    }
}

fn files(files: &Item<OpenFiles>) -> Finding {
    let files = match files {
        Ok(files) => files,
        Err(why) => return not_told(Check::Files, why),
    };
    let cell = if files.soft >= 1 << 30 { "no limit".to_string() } else { files.soft.to_string() };
    let text = format!("{cell} open files allowed");
    let hint = "raise `nofile` in its /etc/security/limits.conf and log in anew";
    match files.soft {
        ..FILES_RED => Finding::red(Check::Files, cell, text, hint),
        FILES_RED..FILES_YELLOW => Finding::yellow(Check::Files, cell, text, hint),
        _ => Finding::green(Check::Files, cell, text),
    }
}

/// Nothing that runs needs it; people want to know before they write setup commands.
fn sudo(sudo: &Item<Sudo>) -> Finding {
    let (cell, text) = match sudo {
        Ok(Sudo::Root) => ("root", "the user is root"),
        Ok(Sudo::Free) => ("yes", "sudo works without a password"),
        Ok(Sudo::Asks) => ("no", "sudo asks for a password, or refuses; nothing here needs it"),
        Ok(Sudo::Missing) => ("no", "there is no sudo; nothing here needs it"),
        Err(why) => return not_told(Check::Sudo, why),
    };
    Finding::green(Check::Sudo, cell, text)
}

/// Bytes for people, in at most eight characters.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 && unit > 0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
