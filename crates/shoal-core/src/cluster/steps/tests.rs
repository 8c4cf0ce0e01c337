//! Tables over the plan: what runs after what happened.

use super::decide::{Because, Decision, Why};
use super::record::{Ended, Left, NodeRecord, Outcome, StepRecord};
use super::*;
use crate::cluster::{Auth, Docker, Files, Local, Machine, Mount, NodeType, Provider};
use crate::fleet::{Host, Reach, Slots};

fn kind(name: &str, setup: &[&str], start: &[&str]) -> NodeType {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_string()).collect();
    NodeType {
        name: name.into(),
        node_config: serde_json::Value::Null,
        resources: serde_json::Value::Null,
        min_workers: 0,
        max_workers: 1,
        initialization_commands: list(&["init"]),
        setup_commands: list(setup),
        start_commands: list(start),
        docker: None,
    }
}

fn cluster() -> Cluster {
    let setup = ["apt install x", "pip install -r ~/proj/requirements.txt", "echo ready"];
    Cluster {
        name: "lab".into(),
        provider: Provider::Local(Local { head: Machine::default(), workers: Vec::new(), external_head: None }),
        auth: Auth::default(),
        docker: None,
        head: kind("head", &setup, &["ray stop", "ray start --head"]),
        workers: vec![kind("worker", &setup, &["ray start --address=$RAY_HEAD_IP:6379"])],
        max_workers: 1,
        files: Files {
            mounts: vec![
                Mount { remote: "~/proj".into(), local: "/p".into() },
                Mount { remote: "/data".into(), local: "/d".into() },
            ],
            ..Files::default()
        },
        mesh_keys: false,
    }
}

fn node(role: Role, name: &str, internal: &str) -> Node {
    let reach = Reach::Ssh { user: None, port: None, key: None, jump: None, proxy: None, host_key: None };
    let (groups, slots) = (Vec::new(), Slots::default());
    let host = Host { name: name.into(), address: name.into(), internal: None, reach, groups, slots };
    let kind = if role == Role::Head { "head" } else { "worker" };
    Node { role, kind: kind.into(), host, internal: internal.into() }
}

struct World {
    cluster: Cluster,
    nodes: Vec<Node>,
    trees: BTreeMap<String, String>,
    options: Options,
}

impl World {
    fn new() -> World {
        let trees = [("~/proj".to_string(), "p1".to_string()), ("/data".into(), "d1".into())].into();
        let nodes = vec![node(Role::Head, "h", "10.0.0.1"), node(Role::Worker, "w", "10.0.0.2")];
        World { cluster: cluster(), nodes, trees, options: Options::default() }
    }

    fn plan(&self, i: usize, known: Option<&Known>) -> NodePlan {
        let wanted = Wanted {
            cluster: &self.cluster,
            nodes: &self.nodes,
            trees: &self.trees,
            mesh: None,
            efs: None,
            options: self.options,
        };
        plan_node(&wanted, &self.nodes[i], known)
    }

    /// As when everything that the plan says was done.
    fn done(&self, i: usize) -> Known {
        let mut record = NodeRecord::new("lab");
        for step in self.plan(i, None).steps.into_iter().filter(|step| step.kind != Kind::Connect) {
            let made = (step.kind == Kind::Container).then(|| "c1".to_string());
            let record_of =
                StepRecord { stamp: step.stamp, outcome: Outcome::Done, at_ms: 1, made, left: None, epoch: None };
            record.steps.insert(step.id, record_of);
        }
        let container = self.cluster.docker.as_ref().map(|_| "c1".to_string());
        Known { record, container, alive: BTreeSet::new() }
    }

    /// As `done`, and what this start command left running runs.
    fn running(&self, i: usize, start: &str) -> Known {
        let mut known = self.done(i);
        let left = Left { boot: "b".into(), processes: vec![(7, 1)] };
        known.record.steps.get_mut(start).expect("a start command").left = Some(left);
        known.alive.insert(start.into());
        known
    }
}

/// The decisions of a plan in short: `+id` runs, `-id` is skipped.
fn told(plan: &NodePlan) -> String {
    let word = |step: &Step| match &step.decision {
        Decision::Run(_) => format!("+{}", step.id),
        Decision::Skip(_) => format!("-{}", step.id),
    };
    let steps: Vec<String> = plan.steps.iter().filter(|s| s.kind != Kind::Connect).map(word).collect();
    steps.join(" ")
}

