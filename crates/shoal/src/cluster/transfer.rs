//! Which files go to which nodes, and what is said in the end?

use super::transfer_screen::size;
use crate::commands::run::{NotBegun, parcel_for};
use crate::exit::Exit;
use serde::Serialize;
use shoal_core::cluster::{Cluster, Files, Node, Role};
use shoal_core::fleet::{Fleet, Reach};
use shoal_core::suggest::closest;
use shoal_hosts::files::choose::How;
use shoal_hosts::files::pull::means_what_is_inside;
use shoal_hosts::files::{Delivery, Rules, Sent, Trouble, Way};
use shoal_hosts::ssh::Settings;
use shoal_hosts::ssh::deliver::Parcel;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Some nodes got it, others did not.
pub const PARTIAL: u8 = 4;
/// Changes with the meaning of a field (WIRE-1).
const REPORT_VERSION: u32 = 1;

/// The nodes that are meant, and how they are reached.
pub struct Party {
    pub fleet: Fleet,
    pub nodes: Vec<Node>,
    pub ssh: Settings,
    pub parcel: Parcel,
}

impl Party {
    pub fn of(cluster: &Cluster, all: bool, one: Option<&str>) -> Result<Party, NotBegun> {
        let provider = super::provider::of(cluster).map_err(|e| NotBegun::Here(e.to_string()))?;
        let every = provider.nodes().map_err(|e| NotBegun::Here(e.to_string()))?;
        let fleet = shoal_core::cluster::machines::fleet(&cluster.name, &every);
        let nodes = pick(every, all, one).map_err(NotBegun::Wrong)?;
        let parcel = parcel_for(nodes.iter().any(|node| node.host.reach != Reach::Local))?;
        Ok(Party { fleet, nodes, ssh: Settings::from_env(), parcel })
    }

    pub fn ways(&self) -> Vec<Way<'_>> {
        let mut ways = Vec::new();
        for Node { host, internal, .. } in &self.nodes {
            let internal = internal.clone();
            ways.push(Way {
                fleet: &self.fleet,
                host,
                settings: &self.ssh,
                parcel: &self.parcel,
                internal,
                through: None,
            });
        }
        ways
    }

    pub fn names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.host.name.clone()).collect()
    }
}

/// The head, or all, or the one of that name (pure).
fn pick(nodes: Vec<Node>, all: bool, one: Option<&str>) -> Result<Vec<Node>, String> {
    let meant = |node: &Node| match one {
        Some(name) => [&node.host.name, &node.host.address, &node.internal].into_iter().any(|known| known == name),
        None => all || node.role == Role::Head,
    };
    let names: Vec<String> = nodes.iter().map(|node| node.host.name.clone()).collect();
    let picked: Vec<Node> = nodes.into_iter().filter(meant).collect();
    if picked.is_empty() {
        return Err(match one {
            Some(name) => {
                let meant = closest(name, names.iter().map(String::as_str));
                let hint = meant
                    .map_or_else(|| format!("its nodes are {}", names.join(", ")), |m| format!("did you mean `{m}`?"));
                format!("the cluster has no node `{name}`\n  hint: {hint}")
            }
            None => "the cluster has no nodes\n  hint: bring it up with `shoal up`".into(),
        });
    }
    Ok(picked)
}

pub fn rules(files: &Files, more: &[String]) -> Rules {
    Rules { exclude: [&files.exclude[..], more].concat(), filter: files.filter.clone() }
}

/// All mounts of the file.
pub fn mounts(files: &Files, rules: &Rules) -> Vec<Delivery> {
    let delivery = |mount: &shoal_core::cluster::Mount| Delivery {
        local: mount.local.clone().into(),
        remote: mount.remote.clone(),
        rules: rules.clone(),
    };
    files.mounts.iter().map(delivery).collect()
}

/// `rsync SRC NODE:DST` as a delivery, and the name under which patterns see it (pure): without a slash behind it, SRC itself goes into DST.
pub fn as_rsync(source: &Path, is_folder: bool, target: &str, rules: &Rules) -> (Delivery, Option<String>) {
    let inside = means_what_is_inside(&source.as_os_str().to_string_lossy());
    let name = source.file_name().map(|name| name.to_string_lossy().into_owned()).filter(|_| is_folder && !inside);
    let remote = match &name {
        Some(name) if target.is_empty() => name.clone(),
        Some(name) => format!("{}/{name}", target.trim_end_matches('/')),
        None => target.to_string(),
    };
    (Delivery { local: source.into(), remote, rules: rules.clone() }, name)
}

