use super::*;
use crate::queue::event::Meet;
use crate::queue::host::Held;
use crate::queue::read::{self, Submission};
use crate::queue::sweep::{Config, Provenance, Value};
use crate::queue::work::RUN_DIR_MARK;
use crate::queue::{RunId, sweep};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn sweep_of(text: &str) -> Sweep {
    let draft = read::sweep(text, "sweep.yaml").unwrap_or_else(|e| panic!("{}", crate::diagnostic::Diagnostics(e)));
    draft.into_sweep(Submission {
        name: "mlp".into(),
        owner: "ada".into(),
        trees: Vec::new(),
        requirements: None,
        provenance: Provenance::default(),
    })
}

fn attempt(cell: u32, rep: u32) -> Attempt {
    Attempt { run: RunId { sweep: "mlp".into(), cell, rep }, number: 1 }
}

fn seat(host: &str, devices: &[(&str, u32)]) -> Seat {
    let held = |(uuid, milli): &(&str, u32)| Held { uuid: (*uuid).into(), milli: *milli };
    Seat { host: host.into(), devices: devices.iter().map(held).collect(), meet: None }
}

fn start_of(text: &str, cell: u32, rep: u32) -> Start {
    start(&sweep_of(text), &attempt(cell, rep), &[seat("hebb", &[])], 0, None, true, "/store/results", 0)
        .expect("a start")
}

fn variable<'s>(start: &'s Start, name: &str) -> Option<&'s str> {
    let mut found = start.env.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let value = found.next();
    assert_eq!(found.next(), None, "{name} is there twice");
    value
}

#[test]
fn parameters_reach_the_program() {
    for (text, words) in [
        ("command: train\ngrid: {lr: [0.1, 1e-5], width: [64]}\n", "train --lr 0.00001 --width 64"),
        ("command: train --rate {lr} -w={width}\ngrid: {lr: [1, 1.0], width: [64]}\n", "train --rate 1.0 -w=64"),
        ("command: train {lr}\npass: [flags]\ngrid: {lr: [1, 2], width: [64]}\n", "train 2 --width 64"),
        (
            "command: train\nparams: {a: true, b: false, c: null, d: [], e: 2}\nlist: [{x: 0}, {x: 1}]\n",
            "train --a --e 2 --x 1",
        ),
        (
            "command: train\nparams: {l: [64, 32], m: {k: [1]}}\ngrid: {x: [0, 1]}\n",
            "train --l 64 --l 32 --m {\"k\":[1]} --x 1",
        ),
        ("command: train\nparams: {t: --x, n: -1, u: a b}\ngrid: {x: [0, 1]}\n", "train --n -1 --t=--x --u a b --x 1"),
        (
            "command: train {l} {m} {n}\nparams: {l: [64, 32], m: {k: 1}, n: null}\ngrid: {x: [0, 1]}\npass: none\n",
            "train [64,32] {\"k\":1} null",
        ),
        (
            "command: [train, \"{{x}}\", \"{run}/{rep}/{seed}\"]\nseed: 7\ngrid: {x: [0, 1]}\n",
            "train {x} mlp:1.2/2/9 --x 1",
        ),
    ] {
        assert_eq!(start_of(text, 1, 2).argv.join(" "), words, "{text}");
    }
    let argv = start_of("command: [train, --out, \"{run_dir}/x\"]\n", 0, 0).argv;
    assert_eq!(argv[2], format!("{RUN_DIR_MARK}/x"));
    assert!(!argv.contains(&"{run_dir}/x".to_string()));
}

#[test]
fn variables_say_who_it_is() {
    let text = "command: train\nseed: 10\nenv: {A: x}\npass: [env, file]\ngrid: {lr: [0.1], model.width: [64], n: [null], b: [true]}\n";
    let start = start_of(text, 0, 3);
    for (name, value) in [
        ("A", Some("x")),
        ("SHOAL_RUN", Some("mlp:0.3")),
        ("SHOAL_SWEEP", Some("mlp")),
        ("SHOAL_CELL", Some("0")),
        ("SHOAL_REP", Some("3")),
        ("SHOAL_ATTEMPT", Some("1")),
        ("SHOAL_SEED", Some("13")),
        ("SHOAL_RESULT", Some("mlp/runs/param_000/1970-01-01-00:00:00_num3")),
        ("SHOAL_PARAM_lr", Some("0.1")),
        ("SHOAL_PARAM_model_width", Some("64")),
        ("SHOAL_PARAM_n", None),
        ("SHOAL_PARAM_b", Some("true")),
        ("CUDA_VISIBLE_DEVICES", Some("")),
        ("NVIDIA_VISIBLE_DEVICES", Some("void")),
        ("CUDA_DEVICE_ORDER", Some("PCI_BUS_ID")),
        ("SHOAL_GPU_FRACTION", None),
        ("RANK", None),
    ] {
        assert_eq!(variable(&start, name), value, "{name}");
    }
    assert_eq!(start.argv, ["train"]);
    let yaml = "b: true\nlr: 0.1\nmodel.width: 64\n\"n\": null\n";
    let json = "{\"b\":true,\"lr\":0.1,\"model.width\":64,\"n\":null}\n";
    assert_eq!(start.files, [("param2val.yaml".into(), yaml.to_string()), ("params.json".into(), json.to_string())]);
    assert_eq!(start.beside, [("param2val.yaml".into(), yaml.to_string())]);
}

