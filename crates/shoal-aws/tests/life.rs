//! A cluster's life on a mock AWS: made, found again, stopped, baked, changed, removed; and nothing is left.

mod support;

use serde_json::json;
use shoal_core::cluster::Role;
use shoal_core::cluster::cloud::difference::State;
use shoal_core::cluster::cloud::protocol::{Ask, Cause, Ending, Event};
use std::os::unix::fs::PermissionsExt;
use support::{Lab, aws, full, plain};

const CHANGES: [&str; 8] = ["Create", "Run", "Import", "Authorize", "Terminate", "Delete", "Revoke", "Start"];

fn changes(calls: &[String]) -> Vec<&String> {
    calls
        .iter()
        .filter(|call| CHANGES.iter().any(|word| call.starts_with(word)) || call.starts_with("DELETE"))
        .collect()
}

#[test]
fn everything_is_made_once_and_all_of_it_goes() {
    let Some(lab) = Lab::new() else { return };
    let cluster = full("paper");
    let (nodes, shared, key) = lab.up(&cluster);
    let roles: Vec<_> = nodes.iter().map(|node| (node.role, node.kind.as_str(), node.state)).collect();
    let worker = (Role::Worker, "worker", State::Running);
    assert_eq!(roles, [(Role::Head, "head", State::Running), worker, worker]);
    assert!(nodes.iter().all(|node| node.zone == "us-west-2a" && node.internal.is_some()), "{nodes:?}");
    let shared = shared.expect("a file system");
    assert_eq!(shared.targets.keys().collect::<Vec<_>>(), ["us-west-2a"]);
    let mode = |path: &str| std::fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&key.expect("a key")), 0o600);

    // ssh from the caller alone, everything from each other (SEC-2's neighbour: least privilege).
    let groups =
        lab.cloud.ask("us-west-2", "Action=DescribeSecurityGroups&Filter.1.Name=tag:shoal-part&Filter.1.Value.1=nodes");
    assert!(groups.contains("198.51.100.7/32") && !groups.contains("0.0.0.0/0</cidrIp><description>shoal"), "{groups}");
    let ingress =
        groups.split("<ipPermissions>").nth(1).and_then(|text| text.split("</ipPermissions>").next()).expect("rules");
    assert!(!ingress.contains("0.0.0.0/0"), "{ingress}");

    let before = lab.cloud.calls();
    let (again, ..) = lab.up(&cluster);
    assert_eq!(again, nodes);
    let calls = lab.cloud.calls();
    assert_eq!(changes(&calls[before.len()..]), Vec::<&String>::new());

    let (gone, scan) = lab.down(&cluster);
    // 3 instances, mount target, file system, 2 groups, placement group, key pair.
    assert_eq!((gone.len(), scan), (9, Default::default()), "{gone:?}");
    lab.is_clean(&cluster);
    assert!(!lab.folder(&cluster).join("key").exists());
    assert_eq!(lab.cloud.alive().len(), 0);
    let (gone, scan) = lab.down(&cluster);
    assert_eq!((gone, scan), (Vec::new(), Default::default()));
}

#[test]
fn stopped_nodes_are_kept_when_asked_and_used_again() {
    let Some(lab) = Lab::new() else { return };
    let cluster = plain("sleepy");
    let (nodes, ..) = lab.up(&cluster);
    let how = Ending { keep_stopped: true, ..Ending::default() };
    let (_, scan) = lab.ask(&cluster, Ask::End { how }).ended();
    assert!(scan.left.is_empty() && scan.kept.len() >= 5, "{scan:?}");
    assert!(lab.cloud.alive().iter().all(|one| one["state"] == "stopped"));
    let ids = |nodes: &[shoal_core::cluster::cloud::difference::Instance]| {
        let mut ids: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
        ids.sort();
        ids
    };
    let (again, ..) = lab.up(&cluster);
    assert_eq!(ids(&again), ids(&nodes));

    let how = Ending { workers_only: true, ..Ending::default() };
    let (gone, scan) = lab.ask(&cluster, Ask::End { how }).ended();
    assert_eq!((gone.len(), scan.left.len()), (2, 0), "{gone:?}");
    assert_eq!(lab.cloud.alive().len(), 1);
    // Without being told otherwise, `down` terminates: stopped ones too.
    lab.ask(&cluster, Ask::End { how: Ending { keep_stopped: true, ..Ending::default() } }).ended();
    lab.down(&cluster);
    lab.is_clean(&cluster);
    assert_eq!(lab.cloud.alive().len(), 0);
}

