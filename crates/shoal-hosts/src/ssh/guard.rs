//! May this address be dialled at all? `SHOAL_DIAL_ONLY` can say which may: a comma list of networks (`10.0.0.0/8`), addresses and names.
//! It is for tests with a mock cloud, whose made-up addresses belong to strangers, and for sites that want the same certainty.
//!
//! What counts is where ssh would end up, after `~/.ssh/config` has had its say; hosts on the way count as well. What cannot be known, such as the
//! inside of a proxy command, is not allowed unless the list has the word `proxy-commands`.

use super::options;
use shoal_core::fleet::{Fleet, Host, Reach};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use thiserror::Error;

pub const VARIABLE: &str = "SHOAL_DIAL_ONLY";
pub const HINT: &str = "SHOAL_DIAL_ONLY lists the networks and names that may be dialled; unset it, or add this one";
/// Hosts on the way to hosts on the way.
const DEEPEST: u32 = 8;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("SHOAL_DIAL_ONLY does not allow to dial {address}{}", .means.as_ref().map_or_else(String::new, |m| format!(" (that is {m})")))]
    Outside { address: String, means: Option<String> },
    #[error("SHOAL_DIAL_ONLY does not allow proxy commands, and `{0}` is one")]
    Proxy(String),
    #[error("where ssh would go for {address} cannot be known: {why}")]
    Unknown { address: String, why: String },
    #[error("SHOAL_DIAL_ONLY has `{0}`, which is no network, address or name")]
    List(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Network(IpAddr, u32),
    Name(String),
    ProxyCommands,
}

/// The list of allowed places, taken apart (pure).
fn entries(list: &str) -> Result<Vec<Entry>, Refusal> {
    let entry = |text: &str| {
        let wrong = || Refusal::List(text.into());
        if text == "proxy-commands" {
            return Ok(Entry::ProxyCommands);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        match (address.parse::<IpAddr>(), bits) {
            (Ok(ip), bits) => {
                let most = if ip.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(most);
                (bits <= most).then_some(Entry::Network(ip, bits)).ok_or_else(wrong)
            }
            (Err(_), None) => Ok(Entry::Name(address.to_lowercase())),
            (Err(_), Some(_)) => Err(wrong()),
        }
    };
    list.split(',').map(str::trim).filter(|text| !text.is_empty()).map(entry).collect()
}

/// Whether one of them is this name, or all of its addresses lie in their networks (pure).
fn is_inside(entries: &[Entry], name: &str, addresses: &[IpAddr]) -> bool {
    let named = entries.iter().any(|entry| matches!(entry, Entry::Name(known) if *known == name.to_lowercase()));
    let bits = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(*ip)) << 96,
        IpAddr::V6(ip) => u128::from(*ip),
    };
    let holds = |ip: &IpAddr| {
        entries.iter().any(|entry| match entry {
            Entry::Network(network, length) => {
                network.is_ipv4() == ip.is_ipv4() && (*length == 0 || (bits(network) ^ bits(ip)) >> (128 - length) == 0)
            }
            _ => false,
        })
    };
    named || (!addresses.is_empty() && addresses.iter().all(holds))
}

/// What `ssh -G` says about the way to a host (pure).
#[derive(Debug, Default, PartialEq, Eq)]
struct Settled {
    host: String,
    jump: Option<String>,
    proxy: Option<String>,
}

fn settled(said: &str) -> Settled {
    let value = |key: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.map(str::trim).filter(|value| !value.is_empty() && *value != "none").map(Into::into)
    };
    Settled { host: value("hostname").unwrap_or_default(), jump: value("proxyjump"), proxy: value("proxycommand") }
}

/// Nothing, where anything may be dialled. Otherwise the host and all on the way to it have to be on the list.
pub fn check(fleet: &Fleet, host: &Host, config: Option<&Path>) -> Result<(), Refusal> {
    match std::env::var(VARIABLE) {
        Ok(list) if !list.trim().is_empty() => check_by(&list, fleet, host, config),
        _ => Ok(()),
    }
}

fn check_by(list: &str, fleet: &Fleet, host: &Host, config: Option<&Path>) -> Result<(), Refusal> {
    let entries = entries(list)?;
    if host.reach == Reach::Local {
        return Ok(());
    }
    let jump = options::jump(fleet, host);
    let own_proxy = match &host.reach {
        Reach::Ssh { proxy, .. } => proxy.as_ref().filter(|_| jump.is_none()),
        Reach::Local => None,
    };
    if let Some(proxy) = own_proxy
        && !entries.contains(&Entry::ProxyCommands)
    {
        return Err(Refusal::Proxy(proxy.clone()));
    }
    // Our own way through another host replaces what the configuration file says of one.
    let replaced = jump.is_some() || own_proxy.is_some();
    let user = match &host.reach {
        Reach::Ssh { user, .. } => user.as_deref(),
        Reach::Local => None,
    };
    allow(&entries, &host.address, user, config, replaced, 0)?;
    match jump {
        Some(gate) => check_by(list, fleet, gate, config),
        None => Ok(()),
    }
}

