//! What ssh's complaint means, and what can be done about it (pure).

use shoal_core::fleet::{Host, HostKey, Reach};
use shoal_core::quote::quote;
use thiserror::Error;

/// Kinds of failure that want different remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    NoSuchName,
    Unreachable,
    PortClosed,
    KeyRefused,
    KeyUnusable,
    HostKeyChanged,
    HostKeyUnknown,
    /// The other side hung up during the greeting: often too many at once.
    TurnedAway,
    TooManySessions,
    NoSsh,
    /// `SHOAL_DIAL_ONLY` does not let us.
    Forbidden,
    Other,
}

/// A host that could not be reached, or a command that could not be started there.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error("{host} ({target}): {what}")]
pub struct Failure {
    /// The name in the fleet, and what ssh was told.
    pub host: String,
    pub target: String,
    pub trouble: Trouble,
    pub what: String,
    pub hint: String,
}

/// Words of ssh, in the order in which they decide, and what they mean.
const SIGNS: [(&str, Trouble); 24] = [
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", Trouble::HostKeyChanged),
    ("Host key verification failed", Trouble::HostKeyUnknown),
    ("Could not resolve hostname", Trouble::NoSuchName),
    ("Name or service not known", Trouble::NoSuchName),
    ("Connection refused", Trouble::PortClosed),
    ("No route to host", Trouble::Unreachable),
    ("Network is unreachable", Trouble::Unreachable),
    ("Connection timed out", Trouble::Unreachable),
    ("Operation timed out", Trouble::Unreachable),
    ("Connection to", Trouble::Unreachable),
    ("UNPROTECTED PRIVATE KEY FILE", Trouble::KeyUnusable),
    ("not accessible: No such file", Trouble::KeyUnusable),
    ("invalid format", Trouble::KeyUnusable),
    ("error in libcrypto", Trouble::KeyUnusable),
    ("Too many authentication failures", Trouble::KeyRefused),
    ("Permission denied", Trouble::KeyRefused),
    ("Connection closed by UNKNOWN", Trouble::Unreachable),
    ("kex_exchange_identification", Trouble::TurnedAway),
    ("banner exchange", Trouble::Unreachable),
    ("Connection reset by", Trouble::TurnedAway),
    ("Connection closed by", Trouble::TurnedAway),
    ("Session open refused", Trouble::TooManySessions),
    ("No more sessions", Trouble::TooManySessions),
    ("open failed", Trouble::TooManySessions),
];

/// Reads what ssh wrote. `user` is who it tried to be, where the fleet says so.
pub fn explain(host: &str, target: &str, user: Option<&str>, said: &str) -> Failure {
    let found = SIGNS.iter().find(|(sign, _)| said.contains(sign));
    let trouble = found.map_or(Trouble::Other, |(_, trouble)| *trouble);
    let line = found.and_then(|(sign, _)| said.lines().find(|line| line.contains(sign)));
    let last = || said.lines().rev().find(|l| !l.trim().is_empty());
    let words = line.or_else(last).unwrap_or("ssh said nothing").trim().trim_matches('@').trim();
    let (what, hint) = advice(trouble, target, user, said, words);
    Failure { host: host.into(), target: target.into(), trouble, what, hint }
}

fn advice(trouble: Trouble, target: &str, user: Option<&str>, said: &str, words: &str) -> (String, String) {
    let try_it = |why: &str| format!("{why}; try `ssh {target} true`");
    match trouble {
        Trouble::NoSuchName => (
            "its name is unknown".into(),
            try_it("check the address in the fleet file, or give it a Host entry in ~/.ssh/config"),
        ),
        Trouble::Unreachable => (
            format!("it does not answer: {words}"),
            "is it switched on, is its address right, does a firewall or a missing VPN stand between?".into(),
        ),
        Trouble::PortClosed => (
            format!("no ssh server listens there: {words}"),
            "start sshd on it, or set `port:` if it listens elsewhere".into(),
        ),
        Trouble::KeyRefused => (
            format!("it refused the key{}", user.map_or_else(String::new, |u| format!(" of user `{u}`"))),
            format!(
                "is the user right, and is your public key in its ~/.ssh/authorized_keys? `ssh-copy-id {target}` puts it there"
            ),
        ),
        Trouble::KeyUnusable => (format!("the private key cannot be used: {words}"), KEY_HINT.into()),
        Trouble::HostKeyChanged => {
            let place = said.lines().find_map(|l| l.trim().split_once("key in ").filter(|_| l.contains("Offending")));
            let place = place.map_or("~/.ssh/known_hosts", |(_, place)| place.trim());
            (
                "its host key is not the one that is known: the machine was reinstalled, or another one answers in its place".into(),
                format!("if you know why, remove the old key with `ssh-keygen -R {}` (it is in {place})", address_of(target)),
            )
        }
        Trouble::HostKeyUnknown => {
            ("its host key could not be checked".into(), try_it("log in once by hand to accept the key"))
        }
        Trouble::TurnedAway => (
            format!("it hung up during the greeting: {words}"),
            "too many connections at once (MaxStartups), or it does not let this address in".into(),
        ),
        Trouble::TooManySessions => (
            "it refuses further sessions on this connection".into(),
            "raise MaxSessions in its sshd_config, or run less at once".into(),
        ),
        Trouble::NoSsh => (format!("ssh could not be run: {words}"), "install the OpenSSH client".into()),
        Trouble::Forbidden | Trouble::Other => (words.to_string(), try_it("ssh failed")),
    }
}

