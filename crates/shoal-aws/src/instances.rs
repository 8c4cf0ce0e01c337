//! Instances: launched in the first zone that has room, started again, waited for, ended.

use crate::cloud::{Cloud, MINUTES_10, specification};
use crate::failure::{Outcome, Said, cannot, failure};
use crate::find;
use crate::network::Subnet;
use crate::node_config::Launch;
use aws_sdk_ec2::types::{Placement, ResourceType};
use shoal_core::cluster::cloud::Kind;
use shoal_core::cluster::cloud::difference::{Instance, State};
use shoal_core::cluster::cloud::protocol::{Cause, Failure};
use shoal_core::cluster::cloud::want::{Nodes, node_tags, role_word};

/// What all nodes of a cluster share.
pub struct Common {
    pub key: Option<String>,
    pub group: Option<String>,
    pub placement: Option<String>,
}

/// One kind of node and where it may stand.
pub struct Batch<'b> {
    pub nodes: &'b Nodes,
    pub launch: &'b Launch,
    pub image: &'b str,
    pub count: u32,
    pub subnets: Vec<Subnet>,
}

/// Launches a batch in the first of its subnets that has room for all of it; gives the ids.
pub async fn launch(cloud: &Cloud, batch: &Batch<'_>, common: &Common) -> Outcome<Vec<String>> {
    let mut refused = Vec::new();
    for subnet in &batch.subnets {
        match try_in(cloud, batch, common, subnet).await? {
            Ok(ids) => return Ok(ids),
            Err(said) => {
                cloud.tell(format!("{} has no room for {}: {}", subnet.zone, what(batch), said.code));
                refused.push(format!("{}: {}", subnet.zone, said.message.trim_end_matches('.')));
            }
        }
    }
    Err(no_room(batch, &refused))
}

fn what(batch: &Batch<'_>) -> String {
    let kind = batch.launch.rest.get_instance_type().as_ref().map_or("instance", |kind| kind.as_str());
    let spot = if batch.launch.spot { " (spot)" } else { "" };
    format!("{} x {kind}{spot} for {} nodes `{}`", batch.count, role_word(batch.nodes.role), batch.nodes.kind)
}

fn no_room(batch: &Batch<'_>, refused: &[String]) -> Failure {
    let text = format!("no zone has room for {}:\n  {}", what(batch), refused.join("\n  "));
    failure(Cause::Capacity, text, "name more zones in `availability_zone`, another InstanceType, or wait")
}

