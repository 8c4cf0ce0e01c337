//! What a cluster has in a cloud: which kinds of objects, and how one knows whose they are.

pub mod difference;
pub mod efs;
pub mod launch;
pub mod ledger;
pub mod preview;
pub mod prices;
pub mod protocol;
pub mod removal;
pub mod want;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Everything that can be there because of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Instance,
    MountTarget,
    FileSystem,
    SecurityGroup,
    PlacementGroup,
    KeyPair,
    Volume,
    Image,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Instance,
        Kind::MountTarget,
        Kind::FileSystem,
        Kind::SecurityGroup,
        Kind::PlacementGroup,
        Kind::KeyPair,
        Kind::Volume,
        Kind::Image,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Instance => "instance",
            Kind::MountTarget => "mount target",
            Kind::FileSystem => "file system",
            Kind::SecurityGroup => "security group",
            Kind::PlacementGroup => "placement group",
            Kind::KeyPair => "key pair",
            Kind::Volume => "volume",
            Kind::Image => "image",
        })
    }
}

/// One object that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Object {
    pub kind: Kind,
    pub id: String,
    /// What people call it; empty if nobody does.
    pub name: String,
    /// As the cloud calls it; empty where there is none.
    pub state: String,
    pub tags: Tags,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)?;
        if !self.name.is_empty() && self.name != self.id {
            write!(f, " ({})", self.name)?;
        }
        if self.state.is_empty() { Ok(()) } else { write!(f, ", {}", self.state) }
    }
}

pub type Tags = BTreeMap<String, String>;

/// Whose objects: the cluster's name. Ray looks its nodes up by the second and third, so both tools see the same nodes.
pub const CLUSTER: &str = "shoal-cluster";
pub const RAY_CLUSTER: &str = "ray-cluster-name";
/// `head` or `worker`.
pub const RAY_ROLE: &str = "ray-node-type";
/// Of the file's node types.
pub const RAY_TYPE: &str = "ray-user-node-type";
/// What would have to differ for the instance to be replaced.
pub const RAY_LAUNCH: &str = "ray-launch-config";
/// Which ledger knows of it: names can be taken twice, ledgers cannot.
pub const LEDGER: &str = "shoal-ledger";
/// Who made it, for people: user@machine.
pub const BY: &str = "shoal-by";
/// What the object is for, where a cluster has several of a kind.
pub const PART: &str = "shoal-part";
/// An image that was baked on purpose, which `down` leaves.
pub const BAKED: &str = "shoal-baked";

/// What every object of the cluster bears from the moment it is there.
pub fn tags(cluster: &str, ledger: &ledger::Ledger, part: &str) -> Tags {
    let pairs = [(CLUSTER, cluster), (RAY_CLUSTER, cluster), (LEDGER, &ledger.id), (BY, &ledger.by), (PART, part)];
    pairs.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Whose an object is, as its tags say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'o> {
    /// Ours: of this cluster, known to this ledger.
    Ours,
    /// Of a cluster of this name that was made elsewhere; by whom, if that is known.
    Elsewhere(&'o str),
    /// Nothing says that it is of the cluster: not to be touched, whatever it is called.
    Strangers,
}

pub fn whose<'o>(object: &'o Object, cluster: &str, ledger: &ledger::Ledger) -> Whose<'o> {
    if object.tags.get(CLUSTER).is_none_or(|name| name != cluster) {
        return Whose::Strangers;
    }
    match object.tags.get(LEDGER) {
        Some(id) if *id == ledger.id => Whose::Ours,
        _ => Whose::Elsewhere(object.tags.get(BY).map_or("somebody", String::as_str)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cluster::cloud::ledger::Ledger;

    pub fn ledger() -> Ledger {
        Ledger::new("0123abcd", "demo", "us-west-2", "alice@laptop")
    }

    pub fn object(kind: Kind, id: &str, tags: Tags) -> Object {
        Object { kind, id: id.into(), name: String::new(), state: String::new(), tags }
    }

    #[test]
    fn only_tags_make_an_object_ours() {
        let ledger = ledger();
        let with = |changes: &[(&str, Option<&str>)]| {
            let mut tags = tags("demo", &ledger, "nodes");
            for (key, value) in changes {
                match value {
                    Some(value) => drop(tags.insert((*key).into(), (*value).into())),
                    None => drop(tags.remove(*key)),
                }
            }
            object(Kind::SecurityGroup, "sg-1", tags)
        };
        for (changes, wanted) in [
            (&[][..], Whose::Ours),
            (&[(CLUSTER, Some("other"))], Whose::Strangers),
            (&[(CLUSTER, None)], Whose::Strangers),
            (&[(LEDGER, Some("ffff"))], Whose::Elsewhere("alice@laptop")),
            (&[(LEDGER, None), (BY, None)], Whose::Elsewhere("somebody")),
        ] {
            assert_eq!(whose(&with(changes), "demo", &ledger), wanted, "{changes:?}");
        }
    }
}
