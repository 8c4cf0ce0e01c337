//! Which arguments ssh gets for a host (pure). What the fleet does not say is left to `~/.ssh/config`.

use shoal_core::fleet::{Fleet, Host, HostKey, Reach};
use shoal_core::quote::quote;
use std::path::Path;

/// Never asks anything; new hosts are accepted, changed keys are not; a connection that says nothing for six seconds is dead.
/// What ssh complains of is what we explain, whatever else people want to hear of it.
const ALWAYS: [&str; 6] = [
    "BatchMode=yes",
    "LogLevel=INFO",
    "StrictHostKeyChecking=accept-new",
    "ConnectTimeout=10",
    "ServerAliveInterval=2",
    "ServerAliveCountMax=3",
];
/// Not for connections that are made to forward something.
const NO_FORWARDS: [&str; 2] = ["-o", "ClearAllForwardings=yes"];

/// Options common to a host and to the host it is reached through.
fn reach(host: &Host, config: Option<&Path>) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    if let Some(config) = config {
        args.extend(["-F".into(), config.display().to_string()]);
    }
    args.extend(ALWAYS.iter().flat_map(|option| ["-o".to_string(), (*option).to_string()]));
    if let Reach::Ssh { user, port, key, host_key, .. } = &host.reach {
        if let Some(user) = user {
            args.extend(["-l".into(), user.clone()]);
        }
        if let Some(port) = port {
            args.extend(["-p".into(), port.to_string()]);
        }
        if let Some(key) = key {
            // Only this key: an agent full of others would use up the attempts that the host allows.
            args.extend(["-i".into(), key.clone(), "-o".into(), "IdentitiesOnly=yes".into()]);
        }
        if let Some(HostKey { file, name }) = host_key {
            // By its name and not by its address, which may have been another machine's until a moment ago. In quotes ssh takes spaces; `%` is its own sign.
            let file = file.replace('%', "%%").replace('\\', "\\\\").replace('"', "\\\"");
            let ours = [format!("UserKnownHostsFile=\"{file}\""), format!("HostKeyAlias={name}")];
            let plain = ["GlobalKnownHostsFile=/dev/null", "CheckHostIP=no", "HashKnownHosts=no"].map(String::from);
            args.extend(ours.into_iter().chain(plain).flat_map(|option| ["-o".to_string(), option]));
        }
    }
    args
}

/// The host that this one is reached through.
pub fn jump<'f>(fleet: &'f Fleet, host: &Host) -> Option<&'f Host> {
    match &host.reach {
        Reach::Ssh { jump: Some(jump), .. } => fleet.host(jump),
        _ => None,
    }
}

/// Arguments that open the shared connection of a host and leave it in the background.
pub fn master(fleet: &Fleet, host: &Host, config: Option<&Path>, control: &Path, persist_s: u32) -> Vec<String> {
    let mut args = reach(host, config);
    args.extend(NO_FORWARDS.map(Into::into));
    let control = control.display();
    args.extend(["-M".into(), "-S".into(), control.to_string(), "-f".into(), "-N".into(), "-T".into()]);
    args.extend(["-E".into(), format!("{control}.log"), "-o".into(), format!("ControlPersist={persist_s}")]);
    // The complaints of the host in between belong to the rest.
    args.extend(proxy(fleet, host, config, &["-E".into(), format!("{control}.log")]));
    args.extend(["--".into(), host.address.clone()]);
    args
}

/// The way through another host, or by a command of the user's own.
fn proxy(fleet: &Fleet, host: &Host, config: Option<&Path>, more: &[String]) -> Vec<String> {
    if let Some(jump) = jump(fleet, host) {
        // Not -J: its hosts take their options from the configuration file alone.
        let mut through = vec!["ssh".to_string()];
        through.extend(reach(jump, config));
        through.extend(NO_FORWARDS.map(Into::into));
        through.extend_from_slice(more);
        through.extend(["-W".into(), "[%h]:%p".into(), "--".into(), jump.address.clone()]);
        let words: Vec<String> = through.iter().map(|word| quote(word).to_string()).collect();
        return ["-o".into(), format!("ProxyCommand={}", words.join(" "))].into();
    }
    match &host.reach {
        Reach::Ssh { proxy: Some(proxy), .. } => ["-o".into(), format!("ProxyCommand={proxy}")].into(),
        _ => Vec::new(),
    }
}

/// A port of this machine that leads to one of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    pub local: u16,
    pub remote: u16,
}

/// Arguments of a session in the foreground, up to its command. It uses the shared connection, and nothing else: ssh would otherwise dial by itself
/// when that one has just gone, without any of the host's options.
pub fn shared(control: &Path, terminal: bool) -> Vec<String> {
    let mut args: Vec<String> =
        ["-F", "/dev/null", "-o", "ControlMaster=no", "-o", "ProxyCommand=false"].map(Into::into).into();
    args.extend(["-S".into(), control.display().to_string()]);
    args.extend(foreground(terminal));
    args.extend(["--".into(), "shared".into()]);
    args
}

/// The same over a connection of its own, whose forwards end with it: those of a shared one would outlive us.
pub fn alone(fleet: &Fleet, host: &Host, config: Option<&Path>, terminal: bool, forwards: &[Forward]) -> Vec<String> {
    // First: of two values for an option ssh takes the first.
    let mut args = foreground(terminal);
    args.extend(reach(host, config));
    args.extend(["-S", "none", "-o", "ExitOnForwardFailure=yes"].map(Into::into));
    for Forward { local, remote } in forwards {
        args.extend(["-L".into(), format!("127.0.0.1:{local}:localhost:{remote}")]);
    }
    args.extend(proxy(fleet, host, config, &[]));
    args.extend(["--".into(), host.address.clone()]);
    args
}