/// All batches in one zone, as a placement group asks for: what was launched in a zone that has not room for all is ended again.
pub async fn launch_together(
    cloud: &Cloud,
    batches: &[Batch<'_>],
    common: &Common,
    zones: &[String],
) -> Outcome<Vec<String>> {
    let mut refused = Vec::new();
    'zones: for zone in zones {
        let mut ids = Vec::new();
        for batch in batches {
            let Some(subnet) = batch.subnets.iter().find(|subnet| subnet.zone == *zone) else { continue 'zones };
            match try_in(cloud, batch, common, subnet).await? {
                Ok(more) => ids.extend(more),
                Err(said) => {
                    cloud.tell(format!("{zone} has no room for {}: {}", what(batch), said.code));
                    refused.push(format!("{zone}: {}", said.message.trim_end_matches('.')));
                    let stay = terminate(cloud, &ids).await;
                    if !stay.is_empty() {
                        // Elsewhere, there would be two of them.
                        return Err(in_the_way(batch, zone, &stay));
                    }
                    continue 'zones;
                }
            }
        }
        return Ok(ids);
    }
    match batches.first() {
        Some(first) => Err(no_room(first, &refused)),
        None => Ok(Vec::new()),
    }
}

/// Some of a cluster stand in a zone that has no room for the rest, and may not be ended there.
fn in_the_way(batch: &Batch<'_>, zone: &str, stay: &[(String, Said)]) -> Failure {
    let ids: Vec<String> = stay.iter().map(|(id, said)| format!("{id} ({})", said.code)).collect();
    let text = format!(
        "{zone} has no room for {}, and what was launched there cannot be ended: {}",
        what(batch),
        ids.join(", ")
    );
    let hint = "leave DisableApiTermination out of node_config until all nodes are there; `shoal down` says what ends these; \
                `shoal up` tries the same zone again";
    failure(Cause::InTheWay, text, hint)
}

/// The outer result ends the work; the inner one says that this zone has no room.
async fn try_in(
    cloud: &Cloud,
    batch: &Batch<'_>,
    common: &Common,
    subnet: &Subnet,
) -> Outcome<Result<Vec<String>, Said>> {
    cloud.tell(format!("launching {} in {}", what(batch), subnet.zone));
    let name = format!("{} {}", role_word(batch.nodes.role), batch.nodes.kind);
    let numbers: Outcome<Vec<u32>> = (0..batch.count).map(|_| cloud.will(Kind::Instance, &name)).collect();
    let numbers = numbers?;
    let (count, ledger) = (i32::try_from(batch.count).unwrap_or(i32::MAX), cloud.book.borrow().ledger.clone());
    let tags = node_tags(cloud.name(), &ledger, batch.nodes);
    let with = |more: &shoal_core::cluster::cloud::Tags| more.clone().into_iter().chain(tags.clone()).collect();
    let request = batch.launch.rest.clone().image_id(batch.image).min_count(count).max_count(count);
    let request = request
        // Asked twice with the same token, EC2 launches once.
        .client_token(format!("{}-{}", ledger.id, numbers.first().copied().unwrap_or_default()))
        .set_key_name(batch.launch.key_name.clone().or_else(|| common.key.clone()))
        .set_placement(placement(batch.launch.placement.clone(), common.placement.as_deref()))
        .tag_specifications(specification(ResourceType::Instance, &with(&batch.launch.tags.0)))
        .tag_specifications(specification(ResourceType::Volume, &with(&batch.launch.tags.1)));
    let groups: Vec<String> = match &batch.launch.groups {
        own if !own.is_empty() => own.clone(),
        _ => common.group.iter().cloned().collect(),
    };
    let request = if batch.launch.interfaces.is_empty() {
        request.subnet_id(&subnet.id).set_security_group_ids((!groups.is_empty()).then_some(groups))
    } else {
        let mut interfaces = batch.launch.interfaces.clone();
        for interface in &mut interfaces {
            interface.subnet_id.get_or_insert_with(|| subnet.id.clone());
            interface.groups.get_or_insert_with(|| groups.clone());
        }
        request.set_network_interfaces(Some(interfaces))
    };
    match request.send_with(&cloud.ec2).await {
        Ok(made) => {
            let ids: Vec<String> =
                made.instances().iter().filter_map(|instance| instance.instance_id().map(Into::into)).collect();
            for (n, id) in numbers.iter().zip(&ids) {
                cloud.made(*n, id)?;
            }
            for n in numbers.iter().skip(ids.len()) {
                cloud.gone(*n)?;
            }
            Ok(Ok(ids))
        }
        Err(error) => {
            let said = Said::of(&error);
            if said.answered {
                // It said no: there is nothing to look for later.
                numbers.iter().try_for_each(|n| cloud.gone(*n))?;
            }
            if said.is_capacity() { Ok(Err(said)) } else { Err(said.explained(&format!("launch {}", what(batch)))) }
        }
    }
}

fn placement(given: Option<Placement>, group: Option<&str>) -> Option<Placement> {
    let Some(group) = group else { return given };
    let mut placement = given.unwrap_or_else(|| Placement::builder().build());
    placement.group_name.get_or_insert_with(|| group.into());
    Some(placement)
}

/// One that is still stopping has to have stopped before it can start.
pub async fn start(cloud: &Cloud, ids: &[String]) -> Outcome<()> {
    if ids.is_empty() {
        return Ok(());
    }
    cloud.tell(format!("starting stopped instances again: {}", ids.join(", ")));
    reach(cloud, ids, "have stopped", |state| state != State::Stopping).await?;
    cloud.stop.check()?;
    let started = cloud.ec2.start_instances().set_instance_ids(Some(ids.to_vec())).send().await;
    started.map(drop).map_err(cannot(format!("start {}", ids.join(", "))))
}

pub async fn running(cloud: &Cloud, ids: &[String]) -> Outcome<Vec<Instance>> {
    reach(cloud, ids, "run", |state| state == State::Running).await
}

/// Waits until all are in the state; names those that are not.
async fn reach(cloud: &Cloud, ids: &[String], verb: &str, good: impl Fn(State) -> bool) -> Outcome<Vec<Instance>> {
    let waiting = std::cell::RefCell::new(ids.to_vec());
    let what = || format!("{} to {verb}", waiting.borrow().join(", "));
    let hint = "the AWS console may say why; `shoal up` again goes on from here, `shoal down` removes everything";
    cloud
        .until(MINUTES_10, what, hint, async || {
            let found = find::instances(cloud).await?;
            let mut there = Vec::new();
            let mut not_yet = Vec::new();
            for id in ids {
                match found.iter().find(|one| one.object.id == *id) {
                    Some(one) if one.instance.as_ref().is_some_and(|i| good(i.state)) => {
                        there.extend(one.instance.clone())
                    }
                    Some(one) if one.instance.is_some() => not_yet.push(format!("{id} ({})", one.object.state)),
                    // Launched and already over: a disk that could not be made, a spot that was taken back.
                    Some(_) => return Err(died(cloud, id).await),
                    // EC2 lists what it just launched some moments later.
                    None if ended(cloud, id).await? => return Err(died(cloud, id).await),
                    None => not_yet.push(format!("{id} (not listed yet)")),
                }
            }
            let done = not_yet.is_empty();
            *waiting.borrow_mut() = not_yet;
            Ok(done.then_some(there))
        })
        .await
}

async fn described(cloud: &Cloud, id: &str) -> Outcome<Option<aws_sdk_ec2::types::Instance>> {
    let question = find::filter("instance-id", vec![id.into()]);
    let asked = cloud.ec2.describe_instances().filters(question).send().await;
    let all = asked.map_err(cannot(format!("look at {id}")))?;
    Ok(all.reservations().iter().flat_map(|r| r.instances()).next().cloned())
}

async fn ended(cloud: &Cloud, id: &str) -> Outcome<bool> {
    let state = described(cloud, id).await?.and_then(|one| one.state().and_then(|state| state.name().cloned()));
    Ok(state.is_some_and(|state| state.as_str() == "terminated"))
}

async fn died(cloud: &Cloud, id: &str) -> Failure {
    let one = described(cloud, id).await.ok().flatten();
    let why = one.as_ref().and_then(|one| one.state_reason()).and_then(|reason| reason.message());
    let why = why.unwrap_or("EC2 does not say why");
    failure(Cause::Cloud, format!("instance {id} ended before it ran: {why}"), "`shoal up` tries again")
}

/// Those that may not be terminated are named, the others go all the same.
pub async fn terminate(cloud: &Cloud, ids: &[String]) -> Vec<(String, Said)> {
    let ask = async |ids: Vec<String>| {
        let asked = cloud.ec2.terminate_instances().set_instance_ids(Some(ids)).send().await;
        asked.map(drop).map_err(|e| Said::of(&e))
    };
    together_or_alone(ids, ask).await
}

/// As `terminate`: those that may not be stopped are named.
pub async fn stop(cloud: &Cloud, ids: &[String]) -> Vec<(String, Said)> {
    let ask = async |ids: Vec<String>| {
        let asked = cloud.ec2.stop_instances().set_instance_ids(Some(ids)).send().await;
        asked.map(drop).map_err(|e| Said::of(&e))
    };
    together_or_alone(ids, ask).await
}

/// EC2 refuses a call whole if it refuses one of its instances: the others are then asked for by themselves. What is gone already is well.
async fn together_or_alone(ids: &[String], ask: impl AsyncFn(Vec<String>) -> Result<(), Said>) -> Vec<(String, Said)> {
    if ids.is_empty() {
        return Vec::new();
    }
    let Err(said) = ask(ids.to_vec()).await else { return Vec::new() };
    if let [only] = ids {
        return if said.is_not_found() { Vec::new() } else { vec![(only.clone(), said)] };
    }
    let mut refused = Vec::new();
    for id in ids {
        match ask(vec![id.clone()]).await {
            Err(said) if !said.is_not_found() => refused.push((id.clone(), said)),
            _ => {}
        }
    }
    refused
}
