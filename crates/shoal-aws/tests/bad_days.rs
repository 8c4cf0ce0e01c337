//! What bad days give: refusals that say what to do, and nothing left after `down`, whenever it broke off.

mod support;

use serde_json::json;
use shoal_core::cluster::cloud::Kind;
use shoal_core::cluster::cloud::protocol::{Ask, Cause, Ending, Event};
use shoal_core::cluster::cloud::removal::Scan;
use std::process::Command;
use support::{Lab, aws, full, heard, plain};

fn subnet(lab: &Lab, zone: &str) -> String {
    let query = format!("Action=DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1={zone}");
    let xml = lab.cloud.ask("us-west-2", &query);
    let id = xml.split("<subnetId>").nth(1).and_then(|rest| rest.split('<').next());
    id.expect("a default subnet").to_string()
}

#[test]
fn no_credentials() {
    let Some(lab) = Lab::new() else { return };
    let mut command = lab.command();
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let cluster = plain("nobody");
    let failure = lab.says(command, &lab.request(&cluster, Ask::Ensure { replace: false }, false)).failure();
    assert_eq!(failure.cause, Cause::Credentials);
    assert!(failure.hint.expect("a hint").contains("aws configure"));
    assert_eq!(lab.cloud.calls(), Vec::<String>::new());
}

#[test]
fn a_file_that_is_wrong_costs_nothing() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = plain("typo");
    cluster.workers[0].node_config["InstanceTyp"] = json!("t3.large");
    let failure = lab.up_fails(&cluster);
    assert_eq!(failure.cause, Cause::Wrong);
    assert!(failure.text.contains("worker.node_config.InstanceTyp: unknown key; did you mean `InstanceType`?"));
    let mut elsewhere = plain("typo");
    aws(&mut elsewhere).zones = vec!["eu-west-1a".into()];
    assert!(lab.up_fails(&elsewhere).text.contains("zone `eu-west-1a` is not in region `us-west-2`"));
    assert_eq!(lab.cloud.instances().len(), 0);
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

#[test]
fn a_quota_is_named_and_what_was_made_goes() {
    let Some(lab) = Lab::new() else { return };
    let cluster = full("big");
    lab.cloud.refuse(&json!([{"action": "RunInstances", "code": "VcpuLimitExceeded", "times": 9}]));
    let failure = lab.up_fails(&cluster);
    assert_eq!(failure.cause, Cause::Quota);
    assert!(failure.text.contains("launch 1 x t3.micro for head nodes `head`"), "{failure:?}");
    assert!(failure.hint.expect("a hint").contains("Service Quotas"));
    let (gone, scan) = lab.down(&cluster);
    assert_eq!(scan, Scan::default(), "{gone:?}");
    lab.is_clean(&cluster);
}

#[test]
fn throttling_is_waited_out() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = plain("eager");
    cluster.workers[0].min_workers = 0;
    lab.cloud.refuse(&json!([{"action": "*", "code": "RequestLimitExceeded", "times": 3}]));
    let (nodes, ..) = lab.up(&cluster);
    assert_eq!(nodes.len(), 1);
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

#[test]
fn a_lost_answer_is_no_second_object() {
    let Some(lab) = Lab::new() else { return };
    let lost = |action: &str| json!({"action": action, "code": "InternalError", "times": 1, "lost": true});
    let calls = [
        "ImportKeyPair",
        "CreateSecurityGroup",
        "CreatePlacementGroup",
        "RunInstances",
        "POST /2015-02-01/file-systems",
        "POST /2015-02-01/mount-targets",
    ];
    lab.cloud.refuse(&calls.map(lost).into_iter().collect());
    let cluster = full("echo");
    let (nodes, shared, _) = lab.up(&cluster);
    assert_eq!((nodes.len(), shared.is_some()), (3, true));
    assert_eq!((lab.ledger(&cluster).unsure().count(), lab.cloud.alive().len()), (0, 3));
    lab.cloud.refuse(&json!([lost("CreateImage")]));
    let baked = lab.ask(&cluster, Ask::Bake { name: "echo-2026".into(), reboot: false });
    let Event::Baked { id, .. } = &baked.last else { panic!("{}", baked.raw) };
    let (gone, scan) = lab.down(&cluster);
    assert_eq!((gone.len(), scan.left.len(), scan.kept.len()), (9, 0, 1), "{gone:?} {scan:?}");
    assert_eq!(&scan.kept[0].object.id, id);
}

