//! What does a Ray cluster file mean? Both dialects, defaults, slots, counts; and no text makes the reader panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use shoal_core::cluster::read::{self, Dialect, Given, HEAD_TYPE, Reading, WORKER_TYPE};
use shoal_core::cluster::{Cluster, Machine, Provider, machines};
use shoal_core::fleet::Reach;
use std::collections::BTreeMap;

fn given(values: &[(&str, &str)]) -> Given {
    let values = values.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
    let env = BTreeMap::from([("DATA".to_string(), "/data".to_string())]);
    Given { values, env, home: Some("/home/me".into()), ..Given::default() }
}

fn reading(text: &str, given: &Given) -> Reading {
    read::read("c.yaml", text, given).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn cluster(text: &str) -> Cluster {
    reading(text, &given(&[])).cluster
}

fn refused(text: &str, given: &Given) -> String {
    read::read("c.yaml", text, given).expect_err(text).to_string()
}

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/aws-cluster/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the example")
}

#[test]
fn the_seeds_initial_cluster_is_read() {
    let Reading { cluster, dialect, warnings } = reading(&example("initial-cluster.yaml"), &given(&[]));
    assert_eq!(dialect, Dialect::Of2020);
    let said: Vec<&str> = warnings.iter().map(|w| w.message.as_str()).collect();
    assert!(said[0].contains("dialect of 2020") && said[1].contains("--autoscaling-config"), "{said:?}");
    assert_eq!((cluster.name.as_str(), cluster.max_workers, cluster.workers[0].min_workers), ("initial", 0, 0));
    assert_eq!((cluster.head.name.as_str(), cluster.workers[0].name.as_str()), (HEAD_TYPE, WORKER_TYPE));
    assert_eq!(cluster.auth.user.as_deref(), Some("ubuntu"));
    assert_eq!(cluster.head.setup_commands, ["pip install -U ray", "pip install mpi4py"]);
    assert_eq!(
        cluster.head.start_commands[1], "ulimit -n 65536; ray start --head --port=6379 --object-manager-port=8076",
        "Ray's own configuration is not on the head"
    );
    assert_eq!(cluster.head.node_config["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"], json!(200));
    let Provider::Aws(aws) = cluster.provider else { panic!("aws") };
    assert_eq!((aws.region.as_str(), aws.cache_stopped_nodes), ("us-west-2", false));
    assert_eq!(aws.zones, ["us-west-2a", "us-west-2b", "us-west-2c"]);
}

#[test]
fn the_template_is_refused_until_it_is_filled() {
    let text = example("cluster-template.yaml");
    let said = refused(&text, &given(&[]));
    assert_eq!(said.matches("is not filled in").count(), 5, "{said}");
    assert!(said.contains("--set 'Name of the placement group=...'"), "{said}");
    assert!(!said.contains("may reach"), "comments have no slots: {said}");
    let values = read::values::of_file("v.yaml", &example("values.yaml")).expect("values");
    let filled = reading(&text, &Given { values, ..given(&[]) }).cluster;
    assert_eq!(filled.head.node_config["ImageId"], "ami-0123456789abcdef0");
    assert_eq!(filled.workers[0].node_config["Placement"]["GroupName"], "training");
    assert_eq!(filled.head.setup_commands[1], "mountpoint -q ~/efs || sudo mount -t efs fs-0123456789abcdef0:/ ~/efs");
    assert!(
        filled.head.start_commands[1].ends_with("--resources='{\"machine\":1}'"),
        "{:?}",
        filled.head.start_commands
    );
}

