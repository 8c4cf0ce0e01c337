//! Plans of gangs: what goes where, what each rank is told, and that nothing is left to choose (PLAN-1).

use proptest::prelude::*;
use shoal_core::fleet::{self, Fleet};
use shoal_core::job::{HostJob, Program};
use shoal_core::plan::{
    BindError, GangPlan, Logs, PlanError, Port, Reserved, RunSpec, Secret, command_list, gang, render,
};
use shoal_core::rank::Rank;
use std::collections::{BTreeMap, BTreeSet};

const HOSTS: &str = "
hosts:
  - {name: 'node[1-3]', slots: 2, groups: [small]}
  - {name: big, slots: 4, groups: [gpu]}
  - {name: gateway, slots: 0}
";

fn native(text: &str) -> Fleet {
    fleet::read("shoal.yaml", text).unwrap_or_else(|e| panic!("{e}")).fleet
}

fn poseidon(text: &str) -> Fleet {
    fleet::read("config.json", text).unwrap_or_else(|e| panic!("{e}")).fleet
}

fn spec() -> RunSpec {
    let command = vec![Program::Argv(vec!["python".into(), "my train.py".into()])];
    RunSpec::new("r1", command, Logs { root: "~/.shoal/logs".into(), folder: "r1".into() }, Secret::new("hush"))
}

fn psd_run(command: &str) -> RunSpec {
    let logs = Logs::poseidon("logs", "20261116_010203");
    RunSpec { flags: true, ..RunSpec::new("r1", command_list::programs(command), logs, Secret::new("hush")) }
}

/// `worker0 on node1, ...`, without the master.
fn placed(plan: &GangPlan) -> String {
    let ranks = plan.ranks.iter().filter(|rank| rank.rank != Rank::Master);
    ranks.map(|rank| format!("{} {}", rank.rank, rank.host)).collect::<Vec<_>>().join(", ")
}

fn reserved(plan: &GangPlan) -> Reserved {
    let ports = plan.ports.iter().cloned().zip(7001..).collect();
    Reserved { ports, this_machine: Some("192.168.0.7".into()), ..Reserved::default() }
}

fn jobs(plan: &GangPlan) -> Vec<HostJob> {
    plan.bind(&reserved(plan)).expect("all is reserved")
}

fn env_of(jobs: &[HostJob], rank: Rank) -> BTreeMap<&str, &str> {
    let job = jobs.iter().flat_map(|job| &job.ranks).find(|job| job.rank == rank).expect("it is there");
    job.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn hosts_are_filled_to_their_slots_in_order() {
    let fleet = native(HOSTS);
    for (workers, servers, on, wanted) in [
        (Some(3), None, "", "worker0 node1, worker1 node1, worker2 node2"),
        (Some(2), Some(2), "gpu", "server0 big, server1 big, worker0 big, worker1 big"),
        (Some(1), Some(3), "small", "server0 node1, server1 node2, server2 node3, worker0 node1"),
        (None, None, "gpu", "worker0 big, worker1 big, worker2 big, worker3 big"),
        (None, None, "node2", "worker0 node2, worker1 node2"),
    ] {
        let on = if on.is_empty() { vec![] } else { vec![on.to_string()] };
        let plan = gang(&fleet, &RunSpec { workers, servers, on, ..spec() }).expect("possible");
        assert_eq!(placed(&plan), wanted);
    }
    assert_eq!(gang(&fleet, &spec()).expect("possible").ranks.len(), 1 + 3 * 2 + 4, "one worker for every slot");
}

#[test]
fn oversubscribed_hosts_keep_their_workers_together() {
    let fleet = native("hosts: [a, b]");
    let plan = gang(&fleet, &RunSpec { workers: Some(5), oversubscribe: true, ..spec() }).expect("possible");
    assert_eq!(placed(&plan), "worker0 a, worker1 a, worker2 a, worker3 b, worker4 b");
    let jobs = jobs(&plan);
    for (rank, local_rank, local_size) in [(0, "0", "3"), (2, "2", "3"), (3, "0", "2"), (4, "1", "2")] {
        let env = env_of(&jobs, Rank::Worker(rank));
        assert_eq!((env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]), (local_rank, local_size), "worker{rank}");
    }
}

