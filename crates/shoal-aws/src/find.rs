//! What of the cluster is there? By its tags, and by what the ledger remembers; nothing else counts.

use crate::cloud::{Cloud, tag_map};
use crate::failure::{Outcome, Said, cannot};
use aws_sdk_ec2::types::{Filter, Instance as Ec2Instance, InstanceLifecycleType, InstanceStateName};
use shoal_core::cluster::Role;
use shoal_core::cluster::cloud::difference::{Instance, State};
use shoal_core::cluster::cloud::protocol::Event;
use shoal_core::cluster::cloud::removal::{Allowed, verdict};
use shoal_core::cluster::cloud::{CLUSTER, Kind, Object, RAY_LAUNCH, RAY_ROLE, RAY_TYPE, Tags};
use std::collections::BTreeMap;

pub fn filter(name: &str, values: Vec<String>) -> Filter {
    Filter::builder().name(name).set_values(Some(values)).build()
}

/// An instance that is not over yet, with its tags.
pub struct Found {
    pub object: Object,
    /// `None`: it is ending, or no node of ours.
    pub instance: Option<Instance>,
}

pub async fn scan(cloud: &Cloud) -> Outcome<Event> {
    let found = everything(cloud).await?;
    let ledger = &cloud.book.borrow().ledger;
    let scan = verdict(&found, cloud.name(), ledger, cloud.take_over, Allowed::default());
    Ok(Event::Ended { gone: Vec::new(), scan })
}

/// All that bears the cluster's name or is in the ledger, ours or not.
pub async fn everything(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let (instances, groups, placements, keys, volumes, images, stores) = tokio::join!(
        instances(cloud),
        groups(cloud),
        placements(cloud),
        keys(cloud),
        volumes(cloud),
        images(cloud),
        stores(cloud),
    );
    let mut all: Vec<Object> = instances?.into_iter().map(|found| found.object).collect();
    for more in [groups?, placements?, keys?, volumes?, images?, stores?] {
        all.extend(more);
    }
    Ok(all)
}

fn by_name(cloud: &Cloud) -> Filter {
    filter(&format!("tag:{CLUSTER}"), vec![cloud.name().into()])
}

/// The ids the ledger has of a kind.
fn remembered(cloud: &Cloud, kind: Kind) -> Vec<String> {
    let book = cloud.book.borrow();
    let ids = book.ledger.items.values().filter(|item| item.kind == kind).filter_map(|item| item.id.clone());
    ids.collect()
}

/// Ids beyond this are not asked for one by one: EC2 takes 200 values in a filter.
const MOST_VALUES: usize = 200;

fn questions(cloud: &Cloud, kind: Kind, id: &str) -> Vec<Filter> {
    let mut ids = remembered(cloud, kind);
    // The newest are the ones that may still be there.
    let ids = ids.split_off(ids.len().saturating_sub(MOST_VALUES));
    let by_id = (!ids.is_empty()).then(|| filter(id, ids));
    std::iter::once(by_name(cloud)).chain(by_id).collect()
}

fn unique(objects: Vec<Object>) -> Vec<Object> {
    let by_id: BTreeMap<String, Object> = objects.into_iter().map(|object| (object.id.clone(), object)).collect();
    by_id.into_values().collect()
}

pub async fn instances(cloud: &Cloud) -> Outcome<Vec<Found>> {
    let mut found = BTreeMap::new();
    for question in questions(cloud, Kind::Instance, "instance-id") {
        let mut pages = cloud.ec2.describe_instances().filters(question).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(cannot("list the instances"))?;
            for instance in page.reservations().iter().flat_map(|reservation| reservation.instances()) {
                if let Some(one) = of_instance(instance) {
                    found.insert(one.object.id.clone(), one);
                }
            }
        }
    }
    Ok(found.into_values().collect())
}

fn of_instance(instance: &Ec2Instance) -> Option<Found> {
    let id = instance.instance_id()?.to_string();
    let name = instance.state().and_then(|state| state.name())?;
    let state = match name {
        InstanceStateName::Pending => Some(State::Pending),
        InstanceStateName::Running => Some(State::Running),
        InstanceStateName::Stopping => Some(State::Stopping),
        InstanceStateName::Stopped => Some(State::Stopped),
        InstanceStateName::Terminated => return None,
        _ => None,
    };
    let tags = tag_map(instance.tags());
    let zone = instance.placement().and_then(|placement| placement.availability_zone()).unwrap_or_default();
    let node = |state: State| {
        let role = match tags.get(RAY_ROLE)?.as_str() {
            "head" => Role::Head,
            "worker" => Role::Worker,
            _ => return None,
        };
        Some(Instance {
            id: id.clone(),
            role,
            kind: tags.get(RAY_TYPE)?.clone(),
            state,
            launch: tags.get(RAY_LAUNCH).cloned().unwrap_or_default(),
            zone: zone.into(),
            instance_type: instance.instance_type().map(|kind| kind.as_str().to_string()).unwrap_or_default(),
            spot: instance.instance_lifecycle() == Some(&InstanceLifecycleType::Spot),
            since: instance.launch_time().and_then(|time| u64::try_from(time.secs()).ok()).unwrap_or_default(),
            internal: instance.private_ip_address().map(Into::into),
            external: instance.public_ip_address().filter(|address| !address.is_empty()).map(Into::into),
        })
    };
    let instance = state.and_then(node);
    let object = object(Kind::Instance, &id, tags.get("Name").map_or("", String::as_str), name.as_str(), tags.clone());
    Some(Found { object, instance })
}

