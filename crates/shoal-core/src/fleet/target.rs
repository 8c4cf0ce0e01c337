//! Who is `alice@node01.lab:2222`? The parts of what one types after `ssh`, and what can be such a part at all.

use super::THIS_MACHINE;
use super::range::{self, RangeError};
use std::net::Ipv6Addr;
use thiserror::Error;

/// One line of a list of hosts; `host` may still hold ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub user: Option<String>,
    pub host: String,
    pub port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error("`{0}` is a placeholder that still has to be filled in")]
    Placeholder(String),
    #[error("`{0}` is no host name or address")]
    Host(String),
    #[error("`{0}` is no user name")]
    User(String),
    #[error("`{0}` is no port; expected a number from 1 to 65535")]
    Port(String),
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// Takes `[user@]host[:port]` apart. An IPv6 address that has a port stands in brackets.
pub fn parse(text: &str) -> Result<Target, TargetError> {
    if is_placeholder(text) {
        return Err(TargetError::Placeholder(text.into()));
    }
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(check_user(user)?.to_string()), rest),
        None => (None, text),
    };
    let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) if address.contains(':') => (address, None),
        Some((address, after)) if address.contains(':') => match after.strip_prefix(':') {
            Some(port) => (address, Some(port)),
            None => return Err(TargetError::Host(rest.into())),
        },
        // More than one colon is an IPv6 address without a port.
        _ if rest.matches(':').count() == 1 => {
            rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)))
        }
        _ => (rest, None),
    };
    let port = port.map(parse_port).transpose()?;
    Ok(Target { user, host: host.into(), port })
}

/// All hosts a text with ranges stands for, each a possible name.
pub fn hosts(text: &str) -> Result<Vec<String>, TargetError> {
    if is_placeholder(text) {
        return Err(TargetError::Placeholder(text.into()));
    }
    let names = range::expand(text)?;
    match names.iter().find(|name| !is_host(name)) {
        Some(_) => Err(TargetError::Host(text.into())),
        None => Ok(names),
    }
}

pub fn check_user(text: &str) -> Result<&str, TargetError> {
    if is_placeholder(text) {
        return Err(TargetError::Placeholder(text.into()));
    }
    // A leading dash would be read as an option by ssh.
    let possible = |c: char| c.is_alphanumeric() || "._-@\\+".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(possible) {
        return Err(TargetError::User(text.into()));
    }
    Ok(text)
}

fn parse_port(text: &str) -> Result<u16, TargetError> {
    text.parse().ok().filter(|port| *port > 0).ok_or_else(|| TargetError::Port(text.into()))
}

/// Host names, ssh aliases, IPv4 and IPv6 addresses. A leading dash would be read as an option by ssh.
fn is_host(text: &str) -> bool {
    let possible = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let name = |text: &str| !text.is_empty() && !text.starts_with('-') && text.chars().all(possible);
    let (address, interface) = text.split_once('%').unwrap_or((text, "any"));
    name(text) || (address.parse::<Ipv6Addr>().is_ok() && name(interface))
}

/// What templates hold in place of a value: `<IP1>`, `{ip}`, `YOUR_HEAD_NODE_HOSTNAME`.
pub fn is_placeholder(text: &str) -> bool {
    let inside = |open: char, close: char| text.contains(open) && text.contains(close);
    let shouted = text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let asks = text.starts_with("YOUR_") || text.ends_with("_HOSTNAME") || text.ends_with("_IP");
    inside('<', '>') || inside('{', '}') || (shouted && asks)
}

pub fn is_this_machine(address: &str) -> bool {
    THIS_MACHINE.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_apart() {
        let target =
            |user: Option<&str>, host: &str, port| Target { user: user.map(Into::into), host: host.into(), port };
        for (text, parts) in [
            ("node01", target(None, "node01", None)),
            ("alice@node[01-16].lab:2222", target(Some("alice"), "node[01-16].lab", Some(2222))),
            ("ad@lab@host", target(Some("ad@lab"), "host", None)),
            ("2001:db8::1", target(None, "2001:db8::1", None)),
            ("bob@[2001:db8::1]:22", target(Some("bob"), "2001:db8::1", Some(22))),
            ("[2001:db8::1]", target(None, "2001:db8::1", None)),
        ] {
            assert_eq!(parse(text).expect(text), parts);
        }
    }

    #[test]
    fn nonsense_and_placeholders_are_refused() {
        for text in [
            "<IP1>",
            "alice@<IP1>",
            "YOUR_HEAD_NODE_HOSTNAME",
            "-x@host",
            "@host",
            "host:0",
            "host:ssh",
            "host:70000",
            "[::1]x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["", "-oProxyCommand=x", "a b", "a;b", "a/b", "$(x)", "node[1-2", "{ip}", "a\u{0}b", "1:2"] {
            assert!(hosts(text).is_err(), "{text}");
        }
        assert_eq!(hosts("fe80::1%eth0"), Ok(vec!["fe80::1%eth0".to_string()]));
    }
}
