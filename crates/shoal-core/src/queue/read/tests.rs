use super::*;
use crate::queue::cells;
use crate::queue::sweep::Value;
use proptest::prelude::*;

fn read(text: &str) -> Draft {
    sweep(text, "sweep.yaml").unwrap_or_else(|e| panic!("{}", Diagnostics(e)))
}

fn as_sweep(draft: Draft) -> Sweep {
    let provenance = Provenance::default();
    draft.into_sweep(Submission { name: "x".into(), owner: "o".into(), trees: vec![], requirements: None, provenance })
}

/// A sweep that has these parts.
pub fn as_sweep_of(parts: Vec<Axes>) -> Sweep {
    as_sweep(Draft { parts, ..read("command: x\n") })
}

/// All configurations, one a line, as JSON.
fn configs(draft: Draft) -> Vec<String> {
    let sweep = as_sweep(draft);
    let total = u32::try_from(cells::total(&sweep)).expect("not so many");
    (0..total).map(|cell| serde_json::to_string(&cells::config(&sweep, cell)).expect("JSON")).collect()
}

#[test]
fn a_file_with_everything_is_read() {
    let draft = read(
        r#"
version: 1
name: mlp
command: python train.py --lr {lr}
grid: {lr: [0.1, 0.01], width: [64, 256]}
zip: {depth: [1, 2], heads: [2, 4]}
list: [{lr: 0.5, width: 32, depth: 1, heads: 1}]
params: {dropout: 0.1}
when: ["width > 64 or lr < 0.05"]
reps: 3
seed: 7
pass: [flags, env, file]
resources: {cpus: 1.5, memory: 2GiB, gpus: 0.25, gpu_memory: 4GiB, ranks: 2, on: [hebb, gpu-group]}
time_limit: 2h
grace: 1m
retries: 1
priority: -5
after: [pretrain]
stop_after_failures: never
fatal_codes: [3]
results: /media/research_data/mlp/
env: {OMP_NUM_THREADS: "1", N: 2}
environment: {virtualenv: ~/venv, modules: cuda/12, setup: [ulimit -n 100], requirements: requirements.lock}
data: [corpora, {path: ../tasks, at: in/tasks}]
source: {ignore: ["*.ckpt"]}
"#,
    );
    assert_eq!(draft.name.as_deref(), Some("mlp"));
    assert_eq!(draft.argv, ["python", "train.py", "--lr", "{lr}"]);
    assert_eq!(draft.parts.len(), 2);
    assert_eq!(draft.parts[0].only, Some(vec![2, 3, 4, 5, 6, 7]));
    assert_eq!(draft.parts[1].dimensions, [], "one configuration needs none");
    assert_eq!((draft.reps, draft.rules.seed, draft.rules.retries, draft.rules.priority), (3, 7, 1, -5));
    assert_eq!(draft.pass, Pass { flags: true, env: true, file: true });
    assert_eq!((draft.wants.cpus_milli, draft.wants.gpus_milli, draft.wants.ranks), (1500, 250, 2));
    assert_eq!((draft.wants.memory_bytes, draft.wants.gpu_memory_bytes), (Some(2 << 30), Some(4 << 30)));
    assert_eq!(draft.wants.on, ["hebb", "gpu-group"]);
    assert_eq!((draft.rules.time_limit_seconds, draft.rules.grace_seconds), (Some(7200), 60));
    assert_eq!((draft.rules.stop_after_failures, draft.rules.fatal_codes.as_slice()), (u32::MAX, &[3][..]));
    assert_eq!(draft.rules.results.as_deref(), Some("/media/research_data/mlp"));
    assert_eq!(draft.env.get("N").map(String::as_str), Some("2"));
    assert_eq!(draft.setup[1..], ["module load cuda/12", "ulimit -n 100"]);
    assert!(
        draft.setup[0].contains("/etc/profile.d/modules.sh"),
        "`module` is a function of login shells: {:?}",
        draft.setup[0]
    );
    assert_eq!(
        (draft.virtualenv.as_deref(), draft.requirements.as_deref()),
        (Some("~/venv"), Some("requirements.lock"))
    );
    let folder = |path: &str, at: &str, ignore: &[&str]| Folder {
        path: path.into(),
        at: at.into(),
        ignore: ignore.iter().map(|word| (*word).into()).collect(),
    };
    assert_eq!(draft.source, [folder(".", "", &["*.ckpt"])]);
    assert_eq!(draft.data, [folder("corpora", "corpora", &[]), folder("../tasks", "in/tasks", &[])]);
    assert_eq!(draft.after, ["pretrain"]);
    assert_eq!(draft.warnings, []);
}

