//! The whole way of a paper's cluster on a mock AWS: a first machine, an image of it, a template, its slots, many machines, nothing left.
//!
//! Every instance is a test host before anybody can dial it, and nothing else may be dialled at all.

mod support;

use support::clouds::{AMI, REGION, Sky, looks_like};
use support::{LONG, until};

const IMAGE: &str = "paper-2026";

#[test]
fn from_one_machine_to_a_cluster_and_to_nothing() {
    let Some(sky) = Sky::new("story", 4) else { return };
    sky.example("initial-cluster.yaml", |text| text);
    one_machine(&sky);
    bake_and_leave(&sky);
    template(&sky);
}

fn one_machine(sky: &Sky) {
    sky.shoal(&["get-head-ip", "initial-cluster.yaml"]).exits(1).says("no head; is it up?");
    let up = sky.shoal(&["up", "-y", "initial-cluster.yaml", "--redirect-command-output"]).exits(0);
    let up = up.says("launching 1 x p3.2xlarge").says("cluster initial is up: 1 node");
    looks_like(&up, "aws_up_initial", "shoal up -y initial-cluster.yaml");
    let head = sky.shoal(&["get-head-ip", "initial-cluster.yaml"]).exits(0).text.trim().to_string();
    // What the file says ran there, without `ray stop` where nothing of Ray was, and without the part that would ask for a copy of the user's key.
    let ran = sky.ran(&head);
    assert_eq!(ran[..2], ["pip install -U ray", "pip install mpi4py"], "{ran:?}");
    assert!(ran[2].starts_with("ray start --head --port=6379") && !ran[2].contains("bootstrap"), "{ran:?}");

    // Again: nothing is launched, set-up is not repeated.
    let calls = sky.cloud.calls().len();
    sky.shoal(&["up", "-y", "initial-cluster.yaml", "--no-restart"]).exits(0).says("setup 1, setup 2 (unchanged)");
    assert!(!sky.cloud.calls()[calls..].iter().any(|call| call == "RunInstances"));
    assert_eq!(sky.ran(&head), Vec::<String>::new());

    // By hand, as the recipe has it: a package goes there and is installed.
    sky.write("nccl.txz", "a package\n");
    sky.shoal(&["rsync-up", "initial-cluster.yaml", "nccl.txz", "/root/"]).exits(0);
    let install = ["exec", "initial-cluster.yaml", "cat ~/nccl.txz > ~/installed && cat ~/installed"];
    assert_eq!(sky.shoal(&install).exits(0).text, "a package\n");

    // Without the way from instances to test hosts, the addresses are a stranger's: not even a first packet goes there.
    let empty = sky.laptop.path().join("empty_ssh_config");
    sky.write("empty_ssh_config", "");
    let mut strange = sky.command(&["exec", "initial-cluster.yaml", "true"]);
    let refusal = format!("SHOAL_DIAL_ONLY does not allow to dial {head}");
    sky.run(strange.env("SHOAL_SSH_CONFIG", &empty)).exits(255).says(&refusal);
    // The mapping itself sends what it does not know to this machine, and that is not allowed either.
    let fleet = "hosts:\n  - {name: stranger, address: 54.214.1.2}\n";
    sky.write("stranger.yaml", fleet);
    let out = sky.shoal(&["run", "-f", "stranger.yaml", "--", "true"]);
    assert!(out.code != Some(0) && out.errors.contains("SHOAL_DIAL_ONLY"), "{out:?}");
}

