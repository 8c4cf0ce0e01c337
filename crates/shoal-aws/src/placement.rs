//! Nodes close together: a placement group of strategy `cluster`.

use crate::cloud::{Cloud, specification};
use crate::failure::{Outcome, id_of};
use crate::find;
use aws_sdk_ec2::types::{PlacementStrategy, ResourceType};
use shoal_core::cluster::cloud::want::NODES;
use shoal_core::cluster::cloud::{Kind, Object, Whose, whose};

pub async fn ensure(cloud: &Cloud, name: &str) -> Outcome<()> {
    let there = find::placements(cloud).await?;
    let ledger = cloud.book.borrow().ledger.clone();
    let is_ours = |group: &Object| whose(group, cloud.name(), &ledger) == Whose::Ours;
    if there.iter().any(|group| group.id == name && is_ours(group)) {
        return Ok(());
    }
    cloud.tell(format!("making placement group {name}"));
    let n = cloud.will(Kind::PlacementGroup, name)?;
    let made = cloud
        .ec2
        .create_placement_group()
        .group_name(name)
        .strategy(PlacementStrategy::Cluster)
        .tag_specifications(specification(ResourceType::PlacementGroup, &cloud.tags(NODES)))
        .send()
        .await;
    let look = async || {
        let there = find::placements(cloud).await?;
        Ok(there.iter().any(|group| group.id == name && is_ours(group)).then(|| name.to_string()))
    };
    let made = made.map(|_| name.to_string());
    let id = id_of(made, |id| Some(id), look, format!("make the placement group {name}")).await?;
    cloud.made(n, &id)
}
