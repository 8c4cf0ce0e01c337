//! New machines of a mock AWS: what would be made, whose key answers at an address, which address is for whom, and an end in the middle of it.

mod support;

use std::time::Duration;
use support::clouds::{AMI, Sky};
use support::clusters::signal;
use support::{LONG, until};

/// A head and a worker with public addresses, which this machine uses, and private ones, which they use among themselves.
fn file(sky: &Sky, workers: u32) {
    sky.write("reach.yaml", &text(workers));
}

fn text(workers: u32) -> String {
    let node = format!("{{ImageId: {AMI}, InstanceType: t3.micro}}");
    format!(
        "cluster_name: reach\nmax_workers: {workers}\nprovider: {{type: aws, region: us-west-2, allow_from: [10.0.0.0/8]}}\n\
         auth: {{ssh_user: root}}\nhead_node_type: head\navailable_node_types:\n  head: {{node_config: {node}}}\n  \
         gpu: {{min_workers: {workers}, node_config: {node}}}\nsetup_commands: [echo set up >> ~/ran]\n"
    )
}

#[test]
fn a_plan_makes_nothing_and_addresses_are_for_whom_they_serve() {
    let Some(sky) = Sky::new("reach", 2) else { return };
    file(&sky, 1);
    let plan = sky.shoal(&["up", "--plan", "reach.yaml"]).exits(0);
    for words in [
        "launch 1 x t3.micro (head `head`)",
        "launch 1 x t3.micro (worker `gpu`)",
        "in us-west-2a, us-west-2b",
        "make a key pair, a security group",
        "cost: about $0.02 an hour more",
        "head new head (new)",
        "run   setup 1: echo set up >> ~/ran",
    ] {
        assert!(plan.text.contains(words), "no `{words}` in {}", plan.text);
    }
    let drive = "type: aws, efs: {create: true, mount: ~/efs},";
    sky.write("drive.yaml", &text(1).replace("type: aws,", drive));
    let plan = sky.shoal(&["up", "--plan", "drive.yaml"]).exits(0);
    assert!(plan.text.contains("mount the file system that will be made at ~/efs"), "{}", plan.text);
    let json = sky.shoal(&["up", "--plan", "--json", "reach.yaml"]).exits(0).json();
    assert_eq!((&json["machines"]["launches"][1]["kind"], &json["version"]), (&"gpu".into(), &1.into()), "{json}");
    assert!(sky.cloud.alive().is_empty() && !sky.folder("reach").exists());
    let changes = ["Create", "Run", "Import", "Authorize"];
    assert!(!sky.cloud.calls().iter().any(|call| changes.iter().any(|word| call.starts_with(word))));

    // Everything that is known of these addresses is of other machines, which had them before.
    let known = sky.bridge.hosts().folder().join("known_hosts");
    let text = std::fs::read_to_string(&known).expect("known hosts");
    let key = |line: &str| line.split_once(' ').map(|(_, key)| key.to_string()).unwrap_or_default();
    let keys: Vec<String> = text.lines().rev().map(key).collect();
    let swapped = text.lines().zip(keys).map(|(line, key)| format!("{} {key}\n", line.split(' ').next().unwrap_or("")));
    std::fs::write(&known, swapped.collect::<String>()).expect("known hosts");
    sky.shoal(&["up", "-y", "reach.yaml"]).exits(0).says("cluster reach is up: 2 nodes");
    let plan = sky.shoal(&["up", "--plan", "reach.yaml"]).exits(0);
    assert!(plan.text.contains("nothing to make") && !plan.text.contains("an hour more"), "{}", plan.text);

    // Their keys are known by who they are, in a file of the cluster's own.
    let own = sky.folder("reach").join("known_hosts");
    let text = std::fs::read_to_string(&own).expect("the cluster's own file");
    let ids: Vec<String> = sky.cloud.alive().iter().filter_map(|one| Some(one["id"].as_str()?.to_string())).collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| text.contains(&format!("{id} "))), "{text}");
    // One that changes is still refused.
    let swapped = text.replace(&ids[0], "x").replace(&ids[1], &ids[0]).replace("x ", &format!("{} ", ids[1]));
    std::fs::write(&own, swapped).expect("the cluster's own file");
    let mut exec = sky.command(&["exec", "reach.yaml", "true"]);
    exec.env("XDG_RUNTIME_DIR", sky.laptop.path());
    sky.run(&mut exec).exits(255).says("host key is not the one that is known").says("`ssh-keygen -f ");
    std::fs::write(&own, text).expect("the cluster's own file");

    // This machine comes from outside; the ranks meet inside.
    let head = sky.shoal(&["get-head-ip", "reach.yaml"]).exits(0).text.trim().to_string();
    let private: Vec<String> =
        sky.cloud.alive().iter().filter_map(|one| Some(one["address"].as_str()?.to_string())).collect();
    assert!(!private.contains(&head), "{head} is public, {private:?} are not");
    let script = "echo at $MASTER_ADDR; timeout 9 bash -c \"</dev/tcp/$MASTER_ADDR/22\" && echo reached";
    let run = ["run", "-f", "reach.yaml", "--cwd", "/root", "--verbose", "--", "bash", "-c", script];
    let run = sky.shoal(&run).exits(0);
    let said = run.text + &run.errors;
    assert!(private.iter().any(|address| said.contains(&format!("at {address}\n"))), "{said}");
    assert_eq!(said.matches("reached").count(), 2, "{said}");

    sky.shoal(&["down", "-y", "reach.yaml"]).exits(0).says("nothing is left");
    assert!(!sky.folder("reach").exists());
}