/// A command in `~/.ssh/config` is not the one that is asked for; a remark that the connection stays open is noise.
fn foreground(terminal: bool) -> Vec<String> {
    let terminal = if terminal { "-tt" } else { "-T" };
    let more = ["-o", "RemoteCommand=none", "-o", "SendEnv=LANG LC_*", "-o", "LogLevel=ERROR", terminal];
    more.map(Into::into).into()
}

/// What makes a connection the same one: everything that decides where it leads and as whom.
pub fn identity(fleet: &Fleet, host: &Host, config: Option<&Path>) -> String {
    master(fleet, host, config, Path::new("-"), 0).join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_core::fleet::Slots;

    fn host(name: &str, reach: Reach) -> Host {
        let (address, groups, slots) = (format!("{name}.lab"), Vec::new(), Slots::default());
        Host { name: name.into(), address, internal: None, reach, groups, slots }
    }

    #[test]
    fn a_host_gets_what_the_fleet_says_and_nothing_else() {
        let plain = Reach::Ssh { user: None, port: None, key: None, jump: None, proxy: None, host_key: None };
        let mut fleet = Fleet::local();
        fleet.hosts = vec![host("a", plain.clone())];
        let args = master(&fleet, &fleet.hosts[0], None, Path::new("/c"), 60).join(" ");
        assert!(args.ends_with("-M -S /c -f -N -T -E /c.log -o ControlPersist=60 -- a.lab"), "{args}");
        assert!(!args.contains("-l ") && !args.contains("-p ") && !args.contains("Proxy"), "{args}");
        let other =
            Reach::Ssh { user: Some("u".into()), port: None, key: None, jump: None, proxy: None, host_key: None };
        assert_ne!(identity(&fleet, &host("a", plain), None), identity(&fleet, &host("a", other), None));
    }

    #[test]
    fn the_way_through_another_host_keeps_that_hosts_options() {
        let gate = Reach::Ssh {
            user: Some("me".into()),
            port: Some(2222),
            key: Some("/k y".into()),
            jump: None,
            proxy: None,
            host_key: None,
        };
        let inner =
            Reach::Ssh { user: None, port: None, key: None, jump: Some("gate".into()), proxy: None, host_key: None };
        let mut fleet = Fleet::local();
        fleet.hosts = vec![host("gate", gate), host("in", inner)];
        let args = master(&fleet, &fleet.hosts[1], None, Path::new("/c"), 60);
        let proxy = args.iter().find(|a| a.starts_with("ProxyCommand=")).expect("a proxy");
        assert!(proxy.contains("-l me -p 2222 -i '/k y'"), "{proxy}");
        assert!(proxy.ends_with("-- gate.lab"), "{proxy}");
    }

    #[test]
    fn a_command_of_the_users_own_is_the_way() {
        let through = Reach::Ssh {
            user: None,
            port: None,
            key: None,
            jump: None,
            proxy: Some("nc -x gw %h %p".into()),
            host_key: None,
        };
        let mut fleet = Fleet::local();
        fleet.hosts = vec![host("a", through)];
        let args = master(&fleet, &fleet.hosts[0], None, Path::new("/c"), 60);
        assert!(args.contains(&"ProxyCommand=nc -x gw %h %p".to_string()), "{args:?}");
    }

    #[test]
    fn sessions_in_the_foreground() {
        let args = shared(Path::new("/c"), true).join(" ");
        assert!(
            args.contains("-S /c") && args.contains("ProxyCommand=false") && args.ends_with("-tt -- shared"),
            "{args}"
        );
        let mut fleet = Fleet::local();
        fleet.hosts = vec![host(
            "a",
            Reach::Ssh { user: None, port: Some(22), key: None, jump: None, proxy: None, host_key: None },
        )];
        let forwards = [Forward { local: 8265, remote: 80 }];
        let args = alone(&fleet, &fleet.hosts[0], None, false, &forwards).join(" ");
        assert!(args.contains("-L 127.0.0.1:8265:localhost:80") && !args.contains("ClearAllForwardings"), "{args}");
        assert!(args.contains(" -T ") && args.ends_with("-- a.lab"), "{args}");
    }

    #[test]
    fn a_host_key_of_its_own_is_looked_for_by_its_name() {
        let host_key = Some(HostKey { file: "/a b/100%/known_hosts".into(), name: "i-1".into() });
        let reach = Reach::Ssh { user: None, port: None, key: None, jump: None, proxy: None, host_key };
        let args = self::reach(&host("a", reach), None);
        assert!(args.contains(&"UserKnownHostsFile=\"/a b/100%%/known_hosts\"".to_string()), "{args:?}");
        assert!(args.contains(&"HostKeyAlias=i-1".to_string()), "{args:?}");
        // What ssh makes of it: nothing is dialled.
        let said = std::process::Command::new("ssh").arg("-G").args(&args).arg("a.lab").output().expect("ssh");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("\nuserknownhostsfile /a b/100%/known_hosts\n"), "{said}");
        assert!(said.contains("\nhostkeyalias i-1\n"), "{said}");
    }
}
