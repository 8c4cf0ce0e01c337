//! The native form: what its fields mean, and that writing and reading are inverse.

use proptest::prelude::*;
use shoal_core::fleet::convert::to_native_yaml;
use shoal_core::fleet::detect::Form;
use shoal_core::fleet::{self, Environment, Fleet, Host, Placement, Reach, Slots};
use shoal_core::job::Prepare;

fn read(text: &str) -> Fleet {
    fleet::read("shoal.yaml", text).unwrap_or_else(|e| panic!("{e}")).fleet
}

#[test]
fn a_file_with_everything_is_read() {
    let fleet = read(
        r#"
name: lab
defaults:
  user: alice
  jump: gateway
  slots: {cpus: 8}
hosts:
  - gateway
  - bob@node[01-02].lab:2222
  - {name: "big[1-2]", address: "10.0.0.[20-21]", key: ~/.ssh/big, groups: [gpu], slots: {ranks: 4, memory: 64GiB, gpus: 4}}
  - {address: localhost, name: here, slots: 0}
environment:
  virtualenv: ~/venv
  modules: cuda/12.2
  setup: [ulimit -n 65536]
  env: {OMP_NUM_THREADS: 4, FLAG: yes, EMPTY: ""}
shared: /nfs/lab
master: here
servers: ["node[01-02].lab"]
workers: [gpu, big1]
"#,
    );
    let ssh = |host: &str| match &fleet.host(host).expect(host).reach {
        Reach::Ssh { user, port, key, jump, .. } => (user.as_deref(), *port, key.as_deref(), jump.as_deref()),
        Reach::Local => panic!("{host} is local"),
    };
    assert_eq!(ssh("gateway"), (Some("alice"), None, None, None), "the default jump is not reached through itself");
    assert_eq!(ssh("node02.lab"), (Some("bob"), Some(2222), None, Some("gateway")));
    assert_eq!(ssh("big2"), (Some("alice"), None, Some("~/.ssh/big"), Some("gateway")));
    assert_eq!(fleet.host("big2").map(|h| h.address.as_str()), Some("10.0.0.21"));
    assert_eq!(
        fleet.host("here").map(|h| &h.reach),
        Some(&Reach::Local),
        "defaults do not make ssh reach this machine"
    );
    let slots = fleet.host("big1").expect("big1").slots;
    assert_eq!(slots, Slots { ranks: 4, cpus: Some(8), memory_bytes: Some(64 << 30), gpus: Some(4) });
    let env: Vec<(&str, &str)> = fleet.environment.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(env, [("EMPTY", ""), ("FLAG", "yes"), ("OMP_NUM_THREADS", "4")], "values are taken as written");
    assert_eq!(fleet.environment.prepare.modules, ["cuda/12.2"]);
    assert_eq!(fleet.placement.master.as_deref(), Some("here"));
    assert_eq!(fleet.placement.servers, ["node01.lab", "node02.lab"]);
    assert_eq!(fleet.placement.workers, ["big1", "big2", "big1"]);
    assert_eq!(read(&to_native_yaml(&fleet)), fleet);
}

#[test]
fn ranges_may_overlap_and_windows_may_have_touched_the_file() {
    let fleet = read("\u{feff}hosts:\r\n  - node[1-3]\r\n  - node[2-4]\r\n");
    assert_eq!(fleet.hosts.len(), 4);
    assert_eq!(fleet.name, "shoal");
}

#[test]
fn this_machine_can_be_reached_by_ssh_if_the_entry_says_how() {
    let fleet = read("hosts: [localhost, {name: box, address: localhost, port: 2222}]\n");
    assert_eq!(fleet.hosts[0].reach, Reach::Local);
    assert_eq!(
        fleet.hosts[1].reach,
        Reach::Ssh { user: None, port: Some(2222), key: None, jump: None, proxy: None, host_key: None }
    );
    assert_eq!(read(&to_native_yaml(&fleet)), fleet);
    assert_eq!(read(&to_native_yaml(&Fleet::local())), Fleet::local());
}

#[test]
fn a_ray_file_gives_its_machines_and_says_what_is_left_out() {
    let text = "\
cluster_name: lab
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, 10.0.0.3]}
auth: {ssh_user: alice, ssh_private_key: ~/.ssh/lab.pem}
min_workers: 2
setup_commands: [pip install torch]
head_setup_commands: []
docker: {image: x}
";
    let reading = fleet::read("cluster.yaml", text).expect("valid");
    assert_eq!(reading.form, Form::Ray);
    let said: Vec<&str> = reading.warnings.iter().map(|w| w.message.as_str()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    let written = to_native_yaml(&reading.fleet);
    let wanted = "\
name: lab
defaults:
  user: alice
  key: ~/.ssh/lab.pem
hosts:
  - name: 10.0.0.1
    groups: [head]
  - name: 10.0.0.[2-3]
    groups: [worker]
";
    assert_eq!(written, wanted);
    assert_eq!(read(&written), reading.fleet);
}