/// Whether the complaint is about the host in between, which did not get as far as trying the way on from there.
pub fn is_of_the_jump_host(said: &str) -> bool {
    said.contains("UNKNOWN port 65535") && !said.contains("stdio forwarding failed")
}

/// What the complaint about a host in between means for the one behind it.
pub fn on_the_way(host: &str, gate: &Host, said: &str) -> Failure {
    let user = match &gate.reach {
        Reach::Ssh { user, .. } => user.as_deref(),
        Reach::Local => None,
    };
    let target = user.map_or_else(|| gate.address.clone(), |user| format!("{user}@{}", gate.address));
    let failure = explain(host, &target, user, said);
    Failure { what: format!("the way there leads through {}: {}", gate.name, failure.what), ..failure }
}

/// A changed key of a host whose key is kept apart: what to do about it.
pub fn kept_apart(failure: Failure, key: &HostKey) -> Failure {
    match failure.trouble {
        Trouble::HostKeyChanged => {
            let HostKey { file, name } = key;
            let hint = format!("if you know why, remove the old key with `ssh-keygen -f {} -R {name}`", quote(file));
            Failure { hint, ..failure }
        }
        _ => failure,
    }
}

const KEY_HINT: &str = "the key file must exist and be readable by you alone: `chmod 600 KEY`";

/// A key file that cannot even be opened.
pub fn unusable(key: &str, error: &std::io::Error) -> (String, String) {
    let why = error.to_string();
    let why = why.split(" (os error").next().unwrap_or_default();
    (format!("the private key {key} cannot be used: {why}"), KEY_HINT.into())
}

fn address_of(target: &str) -> &str {
    target.rsplit('@').next().unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_complaints_are_understood() {
        for (said, trouble) in [
            ("ssh: connect to host 10.0.0.1 port 22: Connection refused\r\n", Trouble::PortClosed),
            ("ssh: connect to host 10.0.0.1 port 22: No route to host", Trouble::Unreachable),
            ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", Trouble::Unreachable),
            ("ssh: Could not resolve hostname nodd: Name or service not known", Trouble::NoSuchName),
            ("root@10.0.0.1: Permission denied (publickey).", Trouble::KeyRefused),
            (
                "Warning: Identity file /k not accessible: No such file or directory.\nx: Permission denied (publickey).",
                Trouble::KeyUnusable,
            ),
            ("@ WARNING: UNPROTECTED PRIVATE KEY FILE! @\nPermission denied (publickey)", Trouble::KeyUnusable),
            ("kex_exchange_identification: Connection closed by remote host", Trouble::TurnedAway),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
                Trouble::HostKeyChanged,
            ),
            ("Host key verification failed.", Trouble::HostKeyUnknown),
            ("something new", Trouble::Other),
            ("", Trouble::Other),
        ] {
            let failure = explain("node1", "root@10.0.0.1", Some("root"), said);
            assert_eq!(failure.trouble, trouble, "{said}");
            assert!(!failure.what.is_empty() && !failure.hint.is_empty());
        }
    }

    #[test]
    fn a_changed_key_says_where_the_old_one_is() {
        let said = "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nOffending ED25519 key in /root/.ssh/known_hosts:7\n";
        let failure = explain("n", "me@10.1.1.1", Some("me"), said);
        assert!(
            failure.hint.contains("ssh-keygen -R 10.1.1.1") && failure.hint.contains("known_hosts:7"),
            "{failure:?}"
        );
    }
}
