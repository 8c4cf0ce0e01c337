//! Making the cluster be as the file says, in an order in which everything has what it needs.

use crate::book::now;
use crate::cloud::{Cloud, MINUTES_10};
use crate::failure::{Outcome, failure};
use crate::instances::{self, Batch, Common};
use crate::network::Subnet;
use crate::node_config::{self, Launch};
use crate::{address, efs, find, group, image, key, network, placement};
use shoal_core::cluster::Role;
use shoal_core::cluster::cloud::difference::{Instance, Move, State, moves};
use shoal_core::cluster::cloud::preview;
use shoal_core::cluster::cloud::protocol::{Cause, Event};
use shoal_core::cluster::cloud::want::{self, Want};
use shoal_core::cluster::cloud::{Whose, whose};
use std::collections::BTreeMap;

pub async fn nodes(cloud: &Cloud) -> Outcome<Event> {
    let ledger = cloud.book.borrow().ledger.clone();
    let mut found = find::instances(cloud).await?;
    // Another's nodes of the same name are not ours to reach.
    found.retain(|one| {
        cloud.take_over
            || ledger.by_id(&one.object.id).is_some()
            || whose(&one.object, cloud.name(), &ledger) == Whose::Ours
    });
    let found: Vec<Instance> = found.into_iter().filter_map(|found| found.instance).collect();
    let shared = efs::peek(cloud).await?;
    Ok(answer(cloud, found, shared))
}

fn answer(cloud: &Cloud, mut nodes: Vec<Instance>, shared: Option<shoal_core::cluster::cloud::efs::Shared>) -> Event {
    let place = |kind: &str| cloud.cluster.workers.iter().position(|worker| worker.name == kind);
    // The head first, then the types in the order of the file, the oldest first.
    nodes.sort_by_key(|node| (node.role, place(&node.kind), node.since, node.id.clone()));
    let private = key::private(cloud);
    let key = private.exists().then(|| private.to_string_lossy().into_owned());
    Event::Nodes { nodes, shared, key }
}

pub async fn ensure(cloud: &Cloud, replace: bool) -> Outcome<Event> {
    let types: Vec<_> = std::iter::once(&cloud.cluster.head).chain(&cloud.cluster.workers).collect();
    let launches = node_config::launches(&types)?;
    let found = ours(cloud).await?;
    let want = want::want(&cloud.cluster, &cloud.aws, &cloud.book.borrow().ledger);
    let moves = moves(&want.nodes, &found);
    let replaced = replacing(cloud, &moves, replace)?;
    for one in &moves {
        if let Move::Spare { id, kind } = one {
            cloud.tell(format!("{id} (`{kind}`) is more than the file asks for; it is left running"));
        }
    }
    let (images, subnets) = tokio::join!(image::resolve(cloud, &launches), network::subnets(cloud, &launches));
    let (images, subnets) = (images?, subnets?);

    let home = subnets.iter().flatten().next().cloned();
    let home = home.ok_or_else(|| failure(Cause::Wrong, "no subnet to stand in", ""))?;
    let group = async {
        let allowed = match want.group {
            want::Group::Given => Vec::new(),
            _ => address::allowed(cloud, &home.block).await?,
        };
        group::ensure(cloud, &want.group, &home.vpc, &allowed).await
    };
    let key = key::ensure(cloud, &want.key, !found.is_empty());
    let together = async {
        match &want.placement {
            Some(name) => placement::ensure(cloud, name).await,
            None => Ok(()),
        }
    };
    let store = async {
        match &want.efs {
            Some(wanted) => efs::begin(cloud, wanted).await.map(Some),
            None => Ok(None),
        }
    };
    // Each ends what it has begun before anything is reported: none is cut off while something is being made.
    let (group, key, together, store) = tokio::join!(group, key, together, store);
    let (group, key, store) = (group?, key?, store?);
    together?;

    end_replaced(cloud, &replaced).await?;
    let common = Common { key, group, placement: want.placement.clone() };
    let ids = bring(cloud, &want, &launches, &images, &subnets, &moves, &found, &common).await?;
    let running = instances::running(cloud, &ids);
    let groups = node_groups(&launches, common.group.as_deref());
    let shared = async {
        let (Some(wanted), Some(id)) = (&want.efs, &store) else { return Ok(None) };
        let places = places(cloud, &ids, &subnets).await?;
        efs::finish(cloud, wanted, id, &places, &groups).await.map(Some)
    };
    let (nodes, shared) = tokio::join!(running, shared);
    Ok(answer(cloud, nodes?, shared?))
}