#[test]
fn an_image_is_baked_found_by_its_name_and_kept() {
    let Some(lab) = Lab::new() else { return };
    let cluster = plain("kitchen");
    let bake = |name: &str| Ask::Bake { name: name.into(), reboot: true };
    let early = lab.ask(&cluster, bake("paper-2026")).failure();
    assert!(early.text.contains("no running head") && early.hint.is_some(), "{early:?}");
    lab.up(&cluster);
    let said = lab.ask(&cluster, bake("paper-2026"));
    let Event::Baked { id, .. } = said.last else { panic!("{}", said.raw) };
    let taken = lab.ask(&cluster, bake("paper-2026")).failure();
    assert_eq!((taken.cause, taken.text.contains(&id)), (Cause::InTheWay, true), "{taken:?}");
    assert_eq!(lab.ask(&cluster, bake("ami-1")).failure().cause, Cause::Wrong);

    let (_, scan) = lab.down(&cluster);
    assert_eq!(scan.left, []);
    assert_eq!(scan.kept.iter().map(|kept| kept.object.id.as_str()).collect::<Vec<_>>(), [&id]);

    let mut second = plain("eaters");
    second.head.node_config["ImageId"] = json!("paper-2026");
    lab.up(&second);
    let instances =
        lab.cloud.ask("us-west-2", &format!("Action=DescribeInstances&Filter.1.Name=image-id&Filter.1.Value.1={id}"));
    assert!(instances.contains("ray-eaters-head"), "{instances}");
    lab.down(&second);
    second.head.node_config["ImageId"] = json!("paper-2027");
    let missing = lab.up_fails(&second);
    assert!(missing.text.contains("no image called `paper-2027`"), "{missing:?}");
}

#[test]
fn what_differs_is_replaced_only_when_asked() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = plain("change");
    let (nodes, ..) = lab.up(&cluster);
    cluster.workers[0].node_config["InstanceType"] = json!("t3.large");
    let refused = lab.up_fails(&cluster);
    assert!(refused.text.contains("worker") && refused.text.contains(&nodes[1].id), "{refused:?}");
    assert_eq!(lab.cloud.alive().len(), 3);
    let said = lab.ask(&cluster, Ask::Ensure { replace: true });
    let Event::Nodes { nodes: after, .. } = said.last else { panic!("{}", said.raw) };
    assert_eq!((after[0].id.as_str(), after.len()), (nodes[0].id.as_str(), 3));
    assert!(after[1..].iter().all(|node| node.instance_type == "t3.large"), "{after:?}");

    // One worker less: none is ended behind anybody's back.
    cluster.workers[0].min_workers = 1;
    let said = lab.ask(&cluster, Ask::Ensure { replace: false });
    assert!(said.told.iter().any(|text| text.contains("more than the file asks for")), "{}", said.raw);
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

#[test]
fn the_callers_address_is_followed_and_rules_of_others_stay() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = plain("nomad");
    cluster.workers[0].min_workers = 0;
    lab.up(&cluster);
    aws(&mut cluster).allow_from = vec!["203.0.113.9".into(), "10.0.0.0/8".into()];
    lab.up(&cluster);
    let groups =
        lab.cloud.ask("us-west-2", "Action=DescribeSecurityGroups&Filter.1.Name=tag:shoal-part&Filter.1.Value.1=nodes");
    for (network, there) in [("203.0.113.9/32", true), ("10.0.0.0/8", true), ("198.51.100.7/32", false)] {
        assert_eq!(groups.contains(network), there, "{network}: {groups}");
    }
    aws(&mut cluster).allow_from = vec!["everywhere".into()];
    assert_eq!(lab.up_fails(&cluster).cause, Cause::Wrong);
    lab.down(&cluster);
    lab.is_clean(&cluster);
}

#[test]
fn several_zones_get_a_mount_target_each() {
    let Some(lab) = Lab::new() else { return };
    let mut cluster = full("spread");
    aws(&mut cluster).placement_group = false;
    cluster.workers[0].node_config["Placement"] = json!({"AvailabilityZone": "us-west-2b"});
    let (nodes, shared, _) = lab.up(&cluster);
    assert_eq!(nodes.iter().filter(|node| node.zone == "us-west-2b").count(), 2);
    assert_eq!(shared.expect("a file system").targets.len(), 2);
    let (gone, scan) = lab.down(&cluster);
    assert_eq!(scan, Default::default(), "{gone:?}");
    lab.is_clean(&cluster);
}