#[test]
fn what_shoal_adds_is_read() {
    let Reading { cluster, dialect, warnings } = reading(&example("cluster.yaml"), &given(&[]));
    assert_eq!((dialect, warnings.len()), (Dialect::Current, 0), "{warnings:?}");
    assert!(cluster.mesh_keys);
    assert_eq!(cluster.workers[0].node_config, cluster.head.node_config, "merge keys");
    assert_eq!(cluster.workers[0].resources, json!({"machine": 1}));
    assert_eq!((cluster.workers[0].min_workers, cluster.workers[0].max_workers), (7, 7));
    let Provider::Aws(aws) = cluster.provider else { panic!("aws") };
    assert!(aws.placement_group && !aws.cache_stopped_nodes);
    assert_eq!(aws.efs.map(|efs| (efs.id, efs.mount)), Some((None, "~/efs".into())));
}

#[test]
fn a_local_cluster_has_its_machines() {
    let text = "\
cluster_name: lab
provider:
  type: local
  head_ip: 10.0.0.1
  worker_ips:
    - 10.0.0.2
    - bob@10.0.0.3:2222
    - {address: 10.0.0.4, port: 23, user: eve, key: ~/.ssh/eve, jump: gate}
  external_head_ip: head.example.org
auth: {ssh_user: alice, ssh_private_key: ~/.ssh/lab, ssh_port: 2022}
setup_commands: [a]
head_setup_commands: [b]
worker_setup_commands: [c]
file_mounts: {~/data: $DATA/set, /code: ~/code}
rsync_exclude: ['**/.git']
rsync_filter: [.gitignore]
head_start_ray_commands: []
";
    let cluster = cluster(text);
    assert_eq!(cluster.head.setup_commands, ["a", "b"]);
    assert_eq!(cluster.workers[0].setup_commands, ["a", "c"]);
    assert_eq!((cluster.max_workers, cluster.workers[0].min_workers), (3, 3));
    let mounts: Vec<(&str, &str)> =
        cluster.files.mounts.iter().map(|m| (m.remote.as_str(), m.local.as_str())).collect();
    assert_eq!(mounts, [("~/data", "/data/set"), ("/code", "/home/me/code")]);
    let Provider::Local(local) = &cluster.provider else { panic!("local") };
    let second =
        Machine { address: "10.0.0.3".into(), user: Some("bob".into()), port: Some(2222), ..Machine::default() };
    assert_eq!(local.workers[1], second);
    let nodes = machines::nodes(&cluster.auth, local);
    assert_eq!((nodes[0].host.address.as_str(), nodes[0].internal.as_str()), ("head.example.org", "10.0.0.1"));
    let ssh = |user: &str, port, key: &str, jump: Option<&str>| Reach::Ssh {
        user: Some(user.into()),
        port: Some(port),
        key: Some(key.into()),
        jump: jump.map(Into::into),
        proxy: None,
        host_key: None,
    };
    assert_eq!(nodes[1].host.reach, ssh("alice", 2022, "~/.ssh/lab", None));
    assert_eq!(nodes[3].host.reach, ssh("eve", 23, "~/.ssh/eve", Some("gate")));
    let fleet = machines::fleet("lab", &nodes);
    let gate = fleet.host("gate").expect("the jump host is part of the fleet");
    assert_eq!((gate.slots.ranks, fleet.hosts.len()), (0, 5));
    // This machine and the other nodes have different names for the head.
    assert_eq!((fleet.hosts[0].address.as_str(), fleet.hosts[0].among_hosts()), ("head.example.org", "10.0.0.1"));
    assert_eq!(fleet.hosts[1].internal, None);
}

#[test]
fn several_machines_behind_one_address_are_told_apart() {
    let text = "provider: {type: local, head_ip: '10.0.0.1:2201', worker_ips: ['10.0.0.1:2202', '10.0.0.1:2203']}\n";
    let cluster = cluster(text);
    let Provider::Local(local) = &cluster.provider else { panic!("local") };
    let names: Vec<String> = machines::nodes(&cluster.auth, local).into_iter().map(|node| node.host.name).collect();
    assert_eq!(names, ["10.0.0.1-2201", "10.0.0.1-2202", "10.0.0.1-2203"]);
    assert_eq!(cluster.name, "c", "without a name, the file's");
}

