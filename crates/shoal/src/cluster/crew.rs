//! How are many nodes attended to at once? A thread each, up to a bound; the others wait their turn.

use super::provider::Trouble;
use super::session::Common;
use crate::commands::run::{NotBegun, parcel_for};
use shoal_core::cluster::steps::wire::{Container, Holder};
use shoal_core::cluster::{Cluster, Node};
use shoal_core::fleet::Reach;
use shoal_hosts::ssh::Settings;
use std::sync::Mutex;
use std::time::Duration;

/// Nodes that are attended to at the same time.
const AT_ONCE: usize = 64;
/// A node that hears nothing from us for this long ends what it does for us.
const SILENCE_S: u64 = 20;

/// Does `work` for each item, many at a time; the results in the items' order.
pub fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let count = items.len();
    let queue = Mutex::new(items.into_iter().enumerate());
    let done: Mutex<Vec<Option<R>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..count.min(AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((i, item)) = next else { return };
                    let result = work(item);
                    if let Ok(mut done) = done.lock() {
                        done[i] = Some(result);
                    }
                }
            });
        }
    });
    // All are there: a thread that panics takes the scope, and us, with it.
    done.into_inner().unwrap_or_default().into_iter().flatten().collect()
}

/// What all lines to the nodes of a cluster share.
pub fn common(cluster: &Cluster, nodes: &[Node], holder: Option<Holder>) -> Result<Common, NotBegun> {
    let remote = nodes.iter().any(|node| node.host.reach != Reach::Local);
    let container = cluster.docker.as_ref().map(Container::of);
    Ok(Common {
        cluster: cluster.name.clone(),
        fleet: shoal_core::cluster::machines::fleet(&cluster.name, nodes),
        ssh: Settings::from_env(),
        parcel: parcel_for(remote)?,
        holder,
        container,
        silence_s: seconds("SHOAL_UP_SILENCE_S").unwrap_or(SILENCE_S),
    })
}

/// A number of seconds from the environment.
pub fn seconds(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

pub fn patience(variable: &str, otherwise: Duration) -> Duration {
    seconds(variable).map_or(otherwise, Duration::from_secs)
}

/// Trouble with machines themselves: nothing has begun.
pub fn not_begun(trouble: Trouble) -> NotBegun {
    NotBegun::Here(trouble.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..200).collect();
        assert_eq!(super::each(items.clone(), |i| i * 2), items.iter().map(|i| i * 2).collect::<Vec<_>>());
        assert_eq!(super::each(Vec::new(), |i: usize| i), Vec::<usize>::new());
    }
}