fn because<'p>(plan: &'p NodePlan, id: &str) -> &'p Decision {
    &plan.steps.iter().find(|step| step.id == id).expect("the step").decision
}

const ALL: &str = "+files ~/proj +files /data +init 1 +setup 1 +setup 2 +setup 3 +start 1 +start 2";

#[test]
fn what_only_ends_a_worker_does_not_wait_for_the_head() {
    let mut world = World::new();
    let join = "ray start --address=$RAY_HEAD_IP:6379";
    for (starts, kinds) in [
        (&["ray stop", join][..], &[Kind::Stop, Kind::Start][..]),
        (&["~/venv/bin/ray stop --force", "ray stop", join], &[Kind::Stop, Kind::Stop, Kind::Start]),
        (&["ulimit -n 65536", "ray stop"], &[Kind::Start, Kind::Start]),
        (&["ray stop; ray start", join], &[Kind::Start, Kind::Start]),
        (&["ray stop $X", "ray stopped"], &[Kind::Start, Kind::Start]),
    ] {
        world.cluster.workers[0].start_commands = starts.iter().map(|start| (*start).to_string()).collect();
        let plan = world.plan(1, None);
        let found: Vec<Kind> = plan.steps.iter().map(|step| step.kind).filter(|kind| *kind >= Kind::Stop).collect();
        assert_eq!(found, kinds, "{starts:?}");
        assert!(plan.steps.iter().any(|step| step.id == "start 1"), "ids stay as they were");
    }
    let head = world.plan(0, None);
    assert!(head.steps.iter().all(|step| step.kind != Kind::Stop));
}

#[test]
fn a_new_node_gets_everything_in_order() {
    let plan = World::new().plan(0, None);
    assert!(plan.new);
    assert_eq!(told(&plan), ALL);
}

#[test]
fn nothing_changed_and_only_start_commands_run_that_leave_nothing_running() {
    let world = World::new();
    let plan = world.plan(0, Some(&world.done(0)));
    assert_eq!(told(&plan), "-files ~/proj -files /data -init 1 -setup 1 -setup 2 -setup 3 +start 1 +start 2");
    assert_eq!(because(&plan, "setup 2"), &Decision::Skip(Why::Unchanged));
    assert_eq!(because(&plan, "start 1"), &Decision::Run(Because::Always));
}

/// Who runs well is left alone: to start anew ends people's work.
#[test]
fn what_runs_is_started_anew_only_for_a_reason() {
    let mut world = World::new();
    let known = world.running(0, "start 2");
    let of = |plan: &NodePlan| (because(plan, "start 1").clone(), because(plan, "start 2").clone());
    let both = |decision: Decision| (decision.clone(), decision);
    let running = both(Decision::Skip(Why::Running));
    assert_eq!(of(&world.plan(0, Some(&known))), running);

    let mut ended = known.clone();
    ended.alive.clear();
    let (with, why) = (Decision::Run(Because::With("start 2".into())), Decision::Run(Because::Ended));
    assert_eq!(of(&world.plan(0, Some(&ended))), (with.clone(), why));
    let mut cut = known.clone();
    cut.record.steps.get_mut("start 2").expect("a step").outcome = Outcome::Begun;
    assert_eq!(of(&world.plan(0, Some(&cut))), (with, Decision::Run(Because::Interrupted)));
    // One that the file does not have any more; its like still runs.
    let mut more = known.clone();
    let third = more.record.steps["start 2"].clone();
    more.record.steps.insert("start 3".into(), third);
    assert_eq!(of(&world.plan(0, Some(&more))), both(Decision::Run(Because::Changed)));

    // Files are no reason, unless commands name them.
    world.trees.insert("/data".into(), "d2".into());
    assert_eq!(of(&world.plan(0, Some(&known))), running);
    world.trees.insert("~/proj".into(), "p2".into());
    assert_eq!(of(&world.plan(0, Some(&known))), both(Decision::Run(Because::After("setup 2".into()))));
    let mut world = World::new();
    world.options.no_usage_stats = true;
    assert_eq!(of(&world.plan(0, Some(&known))), running);
    world.cluster.head.setup_commands[2] = "echo steady".into();
    assert_eq!(of(&world.plan(0, Some(&known))), both(Decision::Run(Because::After("setup 3".into()))));
    world.options.no_restart = true;
    assert_eq!(of(&world.plan(0, Some(&known))), both(Decision::Skip(Why::NoRestart)));

    let mut world = World::new();
    for (restart, restart_only) in [(true, false), (false, true)] {
        world.options = Options { restart, restart_only, ..Options::default() };
        assert_eq!(of(&world.plan(0, Some(&known))), both(Decision::Run(Because::Asked)));
    }
}

