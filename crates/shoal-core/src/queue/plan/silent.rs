//! Whose runs are lost? A host is silent until it is heard again; after as long as its policy bears, what it ran starts elsewhere.

use crate::queue::Moment;
use crate::queue::event::Event;
use crate::queue::state::Queue;

/// Hosts that have been silent for too long.
pub fn lost(queue: &Queue, now: Moment) -> Vec<Event> {
    let hosts = queue.hosts.values().filter(|host| !host.lost && !host.live.is_empty());
    let late = hosts.filter_map(|host| {
        let silent_ms = now.saturating_sub(host.silent?);
        let bears_ms = host.policy.lost_after_seconds.saturating_mul(1000);
        (silent_ms > bears_ms).then(|| {
            let why = format!("{} was silent for {} s", host.policy.name, silent_ms / 1000);
            Event::HostLost { at: now, name: host.policy.name.clone(), why }
        })
    });
    late.collect()
}
