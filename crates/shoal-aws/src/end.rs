//! The end of a cluster: nodes first, then what they needed, then a look whether anything is left.

use crate::book::now;
use crate::cloud::{Cloud, MINUTES_10, patience};
use crate::failure::{Outcome, Said, failure};
use crate::{find, instances, key};
use shoal_core::cluster::Role;
use shoal_core::cluster::cloud::difference::{Instance, State};
use shoal_core::cluster::cloud::protocol::{Cause, Ending, Event, Failure};
use shoal_core::cluster::cloud::removal::{Allowed, verdict, waves};
use shoal_core::cluster::cloud::{Kind, Object, Whose, whose};
use std::time::Duration;

/// What EC2 was asked for and nobody heard of may be listed this much later.
const SETTLE_S: u64 = 30;

pub async fn end(cloud: &Cloud, how: Ending) -> Outcome<Event> {
    settle(cloud).await?;
    let mut gone = Vec::new();
    let mut trouble = Vec::new();
    let keep_stopped = how.keep_stopped || cloud.aws.cache_stopped_nodes;
    let mut spared = Vec::new();
    if keep_stopped || how.workers_only {
        spared = partly(cloud, how, keep_stopped, &mut gone, &mut trouble).await?;
    } else {
        let mine = mine(cloud).await?;
        for wave in waves(&mine) {
            cloud.stop.check()?;
            if !remove(cloud, &wave, &mut gone, &mut trouble).await? {
                cloud.tell("what the nodes use (file system, groups, key) stays as long as one of them does");
                break;
            }
        }
    }
    let left = find::everything(cloud).await?;
    record(cloud, &left)?;
    let allowed = Allowed { stopped: keep_stopped, head: how.workers_only, spared: &spared };
    let scan = verdict(&left, cloud.name(), &cloud.book.borrow().ledger, cloud.take_over, allowed);
    if !left.iter().any(|object| object.kind == Kind::KeyPair)
        && !keep_stopped
        && !how.workers_only
        && scan.left.is_empty()
    {
        key::forget(cloud);
    }
    for why in trouble {
        cloud.tell(why.to_string());
    }
    Ok(Event::Ended { gone, scan })
}

/// If somebody died while asking for something, it may exist and not be listed yet.
async fn settle(cloud: &Cloud) -> Outcome<()> {
    let newest = cloud.book.borrow().ledger.unsure().map(|item| item.at).max();
    let bound = patience(Duration::from_secs(SETTLE_S)).min(Duration::from_secs(SETTLE_S));
    let Some(rest) = newest.map(|at| bound.as_secs().saturating_sub(now().saturating_sub(at))) else { return Ok(()) };
    if rest > 0 {
        cloud.tell(format!(
            "the last `up` broke off while it made something; looking again in {rest} s, when AWS lists it"
        ));
        cloud.stop.sleep(Duration::from_secs(rest)).await?;
    }
    Ok(())
}

/// What we may remove.
async fn mine(cloud: &Cloud) -> Outcome<Vec<Object>> {
    let ledger = cloud.book.borrow().ledger.clone();
    let all = find::everything(cloud).await?;
    let may = |object: &Object| match whose(object, cloud.name(), &ledger) {
        Whose::Ours => true,
        Whose::Elsewhere(_) => cloud.take_over || ledger.by_id(&object.id).is_some(),
        Whose::Strangers => ledger.by_id(&object.id).is_some(),
    };
    Ok(all.into_iter().filter(may).collect())
}