#[test]
fn workers_start_anew_with_their_head() {
    let world = World::new();
    let wanted = Wanted {
        cluster: &world.cluster,
        nodes: &world.nodes,
        trees: &world.trees,
        mesh: None,
        efs: None,
        options: world.options,
    };
    let both = |head: Known| [("h".to_string(), head), ("w".to_string(), world.running(1, "start 1"))].into();
    let decision = |head: Known| because(&plan(&wanted, &both(head)).nodes[1], "start 1").clone();
    assert_eq!(decision(world.running(0, "start 2")), Decision::Skip(Why::Running));
    let anew = Decision::Run(Because::After("the head's start".into()));
    let mut gone = world.running(0, "start 2");
    gone.alive.clear();
    assert_eq!(decision(gone), anew);
    // It did so when this worker was away; or nobody can ask it, and it starts nothing.
    let mut since = world.running(0, "start 2");
    since.record.steps.get_mut("start 2").expect("a step").epoch = Some("7-1".into());
    assert_eq!(decision(since), anew);
    let alone = [("w".to_string(), world.running(1, "start 1"))].into();
    assert_eq!(because(&plan(&wanted, &alone).nodes[1], "start 1"), &Decision::Skip(Why::Running));
}

#[test]
fn it_resumes_at_the_command_that_changed() {
    let mut world = World::new();
    let known = world.done(0);
    world.cluster.head.setup_commands[1] = "pip install numpy".into();
    let plan = world.plan(0, Some(&known));
    assert_eq!(told(&plan), "-files ~/proj -files /data -init 1 -setup 1 +setup 2 +setup 3 +start 1 +start 2");
    assert_eq!(because(&plan, "setup 2"), &Decision::Run(Because::Changed));
    assert_eq!(because(&plan, "setup 3"), &Decision::Run(Because::After("setup 2".into())));
}

#[test]
fn files_touch_only_the_commands_that_name_them() {
    let mut world = World::new();
    let known = world.done(0);
    world.trees.insert("/data".into(), "d2".into());
    let plan = world.plan(0, Some(&known));
    assert_eq!(told(&plan), "-files ~/proj +files /data -init 1 -setup 1 -setup 2 -setup 3 +start 1 +start 2");
    assert_eq!(because(&plan, "files /data"), &Decision::Run(Because::FilesChanged));
    world.trees.insert("~/proj".into(), "p2".into());
    let plan = world.plan(0, Some(&known));
    assert_eq!(told(&plan), "+files ~/proj +files /data -init 1 -setup 1 +setup 2 +setup 3 +start 1 +start 2");
    assert_eq!(because(&plan, "setup 2"), &Decision::Run(Because::FilesChanged));
}

#[test]
fn it_resumes_at_the_command_that_failed_or_was_cut_off() {
    let world = World::new();
    for (outcome, why) in [
        (Outcome::Failed(Ended::Code(3)), Because::Failed(Ended::Code(3))),
        (Outcome::Failed(Ended::Stopped), Because::Interrupted),
        (Outcome::Begun, Because::Interrupted),
    ] {
        let mut known = world.done(0);
        known.record.steps.get_mut("setup 2").expect("a step").outcome = outcome;
        let plan = world.plan(0, Some(&known));
        assert_eq!(told(&plan), "-files ~/proj -files /data -init 1 -setup 1 +setup 2 +setup 3 +start 1 +start 2");
        assert_eq!(because(&plan, "setup 2"), &Decision::Run(why));
    }
}