#[test]
fn node_types_are_read_as_ray_reads_them() {
    let text = "\
cluster_name: x
max_workers: 5
provider: {type: aws, region: eu-west-1}
head_node_type: big
available_node_types:
  big: {node_config: {InstanceType: m5.large}, resources: {CPU: 0}, min_workers: 1, max_workers: 1}
  small:
    node_config: {InstanceType: t3.micro}
    min_workers: 2
    max_workers: 3
    worker_setup_commands: [own]
    initialization_commands: [first]
    docker: {worker_image: other, worker_run_options: [--own]}
  plain: {node_config: {InstanceType: t3.nano}}
docker: {image: base, run_options: [--all], worker_run_options: [--worker], pull_before_run: no}
setup_commands: [all]
initialization_commands: [usual]
";
    let cluster = cluster(text);
    let names: Vec<(&str, u32, u32)> =
        cluster.workers.iter().map(|kind| (kind.name.as_str(), kind.min_workers, kind.max_workers)).collect();
    assert_eq!(names, [("big-worker", 1, 1), ("small", 2, 3), ("plain", 0, 5)]);
    assert_eq!((cluster.head.setup_commands.as_slice(), cluster.head.max_workers), (["all".to_string()].as_slice(), 1));
    let small = cluster.kind("small").expect("there");
    assert_eq!(
        (small.setup_commands.as_slice(), small.initialization_commands.as_slice()),
        (["own".to_string()].as_slice(), ["first".to_string()].as_slice())
    );
    let own = small.docker.as_ref().expect("its own container");
    assert_eq!((own.image.as_deref(), own.run_options.join(" ")), (Some("other"), "--all --own".to_string()));
    let docker = cluster.docker.expect("containers");
    assert_eq!((docker.worker_run_options.join(" "), docker.pull_before_run), ("--all --worker".to_string(), false));
    assert_eq!(docker.container_name, "ray_container");
}

#[test]
fn what_the_file_does_not_say_is_as_in_ray_but_for_what_costs_or_installs() {
    let cluster = cluster("cluster_name: x\nprovider: {type: aws, region: us-west-2}\n");
    assert_eq!(cluster.max_workers, 2);
    assert_eq!(cluster.head.node_config["InstanceType"], "m5.large");
    assert_eq!(cluster.workers[0].node_config["InstanceMarketOptions"]["MarketType"], "spot");
    assert!(cluster.head.setup_commands.is_empty() && cluster.head.start_commands.is_empty());
    assert!(cluster.docker.is_none() && !cluster.mesh_keys);
    for docker in ["{}", "{image: '', container_name: ''}", ""] {
        let text = format!("provider: {{type: local, head_ip: a}}\ndocker: {docker}\nsetup_commands:\n# - x\nauth:\n");
        assert_eq!(self::cluster(&text).docker, None);
    }
}

#[test]
fn counts_of_both_dialects_and_of_the_command_line() {
    let old = |counts: &str| format!("provider: {{type: aws, region: r}}\nhead_node: {{InstanceType: a}}\n{counts}\n");
    for (counts, least) in [
        ("min_workers: 1\nmax_workers: 4", 1),
        ("initial_workers: 3\nmax_workers: 4", 3),
        ("min_workers: 1\ninitial_workers: 3\nmax_workers: 3", 3),
        ("max_workers: 0", 0),
    ] {
        assert_eq!(cluster(&old(counts)).workers[0].min_workers, least, "{counts}");
    }
    let said = |counts: &str, given: &Given| refused(&old(counts), given);
    assert!(said("min_workers: 3", &given(&[])).contains("3 workers are asked for, but `max_workers` is 2"));
    assert!(said("min_workers: -1", &given(&[])).contains("a whole number from 0"));
    assert!(said("min_workers: 20000\nmax_workers: 3", &given(&[])).contains("a whole number from 0 to 10000"));
    let more = Given { min_workers: Some(6), max_workers: Some(6), name: Some("other".into()), ..given(&[]) };
    let cluster = reading(&old("min_workers: 1"), &more).cluster;
    assert_eq!((cluster.workers[0].min_workers, cluster.max_workers, cluster.name.as_str()), (6, 6, "other"));
    let local = "provider: {type: local, head_ip: a, worker_ips: [b, c, d]}\n";
    let fewer = Given { min_workers: Some(1), ..given(&[]) };
    let Provider::Local(machines) = reading(local, &fewer).cluster.provider else { panic!("local") };
    assert_eq!(machines.workers.len(), 1);
    assert!(refused(&format!("{local}min_workers: 3\nmax_workers: 2\n"), &given(&[])).contains("at most 2"));
}