/// Only workers, or all stopped instead of ended: everything else stays. Gives the workers that are kept because the file wants that many.
async fn partly(
    cloud: &Cloud,
    how: Ending,
    stop: bool,
    gone: &mut Vec<String>,
    trouble: &mut Vec<Failure>,
) -> Outcome<Vec<String>> {
    let ids: Vec<String> = mine(cloud).await?.into_iter().map(|object| object.id).collect();
    let found = find::instances(cloud).await?.into_iter().filter_map(|one| one.instance);
    let mut nodes: Vec<Instance> = found.filter(|node| ids.contains(&node.id)).collect();
    // One that is stopped is no worker that works.
    nodes.sort_by_key(|node| (!is_awake(node), node.since, node.id.clone()));
    if how.workers_only {
        nodes.retain(|node| node.role == Role::Worker);
    }
    let mut kept = Vec::new();
    if how.keep_min_workers {
        for kind in &cloud.cluster.workers {
            let mut keep = kind.min_workers;
            nodes.retain(|node| {
                let spared = node.kind == kind.name && keep > 0;
                if spared {
                    keep -= 1;
                    kept.push(node.id.clone());
                }
                !spared
            });
        }
    }
    // A spot instance of the usual sort cannot be stopped.
    let (stopped, ended): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| stop && !node.spot);
    let stopped: Vec<String> = stopped.into_iter().map(|node| node.id).collect();
    put_to_sleep(cloud, &stopped, trouble).await?;
    let everything = find::everything(cloud).await?;
    let these: Vec<Object> =
        everything.into_iter().filter(|object| ended.iter().any(|node| node.id == object.id)).collect();
    remove(cloud, &these, gone, trouble).await?;
    Ok(kept)
}

fn is_awake(node: &Instance) -> bool {
    matches!(node.state, State::Pending | State::Running)
}

/// Stops all of them, and waits until they have. Those that may not be stopped are named; that they run is for the scan to see.
async fn put_to_sleep(cloud: &Cloud, ids: &[String], trouble: &mut Vec<Failure>) -> Outcome<()> {
    // One that is only starting cannot be stopped, and EC2 would refuse all others with it.
    let found =
        wait_for(cloud, ids, "to have started, so that it can be stopped", |state| state != State::Pending).await?;
    let awake: Vec<String> = found.into_iter().filter(is_awake).map(|node| node.id).collect();
    let mut asleep = ids.to_vec();
    if !awake.is_empty() {
        cloud.stop.check()?;
        cloud.tell(format!("stopping {}", awake.join(", ")));
        for (id, said) in instances::stop(cloud, &awake).await {
            trouble.push(said.explained(&format!("stop {id}")));
            asleep.retain(|one| *one != id);
        }
    }
    wait_for(cloud, &asleep, "to stop", |state| state == State::Stopped).await.map(drop)
}

/// Until all of them that are still there are in such a state; gives those.
async fn wait_for(cloud: &Cloud, ids: &[String], until: &str, good: impl Fn(State) -> bool) -> Outcome<Vec<Instance>> {
    let waiting = std::cell::RefCell::new(Vec::new());
    let what = || format!("{} {until}", waiting.borrow().join(", "));
    cloud
        .until(MINUTES_10, what, "`shoal down` again goes on from here", async || {
            let found = find::instances(cloud).await?.into_iter().filter_map(|one| one.instance);
            let there: Vec<Instance> = found.filter(|node| ids.contains(&node.id)).collect();
            let open = there.iter().filter(|node| !good(node.state)).map(|node| node.id.clone());
            *waiting.borrow_mut() = open.collect();
            let done = waiting.borrow().is_empty();
            Ok(done.then_some(there))
        })
        .await
}