fn allow(
    entries: &[Entry],
    address: &str,
    user: Option<&str>,
    config: Option<&Path>,
    replaced: bool,
    depth: u32,
) -> Result<(), Refusal> {
    let unknown = |why: &str| Refusal::Unknown { address: address.into(), why: why.into() };
    if depth > DEEPEST {
        return Err(unknown("too many hosts on the way"));
    }
    // It only prints: nothing is dialled. Rules of the kind `Match exec` run, as they would for any ssh.
    let mut ssh = std::process::Command::new("ssh");
    ssh.arg("-G").stdin(std::process::Stdio::null());
    if let Some(config) = config {
        ssh.arg("-F").arg(config);
    }
    if let Some(user) = user {
        ssh.args(["-l", user]);
    }
    let output = ssh.args(["--", address]).output().map_err(|e| unknown(&e.to_string()))?;
    if !output.status.success() {
        return Err(unknown(String::from_utf8_lossy(&output.stderr).trim()));
    }
    let settled = settled(&String::from_utf8_lossy(&output.stdout));
    let name = settled.host.trim_start_matches('[').trim_end_matches(']');
    // A host behind another one is looked up there, so its name may mean nothing here; an address means the same everywhere.
    let addresses: Vec<IpAddr> = match name.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => (name, 22).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect()).unwrap_or_default(),
    };
    if !is_inside(entries, name, &addresses) {
        let means = if addresses.is_empty() { None } else { Some(addresses[0].to_string()) };
        let means = means.or_else(|| Some(name.into())).filter(|means| means != address);
        return Err(Refusal::Outside { address: address.into(), means });
    }
    if replaced {
        return Ok(());
    }
    if let Some(proxy) = settled.proxy
        && !entries.contains(&Entry::ProxyCommands)
    {
        return Err(Refusal::Proxy(proxy));
    }
    for gate in settled.jump.iter().flat_map(|jumps| jumps.split(',')) {
        let gate = gate.trim().trim_start_matches("ssh://");
        let parts = shoal_core::fleet::target::parse(gate).map_err(|e| unknown(&e.to_string()))?;
        allow(entries, &parts.host, parts.user.as_deref(), config, false, depth + 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::fleet::Slots;

    #[test]
    fn networks_addresses_and_names() {
        let list = entries("10.1.0.0/16, 192.0.2.7,fd00::/8,Node1.Lab").expect("a list");
        for (name, addresses, inside) in [
            ("x", vec!["10.1.255.3"], true),
            ("x", vec!["10.2.0.1"], false),
            ("x", vec!["10.1.0.1", "8.8.8.8"], false),
            ("x", vec!["192.0.2.7"], true),
            ("x", vec!["192.0.2.8"], false),
            ("x", vec!["fd12::1"], true),
            ("x", vec!["fe80::1"], false),
            ("node1.lab", vec![], true),
            ("node2.lab", vec![], false),
            ("x", vec!["::ffff:10.1.0.1"], false),
        ] {
            let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().expect("an address")).collect();
            assert_eq!(is_inside(&list, name, &addresses), inside, "{name} {addresses:?}");
        }
        assert!(is_inside(&entries("0.0.0.0/0").expect("all"), "x", &["1.2.3.4".parse().expect("an address")]));
        for wrong in ["10.0.0.0/33", "10.0.0.0/x", "lab/8"] {
            assert_eq!(entries(wrong), Err(Refusal::List(wrong.into())));
        }
    }

    fn host(address: &str, jump: Option<&str>, proxy: Option<&str>) -> Host {
        let (jump, proxy) = (jump.map(Into::into), proxy.map(Into::into));
        let reach = Reach::Ssh { user: None, port: None, key: None, jump, proxy, host_key: None };
        let (groups, slots) = (Vec::new(), Slots::default());
        Host { name: address.into(), address: address.into(), internal: None, reach, groups, slots }
    }

    #[test]
    fn the_end_of_the_way_counts_not_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config");
        let text = "Host inside\n HostName 10.0.0.5\nHost 10.0.0.6\n HostName 8.8.8.8\nHost far\n HostName 10.0.0.7\n ProxyJump me@gate:2222\nHost gate\n HostName 8.8.4.4\nHost odd\n HostName 10.0.0.8\n ProxyCommand nc %h %p\n";
        std::fs::write(&config, text).expect("a file");
        let mut fleet = Fleet::local();
        fleet.hosts = vec![
            host("inside", None, None),
            host("10.0.0.6", None, None),
            host("far", None, None),
            host("odd", None, None),
            host("10.0.0.9", Some("gate"), None),
            host("gate", None, None),
            host("10.0.0.10", None, Some("nc %h %p")),
            host("10.0.0.11", Some("inside"), None),
        ];
        let outside =
            |address: &str, means: &str| Err(Refusal::Outside { address: address.into(), means: Some(means.into()) });
        let proxy = || Err(Refusal::Proxy("nc %h %p".into()));
        let expected = [
            Ok(()),
            outside("10.0.0.6", "8.8.8.8"),
            outside("gate", "8.8.4.4"),
            proxy(),
            outside("gate", "8.8.4.4"),
            outside("gate", "8.8.4.4"),
            proxy(),
            Ok(()),
        ];
        for (host, expected) in fleet.hosts.iter().zip(expected) {
            assert_eq!(check_by("10.0.0.0/24", &fleet, host, Some(&config)), expected, "{}", host.name);
        }
        assert_eq!(check_by("10.0.0.0/24,proxy-commands", &fleet, &fleet.hosts[3], Some(&config)), Ok(()));
    }
}
