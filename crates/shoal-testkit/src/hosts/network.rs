//! The network of a set: one bridge, and per host a namespace with a link to it. No route leads out of it.

use super::error::Result;
use super::record::{HostRecord, Record};
use super::tools::run;
use std::path::Path;

/// Both ends of a limited link queue this much at most. The burst holds several of the kernel's 64 KiB segments.
const SHAPE: [&str; 4] = ["burst", "512kb", "latency", "20ms"];

pub fn make(record: &Record) -> Result<()> {
    let bridge = record.bridge();
    run("make the bridge", "ip", &["link", "add", &bridge, "type", "bridge"])?;
    run("give the bridge its address", "ip", &["address", "add", &format!("{}/24", record.gateway()), "dev", &bridge])?;
    run("switch the bridge on", "ip", &["link", "set", &bridge, "up"])?;
    (0..record.hosts.len()).try_for_each(|i| link(record, i))
}

/// Ends a host's link, and its network with it once nothing runs there. One that is not there is no error.
pub fn unlink(host: &HostRecord) -> Result<()> {
    if Path::new("/sys/class/net").join(&host.namespace).exists() {
        run("remove a link", "ip", &["link", "delete", &host.namespace])?;
    }
    Ok(())
}

/// The link's end on the bridge bears the namespace's name; the end inside is `eth0`.
pub fn link(record: &Record, i: usize) -> Result<()> {
    let (host, bridge, rate) = (&record.hosts[i], &record.bridge(), record.rate.as_deref());
    let (space, end) = (host.namespace.as_str(), host.namespace.as_str());
    run("make a network namespace", "ip", &["netns", "add", space])?;
    // The same card after a restart: neighbours remember who had an address.
    let [a, b, c, d] = host.address.octets();
    let card = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
    let peer = ["peer", "name", "eth0", "address", &card, "netns", space];
    run("make a link", "ip", &[&["link", "add", end, "type", "veth"], &peer[..]].concat())?;
    run("join a link to the bridge", "ip", &["link", "set", end, "master", bridge, "up"])?;
    let address = format!("{}/24", host.address);
    run("give a host its address", "ip", &["-netns", space, "address", "add", &address, "dev", "eth0"])?;
    run("switch a host's link on", "ip", &["-netns", space, "link", "set", "eth0", "up"])?;
    run("switch a host's loopback on", "ip", &["-netns", space, "link", "set", "lo", "up"])?;
    if let Some(rate) = rate {
        let limit = ["root", "tbf", "rate", rate];
        run("limit the way to a host", "tc", &[&["qdisc", "add", "dev", end][..], &limit, &SHAPE].concat())?;
        let inside = ["-netns", space, "qdisc", "add", "dev", "eth0"];
        run("limit the way from a host", "tc", &[&inside[..], &limit, &SHAPE].concat())?;
    }
    Ok(())
}