#[test]
fn an_instance_that_does_not_know_its_key_yet_is_waited_for() {
    let Some(sky) = Sky::new("late", 2) else { return };
    file(&sky, 0);
    sky.bridge.authorise_late(Duration::from_secs(5));
    sky.shoal(&["up", "-y", "reach.yaml"]).exits(0).says("cluster reach is up: 1 node");
    sky.shoal(&["down", "-y", "reach.yaml"]).exits(0);
    // Not for ever.
    sky.bridge.authorise_late(Duration::from_secs(600));
    let mut up = sky.command(&["up", "-y", "reach.yaml"]);
    sky.run(up.env("SHOAL_UP_FIRST_PATIENCE_S", "3")).exits(1).says("it refused the key of user `root`");
    sky.shoal(&["down", "-y", "reach.yaml"]).exits(0).says("nothing is left");
}

/// It runs, as far as EC2 says, and nothing ever answers at its address.
#[test]
fn an_instance_that_never_becomes_reachable_is_named_and_goes() {
    let Some(sky) = Sky::new("deaf", 2) else { return };
    file(&sky, 1);
    // What the second host would answer this machine goes to nobody.
    let (host, gateway) = (sky.bridge.hosts().host(1), sky.bridge.hosts().gateway().to_string());
    let lost = ["neigh", "replace", &gateway, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"];
    let done = std::process::Command::new("ip").args(["-netns", &host.namespace]).args(lost).status();
    assert!(done.is_ok_and(|status| status.success()));
    let mut up = sky.command(&["up", "-y", "reach.yaml"]);
    let up = sky.run(up.env("SHOAL_UP_FIRST_PATIENCE_S", "3")).exits(4);
    let up = up.says("1 of 2 nodes are up").says("does not answer").says("`shoal up reach.yaml` goes on");
    let workers = sky.shoal(&["get-worker-ips", "reach.yaml"]).exits(0).text;
    let up = up.says(&format!("  {}: ", workers.trim()));
    assert!(up.errors.contains("hint: "), "{up:?}");
    sky.shoal(&["down", "-y", "reach.yaml"]).exits(0).says("nothing is left");
    assert!(sky.cloud.alive().is_empty() && sky.listed("reach").is_empty() && !sky.folder("reach").exists());
}

#[test]
fn ctrl_c_while_machines_are_made_says_what_there_is() {
    let Some(sky) = Sky::new("ctrlc", 1) else { return };
    file(&sky, 0);
    sky.cloud.keep_pending(true);
    let mut command = sky.command(&["up", "-y", "reach.yaml"]);
    let err = sky.laptop.path().join("up.err");
    let mut up = command.stderr(std::fs::File::create(&err).expect("a file")).spawn().expect("shoal runs");
    until(LONG, "an instance", || (sky.cloud.alive().len() == 1).then_some(()));
    signal(&up, "INT");
    let status = until(LONG, "the end of up", || up.try_wait().expect("its end"));
    let said = std::fs::read_to_string(&err).expect("its words");
    assert_eq!(status.code(), Some(130), "{said}");
    let id = sky.cloud.alive()[0]["id"].as_str().expect("an id").to_string();
    for words in
        ["the ledger holds what was made so far", &format!("instance {id}"), "key pair", "`shoal down reach.yaml`"]
    {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    sky.shoal(&["down", "-y", "reach.yaml"]).exits(0).says("nothing is left");
    assert!(sky.cloud.alive().is_empty());
}
