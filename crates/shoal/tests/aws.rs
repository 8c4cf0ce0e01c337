//! Machines of a mock AWS as people reach them: every instance is a test host, and no other address is dialled.

use shoal::cluster::aws::Aws;
use shoal::cluster::helper::Helper;
use shoal::cluster::provider::{End, Provider};
use shoal_core::cluster::cloud::removal::Scan;
use shoal_core::cluster::read::{self, Given};
use shoal_core::cluster::{Aws as Said, Cluster, Node, Provider as Kind, Role};
use shoal_core::fleet::Reach;
use shoal_testkit::cloud::{Bridge, Cloud, cluster_file};
use shoal_testkit::{HostsSpec, binary, wait};
use std::process::{Command, Output};
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(30);

fn cluster() -> (Cluster, Said) {
    let text = cluster_file("paper", "use_internal_ips: true, allow_from: [10.0.0.0/8], placement: cluster");
    let reading = read::read("test.yaml", &text, &Given::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let Kind::Aws(said) = reading.cluster.provider.clone() else { panic!("it is of AWS") };
    (reading.cluster, said)
}

/// The real ssh, as the nodes say that they are reached.
fn ssh(bridge: &Bridge, node: &Node, command: &str) -> Output {
    let Reach::Ssh { user, key, .. } = &node.host.reach else { panic!("{node:?}") };
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(bridge.ssh_config()).args(["-o", "IdentitiesOnly=yes", "-i", key.as_deref().expect("a key")]);
    ssh.args(["-l", user.as_deref().expect("a user"), &node.host.address, command]).output().expect("ssh runs")
}

#[test]
fn instances_are_reached_baked_and_given_back() {
    let Some(cloud) = Cloud::up_or_skip() else { return };
    let Some(bridge) = Bridge::up_or_skip(&cloud, HostsSpec::new("aws", 3)) else { return };
    let (cluster, said) = cluster();
    let home = tempfile::tempdir().expect("a home");
    let env = cloud.settings().into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    let helper = Helper { program: binary("shoal-aws"), env };
    let aws = Aws::in_folder(&cluster, &said, home.path().join("paper"), helper);
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |text: &str| told.lock().expect("no panic").push(text.to_string());

    assert_eq!(aws.nodes().map_err(|t| t.to_string()), Ok(Vec::new()));
    let nodes = aws.ensure(&tell).unwrap_or_else(|trouble| panic!("{trouble}"));
    let roles: Vec<Role> = nodes.iter().map(|node| node.role).collect();
    assert_eq!(roles, [Role::Head, Role::Worker, Role::Worker]);
    assert!(told.lock().expect("no panic").iter().any(|text| text.starts_with("launching 2 x t3.micro")));

    // Every node is a host of its own, and only the cluster's key opens it.
    let mut names = Vec::new();
    for node in &nodes {
        let out = wait::until(BOUND, || Some(ssh(&bridge, node, "hostname")).filter(|out| out.status.success()));
        let out = out.unwrap_or_else(|| panic!("{:?}", ssh(&bridge, node, "hostname")));
        names.push(String::from_utf8_lossy(&out.stdout).trim().to_string());
    }
    names.sort();
    let mut hosts: Vec<String> = bridge.hosts().iter().map(|host| host.name.clone()).collect();
    hosts.sort();
    assert_eq!(names, hosts);

    // An address that moto invents and that belongs to a stranger leads nowhere.
    let mut stranger = nodes[0].clone();
    stranger.host.address = "54.214.1.2".into();
    let out = ssh(&bridge, &stranger, "true");
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && errors.contains("127.0.0.1"), "{errors}");

    let costs = aws.costs(u64::MAX).expect("a cost line");
    assert!(costs.starts_with("cost: about $0.03 an hour") && costs.contains("3 x t3.micro; us-west-2"), "{costs}");
    let image = aws.bake("paper-2026", true, &tell).unwrap_or_else(|trouble| panic!("{trouble}"));
    assert!(image.starts_with("ami-"));

    let gone = aws.end(&End::default(), &tell).unwrap_or_else(|trouble| panic!("{trouble}"));
    assert_eq!(gone.iter().filter(|gone| gone.starts_with("instance ")).count(), 3, "{gone:?}");
    let kept = format!("kept: image {image} (paper-2026)");
    assert!(told.lock().expect("no panic").iter().any(|text| text.starts_with(&kept)), "{told:?}");
    let scan = aws.scan().unwrap_or_else(|trouble| panic!("{trouble}"));
    assert_eq!((scan.left, scan.others), (Scan::default().left, Scan::default().others));
    for node in &nodes {
        let dead = wait::until(BOUND, || (!ssh(&bridge, node, "true").status.success()).then_some(()));
        assert!(dead.is_some(), "{} still answers", node.host.name);
    }
}

/// Without its ledger nothing here knows of the cluster. That it is there all the same, and costs money, is said; its key is not thrown away.
#[test]
fn a_cluster_whose_ledger_is_lost_is_not_taken_for_nothing() {
    let Some(cloud) = Cloud::up_or_skip() else { return };
    let (cluster, said) = cluster();
    let home = tempfile::tempdir().expect("a home");
    let folder = home.path().join("paper");
    let env = cloud.settings().into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    let helper = Helper { program: binary("shoal-aws"), env };
    let aws = Aws::in_folder(&cluster, &said, folder.clone(), helper);
    let end = || aws.end(&End::default(), &|_| {});
    assert!(aws.not_from_here().is_none());
    assert_eq!(end().map_err(|t| t.to_string()), Ok(Vec::new()));
    aws.ensure(&|_| {}).unwrap_or_else(|trouble| panic!("{trouble}"));
    let (ledger, aside) = (folder.join("ledger.jsonl"), folder.join("aside"));
    std::fs::rename(&ledger, &aside).expect("the ledger");

    assert_eq!(aws.nodes().map_err(|t| t.to_string()), Ok(Vec::new()));
    let trouble = aws.not_from_here().expect("it is there");
    assert!(trouble.what.contains("was not made from here: instance i-"), "{trouble}");
    // The second time there is a ledger, in which nothing stands.
    for _ in 0..2 {
        let trouble = end().expect_err("it is not known to be ours");
        assert!(trouble.hint.contains("SHOAL_TAKE_OVER=1"), "{trouble}");
    }
    assert!(folder.join("key").is_file() && cloud.alive().len() == 3);

    std::fs::rename(&aside, &ledger).expect("the ledger");
    let gone = end().unwrap_or_else(|trouble| panic!("{trouble}"));
    assert_eq!(gone.iter().filter(|gone| gone.starts_with("instance ")).count(), 3, "{gone:?}");
    assert!(cloud.alive().is_empty() && !folder.join("key").exists());
}

#[test]
fn a_missing_helper_is_named() {
    let (cluster, said) = cluster();
    let home = tempfile::tempdir().expect("a home");
    let helper = Helper { program: home.path().join("not-there"), env: Vec::new() };
    let aws = Aws::in_folder(&cluster, &said, home.path().join("paper"), helper);
    let trouble = aws.nodes().expect_err("no program");
    assert!(trouble.what.contains("shoal-aws") && trouble.hint.contains("beside shoal"), "{trouble}");
}