#[test]
fn each_of_these_is_refused_in_words_that_help() {
    let aws = "provider: {type: aws, region: r}\n";
    for (text, words) in [
        ("cluster_name: x\n".to_string(), "no `provider`"),
        ("provider: {}\n".into(), "no `type`"),
        ("provider: {type: gcp}\n".into(), "clusters of type `gcp` are not supported"),
        ("provider: {type: asw}\n".into(), "did you mean `aws`?"),
        ("provider: {type: aws}\n".into(), "no `region`"),
        ("provider: {type: aws, region: r, aws_credentials: {x: y}}\n".into(), "credentials in the cluster file"),
        ("provider: {type: local, coordinator_address: 'x:1'}\n".into(), "lent by a coordinator"),
        ("provider: {type: local, worker_ips: []}\n".into(), "no `head_ip`"),
        ("provider: {type: local, head_ip: 'node[1-2]'}\n".into(), "no ranges"),
        ("provider: {type: local, head_ip: {adress: x}}\n".into(), "did you mean `address`?"),
        ("provider: {type: local, head_ip: a, worker_ips: ['-oProxyCommand=x']}\n".into(), "is no host name"),
        ("provider: {type: local, head_ip: a}\navailable_node_types: {x: {}}\n".into(), "no meaning for a `local`"),
        ("provider: {type: aws, region: r, efs: {}}\n".into(), "neither `create: true` nor"),
        ("provider: {type: aws, region: r, efs: {create: true, id: fs-1}}\n".into(), "both `create` and `id`"),
        ("provider: {type: aws, region: r, placement: spread}\n".into(), "expected `cluster`"),
        (format!("{aws}available_node_types: {{x: {{node_config: {{a: 1}}}}}}\n"), "which of the types is the head's"),
        (
            format!(
                "{aws}head_node_type: x\navailable_node_types:\n  x:\n    node_config: {{InstanceMarketOptions: {{SpotOptions: {{SpotInstanceType: persistent}}}}}}\n"
            ),
            "c.yaml:5:75",
        ),
        (
            format!(
                "{aws}worker_nodes: {{InstanceMarketOptions: {{SpotOptions: {{SpotInstanceType: persistent}}}}}}\n"
            ),
            "launches anew what `shoal down` has ended",
        ),
        (format!("{aws}head_node_type: y\navailable_node_types: {{x: {{node_config: {{a: 1}}}}}}\n"), "has no `y`"),
        (format!("{aws}head_node_type: x\navailable_node_types: {{x: {{resources: {{}}}}}}\n"), "no `node_config`"),
        (
            format!("{aws}head_node_type: x\navailable_node_types: {{x: {{node_confg: {{}}}}}}\n"),
            "did you mean `node_config`?",
        ),
        (format!("{aws}head_node_type: x\n"), "has no `available_node_types`"),
        (
            format!("{aws}head_node: {{a: 1}}\nhead_node_type: x\navailable_node_types: {{x: {{}}}}\n"),
            "both `head_node`",
        ),
        (format!("{aws}head_node: {{a: 1, a: 2}}\n"), "`a` is given twice"),
        (format!("{aws}docker: {{head_image: x}}\n"), "no image for the workers"),
        (format!("{aws}docker: {{image: x, container_name: 'a b'}}\n"), "`container_name` has a wrong value"),
        (format!("{aws}setup_commands: [{{echo: x}}]\n"), "stands in quotes"),
        (format!("{aws}setup_commands: echo\n"), "a list of commands"),
        (format!("{aws}file_mounts: {{/x: $NO_SUCH/y}}\n"), "the environment has no `NO_SUCH`"),
        (format!("{aws}auth: {{ssh_jump_host: a, ssh_proxy_command: b}}\n"), "both `ssh_proxy_command`"),
        (format!("{aws}auth: {{ssh_user: -x}}\n"), "is no user name"),
        (format!("{aws}mesh_keys: maybe\n"), "true or false"),
        (format!("{aws}idle_timeout_minutes: soon\n"), "a number from 0"),
        (format!("{aws}cluster_name: a b\n"), "`cluster_name` has a wrong value"),
    ] {
        let said = refused(&text, &given(&[]));
        assert!(said.contains(words), "{words}:\n{said}\n{text}");
    }
}