#[test]
fn a_poseidon_run_is_told_what_poseidon_documents() {
    let fleet = poseidon(
        r#"{"username": "lab", "virtualenv": "/opt/venv",
            "worker_nodes": ["10.0.0.2", "10.0.0.1", "10.0.0.2"], "server_nodes": ["10.0.0.1"]}"#,
    );
    let plan = gang(&fleet, &psd_run("python train.py --max_steps 1000")).expect("possible");
    assert_eq!(placed(&plan), "server0 10.0.0.1, worker0 10.0.0.2, worker1 10.0.0.1, worker2 10.0.0.2");
    assert!(plan.needs_this_machine(), "the master is on this machine, and the others must find it");
    let jobs = jobs(&plan);
    let hosts: Vec<&str> = jobs.iter().map(|job| job.host.as_str()).collect();
    assert_eq!(hosts, ["10.0.0.2", "10.0.0.1", "localhost"], "one job a host, in the order of the fleet");
    let worker = jobs[0].ranks.iter().find(|job| job.rank == Rank::Worker(2)).expect("worker2");
    let append = ["--distributed=True", "--master_address=tcp://192.168.0.7:7002", "--client_id=2"];
    let line = "python train.py --max_steps 1000".to_string();
    assert_eq!(worker.program, Program::Shell { line, append: append.map(Into::into).to_vec() });
    assert_eq!(worker.log, "logs/poseidon_log_20261116_010203/worker2.log");
    assert_eq!(worker.prepare.virtualenv.as_deref(), Some("/opt/venv"));
    let env = env_of(&jobs, Rank::Worker(2));
    for (name, value) in [
        ("SHOAL_MASTER_ADDRESS", "tcp://192.168.0.7:7002"),
        ("SHOAL_CLIENT_ID", "2"),
        ("SHOAL_NUM_WORKERS", "3"),
        ("SHOAL_DISTRIBUTED", "true"),
        ("SHOAL_TOKEN", "hush"),
        ("SHOAL_RUN", "r1"),
        ("RANK", "2"),
        ("WORLD_SIZE", "3"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "10.0.0.2"),
        ("MASTER_PORT", "7001"),
    ] {
        assert_eq!(env[name], value, "{name}");
    }
    let own = |rank: Rank| {
        let job = jobs.iter().flat_map(|job| &job.ranks).find(|job| job.rank == rank).expect("it is there");
        let Program::Own { name, args } = &job.program else { panic!("{:?}", job.program) };
        (
            format!("{name} {}", args.join(" ")),
            job.log.rsplit('/').next().map(String::from),
            job.prepare.virtualenv.clone(),
        )
    };
    let master = "ps_master --address=tcp://0.0.0.0:7002 --workers=3 --servers=1";
    assert_eq!(own(Rank::Master), (master.into(), Some("master.log".into()), None));
    let server = "ps_server --master_address=tcp://192.168.0.7:7002 --id=0";
    assert_eq!(own(Rank::Server(0)), (server.into(), Some("server0.log".into()), None));
}

#[test]
fn on_one_host_all_stay_on_loopback() {
    let plan = gang(&Fleet::local(), &RunSpec { workers: Some(8), ..spec() }).expect("this machine has no bound");
    assert!(!plan.needs_this_machine());
    assert_eq!(plan.ports, [0, 1].map(|index| Port { host: "localhost".into(), index }), "one for each meeting point");
    let jobs = jobs(&plan);
    assert_eq!(jobs.len(), 1);
    let env = env_of(&jobs, Rank::Worker(7));
    assert_eq!(env["MASTER_ADDR"], "127.0.0.1");
    assert_eq!(env["SHOAL_MASTER_ADDRESS"], "tcp://127.0.0.1:7001");
    let Program::Own { args, .. } = &jobs[0].ranks[0].program else { panic!("the master is first") };
    assert_eq!(args[0], "--address=tcp://127.0.0.1:7001", "nobody outside can connect");
}