fn object(kind: Kind, id: &str, name: &str, state: &str, tags: Tags) -> Object {
    Object { kind, id: id.into(), name: name.into(), state: state.into(), tags }
}

pub async fn groups(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mut found = Vec::new();
    for question in questions(cloud, Kind::SecurityGroup, "group-id") {
        let mut pages = cloud.ec2.describe_security_groups().filters(question).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(cannot("list the security groups"))?;
            found.extend(page.security_groups().iter().filter_map(|group| {
                let (id, name) = (group.group_id()?, group.group_name().unwrap_or_default());
                Some(object(Kind::SecurityGroup, id, name, "", tag_map(group.tags())))
            }));
        }
    }
    Ok(unique(found))
}

pub async fn placements(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mine = remembered(cloud, Kind::PlacementGroup);
    let all = cloud.ec2.describe_placement_groups().send().await.map_err(cannot("list the placement groups"))?;
    let found = all.placement_groups().iter().filter_map(|group| {
        let name = group.group_name()?;
        let state = group.state().map(|state| state.as_str()).unwrap_or_default();
        let one = object(Kind::PlacementGroup, name, name, state, tag_map(group.tags()));
        (state != "deleted" && (named(&one, cloud) || mine.contains(&one.id))).then_some(one)
    });
    Ok(found.collect())
}

fn named(object: &Object, cloud: &Cloud) -> bool {
    object.tags.get(CLUSTER).is_some_and(|name| name == cloud.name())
}

pub async fn keys(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mine = remembered(cloud, Kind::KeyPair);
    let all = cloud.ec2.describe_key_pairs().send().await.map_err(cannot("list the key pairs"))?;
    let found = all.key_pairs().iter().filter_map(|key| {
        let (id, name) = (key.key_pair_id()?, key.key_name().unwrap_or_default());
        let one = object(Kind::KeyPair, id, name, "", tag_map(key.tags()));
        (named(&one, cloud) || mine.contains(&one.id)).then_some(one)
    });
    Ok(found.collect())
}

async fn volumes(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mut found = Vec::new();
    let mut pages = cloud.ec2.describe_volumes().filters(by_name(cloud)).into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.map_err(cannot("list the disks"))?;
        found.extend(page.volumes().iter().filter_map(|volume| {
            let state = volume.state().map(|state| state.as_str()).unwrap_or_default();
            let there = !matches!(state, "deleting" | "deleted");
            there.then(|| Some(object(Kind::Volume, volume.volume_id()?, "", state, tag_map(volume.tags()))))?
        }));
    }
    Ok(found)
}

async fn images(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mut found = Vec::new();
    for question in questions(cloud, Kind::Image, "image-id") {
        let asked = cloud.ec2.describe_images().owners("self").filters(question).send().await;
        let all = asked.map_err(cannot("list the images"))?;
        found.extend(all.images().iter().filter_map(|image| {
            let (id, name) = (image.image_id()?, image.name().unwrap_or_default());
            let state = image.state().map(|state| state.as_str()).unwrap_or_default();
            Some(object(Kind::Image, id, name, state, tag_map(image.tags())))
        }));
    }
    Ok(unique(found))
}

/// File systems and their mount targets. Who never asked for one needs no permission to look for them.
pub async fn stores(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let mine = remembered(cloud, Kind::FileSystem);
    let needed = cloud.aws.efs.is_some() || !mine.is_empty();
    let mut found = Vec::new();
    let mut pages = cloud.efs.describe_file_systems().into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = match page {
            Ok(page) => page,
            Err(error) => {
                let said = Said::of(&error);
                if !needed && said.is(&["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"]) {
                    cloud
                        .tell("file systems were not looked at: these credentials may not, and the file asks for none");
                    return Ok(found);
                }
                return Err(said.explained("list the file systems"));
            }
        };
        for store in page.file_systems() {
            let pairs = store.tags().iter().map(|tag| (tag.key().to_string(), tag.value().to_string()));
            let id = store.file_system_id();
            let state = store.life_cycle_state().as_str();
            let one = object(Kind::FileSystem, id, store.name().unwrap_or_default(), state, pairs.collect());
            if state == "deleted" || !(named(&one, cloud) || mine.iter().any(|known| known == id)) {
                continue;
            }
            found.extend(targets(cloud, id, &one.tags).await?);
            found.push(one);
        }
    }
    Ok(found)
}

/// They bear no tags: whose file system, whose mount target.
async fn targets(cloud: &Cloud, store: &str, tags: &Tags) -> Outcome<Vec<Object>> {
    let asked = cloud.efs.describe_mount_targets().file_system_id(store).send().await;
    let all = match asked {
        Ok(all) => all,
        Err(error) if Said::of(&error).is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(cannot(format!("list the mount targets of {store}"))(error)),
    };
    let live = all.mount_targets().iter().filter(|target| target.life_cycle_state().as_str() != "deleted");
    let one = |target: &aws_sdk_efs::types::MountTargetDescription| {
        let state = target.life_cycle_state().as_str();
        object(Kind::MountTarget, target.mount_target_id(), target.subnet_id(), state, tags.clone())
    };
    Ok(live.map(one).collect())
}