#[test]
fn options_say_what_is_left_out_except_on_new_nodes() {
    let mut world = World::new();
    let mut known = world.done(0);
    world.cluster.head.setup_commands[0] = "apt install y".into();
    world.options = Options { restart_only: true, ..Options::default() };
    let plan = world.plan(0, Some(&known));
    assert_eq!(told(&plan), "-files ~/proj -files /data -init 1 -setup 1 -setup 2 -setup 3 +start 1 +start 2");
    assert_eq!(because(&plan, "setup 1"), &Decision::Skip(Why::RestartOnly));
    let plan = world.plan(0, None);
    assert_eq!(told(&plan), ALL);
    assert_eq!(because(&plan, "setup 1"), &Decision::Run(Because::NewNode));
    world.options = Options { no_restart: true, ..Options::default() };
    let plan = world.plan(0, Some(&known));
    assert_eq!(because(&plan, "start 1"), &Decision::Skip(Why::NoRestart));
    known.record.steps.retain(|id, _| !id.starts_with("start"));
    assert_eq!(because(&world.plan(0, Some(&known)), "start 1"), &Decision::Run(Because::NewNode));
}

#[test]
fn a_container_that_is_gone_is_set_up_again() {
    let mut world = World::new();
    world.cluster.docker = Some(Docker { container_name: "ray".into(), ..Docker::default() });
    let mut known = world.done(0);
    assert!(told(&world.plan(0, Some(&known))).contains("-init 1 -container -setup 1"));
    known.container = None;
    let plan = world.plan(0, Some(&known));
    assert!(told(&plan).contains("-init 1 +container +setup 1 +setup 2 +setup 3"), "{}", told(&plan));
    assert_eq!(because(&plan, "container"), &Decision::Run(Because::ContainerGone));

    // Whatever is left out otherwise: there is nothing in the new one.
    world.options = Options { restart_only: true, ..Options::default() };
    let plan = world.plan(0, Some(&known));
    let all = "+files ~/proj +files /data -init 1 +container +setup 1 +setup 2 +setup 3 +start 1 +start 2";
    assert_eq!(told(&plan), all);
    assert_eq!(because(&plan, "setup 1"), &Decision::Run(Because::After("container".into())));
    world.options = Options { no_restart: true, ..Options::default() };
    assert_eq!(told(&world.plan(0, Some(&known))), all);
}

#[test]
fn start_commands_know_the_head_and_the_resources() {
    let mut world = World::new();
    world.cluster.workers[0].resources = serde_json::json!({"machine": 1});
    let line = |plan: &NodePlan| match &plan.steps.last().expect("a step").action {
        Action::Run(argv) => argv.join(" ").replace('\'', ""),
        _ => String::new(),
    };
    let worker = line(&world.plan(1, None));
    for part in ["RAY_HEAD_IP=10.0.0.1", r#"{"machine":1}"#, "SHOAL_CLUSTER=lab"] {
        assert!(worker.contains(part), "{worker}");
    }
    assert!(!line(&world.plan(0, None)).contains("RAY_OVERRIDE_RESOURCES"));
}

#[test]
fn a_plan_is_shown_once_for_nodes_that_are_alike() {
    let mut world = World::new();
    world.nodes.push(node(Role::Worker, "w2", "10.0.0.3"));
    let wanted = Wanted {
        cluster: &world.cluster,
        nodes: &world.nodes,
        trees: &world.trees,
        mesh: None,
        efs: None,
        options: Options::default(),
    };
    let text = render::render(&plan(&wanted, &[("h".to_string(), world.done(0))].into()));
    let wanted = "\
cluster lab: 3 nodes

head h
  skip  files ~/proj  (unchanged)
  skip  files /data  (unchanged)
  skip  init 1: init  (unchanged)
  skip  setup 1: apt install x  (unchanged)
  skip  setup 2: pip install -r ~/proj/requirements.txt  (unchanged)
  skip  setup 3: echo ready  (unchanged)
  run   start 1: ray stop  (every time)
  run   start 2: ray start --head  (every time)

worker w, w2 (new)
  run   files ~/proj  (never ran here)
  run   files /data  (never ran here)
  run   init 1: init  (never ran here)
  run   setup 1: apt install x  (never ran here)
  run   setup 2: pip install -r ~/proj/requirements.txt  (never ran here)
  run   setup 3: echo ready  (never ran here)
  run   start 1: ray start --address=$RAY_HEAD_IP:6379  (never ran here)

16 steps would run, 6 would be skipped
";
    assert_eq!(text, wanted);
}