#[test]
fn the_native_master_sits_beside_worker_0_and_ipv6_gets_its_brackets() {
    let fleet = native("hosts: ['fd00::1', 'fd00::2']\nshared: /nfs");
    let jobs = jobs(&gang(&fleet, &spec()).expect("possible"));
    let env = env_of(&jobs, Rank::Worker(1));
    assert_eq!(env["SHOAL_MASTER_ADDRESS"], "tcp://[fd00::1]:7001");
    assert_eq!((env["MASTER_ADDR"], env["MASTER_PORT"]), ("fd00::1", "7002"));
    assert_eq!(jobs[0].ranks[0].rank, Rank::Master);
    let Program::Own { args, .. } = &jobs[0].ranks[0].program else { panic!("the master is first") };
    assert_eq!(args[0], "--address=tcp://[::]:7001");
    assert_eq!(jobs[1].ranks[0].cwd.as_deref(), Some("/nfs"));
}

#[test]
fn ranks_meet_at_what_the_hosts_call_each_other() {
    let mut fleet = native("hosts: [54.0.0.1, 54.0.0.2]");
    fleet.hosts[0].internal = Some("10.0.0.1".into());
    fleet.hosts[1].internal = Some("10.0.0.2".into());
    let jobs = jobs(&gang(&fleet, &RunSpec { detached: true, ..spec() }).expect("possible"));
    let env = env_of(&jobs, Rank::Worker(1));
    assert_eq!((env["SHOAL_MASTER_ADDRESS"], env["MASTER_ADDR"]), ("tcp://10.0.0.1:7001", "10.0.0.1"));
    assert_eq!(jobs[1].gang.as_ref().map(|line| line.address.as_str()), Some("10.0.0.1"));
}

