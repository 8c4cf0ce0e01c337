//! Whose runs are lost? A host is silent until it is heard again; after as long as its policy bears, what it ran starts elsewhere.

use crate::queue::Moment;
use crate::queue::event::Event;
use crate::queue::state::Queue;
use std::time::Duration;

/// Hosts that have been silent for too long. For how long one has been is told by whoever waits for it, and not by moments, which follow the
/// clock on the wall: that may be set, and then nobody has been silent for the difference.
pub fn lost(queue: &Queue, now: Moment, silence: impl Fn(&str) -> Duration) -> Vec<Event> {
    let hosts = queue.hosts.values().filter(|host| host.silent.is_some() && !host.lost && !host.live.is_empty());
    let late = hosts.filter_map(|host| {
        let silent = silence(&host.policy.name);
        (silent > Duration::from_secs(host.policy.lost_after_seconds)).then(|| {
            let why = format!("{} was silent for {} s", host.policy.name, silent.as_secs());
            Event::HostLost { at: now, name: host.policy.name.clone(), why }
        })
    });
    late.collect()
}
