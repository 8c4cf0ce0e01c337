//! What would be made and started for a cluster to be as the file says, and what would it cost?

use super::difference::Move;
use super::prices;
use super::want::{FileSystem, Group, Key, Want, role_word};
use super::{Kind, ledger::Ledger};
use crate::cluster::{Cluster, Node, NodeType, Role};
use crate::fleet::{Fleet, Host};
use serde::{Deserialize, Serialize};

/// Nothing of it has happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preview {
    pub region: String,
    pub launches: Vec<Planned>,
    /// Ids of stopped instances that would start again.
    pub starts: Vec<String>,
    /// Instances that run and are not what the file asks for: `up` refuses, unless it is told to replace them.
    pub replaces: Vec<String>,
    /// More than the file asks for: they would be left running.
    pub spares: Vec<String>,
    /// What is made beside instances, in words.
    pub objects: Vec<String>,
}

/// Instances that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub role: Role,
    pub kind: String,
    pub count: u32,
    pub instance_type: String,
    pub spot: bool,
    pub image: String,
    /// Tried in this order.
    pub zones: Vec<String>,
}

impl Preview {
    pub fn is_empty(&self) -> bool {
        let Preview { launches, starts, replaces, objects, .. } = self;
        launches.is_empty() && starts.is_empty() && replaces.is_empty() && objects.is_empty()
    }
}

/// Which of the objects that the cluster wants are not there yet, as far as the ledger knows.
pub fn objects(want: &Want, ledger: &Ledger) -> Vec<String> {
    let missing = |kind: Kind| !ledger.open().any(|item| item.kind == kind);
    let mut objects = Vec::new();
    if matches!(want.key, Key::Made { .. } | Key::FromFile { .. }) && missing(Kind::KeyPair) {
        objects.push("a key pair".into());
    }
    if matches!(want.group, Group::Made { .. }) && missing(Kind::SecurityGroup) {
        objects.push("a security group".into());
    }
    if want.placement.is_some() && missing(Kind::PlacementGroup) {
        objects.push("a placement group".into());
    }
    if matches!(want.efs, Some(FileSystem::Made { .. })) && missing(Kind::FileSystem) {
        objects.push("a file system (EFS) and its security group".into());
    }
    objects
}

/// `zones[i]` and `images[i]` are those of the `i`th type: the head's first.
pub fn preview(
    cluster: &Cluster,
    region: &str,
    moves: &[Move],
    zones: &[Vec<String>],
    images: &[String],
    objects: Vec<String>,
) -> Preview {
    let types: Vec<(&NodeType, Role)> = std::iter::once((&cluster.head, Role::Head))
        .chain(cluster.workers.iter().map(|kind| (kind, Role::Worker)))
        .collect();
    let mut preview = Preview { region: region.into(), objects, ..Preview::default() };
    for one in moves {
        match one {
            Move::Launch { nodes, count } => {
                let Some((kind, role)) = types.get(*nodes) else { continue };
                let text = |field: &str| kind.node_config[field].as_str().unwrap_or_default().to_string();
                preview.launches.push(Planned {
                    role: *role,
                    kind: kind.name.clone(),
                    count: *count,
                    instance_type: text("InstanceType"),
                    spot: kind.node_config["InstanceMarketOptions"]["MarketType"] == "spot",
                    image: images.get(*nodes).cloned().unwrap_or_else(|| text("ImageId")),
                    zones: zones.get(*nodes).cloned().unwrap_or_default(),
                });
            }
            Move::Start { id } => preview.starts.push(id.clone()),
            Move::Replace { id, .. } => preview.replaces.push(id.clone()),
            Move::Spare { id, .. } => preview.spares.push(id.clone()),
        }
    }
    preview
}

/// The nodes that launches would give, so that what runs there can be planned. Nothing can be dialled by their names.
pub fn nodes(preview: &Preview) -> Vec<Node> {
    let of = |one: &Planned| {
        let (role, kind, count) = (one.role, one.kind.clone(), one.count);
        (1..=count).map(move |n| {
            let number = if role == Role::Head { String::new() } else { format!(" {n}") };
            let name = format!("new {kind}{number}");
            let host = Host { name: name.clone(), address: name.clone(), ..Fleet::local().hosts.remove(0) };
            Node { role, kind: kind.clone(), host, internal: name }
        })
    };
    preview.launches.iter().flat_map(of).collect()
}

