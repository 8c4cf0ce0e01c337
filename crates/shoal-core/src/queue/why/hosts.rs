//! Would any host take it, if nothing else ran? And if not, why not?

use super::{Reason, forever, reason};
use crate::queue::plan::place::Asker;
use crate::queue::plan::room::{HostRoom, Need};
use crate::queue::plan::suspect;
use crate::queue::state::Queue;
use crate::queue::state::hosts::{HostState, Shut};

/// Hosts are left out for one cause after the other; the cause that leaves too little is the answer.
pub(super) fn none_would(queue: &Queue, asker: &Asker) -> Option<Reason> {
    let sweep = &asker.state.sweep;
    let need = &asker.need;
    if queue.hosts.is_empty() {
        return Some(reason("no_hosts", "the queue has no hosts; `shoal serve -f FLEET` adds those of a fleet file"));
    }
    let among: Vec<(u32, &HostState)> = all(queue).filter(|(_, host)| host.is_among(&sweep.wants.on)).collect();
    if among.is_empty() {
        return Some(forever(reason(
            "no_hosts",
            format!("no host is called {} or in a group of that name", sweep.wants.on.join(", ")),
        )));
    }
    let seen: Vec<_> = among.iter().copied().filter(|(_, host)| host.facts.is_some()).collect();
    if seats(&seen, need, true) < need.ranks {
        return Some(too_large(&seen, among.len() - seen.len(), need));
    }
    let open: Vec<_> = seen.iter().copied().filter(|(_, host)| host.shut().is_none()).collect();
    if seats(&open, need, true) < need.ranks {
        return Some(shut(&seen, need));
    }
    let away = |host: &HostState| host.owner_is_away() || host.is_owned_by(&sweep.owner);
    let free: Vec<_> = open.iter().copied().filter(|(_, host)| away(host)).collect();
    if seats(&free, need, true) < need.ranks {
        let desks = open.iter().filter(|(_, host)| !away(host)).map(|(_, host)| host);
        let who: Vec<String> = desks
            .filter_map(|host| Some(format!("{} at {}", host.policy.owner.as_ref()?.user, host.policy.name)))
            .collect();
        return Some(reason("owner_at_desk", format!("the desks that can take it are in use: {}", who.join(", "))));
    }
    if seats(&free, need, false) < need.ranks {
        return Some(reason(
            "gpu_foreign",
            "the devices that it could have are used by processes that are not the queue's, or are in nodes that take nothing now; `shoal hosts` says more",
        ));
    }
    let good: Vec<_> = free.iter().copied().filter(|(key, _)| !suspect::is_kept_from(asker.state, *key)).collect();
    if seats(&good, need, false) < need.ranks {
        let bad = free.iter().filter(|(key, _)| suspect::is_kept_from(asker.state, *key));
        let names: Vec<&str> = bad.map(|(_, host)| host.policy.name.as_str()).collect();
        return Some(reason(
            "host_fails",
            format!("runs of this sweep keep failing on {}; it waits for another host", names.join(", ")),
        ));
    }
    let placed: Vec<_> = good.iter().copied().filter(|(key, host)| !asker.state.is_kept_off(*key, host)).collect();
    (seats(&placed, need, false) < need.ranks).then(|| {
        let kept = good.iter().filter(|(key, host)| asker.state.is_kept_off(*key, host));
        let count = |key: &u32| asker.state.unplaced.get(key).copied().unwrap_or(0);
        let each: Vec<String> = kept.map(|(key, host)| format!("{} on {}", count(key), host.policy.name)).collect();
        let text = format!(
            "results of its sweep wait for their place ({}); nothing more of it starts there until they have it",
            each.join(", ")
        );
        reason("results_wait", text)
    })
}

fn all(queue: &Queue) -> impl Iterator<Item = (u32, &HostState)> {
    queue.hosts.iter().map(|(key, host)| (*key, host))
}

/// How many runs like this one the hosts would take at once, if nothing else ran.
pub(super) fn seats_of(rooms: &[HostRoom], asker: &Asker) -> u64 {
    let open = rooms.iter().filter(|room| asker.may(room));
    let most = |room: &HostRoom| u64::from(HostRoom::empty(room.key, room.host).count(&asker.need, u32::MAX));
    open.map(most).sum::<u64>() / u64::from(asker.need.ranks)
}

