//! Where do the ranks of a gang find each other? Known before any of them starts, and written down with the assignment: told again, it is the
//! same (PLAN-1).

use crate::queue::Attempt;
use crate::queue::event::{Meet, Seat};
use crate::queue::host::Reached;
use crate::queue::state::Queue;
use crate::queue::state::hosts::HostState;
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// On the host of its first rank: at an address by which the others reach it, and a port that its agent keeps free and no other gang has. `promised`:
/// those that this plan has given out already, by host.
pub(super) fn place(queue: &Queue, attempt: &Attempt, seats: &[Seat], promised: &mut Vec<(u32, u16)>) -> Option<Meet> {
    let first = seats.first().filter(|_| seats.len() > 1)?;
    let key = queue.host_key(&first.host)?;
    let host = queue.hosts.get(&key)?;
    let together = seats.iter().all(|seat| seat.host == first.host);
    let address = if together { "127.0.0.1".into() } else { address(queue, host) };
    let live = host.live.iter().filter_map(|run| queue.live.get(run)?.seats.first()).filter(|seat| seat.host == key);
    let taken: Vec<u16> = live.filter_map(|seat| seat.meet.as_ref().map(|meet| meet.port)).collect();
    let free = |port: &&u16| !taken.contains(port) && !promised.contains(&(key, **port));
    let kept = host.facts.iter().flat_map(|facts| &facts.ports).find(free).copied();
    let port = kept.unwrap_or_else(|| port(attempt));
    promised.push((key, port));
    Some(Meet { address, port })
}

/// As in `shoal run`: an address of the fleet's file counts; a name may mean something to our ssh alone, so what the host itself has heard is better.
/// Of the daemon's own machine, what hosts say that its connections come from.
fn address(queue: &Queue, host: &HostState) -> String {
    let policy = &host.policy;
    let is_address = |text: &&String| text.parse::<IpAddr>().is_ok();
    if let Some(address) = policy.address.as_ref().filter(is_address) {
        return address.clone();
    }
    let own = || host.facts.as_ref().and_then(|facts| facts.address.clone());
    let from_others = || {
        // Another one's visitor is the host in between.
        let direct = |host: &&HostState| matches!(host.policy.reach, Some(Reached::Ssh { .. })) && !host.policy.jumped;
        let all = queue.hosts.values().filter(|host| host.silent.is_none()).filter(direct);
        all.filter_map(|host| host.facts.as_ref()?.caller.clone()).next()
    };
    let found = match policy.reach {
        Some(Reached::Here) => from_others().or_else(own),
        _ => own(),
    };
    found.or_else(|| policy.address.clone()).unwrap_or_else(|| policy.name.clone())
}

/// Where no port is kept free. Below the range from which kernels give out ports by themselves, and another one for every attempt, so that
/// one which has just ended is not in the way.
pub(in crate::queue) fn port(attempt: &Attempt) -> u16 {
    let digest = Sha256::digest(attempt.to_string());
    20_000 + u16::from_be_bytes([digest[0], digest[1]]) % 10_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::event::Action;
    use crate::queue::host::{HostFacts, HostPolicy};
    use crate::queue::testing::{Bench, OK, facts, policy, sweep};

    fn over_ssh(name: &str) -> HostPolicy {
        HostPolicy { reach: Some(Reached::Ssh { fleet: String::new(), base: String::new() }), ..policy(name) }
    }

    fn seen(address: &str, ports: &[u16]) -> HostFacts {
        let (address, caller) = (Some(address.into()), Some("10.0.0.1".into()));
        HostFacts { address, caller, ports: ports.to_vec(), ..facts(1, 0) }
    }

    fn gangs(name: &str, cells: u32, ranks: u32) -> crate::queue::sweep::Sweep {
        let mut gang = sweep(name, "ann", cells, 1);
        gang.wants.ranks = ranks;
        gang
    }

    /// Where each gang that starts meets, and the host of its first rank.
    fn meets(bench: &mut Bench) -> Vec<(String, String)> {
        let one = |action: Action| match action {
            Action::Start { places, .. } => {
                let shown = places[0].meet.as_ref().map(|meet| format!("{}:{}", meet.address, meet.port));
                assert!(places[1..].iter().all(|seat| seat.meet.is_none()), "the first says it for all");
                Some((places[0].host.clone(), shown.unwrap_or_default()))
            }
            _ => None,
        };
        bench.go().into_iter().filter_map(one).collect()
    }

    #[test]
    fn by_the_address_that_others_know() {
        for (first, facts, expected) in [
            (HostPolicy { address: Some("10.1.1.1".into()), ..over_ssh("a") }, seen("10.9.9.9", &[]), "10.1.1.1"),
            (HostPolicy { address: Some("node-a".into()), ..over_ssh("a") }, seen("10.9.9.9", &[]), "10.9.9.9"),
            (HostPolicy { address: Some("node-a".into()), ..over_ssh("a") }, facts(1, 0), "node-a"),
            (over_ssh("a"), facts(1, 0), "a"),
            (HostPolicy { reach: Some(Reached::Here), ..policy("a") }, facts(1, 0), "10.0.0.1"),
            (HostPolicy { reach: Some(Reached::Here), ..policy("a") }, seen("10.9.9.9", &[]), "10.0.0.1"),
        ] {
            let mut bench = Bench::new();
            bench.host(first, facts);
            let visited = HostFacts { caller: Some("10.5.5.5".into()), ..seen("10.0.0.3", &[]) };
            bench.host(HostPolicy { jumped: true, ..over_ssh("b") }, visited);
            bench.host(over_ssh("c"), seen("10.0.0.2", &[]));
            bench.submit(gangs("gang", 1, 3));
            let met = meets(&mut bench);
            let address = met[0].1.rsplit_once(':').map(|(address, _)| address.to_string());
            assert_eq!((met[0].0.as_str(), address.as_deref()), ("a", Some(expected)));
        }
    }

    #[test]
    fn at_a_port_that_is_kept_for_it() {
        let mut bench = Bench::new();
        bench.host(over_ssh("a"), HostFacts { cpus: 6, ..seen("10.0.0.7", &[4001, 4002]) });
        bench.submit(gangs("gang", 4, 2));
        let met = meets(&mut bench);
        assert_eq!(met.len(), 3);
        assert_eq!((met[0].1.as_str(), met[1].1.as_str()), ("127.0.0.1:4001", "127.0.0.1:4002"), "alone on their host");
        let third: u16 = met[2].1.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        assert!((20_000..30_000).contains(&third), "where none is left");
        // Kept while it lives, by the journal too; then it is the next one's.
        for rank in 0..2 {
            bench.end_rank("gang:1.0#1", "a", rank, OK, 0);
        }
        assert_eq!(meets(&mut bench), [("a".to_string(), "127.0.0.1:4002".to_string())]);
    }
}