/// One node of the report (WIRE-1).
#[derive(Debug, Serialize)]
struct Line<'a> {
    node: &'a str,
    ok: bool,
    files: u64,
    bytes: u64,
    deleted: u64,
    way: &'static str,
    error: Option<&'a str>,
    hint: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    seconds: f64,
    nodes: Vec<Line<'a>>,
}

fn way(how: How) -> &'static str {
    match how {
        How::Nothing => "nothing to send",
        How::Rsync => "rsync",
        How::Stream => "stream",
        How::Relay => "relay",
    }
}

/// Says how it went; the exit code.
pub fn conclude(
    program: &str,
    party: &Party,
    results: &[Result<Sent, Trouble>],
    took: Duration,
    json: bool,
) -> ExitCode {
    let names = party.names();
    let line = |(node, result): (&'_ String, &'_ Result<Sent, Trouble>)| -> String {
        match result {
            Ok(Sent { how: How::Nothing, deleted: 0, .. }) => format!("{node}: nothing to send"),
            Ok(sent) => {
                let gone = if sent.deleted > 0 { format!(", {} removed", sent.deleted) } else { String::new() };
                let files = match sent.files {
                    0 => String::new(),
                    1 => "1 file, ".into(),
                    files => format!("{files} files, "),
                };
                format!("{node}: {files}{}{gone} ({})", size(sent.bytes), way(sent.how))
            }
            Err(trouble) => {
                let whose = if trouble.node == *node { String::new() } else { format!("{}: ", trouble.node) };
                format!("{node}: {whose}{}\n  hint: {}", trouble.what, trouble.hint)
            }
        }
    };
    names.iter().zip(results).map(line).for_each(|line| eprintln!("{program}: {line}"));
    let failed = results.iter().filter(|result| result.is_err()).count();
    if failed > 0 && failed < results.len() {
        eprintln!("{program}: {failed} of {} nodes did not get everything", results.len());
    }
    if json {
        let nodes = names.iter().zip(results).map(|(node, result)| match result {
            Ok(sent) => Line {
                node,
                ok: true,
                files: sent.files,
                bytes: sent.bytes,
                deleted: sent.deleted,
                way: way(sent.how),
                error: None,
                hint: None,
            },
            Err(trouble) => Line {
                node,
                ok: false,
                files: 0,
                bytes: 0,
                deleted: 0,
                way: "none",
                error: Some(&trouble.what),
                hint: Some(&trouble.hint),
            },
        });
        let report = Report { version: REPORT_VERSION, seconds: took.as_secs_f64(), nodes: nodes.collect() };
        crate::say::line(serde_json::to_string(&report).unwrap_or_default());
    }
    match failed {
        0 => Exit::Success.into(),
        failed if failed == results.len() => Exit::RunFailed.into(),
        _ => ExitCode::from(PARTIAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_behind_the_source_means_what_is_in_it() {
        let none = Rules::default();
        for (source, folder, target, remote, under) in [
            ("src", true, "~/x", "~/x/src", Some("src")),
            ("src/", true, "~/x", "~/x", None),
            ("a/src", true, "", "src", Some("src")),
            ("src/.", true, "~/x", "~/x", None),
            (".", true, "~/x", "~/x", None),
            ("f.py", false, "~/x", "~/x", None),
            ("f.py", false, "~/x/", "~/x/", None),
        ] {
            let (delivery, name) = as_rsync(Path::new(source), folder, target, &none);
            assert_eq!((delivery.remote.as_str(), name.as_deref()), (remote, under), "{source} {target}");
        }
    }

    #[test]
    fn the_head_all_or_the_one_that_is_named() {
        let node = |role, name: &str| Node {
            role,
            kind: String::new(),
            host: shoal_core::fleet::Host { name: name.into(), ..Fleet::local().hosts[0].clone() },
            internal: format!("{name}.internal"),
        };
        let nodes = || vec![node(Role::Head, "one"), node(Role::Worker, "two")];
        let names =
            |picked: Result<Vec<Node>, String>| picked.map(|p| p.into_iter().map(|n| n.host.name).collect::<Vec<_>>());
        assert_eq!(names(pick(nodes(), false, None)), Ok(vec!["one".into()]));
        assert_eq!(names(pick(nodes(), true, None)), Ok(vec!["one".into(), "two".into()]));
        assert_eq!(names(pick(nodes(), false, Some("two.internal"))), Ok(vec!["two".into()]));
        assert!(pick(nodes(), false, Some("too")).is_err_and(|e| e.contains("`two`")));
    }
}
