//! A folder that all nodes share: a file system, and a door to it in every zone where nodes are.

use crate::cloud::{Cloud, MINUTES_10};
use crate::failure::{Outcome, cannot, id_of, wrong};
use crate::network::Subnet;
use crate::{find, group};
use aws_sdk_efs::types::{LifeCycleState, MountTargetDescription, Tag};
use shoal_core::cluster::cloud::efs::Shared;
use shoal_core::cluster::cloud::want::{FileSystem, STORE};
use shoal_core::cluster::cloud::{Kind, Object, Whose, whose};
use std::collections::BTreeMap;

/// The file system's id. It may take some seconds to be ready; what needs it waits.
pub async fn begin(cloud: &Cloud, want: &FileSystem) -> Outcome<String> {
    let name = match want {
        FileSystem::Given { id, .. } => return Ok(id.clone()),
        FileSystem::Made { name, .. } => name,
    };
    if let Some(id) = ours(cloud, &find::stores(cloud).await?) {
        return Ok(id);
    }
    cloud.tell(format!("making file system {name}"));
    let mut tags = cloud.tags(STORE);
    tags.insert("Name".into(), name.clone());
    let tags: Result<Vec<_>, _> =
        tags.iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
    let n = cloud.will(Kind::FileSystem, name)?;
    let made = cloud
        .efs
        .create_file_system()
        // Asked twice with the same words, EFS makes one; another token each time it was removed meanwhile.
        .creation_token(format!("{name}-{n}"))
        .encrypted(true)
        .set_tags(tags.ok())
        .send()
        .await;
    let look = async || Ok(ours(cloud, &find::stores(cloud).await?));
    let id = id_of(made, |made| Some(made.file_system_id()), look, format!("make the file system {name}")).await?;
    cloud.made(n, &id)?;
    Ok(id)
}

/// The cluster's own file system among what bears its name: another's is not to be mounted, nor one that is on its way out.
fn ours(cloud: &Cloud, found: &[Object]) -> Option<String> {
    let ledger = cloud.book.borrow().ledger.clone();
    let ours = |object: &&Object| {
        object.kind == Kind::FileSystem
            && object.state != "deleting"
            && (cloud.take_over
                || ledger.by_id(&object.id).is_some()
                || whose(object, cloud.name(), &ledger) == Whose::Ours)
    };
    found.iter().find(ours).map(|store| store.id.clone())
}

/// Doors in the zones of `places` (one subnet a zone), and where they are.
pub async fn finish(
    cloud: &Cloud,
    want: &FileSystem,
    id: &str,
    places: &BTreeMap<String, Subnet>,
    groups: &[String],
) -> Outcome<Shared> {
    let shared =
        |mount: &str, targets| Shared { id: id.into(), region: cloud.aws.region.clone(), mount: mount.into(), targets };
    let (group_name, mount) = match want {
        FileSystem::Given { mount, .. } => {
            let targets = addresses(&targets(cloud, id).await?);
            if targets.is_empty() {
                let text = format!("the file system {id} has no mount target, so no node can mount it");
                return Err(wrong(
                    text,
                    "make one in the AWS console, or let Shoal make the file system: `efs: {create: true, mount: ~/efs}`",
                ));
            }
            return Ok(shared(mount, targets));
        }
        FileSystem::Made { group, mount, .. } => (group, mount),
    };
    let Some(vpc) = places.values().next().map(|subnet| subnet.vpc.clone()) else {
        return Ok(shared(mount, addresses(&targets(cloud, id).await?)));
    };
    available(cloud, id).await?;
    let there = targets(cloud, id).await?;
    let has = |zone: &str| there.iter().any(|target| target.availability_zone_name() == Some(zone));
    let missing: Vec<&Subnet> = places.iter().filter(|(zone, _)| !has(zone)).map(|(_, subnet)| subnet).collect();
    if !missing.is_empty() {
        let group = group::ensure_store(cloud, group_name, &vpc, groups).await?;
        for subnet in missing {
            door(cloud, id, subnet, &group).await?;
        }
    }
    let what = || format!("the mount targets of file system {id} to be available");
    let ready = cloud.until(MINUTES_10, what, "try `shoal up` again: it goes on from here", async || {
        let there = targets(cloud, id).await?;
        let done = there.iter().all(|target| target.life_cycle_state() == &LifeCycleState::Available);
        Ok(done.then_some(there))
    });
    Ok(shared(mount, addresses(&ready.await?)))
}

async fn door(cloud: &Cloud, id: &str, subnet: &Subnet, group: &str) -> Outcome<()> {
    cloud.tell(format!("making a mount target of {id} in {}", subnet.zone));
    let n = cloud.will(Kind::MountTarget, &format!("{id} in {}", subnet.zone))?;
    let request = cloud.efs.create_mount_target().file_system_id(id).subnet_id(&subnet.id).security_groups(group);
    let made = request.send().await;
    let look = async || {
        let there = targets(cloud, id).await?;
        let door = there.iter().find(|target| target.subnet_id() == subnet.id);
        Ok(door.map(|target| target.mount_target_id().to_string()))
    };
    let what = format!("make a mount target of {id} in {}", subnet.zone);
    let door = id_of(made, |made| Some(made.mount_target_id()), look, what).await?;
    cloud.made(n, &door)
}

async fn available(cloud: &Cloud, id: &str) -> Outcome<()> {
    let what = || format!("file system {id} to be available");
    cloud
        .until(MINUTES_10, what, "try `shoal up` again: it goes on from here", async || {
            let asked = cloud.efs.describe_file_systems().file_system_id(id).send().await;
            let all = asked.map_err(cannot(format!("look at the file system {id}")))?;
            let ready = |state: &LifeCycleState| state == &LifeCycleState::Available;
            Ok(all.file_systems().iter().any(|store| ready(store.life_cycle_state())).then_some(()))
        })
        .await
}

async fn targets(cloud: &Cloud, id: &str) -> Outcome<Vec<MountTargetDescription>> {
    let asked = cloud.efs.describe_mount_targets().file_system_id(id).send().await;
    let all = asked.map_err(cannot(format!("list the mount targets of {id}")))?;
    let over = [LifeCycleState::Deleted, LifeCycleState::Deleting];
    Ok(all.mount_targets().iter().filter(|target| !over.contains(target.life_cycle_state())).cloned().collect())
}

fn addresses(targets: &[MountTargetDescription]) -> BTreeMap<String, String> {
    let pair = |target: &MountTargetDescription| {
        Some((target.availability_zone_name()?.to_string(), target.ip_address()?.to_string()))
    };
    targets.iter().filter_map(pair).collect()
}

/// What is there, for those who only look.
pub async fn peek(cloud: &Cloud) -> Outcome<Option<Shared>> {
    let Some(efs) = &cloud.aws.efs else { return Ok(None) };
    let id = match &efs.id {
        Some(id) => Some(id.clone()),
        None => ours(cloud, &find::stores(cloud).await?),
    };
    let Some(id) = id else { return Ok(None) };
    let targets = addresses(&targets(cloud, &id).await?);
    Ok(Some(Shared { id, region: cloud.aws.region.clone(), mount: efs.mount.clone(), targets }))
}