/// What `ensure` would do, without doing any of it.
pub async fn preview(cloud: &Cloud) -> Outcome<Event> {
    let types: Vec<_> = std::iter::once(&cloud.cluster.head).chain(&cloud.cluster.workers).collect();
    let launches = node_config::launches(&types)?;
    let found = ours(cloud).await?;
    let ledger = cloud.book.borrow().ledger.clone();
    let want = want::want(&cloud.cluster, &cloud.aws, &ledger);
    let (images, subnets) = tokio::join!(image::resolve(cloud, &launches), network::subnets(cloud, &launches));
    let zones: Vec<Vec<String>> = subnets?.into_iter().map(|subnets| zones(&[subnets])).collect();
    let (moves, objects) = (moves(&want.nodes, &found), preview::objects(&want, &ledger));
    let preview = preview::preview(&cloud.cluster, &cloud.aws.region, &moves, &zones, &images?, objects);
    Ok(Event::Preview { preview })
}

fn node_groups(launches: &[Launch], made: Option<&str>) -> Vec<String> {
    let mut groups: Vec<String> = launches.iter().flat_map(|launch| launch.groups.clone()).collect();
    groups.extend(made.map(Into::into));
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The cluster's instances. One that another machine made under this name is in the way.
async fn ours(cloud: &Cloud) -> Outcome<Vec<Instance>> {
    let found = find::instances(cloud).await?;
    let ledger = cloud.book.borrow().ledger.clone();
    let mut others = Vec::new();
    for one in &found {
        if let Whose::Elsewhere(by) = whose(&one.object, cloud.name(), &ledger) {
            others.push(format!("{} by {by}", one.object));
        }
    }
    if !others.is_empty() && !cloud.take_over {
        let text = format!(
            "there is a cluster `{}` in {} that was not made from here: {}",
            cloud.name(),
            cloud.aws.region,
            others.join("; ")
        );
        let hint = "choose another name (-n), or use it from where it was made; SHOAL_TAKE_OVER=1 treats it as yours";
        return Err(failure(Cause::InTheWay, text, hint));
    }
    Ok(found.into_iter().filter_map(|one| one.instance).collect())
}

fn replacing(cloud: &Cloud, moves: &[Move], allowed: bool) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    let mut names = Vec::new();
    for one in moves {
        if let Move::Replace { id, role, kind } = one {
            names.push(format!("{} {id} (`{kind}`)", want::role_word(*role)));
            ids.push(id.clone());
        }
    }
    if !ids.is_empty() && !allowed {
        let text = format!(
            "the file now asks for other machines than those that run: {} differ in node_config, key or placement",
            names.join(", ")
        );
        let hint = format!(
            "replacing ends them and loses what is on their disks: SHOAL_REPLACE=1 with `shoal up` does, or first `shoal down` of `{}`",
            cloud.name()
        );
        return Err(failure(Cause::Wrong, text, hint));
    }
    Ok(ids)
}

async fn end_replaced(cloud: &Cloud, ids: &[String]) -> Outcome<()> {
    if ids.is_empty() {
        return Ok(());
    }
    cloud.tell(format!("ending {} to replace them", ids.join(", ")));
    if let Some((id, said)) = instances::terminate(cloud, ids).await.into_iter().next() {
        return Err(said.explained(&format!("end {id}")));
    }
    let what = || format!("{} to end", ids.join(", "));
    cloud
        .until(MINUTES_10, what, "", async || {
            let found = find::instances(cloud).await?;
            Ok((!found.iter().any(|one| ids.contains(&one.object.id))).then_some(()))
        })
        .await
}