#[test]
fn each_worker_may_have_a_command_of_its_own() {
    let fleet = native("hosts: [a, b]");
    let plan = gang(&fleet, &psd_run(r#""python a.py", "python b.py""#)).expect("possible");
    let lines: Vec<String> = plan.ranks.iter().skip(1).map(render::command_line).collect();
    assert!(lines[0].starts_with("python a.py --dist") && lines[1].starts_with("python b.py --dist"), "{lines:?}");
    let error = gang(&fleet, &psd_run(r#""a", "b", "c""#)).expect_err("three for two");
    assert_eq!(error.to_string(), "3 commands for 2 workers; give one for all, or one for each");
}

#[test]
fn a_run_without_a_master_has_no_token_and_no_address() {
    let fleet = native("hosts: [a, b]");
    let plan = gang(&fleet, &RunSpec { master: false, ..spec() }).expect("possible");
    let jobs = jobs(&plan);
    let env = env_of(&jobs, Rank::Worker(1));
    assert!(!env.contains_key("SHOAL_TOKEN") && !env.contains_key("SHOAL_MASTER_ADDRESS"), "{env:?}");
    assert_eq!((env["RANK"], env["MASTER_ADDR"], env["MASTER_PORT"]), ("1", "a", "7001"));
    assert_eq!(plan.ranks.len(), 2);
    assert_eq!(gang(&fleet, &RunSpec { master: false, servers: Some(1), ..spec() }), Err(PlanError::NoMaster));
}

#[test]
fn impossible_wishes_are_explained() {
    let fleet = native(HOSTS);
    let say = |spec: RunSpec| gang(&fleet, &spec).expect_err("impossible").to_string();
    let env = |name: &str| BTreeMap::from([(name.to_string(), "x".to_string())]);
    for (said, wanted) in [
        (
            say(RunSpec { workers: Some(11), ..spec() }),
            "11 workers, but the hosts have slots for 10\n  hint: raise `slots` in the fleet's file, ask for fewer (-n 10), or allow it with --oversubscribe",
        ),
        (say(RunSpec { workers: Some(0), ..spec() }), "a run needs at least one worker"),
        (
            say(RunSpec { workers: Some(99_999), oversubscribe: true, ..spec() }),
            "99999 workers are too many; the most is 65534",
        ),
        (
            say(RunSpec { on: vec!["gpus".into()], ..spec() }),
            "`gpus` is neither a host nor a group of the fleet; did you mean `gpu`?",
        ),
        (say(RunSpec { on: vec!["gateway".into()], ..spec() }), "no host can take a worker among gateway"),
        (say(RunSpec { command: vec![], ..spec() }), "there is no command to run"),
        (say(RunSpec { command: command_list::programs("  "), ..spec() }), "there is no command to run"),
        (say(RunSpec { env: env("RANK"), ..spec() }), "`RANK` is set by every run itself and cannot be chosen"),
        (say(RunSpec { env: env("A B"), ..spec() }), "`A B` is no name of an environment variable"),
        (
            say(RunSpec { run: "../x".into(), ..spec() }),
            "`../x` cannot be the id of a run; expected letters, digits, `.`, `_` and `-`",
        ),
    ] {
        assert_eq!(said, wanted);
    }
    let plan = gang(&fleet, &spec()).expect("possible");
    assert!(matches!(plan.bind(&Reserved::default()), Err(BindError::NoPort { rank: Rank::Master, .. })));
}

#[test]
fn a_dry_run_shows_all_and_no_secret() {
    let fleet =
        poseidon(r#"{"worker_nodes": ["10.0.0.1"], "server_nodes": ["10.0.0.1"], "virtualenv": "/opt/my venv"}"#);
    let env = BTreeMap::from([("WANDB_API_KEY".into(), "hush".into()), ("NOTE".into(), "two words".into())]);
    let plan = gang(&fleet, &RunSpec { env, ..psd_run("python train.py") }).expect("possible");
    let wanted = r#"run r1: 3 ranks on 2 hosts
reserves 1 port on 10.0.0.1
reserves 1 port on localhost

master on localhost
  run  ps_master --address=tcp://0.0.0.0:<port-0@localhost> --workers=1 \
           --servers=1
  log  logs/poseidon_log_20261116_010203/master.log
  env  SHOAL_RUN=r1
  env  SHOAL_TOKEN=***

server0 on 10.0.0.1
  run  ps_server --master_address=tcp://<this-machine>:<port-0@localhost> \
           --id=0
  log  logs/poseidon_log_20261116_010203/server0.log
  env  SHOAL_RUN=r1
  env  SHOAL_TOKEN=***

worker0 on 10.0.0.1
  run  python train.py --distributed=True \
           --master_address=tcp://<this-machine>:<port-0@localhost> \
           --client_id=0
  log  logs/poseidon_log_20261116_010203/worker0.log
  pre  virtualenv '/opt/my venv'
  env  LOCAL_RANK=0
  env  LOCAL_WORLD_SIZE=1
  env  MASTER_ADDR=10.0.0.1
  env  MASTER_PORT=<port-0@10.0.0.1>
  env  NOTE='two words'
  env  RANK=0
  env  SHOAL_CLIENT_ID=0
  env  SHOAL_DISTRIBUTED=true
  env  SHOAL_MASTER_ADDRESS=tcp://<this-machine>:<port-0@localhost>
  env  SHOAL_NUM_WORKERS=1
  env  SHOAL_RUN=r1
  env  SHOAL_TOKEN=***
  env  WANDB_API_KEY=***
  env  WORLD_SIZE=1
"#;
    let shown = render::render(&plan);
    assert_eq!(shown, wanted);
    assert!(shown.lines().all(|line| line.chars().count() <= 80));
    assert!(!shown.contains("hush"));
    assert!(!format!("{:?} {:?}", spec(), gang(&fleet, &spec())).contains("hush"), "nor in what is logged");
}

proptest! {
    /// PLAN-1: the same wish gives the same plan, with every rank once, on a host of the fleet, and nothing left to fill in.
    #[test]
    fn plans_are_complete(
        slots in prop::collection::vec(0u32..4, 1..8), workers in prop::option::of(1u32..20), servers in prop::option::of(0u32..6),
        oversubscribe: bool, flags: bool,
    ) {
        let entries: Vec<String> = slots.iter().zip(0..).map(|(n, k)| format!("{{name: n{k}, slots: {n}}}")).collect();
        let fleet = native(&format!("hosts: [{}]", entries.join(", ")));
        let spec = RunSpec { workers, servers, oversubscribe, flags, ..spec() };
        let total: u32 = slots.iter().sum();
        let result = gang(&fleet, &spec);
        let possible = total > 0 && (oversubscribe || workers.unwrap_or(total) <= total);
        prop_assert_eq!(result.is_ok(), possible, "{:?}", result);
        let Ok(plan) = result else { return Ok(()) };
        prop_assert_eq!(&gang(&fleet, &spec), &Ok(plan.clone()));
        let jobs = jobs(&plan);
        let ranks: Vec<Rank> = jobs.iter().flat_map(|job| &job.ranks).map(|rank| rank.rank).collect();
        let unique: BTreeSet<Rank> = ranks.iter().copied().collect();
        prop_assert_eq!(unique.len(), ranks.len());
        let (n, s) = (workers.unwrap_or(total), servers.unwrap_or(0));
        prop_assert_eq!(ranks.len() as u32, 1 + n + s);
        for (job, host) in jobs.iter().zip(&plan.hosts) {
            prop_assert_eq!(&job.host, host);
            let on_host = job.ranks.iter().filter(|rank| matches!(rank.rank, Rank::Worker(_))).count() as u32;
            let bound = fleet.host(host).expect("it is of the fleet").slots.ranks;
            prop_assert!(oversubscribe || on_host <= bound);
            let locals: BTreeSet<&str> = job.ranks.iter().filter_map(|r| r.env.get("LOCAL_RANK")).map(String::as_str).collect();
            prop_assert_eq!(locals.len() as u32, on_host, "local ranks are distinct");
        }
        // What travels is what arrives (WIRE-1 is the keeper's; here only that it can travel).
        let text = serde_json::to_string(&jobs).expect("it can be written");
        prop_assert_eq!(serde_json::from_str::<Vec<HostJob>>(&text).expect("and read"), jobs);
    }
}

/// The wardens of a detached run meet where its ranks do: no host has to be reached that need not be anyway.
#[test]
fn a_detached_run_over_several_hosts_has_a_line_between_them() {
    let detached = RunSpec { detached: true, workers: Some(6), ..spec() };
    let plan = gang(&native(HOSTS), &detached).expect("a plan");
    let wanted = [0, 1, 2].map(|index| Port { host: "node1".into(), index });
    assert_eq!(plan.ports, wanted, "for the master, for torch, for the wardens");
    let jobs = jobs(&plan);
    let line = jobs[0].gang.as_ref().expect("a line");
    assert_eq!((line.head.as_str(), line.address.as_str(), line.port), ("node1", "node1", 7003));
    assert_eq!((line.ranks.len(), line.ranks[&Rank::Worker(5)].as_str()), (7, "node3"));
    assert!(line.token.contains("hush") && line.token != "hush", "a rank's own token does not open it");
    assert!(jobs.iter().all(|job| job.gang.as_ref() == Some(line)));
    assert!(!render::render(&plan).contains("hush"));
    // Without a master, where the workers meet.
    let plan = gang(&native(HOSTS), &RunSpec { master: false, ..detached.clone() }).expect("a plan");
    assert_eq!(plan.ports, [0, 1].map(|index| Port { host: "node1".into(), index }));
    // This machine's address is needed as soon as the others have to dial it.
    let here = "{\"master_node\": \"localhost\", \"worker_nodes\": [\"a\"], \"server_nodes\": [\"a\"]}";
    let plan = gang(&poseidon(here), &RunSpec { detached: true, ..psd_run("x") }).expect("a plan");
    assert!(plan.needs_this_machine());
    assert_eq!(jobs_line(&plan), Some("192.168.0.7".into()));
    // On one host, and while somebody watches, there is none.
    let alone = RunSpec { workers: Some(2), ..detached.clone() };
    for plan in [gang(&native(HOSTS), &alone), gang(&native(HOSTS), &RunSpec { detached: false, ..detached })] {
        assert_eq!(jobs_line(&plan.expect("a plan")), None);
    }
}

fn jobs_line(plan: &GangPlan) -> Option<String> {
    jobs(plan).into_iter().next()?.gang.map(|line| line.address)
}