fn bake_and_leave(sky: &Sky) {
    let bake = ["image", "bake", "initial-cluster.yaml", "--name", IMAGE];
    let baked = sky.shoal(&bake).exits(0).says("ImageId: paper-2026");
    assert!(baked.text.starts_with("ami-"), "{baked:?}");
    sky.shoal(&bake).exits(1).says("the name `paper-2026` is taken");

    let down = sky.shoal(&["down", "-y", "initial-cluster.yaml"]).exits(0);
    let down = down.says(&format!("kept: image {} (paper-2026)", baked.text.trim())).says("nothing else is left");
    looks_like(&down, "aws_down_initial", "shoal down -y initial-cluster.yaml");
    assert_eq!((sky.cloud.alive().len(), sky.listed("initial")), (0, Vec::new()));
    assert!(sky.laptop.connections().is_empty(), "connections are left");
    // The image is there, so the ledger still knows of it; the key opens nothing any more.
    let names = || std::fs::read_dir(sky.folder("initial")).expect("a folder").flatten().map(|entry| entry.file_name());
    assert_eq!(names().collect::<Vec<_>>(), ["ledger.jsonl"]);
    sky.shoal(&["exec", "initial-cluster.yaml", "true"]).exits(1).says("has no head that runs");
    let run = ["run", "-f", "initial-cluster.yaml", "--", "true"];
    sky.shoal(&run).exits(2).says("no machine of cluster `initial` runs");
}

fn template(sky: &Sky) {
    // The head and two workers.
    sky.example("cluster-template.yaml", |text| text.replace("_workers: 0", "_workers: 2"));
    let empty = sky.shoal(&["up", "-y", "cluster-template.yaml"]).exits(2);
    looks_like(&empty, "aws_template_empty", "shoal up -y cluster-template.yaml");
    assert_eq!(sky.cloud.alive().len(), 0);

    // By hand, in the console.
    sky.cloud.ask(REGION, "Action=CreatePlacementGroup&GroupName=by-hand&Strategy=cluster");
    sky.write("values.yaml", "EFS ID: fs-0123456789abcdef0\nName of the placement group: by-hand\n");
    let filled = |verb: &[&str], rest: &[&str]| {
        let image = format!("AMI ID={IMAGE}");
        sky.shoal(&[verb, &["cluster-template.yaml", "--set", &image, "--values", "values.yaml"], rest].concat())
    };
    filled(&["up", "--plan"], &[]).exits(0);
    assert_eq!(sky.cloud.alive().len(), 0);
    let up = filled(&["up", "-y"], &["--redirect-command-output"]).exits(0);
    up.says("launching 2 x p3.2xlarge").says("cluster training is up: 3 nodes");
    let head = filled(&["get-head-ip"], &[]).exits(0).text.trim().to_string();
    let workers: Vec<String> = filled(&["get-worker-ips"], &[]).exits(0).text.lines().map(Into::into).collect();
    assert_eq!(workers.len(), 2);
    for address in workers.iter().chain([&head]) {
        let ran = sky.ran(address);
        let start =
            if *address == head { "ray start --head".into() } else { format!("ray start --address={head}:6379") };
        let mount = "sudo mount -t efs fs-0123456789abcdef0:/ /root/efs".to_string();
        assert!(ran.contains(&mount) && ran.iter().any(|line| line.starts_with(&start)), "{address}: {ran:?}");
    }

    // What was installed on the first machine is on all of these; and they find each other by their private addresses.
    let all = filled(&["exec", "--all", "--gather"], &["cat ~/installed"]).exits(0);
    assert_eq!(all.text.matches("a package").count(), 3, "{all:?}");
    let knock = format!("timeout 9 bash -c '</dev/tcp/{}/22'", workers[1]);
    filled(&["exec"], &[&knock]).exits(0);

    let status = filled(&["status"], &[]).exits(0);
    assert!(status.text.contains("cost: about $9.18 an hour") && status.text.contains("3 x p3.2xlarge"), "{status:?}");
    looks_like(
        &status,
        "aws_status",
        "shoal status cluster-template.yaml --set 'AMI ID=paper-2026' --values values.yaml",
    );

    let down = filled(&["down", "-y"], &[]).exits(0).says("gone: instance").says("nothing is left");
    down.does_not_say("kept:");
    assert_eq!((sky.cloud.alive().len(), sky.listed("training")), (0, Vec::new()));
    // What people made by hand is not ours to remove; what we kept of the cluster is.
    assert!(sky.placement_groups().contains("by-hand"));
    assert!(!sky.folder("training").exists());
    filled(&["down", "-y"], &[]).exits(0);
}