#[test]
fn what_is_not_used_is_said_and_not_refused() {
    let text = "\
cluster_name: x
max_workers: 4
provider: {type: aws, region: r, cloudwatch: {}, zone: a, subnet_id: x}
head_start_ray_commands: ['ray start --head --autoscaling-config=~/ray_bootstrap_config.yaml']
";
    let said: Vec<String> = reading(text, &given(&[])).warnings.into_iter().map(|w| w.message).collect();
    for words in ["0 of at most 4 workers", "`cloudwatch`", "`zone` in `provider`", "--autoscaling-config"] {
        assert!(said.iter().any(|said| said.contains(words)), "{words}: {said:?}");
    }
    assert_eq!(said.len(), 4, "{said:?}");
}

#[test]
fn a_cluster_is_kept_as_json_and_read_back() {
    let cluster = cluster(&example("cluster.yaml"));
    let text = serde_json::to_string(&cluster).expect("JSON");
    assert_eq!(serde_json::from_str::<Cluster>(&text).expect("a cluster"), cluster);
}

#[test]
fn the_schema_knows_every_field() {
    let schema = shoal_core::cluster::schema::cluster_json_schema();
    for (path, names) in [
        ("/properties", &read::fields::TOP[..]),
        ("/properties/auth/properties", &read::fields::AUTH),
        ("/properties/docker/properties", &read::fields::DOCKER),
        ("/properties/provider/properties", &read::fields::AWS),
        ("/properties/provider/properties", &read::fields::LOCAL),
        ("/properties/available_node_types/additionalProperties/properties", &read::fields::NODE_TYPE),
    ] {
        let known = schema.pointer(path).and_then(Value::as_object).expect(path);
        for name in names {
            assert!(known.contains_key(*name), "{path} {name}");
        }
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(cluster_name|provider|type|local|aws|head_ip|worker_ips|head_node|auth|docker|file_mounts|\\$X|~|[\\[\\]{}:,\"'\\-\\n\\t #&*!|><$=]|: |\\n  |\\PC){0,80}") {
        let _ = read::read("x.yaml", &text, &given(&[("A B", "x")])).map_err(|e| e.to_string());
        let _ = shoal_core::cluster::migrate::migrate("x.yaml", &text, &given(&[])).map_err(|e| e.to_string());
    }

    /// Pieces of real files, cut and joined anywhere.
    #[test]
    fn no_torn_file_panics(cuts in prop::collection::vec((0usize..3000, 0usize..400), 1..6)) {
        let whole = example("cluster-template.yaml");
        let torn: String = cuts.iter().map(|(from, length)| whole.chars().skip(*from).take(*length).collect::<String>()).collect();
        let text = format!("provider: {{type: aws, region: r}}\n{torn}");
        let _ = read::read("x.yaml", &text, &given(&[])).map_err(|e| e.to_string());
        let _ = shoal_core::cluster::migrate::migrate("x.yaml", &text, &given(&[])).map_err(|e| e.to_string());
    }
}
