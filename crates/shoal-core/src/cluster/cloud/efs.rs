//! How does a node mount the cluster's file system?

use crate::quote::quote;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file system that is there, as nodes reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    pub id: String,
    pub region: String,
    /// Where nodes mount it, such as `~/efs`.
    pub mount: String,
    /// The address of its mount target in each zone: names would need the network's DNS, which not everybody has switched on.
    pub targets: BTreeMap<String, String>,
}

/// What AWS recommends for EFS: long requests, patience, and a new port after a lost connection.
pub const NFS_OPTIONS: &str = "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport";
/// Seconds after which a node gives up on the mount target's port. A hard mount would wait for ever.
const PATIENCE_S: u32 = 20;

/// A command that any of the nodes (their addresses and zones) may run: each takes the mount target of its own zone. It does nothing where the file
/// system is mounted already, and fails instead of hanging when the mount target cannot be reached. With amazon-efs-utils it mounts by id, otherwise by nfs4.
pub fn mount_command(shared: &Shared, nodes: &[(&str, &str)]) -> String {
    let place = home(&shared.mount);
    let id = quote(&shared.id);
    format!(
        "mkdir -p {place} && {{ mountpoint -q {place} || {{ {} && \
         {{ timeout {PATIENCE_S} bash -c 'exec 3<>/dev/tcp/$0/2049' \"$server\" || \
         {{ echo \"cannot reach the file system {id} at $server, port 2049: its security group must let this node in\" >&2; false; }}; }} && \
         {{ if command -v mount.efs >/dev/null; then sudo mount -t efs {id}:/ {place}; \
         else sudo mount -t nfs4 -o {NFS_OPTIONS} \"$server\":/ {place}; fi; }} && sudo chmod 1777 {place}; }}; }}",
        server(shared, nodes)
    )
}

/// Sets `$server`.
fn server(shared: &Shared, nodes: &[(&str, &str)]) -> String {
    let usual = shared.targets.values().next().cloned();
    let usual = usual.unwrap_or_else(|| format!("{}.efs.{}.amazonaws.com", shared.id, shared.region));
    let mut text = format!("server={}", quote(&usual));
    let mut cases = String::new();
    for (zone, target) in shared.targets.iter().skip(1) {
        let here = nodes.iter().filter(|(_, at)| at == zone).map(|(address, _)| format!("*\" {address} \"*"));
        let here = here.collect::<Vec<_>>().join("|");
        if !here.is_empty() {
            cases += &format!(" {here}) server={};;", quote(target));
        }
    }
    if !cases.is_empty() {
        text += &format!("; case \" $(hostname -I) \" in{cases} esac");
    }
    text
}

/// `~` is for the node's shell to understand, the rest is not for it to interpret.
fn home(path: &str) -> String {
    match path.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(rest)),
        None if path == "~" => path.into(),
        None => quote(path).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(mount: &str) -> Shared {
        let targets = [("us-west-2a", "10.0.0.5"), ("us-west-2b", "10.0.1.5")];
        let targets = targets.map(|(zone, address)| (zone.to_string(), address.to_string())).into();
        Shared { id: "fs-1".into(), region: "us-west-2".into(), mount: mount.into(), targets }
    }

    const NODES: [(&str, &str); 3] =
        [("10.0.0.7", "us-west-2a"), ("10.0.1.7", "us-west-2b"), ("10.0.1.8", "us-west-2b")];

    #[test]
    fn each_node_mounts_from_its_own_zone() {
        let command = mount_command(&shared("~/efs"), &NODES);
        let choice = "server=10.0.0.5; case \" $(hostname -I) \" in *\" 10.0.1.7 \"*|*\" 10.0.1.8 \"*) server=10.0.1.5;; esac && ";
        assert!(command.contains(choice), "{command}");
        assert!(
            command.contains("sudo mount -t nfs4 -o nfsvers=4.1,") && command.contains(" \"$server\":/ ~/efs;"),
            "{command}"
        );
        assert!(command.contains("sudo mount -t efs fs-1:/ ~/efs;"), "{command}");
        let one = mount_command(&shared("/data/a b"), &NODES[..1]);
        assert!(one.contains("server=10.0.0.5 && ") && one.contains("\"$server\":/ '/data/a b';"), "{one}");
        let mut unknown = shared("~/efs");
        unknown.targets.clear();
        assert!(mount_command(&unknown, &NODES).contains("server=fs-1.efs.us-west-2.amazonaws.com && "));
    }

    /// In bash, with stand-ins for what needs a node: which address is asked for, and whether it answers.
    fn runs(address: &str, answers: bool, mounted: bool) -> (bool, String, String) {
        let code = |good: bool| if good { 0 } else { 1 };
        let stubs = format!(
            "sudo() {{ echo \"$*\"; }}; mkdir() {{ :; }}; hostname() {{ echo '{address} '; }}; \
             timeout() {{ return {}; }}; mountpoint() {{ return {}; }}; HOME=/h; ",
            code(answers),
            code(mounted)
        );
        let command = stubs + &mount_command(&shared("~/efs"), &NODES);
        let out = std::process::Command::new("bash").args(["-c", &command]).output().expect("bash");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.success(), text(&out.stdout), text(&out.stderr))
    }

    #[test]
    fn a_shell_does_what_it_says() {
        for (address, server) in [("10.0.0.7", "10.0.0.5"), ("10.0.1.8", "10.0.1.5"), ("10.9.9.9", "10.0.0.5")] {
            let wanted = format!("mount -t nfs4 -o {NFS_OPTIONS} {server}:/ /h/efs\nchmod 1777 /h/efs\n");
            assert_eq!(runs(address, true, false), (true, wanted, String::new()), "{address}");
        }
        assert_eq!(runs("10.0.0.7", true, true), (true, String::new(), String::new()));
        let (good, out, errors) = runs("10.0.0.7", false, false);
        assert!(!good && out.is_empty(), "{out}");
        assert!(errors.contains("cannot reach the file system fs-1 at 10.0.0.5, port 2049"), "{errors}");
    }
}
