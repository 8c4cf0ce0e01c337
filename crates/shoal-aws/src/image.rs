//! Images: one baked from the head, and found again by its name.

use crate::cloud::{Cloud, HOUR, specification};
use crate::ensure;
use crate::failure::{Outcome, cannot, failure, id_of, wrong};
use crate::find::filter;
use crate::node_config::Launch;
use aws_sdk_ec2::types::{Image, ImageState, ResourceType};
use shoal_core::cluster::cloud::protocol::{Cause, Event};
use shoal_core::cluster::cloud::want::NODES;
use shoal_core::cluster::cloud::{BAKED, Kind};

/// The ids of the images the types start from. What does not look like an id is the name of an image of this account.
pub async fn resolve(cloud: &Cloud, launches: &[Launch]) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    for launch in launches {
        if launch.image.starts_with("ami-") {
            ids.push(launch.image.clone());
            continue;
        }
        let found = by_name(cloud, &launch.image).await?;
        let image = found.ok_or_else(|| {
            let text = format!(
                "there is no image called `{}` in {}, which node type `{}` asks for",
                launch.image, cloud.aws.region, launch.kind
            );
            wrong(text, "`shoal image bake CLUSTER --name NAME` makes one; images belong to one region")
        })?;
        let id = image.image_id().unwrap_or_default();
        if image.state() != Some(&ImageState::Available) {
            let state = image.state().map_or("not ready", |state| state.as_str());
            let text = format!("the image `{}` ({id}) is {state}", launch.image);
            return Err(failure(Cause::Late, text, "wait until it is available; baking takes some minutes"));
        }
        ids.push(id.into());
    }
    Ok(ids)
}

async fn by_name(cloud: &Cloud, name: &str) -> Outcome<Option<Image>> {
    let asked = cloud.ec2.describe_images().owners("self").filters(filter("name", vec![name.into()])).send().await;
    let all = asked.map_err(cannot(format!("look for the image `{name}`")))?;
    // Filters understand wildcards; names do not.
    Ok(all.images().iter().find(|image| image.name() == Some(name)).cloned())
}

/// What EC2 allows in a name; and nothing that would be taken for an id.
fn check(name: &str) -> Outcome<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "()[] ./-'@_".contains(c);
    if name.len() < 3 || name.len() > 128 || !name.chars().all(good) || name.starts_with("ami-") {
        let hint = "3 to 128 letters, digits, spaces and ()[]./-'@_, not beginning with ami-";
        return Err(wrong(format!("`{name}` cannot be the name of an image"), hint));
    }
    Ok(())
}

pub async fn bake(cloud: &Cloud, name: &str, reboot: bool) -> Outcome<Event> {
    check(name)?;
    let head = ensure::head(cloud).await?;
    if let Some(taken) = by_name(cloud, name).await? {
        let text = format!("the name `{name}` is taken by {}", taken.image_id().unwrap_or_default());
        return Err(failure(Cause::InTheWay, text, "choose another name, such as one with a date"));
    }
    let how = if reboot { "the head is rebooted for it" } else { "without a reboot" };
    cloud.tell(format!("baking `{name}` from {} ({how})", head.id));
    let mut tags = cloud.tags(NODES);
    tags.insert(BAKED.into(), name.into());
    tags.insert("Name".into(), name.into());
    let n = cloud.will(Kind::Image, name)?;
    let made = cloud
        .ec2
        .create_image()
        .instance_id(&head.id)
        .name(name)
        .description(format!("baked from shoal cluster {}", cloud.name()))
        .no_reboot(!reboot)
        .tag_specifications(specification(ResourceType::Image, &tags))
        .tag_specifications(specification(ResourceType::Snapshot, &tags))
        .send()
        .await;
    // The name was free a moment ago: one that has it now is what a try before has made.
    let look = async || Ok(by_name(cloud, name).await?.and_then(|image| image.image_id().map(String::from)));
    let id = id_of(made, |made| made.image_id(), look, format!("bake `{name}` from {}", head.id)).await?;
    cloud.made(n, &id)?;
    cloud.book.borrow_mut().kept(n)?;
    let what = || format!("the image {id} (`{name}`) to be available");
    cloud
        .until(HOUR, what, "AWS goes on with it: it can be used by its name when it is there", async || {
            let asked =
                cloud.ec2.describe_images().owners("self").filters(filter("image-id", vec![id.clone()])).send().await;
            let all = asked.map_err(cannot(format!("look at the image {id}")))?;
            match all.images().first().and_then(|image| image.state().cloned()) {
                Some(ImageState::Available) => Ok(Some(())),
                Some(state @ (ImageState::Failed | ImageState::Error | ImageState::Invalid)) => {
                    let reason =
                        all.images().first().and_then(|image| image.state_reason()?.message().map(String::from));
                    let text = format!("the image {id} is {}: {}", state.as_str(), reason.unwrap_or_default());
                    Err(failure(Cause::Cloud, text, "remove it with `aws ec2 deregister-image` and bake again"))
                }
                _ => Ok(None),
            }
        })
        .await?;
    Ok(Event::Baked { id, name: name.into() })
}