/// Asks for the end of all in the wave, then waits until none is listed. False: a node may not be ended, so nothing beside nodes was touched. EFS
/// would let a file system go under a node that works on it.
async fn remove(cloud: &Cloud, wave: &[Object], gone: &mut Vec<String>, trouble: &mut Vec<Failure>) -> Outcome<bool> {
    let instances: Vec<String> = wave.iter().filter(|o| o.kind == Kind::Instance).map(|o| o.id.clone()).collect();
    let mut refused: Vec<String> = Vec::new();
    if !instances.is_empty() {
        cloud.tell(format!("ending {}", instances.join(", ")));
        for (id, said) in instances::terminate(cloud, &instances).await {
            trouble.push(protected(&id, &said));
            refused.push(id);
        }
    }
    let all_go = refused.is_empty();
    let goes = |object: &&Object| !refused.contains(&object.id) && (all_go || object.kind == Kind::Instance);
    let mut open: Vec<&Object> = wave.iter().filter(goes).collect();
    let mut asked: Vec<String> = instances.clone();
    let waiting = std::cell::RefCell::new(Vec::new());
    let what = || format!("{} to go", waiting.borrow().join(", "));
    let outcome = cloud.until(MINUTES_10, what, "", async || {
        for object in &open {
            if asked.contains(&object.id) {
                continue;
            }
            cloud.stop.check()?;
            match delete(cloud, object).await {
                Ok(()) => asked.push(object.id.clone()),
                // What uses it is on its way out.
                Err(said) if said.is_in_use() => {}
                Err(said) => {
                    trouble.push(said.explained(&format!("remove {object}")));
                    asked.push(object.id.clone());
                    refused.push(object.id.clone());
                }
            }
        }
        open.retain(|object| !refused.contains(&object.id));
        let listed = find::everything(cloud).await?;
        let (there, over): (Vec<&Object>, Vec<&Object>) =
            open.iter().copied().partition(|o| listed.iter().any(|l| l.id == o.id));
        for object in over {
            gone.push(format!("{} {}", object.kind, object.id));
            forget(cloud, object)?;
        }
        open = there;
        *waiting.borrow_mut() = open.iter().map(|object| object.to_string()).collect();
        Ok(open.is_empty().then_some(()))
    });
    match outcome.await {
        Err(late) if late.cause == Cause::Late => {
            // The others still go; the scan names what is left.
            trouble.push(late);
            Ok(all_go)
        }
        other => other.map(|()| all_go),
    }
}

async fn delete(cloud: &Cloud, object: &Object) -> Result<(), Said> {
    fn fine<T>(outcome: Result<T, Said>) -> Result<(), Said> {
        match outcome {
            Err(said) if !said.is_not_found() => Err(said),
            _ => Ok(()),
        }
    }
    cloud.tell(format!("removing {object}"));
    let id = object.id.as_str();
    match object.kind {
        Kind::MountTarget => {
            fine(cloud.efs.delete_mount_target().mount_target_id(id).send().await.map_err(|e| Said::of(&e)))
        }
        Kind::FileSystem => {
            fine(cloud.efs.delete_file_system().file_system_id(id).send().await.map_err(|e| Said::of(&e)))
        }
        Kind::SecurityGroup => {
            fine(cloud.ec2.delete_security_group().group_id(id).send().await.map_err(|e| Said::of(&e)))
        }
        Kind::PlacementGroup => {
            fine(cloud.ec2.delete_placement_group().group_name(id).send().await.map_err(|e| Said::of(&e)))
        }
        // By its name, which holds the ledger's id: no two machines make the same.
        Kind::KeyPair => {
            fine(cloud.ec2.delete_key_pair().key_name(&object.name).send().await.map_err(|e| Said::of(&e)))
        }
        // Instances are asked for together; disks and images are not removed.
        Kind::Instance | Kind::Volume | Kind::Image => Ok(()),
    }
}

fn protected(id: &str, said: &Said) -> Failure {
    if said.is(&["OperationNotPermitted"]) {
        let text = format!("instance {id} is protected against termination and still runs");
        let hint = format!(
            "aws ec2 modify-instance-attribute --instance-id {id} --no-disable-api-termination, then `shoal down` again"
        );
        return failure(Cause::InTheWay, text, hint);
    }
    said.explained(&format!("end {id}"))
}

fn forget(cloud: &Cloud, object: &Object) -> Outcome<()> {
    let item = cloud.book.borrow().ledger.by_id(&object.id).map(|item| item.n);
    item.map_or(Ok(()), |n| cloud.gone(n))
}

/// What a whole look did not find is gone: the ledger says so from now on.
fn record(cloud: &Cloud, there: &[Object]) -> Outcome<()> {
    let open: Vec<(u32, Kind, Option<String>)> =
        cloud.book.borrow().ledger.open().map(|item| (item.n, item.kind, item.id.clone())).collect();
    for (n, kind, id) in open {
        let known = &cloud.book.borrow().ledger.clone();
        let still = match &id {
            Some(id) => there.iter().any(|object| object.id == *id),
            // Nobody heard its id: something of its kind that no line speaks of could be it.
            None => there.iter().any(|object| object.kind == kind && known.by_id(&object.id).is_none()),
        };
        if !still {
            cloud.gone(n)?;
        }
    }
    Ok(())
}