#[test]
fn the_least_file_has_one_configuration() {
    let draft = read("command: train\n");
    assert_eq!(configs(draft.clone()), ["{}"]);
    assert_eq!(draft.pass, Pass { flags: true, ..Pass::default() });
    assert_eq!(draft.source.len(), 1);
    assert_eq!((draft.wants, draft.rules, draft.reps), (Wants::default(), Rules::default(), 1));
}

#[test]
fn configurations_are_numbered_in_the_order_of_the_file() {
    for (text, expected) in [
        (
            "grid: {b: [1, 2], a: [x, y]}",
            &[r#"{"a":"x","b":1}"#, r#"{"a":"y","b":1}"#, r#"{"a":"x","b":2}"#, r#"{"a":"y","b":2}"#][..],
        ),
        ("zip: {a: [1, 2], b: [3, 4]}", &[r#"{"a":1,"b":3}"#, r#"{"a":2,"b":4}"#]),
        ("zip: [{a: [1, 2]}, {b: [3, 4]}]\nwhen: a + b == 5", &[r#"{"a":1,"b":4}"#, r#"{"a":2,"b":3}"#]),
        ("list: [{a: 1}, {a: 2, b: 5}]\nparams: {b: 0, c: 1}", &[r#"{"a":1,"b":0,"c":1}"#, r#"{"a":2,"b":5,"c":1}"#]),
        ("list: [{a: 1}]\ngrid: {a: [0, 2]}", &[r#"{"a":0}"#, r#"{"a":2}"#, r#"{"a":1}"#]),
        ("params: {a: 1, b: 2}\ngrid: {a: [3, 4]}", &[r#"{"a":3,"b":2}"#, r#"{"a":4,"b":2}"#]),
        (
            "grid: {a: [1, 1, 2]}\nlist: [{a: 2}, {a: 3}, {a: 3}]\nduplicates: merge",
            &[r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#],
        ),
        (
            "grid: {a: [[1, 2], {k: null}, ~, 'x']}",
            &[r#"{"a":[1,2]}"#, r#"{"a":{"k":null}}"#, r#"{"a":null}"#, r#"{"a":"x"}"#],
        ),
        ("grid: {a: [1, 1.0, '1', true]}", &[r#"{"a":1}"#, r#"{"a":1.0}"#, r#"{"a":"1"}"#, r#"{"a":true}"#]),
    ] {
        assert_eq!(configs(read(&format!("command: train\n{text}\n"))), expected, "{text}");
    }
}

#[test]
fn flags_are_for_commands_without_placeholders() {
    for (text, flags) in [
        ("command: train\ngrid: {a: [1]}", true),
        ("command: train {a}\ngrid: {a: [1]}", false),
        ("command: train {run_dir} {seed}\ngrid: {a: [1]}", true),
        ("command: train {{a}}\ngrid: {a: [1]}", true),
        ("command: train {a}\ngrid: {a: [1], b: [2]}\npass: flags", true),
        ("command: train\ngrid: {a: [1]}\npass: none", false),
    ] {
        assert_eq!(read(text).pass.flags, flags, "{text}");
    }
    let warned = read("command: train\ngrid: {seed: [1, 2]}\n").warnings;
    assert!(warned.len() == 1 && warned[0].message.contains("seed"));
}

#[test]
fn folders_have_places() {
    for (text, expected) in [
        ("source: src", ". <- src"),
        ("source: [src, lib/util]", "src <- src, util <- lib/util"),
        ("source: none", ""),
        ("folder: /nfs/x", ""),
        ("source: [., ../other]", ". <- ., other <- ../other"),
        ("source: {path: ../x, at: code}", "code <- ../x"),
    ] {
        let draft = read(&format!("command: train\n{text}\n"));
        let place =
            |folder: &Folder| format!("{} <- {}", if folder.at.is_empty() { "." } else { &folder.at }, folder.path);
        assert_eq!(draft.source.iter().map(place).collect::<Vec<_>>().join(", "), expected, "{text}");
    }
}

#[test]
fn json_is_read_as_the_file_is() {
    let draft = from_json(
        r#"{"command": ["run", "{a}"], "pass": ["file"], "reps": 2, "params": {"c": 0},
        "configs": [{"a": 1, "b": [1, {"x": null}]}, {"a": 2.5}, {"a": "t", "c": 9}]}"#,
    )
    .unwrap_or_else(|e| panic!("{}", Diagnostics(e)));
    assert_eq!(draft.reps, 2);
    let expected = [r#"{"a":1,"b":[1,{"x":null}],"c":0}"#, r#"{"a":2.5,"c":0}"#, r#"{"a":"t","c":9}"#];
    assert_eq!(configs(draft), expected);
    let merged = from_json(r#"{"command": "x", "duplicates": "merge", "configs": [{"a": 1}, {"a": 1}, {}, {}]}"#);
    assert_eq!(configs(merged.expect("valid")), [r#"{"a":1}"#, "{}"]);
    let same = from_json(r#"{"command": "x", "configs": [{"a": 1, "b": 2}, {"a": 1, "b": 3}]}"#).expect("valid");
    assert_eq!(same.parts[0].fixed.get("a"), Some(&Value::Int(1)), "what is the same is kept once");
    assert_eq!(same.parts[0].dimensions[0].names, ["b"]);
}

#[test]
fn json_that_is_wrong_is_refused() {
    for (text, says) in [
        ("", "cannot be read"),
        ("[]", "an object with the fields"),
        (r#"{"command": "x", "configs": {"a": 1}}"#, "a list of objects"),
        (r#"{"command": "x", "configs": []}"#, "`configs` is empty"),
        (r#"{"command": "x", "configs": [1]}"#, "configs[0] is not an object"),
        (r#"{"command": "x", "configs": [{"a": NaN}]}"#, "a value is NaN"),
        (r#"{"command": "x", "configs": [{"a": -Infinity}]}"#, "a value is Infinity"),
        (r#"{"command": "x", "params": {"a": Infinity}}"#, "a value is Infinity"),
        (r#"{"command": "x", "configs": [{"a": 18446744073709551615}]}"#, "64 bits"),
        (r#"{"command": "x", "configs": [{"a": 1e999}]}"#, "out of range"),
        (r#"{"command": "x", "configs": [{"a": "\u0000"}]}"#, "NUL"),
        (r#"{"command": "x", "configs": [{"a b": 1}]}"#, "cannot be a parameter's name"),
        (r#"{"command": "x", "configs": [{"a": 1, "a": 2}]}"#, "given twice"),
        (r#"{"command": "x", "configs": [{"a": 1}, {"a": 2}, {"a": 1}]}"#, "configs[2] is there twice"),
        (r#"{"command": "x {b}", "configs": [{"b": 1}, {"a": 2}]}"#, "not every configuration has `b`"),
        (r#"{"command": "x", "reps": 0}"#, "`reps`"),
        (r#"{"command": "x", "repz": 1}"#, "unknown field"),
        (r#"{"command": "x", "command": "y"}"#, "given twice"),
        (r#"{"command": "x"} {}"#, "cannot be read"),
        (r#"{"command": "x", "params": {"n": 18446744073709551615}}"#, "64 bits"),
    ] {
        let found = Diagnostics(from_json(text).expect_err(text)).to_string();
        assert!(found.contains(says), "{text}:\n{found}");
    }
    let deep = format!(r#"{{"command": "x", "configs": [{{"a": {}1{}}}]}}"#, "[".repeat(100), "]".repeat(100));
    assert!(from_json(&deep).is_err());
}

#[test]
fn names_come_from_folders() {
    for (folder, name) in [
        ("/home/ada/mlp", "mlp"),
        ("/home/ada/our project (2)/", "our-project-2"),
        ("/", "sweep"),
        ("", "sweep"),
        ("/x/.hidden", "hidden"),
        ("/x/--é--", "sweep"),
    ] {
        assert_eq!(name_from_folder(folder), name);
        assert!(crate::queue::is_sweep_name(&name_from_folder(folder)));
    }
}

proptest! {
    #[test]
    fn a_product_has_as_many_as_its_lists_say(lengths in proptest::collection::vec(1usize..6, 0..4), listed in 0u32..5, reps in 1u32..4) {
        let axes: Vec<String> = lengths.iter().enumerate().map(|(at, length)| format!("p{at}: 1..{length}")).collect();
        let names: Vec<String> = (0..lengths.len()).map(|at| format!("p{at}: 100")).collect();
        let list: Vec<String> = (0..listed).map(|n| format!("{{{}, x: {n}}}", names.join(", "))).collect();
        let mut text = format!("command: train\nreps: {reps}\nparams: {{x: -1}}\n");
        if !axes.is_empty() {
            text += &format!("grid: {{{}}}\n", axes.join(", "));
        }
        if listed > 0 && !names.is_empty() {
            text += &format!("list: [{}]\n", list.join(", "));
        }
        let draft = read(&text);
        let product: usize = lengths.iter().product();
        let expected = product + if names.is_empty() { 0 } else { listed as usize };
        let all = configs(draft);
        prop_assert_eq!(all.len(), expected);
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        prop_assert_eq!(different.len(), expected);
    }

    #[test]
    fn conditions_leave_what_they_say(a in 1i64..9, b in 1i64..9, limit in 0i64..20) {
        let text = format!("command: train\ngrid: {{a: 1..{a}, b: 1..{b}}}\nwhen: a + b > {limit}\n");
        let expected = (1..=a).flat_map(|x| (1..=b).map(move |y| x + y)).filter(|sum| *sum > limit).count();
        match sweep(&text, "x") {
            Ok(draft) => prop_assert_eq!(configs(draft).len(), expected),
            Err(_) => prop_assert_eq!(expected, 0),
        }
    }

    #[test]
    fn no_file_is_too_odd(text in "((command|grid|zip|list|when|params|source|data|resources|pass|name|reps): ?)?[-\\[\\]{}a-z0-9:,'\" \\n.&*!]{0,60}") {
        let _ = sweep(&text, "x");
        let _ = from_json(&text);
    }

    #[test]
    fn lists_come_back_in_their_order(rows in proptest::collection::btree_set((any::<i32>(), proptest::option::of(any::<i8>())), 1..30)) {
        let config = |(a, b): &(i32, Option<i8>)| match b {
            Some(b) => format!("{{\"a\":{a},\"b\":{b}}}"),
            None => format!("{{\"a\":{a}}}"),
        };
        let rows: Vec<String> = rows.iter().map(config).collect();
        let draft = from_json(&format!("{{\"command\": \"x\", \"configs\": [{}]}}", rows.join(",")));
        let draft = draft.map_err(|e| TestCaseError::fail(Diagnostics(e).to_string()))?;
        prop_assert_eq!(configs(draft), rows);
    }
}