fn hosts() -> impl Strategy<Value = Vec<Host>> {
    let access = (
        prop::option::of("[a-z][a-z0-9_@+-]{0,6}"),
        prop::option::of(1u16..),
        prop::option::of("(~/|/)?[a-z][a-z ':#\"é-]{0,8}[a-z]"),
    );
    let slots = (0u32..5, prop::option::of(1u32..99), prop::option::of(1u64..1 << 40), prop::option::of(0u32..9));
    let groups = prop::collection::vec("g[a-z]{0,2}", 0..3);
    let address = prop::option::of(prop_oneof!["10\\.0\\.0\\.[1-9]", "fd00::[1-9]", Just("localhost".to_string())]);
    prop::collection::vec((access, slots, groups, address, any::<bool>(), 0u8..3), 1..12).prop_map(|rows| {
        let mut hosts: Vec<Host> = Vec::new();
        for (index, row) in rows.into_iter().enumerate() {
            let ((user, port, key), (ranks, cpus, memory_bytes, gpus), mut groups, address, same, jump) = row;
            groups.sort();
            groups.dedup();
            let name = format!("node{:02}", index + 1);
            let slots = Slots { ranks, cpus, memory_bytes, gpus };
            let address = address.unwrap_or_else(|| name.clone());
            // Settings that say nothing about ssh mean this machine, if the address is this machine's.
            let local = address == "localhost" && user.is_none() && port.is_none() && key.is_none();
            let jump =
                hosts.iter().find(|h| jump == 1 && h.reach != Reach::Local).map(|h| h.name.clone()).filter(|_| !local);
            let reach =
                if local { Reach::Local } else { Reach::Ssh { user, port, key, jump, proxy: None, host_key: None } };
            match hosts.last().cloned().filter(|_| same) {
                // Neighbours that are alike are where ranges come from.
                Some(last) if last.name == last.address => hosts.push(Host { address: name.clone(), name, ..last }),
                _ => hosts.push(Host { name, address, internal: None, reach, groups, slots }),
            }
        }
        // A chain of jumps through everyone is refused; one jump is enough.
        let direct = hosts.clone();
        for host in &mut hosts {
            if let Reach::Ssh { jump, .. } = &mut host.reach {
                let chained = jump.as_ref().is_some_and(|name| {
                    direct.iter().any(|h| h.name == *name && matches!(&h.reach, Reach::Ssh { jump: Some(_), .. }))
                });
                if chained || jump.as_ref() == Some(&host.name) {
                    *jump = None;
                }
            }
        }
        hosts
    })
}

fn fleets() -> impl Strategy<Value = Fleet> {
    let environment = (
        prop::option::of("[~/]/[a-z ]{1,6}[a-z]"),
        prop::collection::vec("[a-z0-9./:-]{0,6}[a-z]", 0..3),
        prop::collection::vec("\\PC{0,12}[a-z]", 0..3),
        prop::collection::btree_map("[A-Z_][A-Z0-9_]{3,6}X", "[\\PC\\n\\t]{0,9}", 0..4),
    );
    let choices = prop::collection::vec(any::<prop::sample::Index>(), 0..8);
    (hosts(), environment, prop::option::of("/[a-z]{1,5}"), choices.clone(), choices, any::<bool>()).prop_map(
        |(hosts, (virtualenv, modules, setup, env), shared, servers, workers, master)| {
            let name = |index: &prop::sample::Index| hosts[index.index(hosts.len())].name.clone();
            let placement = Placement {
                master: servers.first().filter(|_| master).map(name),
                servers: servers.iter().map(name).collect(),
                workers: workers.iter().map(name).collect(),
            };
            let prepare = Prepare { virtualenv, conda: None, modules, setup };
            Fleet {
                name: "lab-1".into(),
                environment: Environment { prepare, env },
                shared,
                placement,
                hosts,
                pools: Vec::new(),
            }
        },
    )
}

proptest! {
    #[test]
    fn a_fleet_that_is_written_is_read_back(fleet in fleets()) {
        let text = to_native_yaml(&fleet);
        match fleet::read("shoal.yaml", &text) {
            Ok(reading) => prop_assert_eq!(&reading.fleet, &fleet, "{}", text),
            Err(e) => prop_assert!(false, "{e}\n{text}"),
        }
    }

    #[test]
    fn no_text_panics(text in "(hosts|defaults|name|worker_nodes|provider|[\\[\\]{}:,\"'\\-\\n\\t #&*!|>~]|\\PC){0,60}") {
        let _ = fleet::read("x.yaml", &text).map_err(|e| e.to_string());
        let _ = fleet::read("x.json", &text).map_err(|e| e.to_string());
    }
}