#[test]
fn devices_are_the_seats() {
    let sweep = sweep_of(
        "command: train\nresources: {gpus: 0.25, gpu_memory: 4GiB}\nenv: {TF_FORCE_GPU_ALLOW_GROWTH: \"false\"}\n",
    );
    let start = |seat: Seat| start(&sweep, &attempt(0, 0), &[seat], 0, None, true, "/r", 0).expect("a start");
    let part = start(seat("hebb", &[("GPU-b", 250)]));
    assert_eq!(variable(&part, "CUDA_VISIBLE_DEVICES"), Some("GPU-b"));
    assert_eq!(variable(&part, "SHOAL_GPU_FRACTION"), Some("0.25"));
    assert_eq!(variable(&part, "XLA_PYTHON_CLIENT_MEM_FRACTION"), Some("0.25"));
    assert_eq!(variable(&part, "TF_FORCE_GPU_ALLOW_GROWTH"), Some("false"), "what the sweep says counts");
    assert_eq!(variable(&part, "SHOAL_GPU_MEMORY"), Some("4294967296"));
    let two = start(seat("hebb", &[("GPU-b", 1000), ("GPU-a", 1000)]));
    assert_eq!(variable(&two, "NVIDIA_VISIBLE_DEVICES"), Some("GPU-b,GPU-a"), "in the order of the seat");
    assert_eq!(variable(&two, "SHOAL_GPU_FRACTION"), None);
}

#[test]
fn gangs_know_each_other() {
    let sweep = sweep_of("command: train\nresources: {ranks: 3}\n");
    let apart = [seat("a", &[]), seat("b", &[]), seat("a", &[])];
    let ranks: Vec<Start> = (0..3)
        .map(|rank| start(&sweep, &attempt(0, 1), &apart, rank, None, false, "/r", 951_782_400_000).expect("a start"))
        .collect();
    for (rank, start) in ranks.iter().enumerate() {
        assert_eq!(variable(start, "RANK"), Some(rank.to_string().as_str()));
        assert_eq!(variable(start, "SHOAL_WORLD_SIZE"), Some("3"));
        assert_eq!(variable(start, "LOCAL_RANK"), Some("0"));
        assert_eq!(variable(start, "MASTER_ADDR"), Some("a"));
        assert_eq!(variable(start, "MASTER_PORT"), variable(&ranks[0], "MASTER_PORT"));
        assert_eq!(start.hosts, ["a", "b", "a"]);
    }
    assert_eq!(ranks[0].publish, Publish::Send("mlp/runs/param_000/2000-02-29-00:00:00_num1".into()));
    assert_eq!(ranks[2].publish, Publish::Send("mlp/ranks/param_000/2000-02-29-00:00:00_num1_rank2".into()));
    let together = [seat("a", &[]), seat("a", &[])];
    let start = |seats: &[Seat], number, rank| {
        start(&sweep, &Attempt { number, ..attempt(0, 0) }, seats, rank, None, true, "/r", 0)
    };
    let (one, two) = (start(&together, 1, 0).expect("a start"), start(&together, 2, 0).expect("a start"));
    assert_eq!(variable(&one, "MASTER_ADDR"), Some("127.0.0.1"));
    assert_ne!(variable(&one, "MASTER_PORT"), variable(&two, "MASTER_PORT"), "the last one's may still be taken");
    let meet = Meet { address: "10.0.0.7".into(), port: 4711 };
    let met = [Seat { meet: Some(meet), ..seat("a", &[]) }, seat("b", &[])];
    let second = start(&met, 1, 1).expect("a start");
    assert_eq!((variable(&second, "MASTER_ADDR"), variable(&second, "MASTER_PORT")), (Some("10.0.0.7"), Some("4711")));
    assert!(start(&together, 1, 2).is_err_and(|why| why.contains("rank 2")));
}