/// For people; without a line feed at the end.
pub fn render(preview: &Preview) -> String {
    let mut lines = vec![format!("machines in {}:", preview.region)];
    for Planned { role, kind, count, instance_type, spot, image, zones } in &preview.launches {
        let (spot, zones) = (if *spot { ", spot" } else { "" }, zones.join(", "));
        let role = role_word(*role);
        lines.push(format!("  launch {count} x {instance_type}{spot} ({role} `{kind}`) from {image} in {zones}"));
    }
    let mut all = |word: &str, ids: &[String], why: &str| {
        if !ids.is_empty() {
            lines.push(format!("  {word} {}{why}", ids.join(", ")));
        }
    };
    all("start", &preview.starts, ", which are stopped");
    all("replace", &preview.replaces, ": launched as something else; `up` refuses without SHOAL_REPLACE=1");
    all("leave", &preview.spares, " running: more than the file asks for");
    all("make", &preview.objects, "");
    if preview.is_empty() {
        lines.push("  nothing to make".into());
    }
    lines.extend(cost(preview));
    lines.join("\n")
}

/// What the new ones would cost, where anything is launched.
pub fn cost(preview: &Preview) -> Option<String> {
    let Preview { region, launches, .. } = preview;
    let prices: Vec<(&Planned, Option<f64>)> =
        launches.iter().map(|one| (one, prices::price(region, &one.instance_type))).collect();
    if prices.is_empty() {
        return None;
    }
    let mut unknown: Vec<&str> =
        prices.iter().filter(|(_, price)| price.is_none()).map(|(one, _)| one.instance_type.as_str()).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if prices.iter().all(|(_, price)| price.is_none()) {
        return Some(format!("  cost: not known for {} in {region}", unknown.join(", ")));
    }
    let hourly: f64 = prices.iter().filter_map(|(one, price)| Some(price.as_ref()? * f64::from(one.count))).sum();
    let most = if launches.iter().any(|one| one.spot) { "at most " } else { "" };
    let mut text = format!("  cost: {most}about ${hourly:.2} an hour more (on-demand prices of {}", prices::as_of());
    if !unknown.is_empty() {
        text += &format!("; without {}, whose price is not known", unknown.join(", "));
    }
    Some(text + "; disks and traffic not counted)")
}

#[cfg(test)]
mod tests {
    use super::super::tests::ledger;
    use super::super::want::tests::{aws, cluster, kind};
    use super::super::want::want;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_be_made_is_told_with_its_price() {
        let mut cluster = cluster(aws());
        let spot =
            json!({"ImageId": "base", "InstanceType": "p3.2xlarge", "InstanceMarketOptions": {"MarketType": "spot"}});
        cluster.workers[0] = kind("worker", spot, 3);
        let moves = [
            Move::Launch { nodes: 0, count: 1 },
            Move::Launch { nodes: 1, count: 2 },
            Move::Start { id: "i-1".into() },
            Move::Spare { id: "i-2".into(), kind: "old".into() },
        ];
        let zones = vec![vec!["us-west-2a".to_string()], vec!["us-west-2a".into(), "us-west-2b".into()]];
        let images = vec!["ami-1".to_string(), "ami-2".into()];
        let objects = objects(&want(&cluster, &aws(), &ledger()), &ledger());
        let preview = preview(&cluster, "us-west-2", &moves, &zones, &images, objects);
        let as_of = prices::as_of();
        let wanted = format!(
            "machines in us-west-2:\n  \
             launch 1 x p3.2xlarge (head `head`) from ami-1 in us-west-2a\n  \
             launch 2 x p3.2xlarge, spot (worker `worker`) from ami-2 in us-west-2a, us-west-2b\n  \
             start i-1, which are stopped\n  leave i-2 running: more than the file asks for\n  \
             make a key pair, a security group\n  \
             cost: at most about $9.18 an hour more (on-demand prices of {as_of}; disks and traffic not counted)"
        );
        assert_eq!(render(&preview), wanted);
        let names: Vec<String> = nodes(&preview).into_iter().map(|node| node.host.name).collect();
        assert_eq!(names, ["new head", "new worker 1", "new worker 2"]);
        let idle = Preview { region: "us-west-2".into(), ..Preview::default() };
        assert_eq!(render(&idle), "machines in us-west-2:\n  nothing to make");
    }
}