/// A head that may not be ended in a zone without room for the others: another one elsewhere would not help, and both would cost.
#[test]
fn who_may_not_be_ended_is_not_launched_twice() {
    let Some(lab) = Lab::new() else { return };
    let first = subnet(&lab, "us-west-2a");
    lab.cloud.refuse(&json!([
        {"action": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 1, "subnet": first, "after": 1},
        {"action": "TerminateInstances", "code": "OperationNotPermitted", "times": 9},
    ]));
    let cluster = full("rock");
    let failure = lab.up_fails(&cluster);
    let alive = lab.cloud.alive();
    assert_eq!((failure.cause, alive.len()), (Cause::InTheWay, 1), "{failure:?}");
    assert!(failure.text.contains(alive[0]["id"].as_str().expect("an id")), "{failure:?}");
    lab.cloud.refuse(&json!([]));
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

/// `down` of a part: what was to go or stop and did not is left, and not "kept".
#[test]
fn a_worker_that_stays_against_our_will_is_left() {
    let Some(lab) = Lab::new() else { return };
    let cluster = plain("part");
    let (nodes, ..) = lab.up(&cluster);
    let refused =
        |action: &str| lab.cloud.refuse(&json!([{"action": action, "code": "OperationNotPermitted", "times": 9}]));
    let ids = |scan: &Scan| {
        let mut ids: Vec<String> = scan.left.iter().map(|left| left.object.id.clone()).collect();
        ids.sort_unstable();
        ids
    };
    let sorted = |nodes: &[shoal_core::cluster::cloud::difference::Instance]| {
        let mut ids: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
        ids.sort_unstable();
        ids
    };
    refused("TerminateInstances");
    let how = Ending { workers_only: true, ..Ending::default() };
    let (gone, scan) = lab.ask(&cluster, Ask::End { how }).ended();
    assert_eq!((gone.len(), ids(&scan)), (0, sorted(&nodes[1..])));
    assert!(scan.kept.iter().any(|kept| kept.object.id == nodes[0].id), "{scan:?}");
    refused("StopInstances");
    let how = Ending { keep_stopped: true, ..Ending::default() };
    let said = lab.ask(&cluster, Ask::End { how });
    assert!(said.told.iter().any(|text| text.contains("cannot stop") && text.contains(&nodes[0].id)), "{}", said.raw);
    assert_eq!(ids(&said.ended().1), sorted(&nodes));
    lab.cloud.refuse(&json!([]));

    // Of two workers one is to be kept: the one that works, though the other is as old.
    let mut one = cluster.clone();
    one.workers[0].min_workers = 1;
    lab.cloud.ask("us-west-2", &format!("Action=StopInstances&InstanceId.1={}", nodes[1].id));
    let how = Ending { workers_only: true, keep_min_workers: true, ..Ending::default() };
    let (gone, scan) = lab.ask(&one, Ask::End { how }).ended();
    assert_eq!((gone, scan.left.len()), (vec![format!("instance {}", nodes[1].id)], 0));
    assert!(scan.kept.iter().any(|kept| kept.object.id == nodes[2].id), "{scan:?}");
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

/// EC2 refuses to stop one that is only starting, and all others of the call with it.
#[test]
fn one_that_is_only_starting_is_stopped_when_it_runs() {
    let Some(lab) = Lab::new() else { return };
    let cluster = plain("early");
    lab.up(&cluster);
    lab.cloud.keep_pending(true);
    let how = Ending { keep_stopped: true, ..Ending::default() };
    let mut child = lab.start(lab.command(), &lab.request(&cluster, Ask::End { how }, false));
    let input = child.stdin.take();
    let looks = || lab.cloud.calls().iter().filter(|call| *call == "DescribeInstances").count();
    let before = looks();
    let looked =
        shoal_testkit::wait::until(std::time::Duration::from_secs(60), || (looks() > before + 4).then_some(()));
    assert!(looked.is_some(), "it does not look again");
    lab.cloud.keep_pending(false);
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    let (_, scan) = heard(&output.stdout, &output.stderr).ended();
    assert_eq!(scan.left.len(), 0, "{scan:?}");
    assert!(lab.cloud.alive().iter().all(|one| one["state"] == "stopped"));
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

/// The file system of a cluster of the same name that somebody else made is not ours to mount.
#[test]
fn anothers_file_system_is_not_shared() {
    let Some(lab) = Lab::new() else { return };
    let cluster = full("namesake");
    lab.up(&cluster);
    let shared = |folder: std::path::PathBuf| {
        let mut request = lab.request(&cluster, Ask::Nodes, false);
        request.folder = folder.to_string_lossy().into_owned();
        let said = lab.says(lab.command(), &request);
        let Event::Nodes { nodes, shared, .. } = said.last else { panic!("{}", said.raw) };
        (nodes.len(), shared.is_some())
    };
    assert_eq!(shared(lab.folder(&cluster)), (3, true));
    let other = tempfile::tempdir().expect("a home");
    assert_eq!(shared(other.path().to_path_buf()), (0, false));
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

/// Something that takes connections and never answers: a stop ends the call all the same.
#[test]
fn a_stop_does_not_wait_for_a_network_that_is_gone() {
    let Some(lab) = Lab::new() else { return };
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("its address"));
    let mut command = lab.command();
    command.env("AWS_ENDPOINT_URL", &address).env("SHOAL_AWS_PATIENCE_S", "1");
    let mut child = lab.start(command, &lab.request(&plain("deaf"), Ask::Ensure { replace: false }, false));
    let (call, _) = silent.accept().expect("a call");
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("it ends");
    drop(call);
    let failure = heard(&output.stdout, &output.stderr).failure();
    assert_eq!(failure.cause, Cause::Stopped);
    assert!(failure.text.contains("did not answer"), "{failure:?}");
}

#[test]
fn a_zone_without_room_is_left_for_the_next() {
    let Some(lab) = Lab::new() else { return };
    let first = subnet(&lab, "us-west-2a");
    let full_zone =
        json!({"action": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 1, "subnet": first});
    lab.cloud.refuse(&json!([full_zone]));
    let mut cluster = plain("crowded");
    cluster.workers[0].min_workers = 0;
    let (nodes, ..) = lab.up(&cluster);
    assert_eq!(nodes[0].zone, "us-west-2b");
    lab.down(&cluster);

    // Together or not at all: the head that found room in the first zone moves with the others.
    let together = full("close");
    let workers = json!({"action": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 1, "subnet": first, "after": 1});
    lab.cloud.refuse(&json!([workers]));
    let (nodes, ..) = lab.up(&together);
    assert!(nodes.iter().all(|node| node.zone == "us-west-2b"), "{nodes:?}");
    assert_eq!((nodes.len(), lab.cloud.alive().len()), (3, 3));

    lab.cloud.refuse(&json!([{"action": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 9}]));
    let failure = lab.up_fails(&plain("nowhere"));
    assert_eq!(failure.cause, Cause::Capacity);
    assert!(failure.text.contains("us-west-2a: ") && failure.text.contains("us-west-2b: "), "{failure:?}");
    for cluster in [cluster, together, plain("nowhere")] {
        lab.down(&cluster);
        lab.is_clean(&cluster);
    }
    assert_eq!(lab.cloud.alive().len(), 0);
}

#[test]
fn killed_after_any_call_and_then_down_leaves_nothing() {
    let Some(mut lab) = Lab::new() else { return };
    lab.patience_s = 1;
    for n in 1..40 {
        let cluster = full(&format!("killed-{n}"));
        lab.cloud.hold(n);
        let request = lab.request(&cluster, Ask::Ensure { replace: false }, false);
        let mut child = lab.start(lab.command(), &request);
        let held = lab.cloud.held(|| child.try_wait().expect("wait").is_some());
        child.kill().expect("kill -9");
        child.wait().expect("its end");
        lab.cloud.hold(0);
        let (gone, scan) = lab.down(&cluster);
        assert_eq!(scan, Scan::default(), "after call {n}: {gone:?}");
        lab.is_clean(&cluster);
        assert_eq!(lab.cloud.alive().len(), 0, "after call {n}");
        if !held {
            assert!(n > 8, "only {} calls change something", n - 1);
            return;
        }
        assert!(!gone.is_empty(), "call {n} was done, and `down` found nothing");
    }
    panic!("no end after 40 calls");
}

#[test]
fn killed_during_down_and_down_again() {
    let Some(mut lab) = Lab::new() else { return };
    lab.patience_s = 20;
    for n in 1..40 {
        let cluster = full(&format!("ended-{n}"));
        lab.up(&cluster);
        lab.cloud.hold(n);
        let request = lab.request(&cluster, Ask::End { how: Default::default() }, false);
        let mut child = lab.start(lab.command(), &request);
        let held = lab.cloud.held(|| child.try_wait().expect("wait").is_some());
        child.kill().expect("kill -9");
        child.wait().expect("its end");
        lab.cloud.hold(0);
        let (_, scan) = lab.down(&cluster);
        assert_eq!(scan, Scan::default(), "after call {n}");
        lab.is_clean(&cluster);
        if !held {
            assert!(n > 6, "only {} calls", n - 1);
            return;
        }
    }
    panic!("no end after 40 calls");
}

#[test]
fn a_stop_is_orderly_and_the_ledger_true() {
    let Some(lab) = Lab::new() else { return };
    for by_signal in [true, false] {
        let cluster = full(if by_signal { "signal" } else { "eof" });
        lab.cloud.hold(4);
        let request = lab.request(&cluster, Ask::Ensure { replace: false }, false);
        let mut child = lab.start(lab.command(), &request);
        assert!(lab.cloud.held(|| false));
        let input = child.stdin.take();
        if by_signal {
            assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill").success());
        } else {
            drop(input);
        }
        // The call under way is answered now; nothing new begins.
        lab.cloud.hold(0);
        let output = child.wait_with_output().expect("it ends");
        let failure = heard(&output.stdout, &output.stderr).failure();
        assert_eq!(failure.cause, Cause::Stopped, "{failure:?}");
        assert!(failure.hint.expect("a hint").contains("shoal down"));
        assert_eq!(lab.ledger(&cluster).unsure().count(), 0);
        assert_eq!(lab.cloud.alive().len(), 0);
        lab.down(&cluster);
        lab.is_clean(&cluster);
    }
}

#[test]
fn a_cluster_is_in_one_region() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = plain("mover");
    cluster.workers[0].min_workers = 0;
    lab.up(&cluster);
    aws(&mut cluster).region = "eu-west-1".into();
    aws(&mut cluster).zones = Vec::new();
    let failure = lab.up_fails(&cluster);
    assert_eq!(failure.cause, Cause::InTheWay);
    assert!(failure.text.contains("us-west-2") && failure.text.contains("eu-west-1"), "{failure:?}");
    // `down` removes it where it is, and then it may move.
    lab.down(&cluster);
    assert_eq!(lab.cloud.alive().len(), 0);
    let (nodes, ..) = lab.up(&cluster);
    assert!(nodes[0].zone.starts_with("eu-west-1"));
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

/// Other nodes go; what nodes use stays, above all the file system that this one may be working on.
#[test]
fn a_protected_instance_is_named_and_keeps_what_it_uses() {
    let Some(mut lab) = Lab::new() else { return };
    lab.patience_s = 3;
    let lab = lab;
    let cluster = full("fort");
    let (nodes, ..) = lab.up(&cluster);
    // Moto forgets what RunInstances says about it.
    let protect = |on: bool| {
        let query =
            format!("Action=ModifyInstanceAttribute&InstanceId={}&DisableApiTermination.Value={on}", nodes[0].id);
        lab.cloud.ask("us-west-2", &query)
    };
    protect(true);
    let said = lab.ask(&cluster, Ask::End { how: Default::default() });
    assert!(
        said.told.iter().any(|text| text.contains(&nodes[0].id) && text.contains("no-disable-api-termination")),
        "{}",
        said.raw
    );
    let (gone, scan) = said.ended();
    assert_eq!(gone.iter().filter(|gone| gone.starts_with("instance")).count(), 2, "{gone:?}");
    assert!(scan.left.iter().any(|left| left.object.id == nodes[0].id), "{scan:?}");
    for kind in [Kind::FileSystem, Kind::MountTarget, Kind::SecurityGroup, Kind::KeyPair] {
        assert!(scan.left.iter().any(|left| left.object.kind == kind), "no {kind} in {scan:?}");
    }
    assert_eq!(lab.cloud.file_systems("us-west-2").len(), 1);
    protect(false);
    let (_, scan) = lab.down(&cluster);
    assert_eq!(scan, Scan::default());
    lab.is_clean(&cluster);
}

#[test]
fn what_is_somebody_elses_stays() {
    let Some(lab) = Lab::new() else { return };
    // A group of the name the file gives, made by hand.
    let made = lab.cloud.ask("us-west-2", "Action=CreateSecurityGroup&GroupName=lab-ssh&GroupDescription=by+hand");
    let hand = made.split("<groupId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an id").to_string();
    let mut cluster = plain("shared-name");
    aws(&mut cluster).security_group = Some(json!({"GroupName": "lab-ssh"}));
    lab.up(&cluster);

    // The same name, from another machine: refused, and nothing of it touched.
    let other =
        Lab { cloud: Lab::new().expect("as before").cloud, home: tempfile::tempdir().expect("a home"), patience_s: 30 };
    let from_there = |ask: Ask, take_over: bool| {
        let mut request = lab.request(&cluster, ask, take_over);
        request.folder = other.folder(&cluster).to_string_lossy().into_owned();
        lab.says(lab.command(), &request)
    };
    let refused = from_there(Ask::Ensure { replace: false }, false).failure();
    assert_eq!(refused.cause, Cause::InTheWay);
    assert!(refused.text.contains("me@test"), "{refused:?}");
    let (gone, scan) = from_there(Ask::End { how: Default::default() }, false).ended();
    assert_eq!((gone.len(), scan.left.len(), scan.others.is_empty()), (0, 0, false));
    assert_eq!(lab.cloud.alive().len(), 3);
    // Unless told that it is ours.
    let said = from_there(Ask::End { how: Default::default() }, true);
    let Event::Ended { scan, .. } = &said.last else { panic!("{}", said.raw) };
    assert_eq!(scan, &Scan::default());
    assert_eq!(lab.cloud.alive().len(), 0);
    let groups = lab.cloud.ask("us-west-2", &format!("Action=DescribeSecurityGroups&GroupId.1={hand}"));
    assert!(groups.contains("lab-ssh"), "the group made by hand is gone: {groups}");
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

#[test]
fn other_words_are_refused() {
    let Some(lab) = Lab::new() else { return };
    let cluster = plain("words");
    let mut request = lab.request(&cluster, Ask::Scan, false);
    request.version = 99;
    let failure = lab.says(lab.command(), &request).failure();
    assert!(failure.text.contains("version 99"), "{failure:?}");
}