/// Starts and launches what is missing; gives the ids of all nodes the cluster then has.
#[allow(clippy::too_many_arguments, reason = "all that was found out before")]
async fn bring(
    cloud: &Cloud,
    want: &Want,
    launches: &[Launch],
    images: &[String],
    subnets: &[Vec<Subnet>],
    moves: &[Move],
    found: &[Instance],
    common: &Common,
) -> Outcome<Vec<String>> {
    let starts: Vec<String> =
        moves.iter().filter_map(|one| if let Move::Start { id } = one { Some(id.clone()) } else { None }).collect();
    let gone = |id: &str| moves.iter().any(|one| matches!(one, Move::Replace { id: old, .. } if old == id));
    let stay = found.iter().filter(|one| matches!(one.state, State::Pending | State::Running) && !gone(&one.id));
    let mut ids: Vec<String> = stay.map(|one| one.id.clone()).collect();
    let batches: Vec<Batch<'_>> = moves
        .iter()
        .filter_map(|one| {
            let Move::Launch { nodes, count } = one else { return None };
            let (nodes, count) = (*nodes, *count);
            let (wanted, launch, image) = (&want.nodes[nodes], &launches[nodes], images[nodes].as_str());
            Some(Batch { nodes: wanted, launch, image, count, subnets: subnets[nodes].clone() })
        })
        .collect();
    let launch = async {
        if common.placement.is_some() {
            // Where some stand already, the others must join them.
            let zones = match found.iter().find(|one| ids.contains(&one.id) || starts.contains(&one.id)) {
                Some(one) => vec![one.zone.clone()],
                None => zones(subnets),
            };
            return instances::launch_together(cloud, &batches, common, &zones).await;
        }
        let mut ids = Vec::new();
        // One after the other: each is one call, and a refusal of the first should cost nothing.
        for batch in &batches {
            ids.extend(instances::launch(cloud, batch, common).await?);
        }
        Ok(ids)
    };
    let (started, launched) = tokio::join!(instances::start(cloud, &starts), launch);
    started?;
    ids.extend(launched?);
    ids.extend(starts.clone());
    Ok(ids)
}

fn zones(subnets: &[Vec<Subnet>]) -> Vec<String> {
    let mut zones: Vec<String> = Vec::new();
    for subnet in subnets.iter().flatten() {
        if !zones.contains(&subnet.zone) {
            zones.push(subnet.zone.clone());
        }
    }
    zones
}

/// A subnet in each zone that has nodes.
async fn places(cloud: &Cloud, ids: &[String], subnets: &[Vec<Subnet>]) -> Outcome<BTreeMap<String, Subnet>> {
    let what = || "the new instances to be listed".to_string();
    let zones = cloud.until(MINUTES_10, what, "", async || {
        let found = find::instances(cloud).await?;
        let mine: Vec<_> = found.iter().filter(|one| ids.contains(&one.object.id)).collect();
        let zones: Vec<String> = mine.iter().filter_map(|one| Some(one.instance.as_ref()?.zone.clone())).collect();
        Ok((mine.len() == ids.len()).then_some(zones))
    });
    let zones = zones.await?;
    let in_zone = |zone: &String| subnets.iter().flatten().find(|subnet| subnet.zone == *zone).cloned();
    Ok(zones.iter().filter_map(|zone| Some((zone.clone(), in_zone(zone)?))).collect())
}

/// The head that runs.
pub async fn head(cloud: &Cloud) -> Outcome<Instance> {
    let found = ours(cloud).await?;
    let head = found
        .into_iter()
        .find(|one| one.role == Role::Head && one.state == State::Running && one.since <= now() + 3600);
    head.ok_or_else(|| {
        let text = format!("cluster `{}` has no running head in {}", cloud.name(), cloud.aws.region);
        failure(Cause::Wrong, text, "`shoal up` starts it")
    })
}