/// What Shoal does by itself: file system, placement group, keys between the nodes; stopped and started again; a run over all of them.
#[test]
fn what_the_recipe_did_by_hand_is_in_the_file() {
    let Some(sky) = Sky::new("itself", 3) else { return };
    sky.example("cluster.yaml", |text| text.replace("_workers: 7", "_workers: 2").replace("training-base", AMI));
    sky.shoal(&["run", "-f", "cluster.yaml", "--", "true"]).exits(2).says("start them with `shoal up cluster.yaml`");
    let up = || sky.shoal(&["up", "-y", "cluster.yaml", "--redirect-command-output"]).exits(0);
    up().says("cluster training is up: 3 nodes");
    let head = sky.shoal(&["get-head-ip", "cluster.yaml"]).exits(0).text.trim().to_string();
    let worker = sky.shoal(&["get-worker-ips", "cluster.yaml"]).exits(0).text.lines().next().map(String::from);
    let ran = sky.ran(&head);
    let mounts = |line: &String| line.starts_with("sudo mount -t nfs4 -o ") && line.ends_with(":/ /root/efs");
    assert!(ran.iter().any(mounts), "{ran:?}");
    assert_eq!(sky.cloud.file_systems(REGION).len(), 1);
    let hop = format!("ssh -o BatchMode=yes {} uname -n", worker.expect("a worker"));
    assert!(sky.shoal(&["exec", "cluster.yaml", &hop]).exits(0).text.starts_with("itself-"));

    // The nodes are a fleet for runs.
    let run =
        ["run", "-f", "cluster.yaml", "--cwd", "/root", "--verbose", "--", "sh", "-c", "echo rank on $(uname -n)"];
    let run = sky.shoal(&run).exits(0);
    for host in sky.bridge.hosts().iter() {
        let said = format!("rank on {}", host.name);
        assert!(run.text.contains(&said) || run.errors.contains(&said), "{run:?}");
    }

    // Ray's habit. What opens the stopped ones stays, and so does what knows of them.
    let down = sky.shoal(&["down", "-y", "cluster.yaml", "--keep-stopped"]).exits(0);
    let down = down.says("kept: instance").says("stopped machines are kept for the next `shoal up`");
    down.does_not_say("nothing is left");
    let ids = |state: &str| {
        let all = sky.cloud.instances().into_iter().filter(|one| one["state"] == state);
        let mut ids: Vec<String> = all.map(|one| one["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let stopped = ids("stopped");
    assert_eq!(stopped.len(), 3);
    let kept = |name: &str| sky.folder("training").join(name).exists();
    assert!(kept("ledger.jsonl") && kept("key") && !kept("mesh") && !kept("lock"));
    up().says("starting stopped instances again");
    assert_eq!(ids("running"), stopped);

    let down = sky.shoal(&["down", "-y", "cluster.yaml", "--json"]).exits(0);
    assert_eq!(down.json()["ended"].as_array().map(Vec::len), Some(9), "{down:?}");
    assert_eq!((sky.listed("training"), sky.cloud.file_systems(REGION)), (Vec::new(), Vec::new()));
    assert!(!sky.placement_groups().contains("<groupName>"), "{}", sky.placement_groups());
    assert!(!sky.folder("training").exists());
}

/// Machines that never come to run: whoever waits for them can be told to stop, and what was made by then goes.
#[test]
fn down_ends_an_up_that_waits_for_machines() {
    let Some(sky) = Sky::new("waits", 1) else { return };
    sky.example("initial-cluster.yaml", |text| text);
    sky.cloud.keep_pending(true);
    let mut up = sky.command(&["up", "-y", "initial-cluster.yaml"]).spawn().expect("shoal runs");
    until(LONG, "an instance", || (sky.cloud.alive().len() == 1).then_some(()));
    let down = sky.shoal(&["down", "-y", "initial-cluster.yaml"]).exits(0);
    down.says("is told to stop").says("gone: instance").says("nothing is left");
    assert!(!until(LONG, "the end of up", || up.try_wait().expect("its end")).success());
    assert_eq!((sky.cloud.alive().len(), sky.listed("initial")), (0, Vec::new()));
    assert!(!sky.folder("initial").exists());
}