#[test]
fn results_have_ludwigs_names() {
    let cases = [
        ("", true, Publish::Folder("/store/mlp/runs/param_007/2000-02-29-00:00:00_num2".into())),
        ("", false, Publish::Send("mlp/runs/param_007/2000-02-29-00:00:00_num2".into())),
        ("results: /media/x/\n", false, Publish::Folder("/media/x/mlp/runs/param_007/2000-02-29-00:00:00_num2".into())),
    ];
    for (results, local, expected) in cases {
        let sweep = sweep_of(&format!("command: train\ngrid: {{n: 0..1500}}\n{results}"));
        let at = |cell| start(&sweep, &attempt(cell, 2), &[seat("a", &[])], 0, None, local, "/store/", 951_782_400_000);
        assert_eq!(at(7).expect("a start").publish, expected);
        let long = at(1234).expect("a start").publish;
        assert!(matches!(long, Publish::Folder(name) | Publish::Send(name) if name.contains("/param_1234/")));
        assert!(at(9999).is_err_and(|why| why.contains("no configuration 9999")));
    }
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::Float),
        "[^\\x00]{0,16}".prop_map(Value::Text),
        prop_oneof![
            "[-+]?[0-9.e_x:]{0,8}",
            "yes|no|on|Off|y|N|true|NULL|~|<<|=|\\.inf|-\\.NaN|0o7|0b1|1:30|2001-01-01"
        ]
        .prop_map(Value::Text),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            proptest::collection::btree_map("[^\\x00]{0,10}", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_as_yaml_is_read_back(config in proptest::collection::btree_map("[a-z][a-z0-9_.-]{0,8}", values(), 1..5)) {
        let yaml = text::param2val(&config);
        let indented: String = yaml.lines().map(|line| format!("  {line}\n")).collect();
        let draft = read::sweep(&format!("command: x\npass: none\nparams:\n{indented}"), "x.yaml");
        let draft = draft.map_err(|e| TestCaseError::fail(format!("{yaml}\n{}", crate::diagnostic::Diagnostics(e))))?;
        prop_assert_eq!(&draft.parts[0].fixed, &config, "{}", yaml);
        let json: Config = serde_json::from_str(&text::params_json(&config)).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(json, config);
    }
}

#[test]
fn yaml_of_old_readers_is_heeded() {
    for (value, yaml) in [
        (Value::Float(1e-7), "1.0e-7"),
        (Value::Float(2.5e20), "2.5e+20"),
        (Value::Float(1.0), "1.0"),
        (Value::Text("yes".into()), "\"yes\""),
        (Value::Text("1e5".into()), "\"1e5\""),
        (Value::Text("adam".into()), "adam"),
        (Value::Text("a/b.c-d".into()), "a/b.c-d"),
        (Value::Text("é\u{85}\u{7}\n".into()), "\"é\\x85\\x07\\n\""),
        (Value::Map(BTreeMap::from([("n".into(), Value::List(vec![Value::Null]))])), "{\"n\": [null]}"),
    ] {
        assert_eq!(text::yaml(&value), yaml);
    }
    assert_eq!(text::param2val(&sweep::Config::new()), "{}\n");
}

/// What the fleet's file says of its hosts is there for every run, and what the sweep says counts.
#[test]
fn the_fleets_environment_is_under_the_sweeps() {
    use crate::queue::host::HostEnvironment;
    let fleet = crate::fleet::read(
        "lab.yaml",
        "hosts: [hebb]\nenvironment: {virtualenv: /opt/lab, setup: [. /opt/env.sh], env: {A: fleet, B: fleet, CUDA_VISIBLE_DEVICES: '0'}}\n",
    );
    let environment = HostEnvironment::of(&fleet.expect("a fleet").fleet.environment).expect("an environment");
    // The kept sample (WIRE-1).
    let text = r#"{"virtualenv":"/opt/lab","conda":[],"setup":[". /opt/env.sh"],"env":{"A":"fleet","B":"fleet","CUDA_VISIBLE_DEVICES":"0"}}"#;
    assert_eq!(serde_json::to_string(&environment).expect("JSON"), text);
    assert_eq!(serde_json::from_str::<HostEnvironment>(text).expect("an environment"), *environment);
    let given = |text: &str| {
        let mut start = start_of(text, 0, 0);
        environment.give(&mut start);
        start
    };
    let plain = given("command: train\nenv: {B: sweep}\n");
    assert_eq!(
        (plain.virtualenv.as_deref(), plain.setup.as_slice()),
        (Some("/opt/lab"), &[". /opt/env.sh".to_string()][..])
    );
    assert_eq!((variable(&plain, "A"), variable(&plain, "B")), (Some("fleet"), Some("sweep")));
    assert_eq!(variable(&plain, "CUDA_VISIBLE_DEVICES"), Some(""), "PLAN-2: devices are the queue's to give");
    let own = given("command: train\nenvironment: {virtualenv: ~/mine, setup: [ulimit -n 9]}\n");
    assert_eq!(own.virtualenv.as_deref(), Some("~/mine"));
    assert_eq!(own.setup, [". /opt/env.sh", "ulimit -n 9"]);

    let fleet = crate::fleet::read("lab.yaml", "hosts: [hebb]\nenvironment: {conda: jax}\n");
    let conda = HostEnvironment::of(&fleet.expect("a fleet").fleet.environment).expect("an environment");
    let mut start = start_of("command: train\n", 0, 0);
    conda.give(&mut start);
    assert_eq!(start.setup.last().map(String::as_str), Some("conda activate jax"));
    let mut own = start_of("command: train\nenvironment: {virtualenv: ~/mine}\n", 0, 0);
    conda.give(&mut own);
    assert_eq!(own.setup, Vec::<String>::new(), "another Python would go before the sweep's own");
}