/// How many processes these hosts take when they are empty; `own`: as if all devices were ours.
fn seats(hosts: &[(u32, &HostState)], need: &Need, own: bool) -> u32 {
    let count = |(key, host): &(u32, &HostState)| {
        let mut room = HostRoom::empty(*key, host);
        if own {
            room.devices.iter_mut().for_each(|device| device.foreign = false);
        }
        room.count(need, need.ranks)
    };
    hosts.iter().map(count).fold(0, u32::saturating_add)
}

/// Which resource is too large for every host.
fn too_large(hosts: &[(u32, &HostState)], unseen: usize, need: &Need) -> Reason {
    if hosts.is_empty() {
        return reason("host_silent", "none of the hosts that it may go to has been heard of yet");
    }
    let shape = &need.shape;
    let most = |of: &dyn Fn(&HostState) -> u64| hosts.iter().map(|(_, host)| of(host)).max().unwrap_or(0);
    let cpus = most(&|host| u64::from(host.cpus()) * 1000);
    let memory = most(&|host| host.memory_bytes());
    let gpus = most(&|host| host.facts.as_ref().map_or(0, |facts| facts.gpus.len() as u64 * 1000));
    let gpu_memory =
        most(&|host| host.facts.iter().flat_map(|facts| &facts.gpus).map(|gpu| gpu.memory_bytes).max().unwrap_or(0));
    let mut wrong = Vec::new();
    let mut check = |wanted: u64, most: u64, text: String| {
        if wanted > most {
            wrong.push(text);
        }
    };
    let milli = |milli: u64| milli as f64 / 1000.0;
    check(
        shape.cpus_milli.into(),
        cpus,
        format!("{} CPUs, the most is {}", milli(shape.cpus_milli.into()), milli(cpus)),
    );
    check(shape.memory_bytes, memory, format!("{} of memory, the most is {}", gib(shape.memory_bytes), gib(memory)));
    check(
        shape.gpus_milli.into(),
        gpus,
        format!("{} GPUs, the most is {}", milli(shape.gpus_milli.into()), milli(gpus)),
    );
    check(
        need.least_gpu_bytes,
        gpu_memory,
        format!("{} of GPU memory, the most is {}", gib(need.least_gpu_bytes), gib(gpu_memory)),
    );
    let what = match (wrong.is_empty(), need.ranks) {
        (false, _) => format!("no host has {}", wrong.join(", nor ")),
        (true, 1) => "no host has all of what it wants at once".into(),
        (true, ranks) => format!("the hosts take {} of its {ranks} processes", seats(hosts, need, true)),
    };
    let why = reason("no_host_fits", format!("{what}{}", unseen_text(unseen)));
    if unseen > 0 { why } else { forever(why) }
}

fn unseen_text(unseen: usize) -> String {
    match unseen {
        0 => String::new(),
        1 => "; one host has not been heard of yet".into(),
        n => format!("; {n} hosts have not been heard of yet"),
    }
}

fn gib(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib >= 1.0 { format!("{gib:.1} GiB") } else { format!("{} MiB", bytes >> 20) }
}

/// Hosts would do, but they take nothing: the first cause speaks for all, the others are counted.
fn shut(hosts: &[(u32, &HostState)], need: &Need) -> Reason {
    let fitting = hosts.iter().filter(|host| need.ranks > 1 || seats(&[**host], need, true) > 0);
    let shut: Vec<(&str, Shut)> =
        fitting.filter_map(|(_, host)| Some((host.policy.name.as_str(), host.shut()?))).collect();
    let Some((name, first)) = shut.first() else { return reason("hosts_busy", "the hosts that can take it are busy") };
    let more = match shut.len() {
        1 => String::new(),
        n => format!(" ({} other hosts take nothing either)", n - 1),
    };
    match first {
        Shut::NeverSeen | Shut::Silent => reason("host_silent", format!("nothing is heard of {name}{more}")),
        Shut::Paused => {
            reason("host_paused", format!("{name} is paused; `shoal resume --host {name}` lets it go on{more}"))
        }
        Shut::Drained(why) => {
            reason("drained", format!("{name} takes no more: {why}; `shoal resume --host {name}` lets it go on{more}"))
        }
        Shut::DiskFull => reason("disk_full", format!("the disk of {name} is full{more}")),
    }
}
