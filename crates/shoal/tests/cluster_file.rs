//! `shoal fleet check` and `shoal fleet migrate` on Ray cluster files: what is said of every kind of mistake, and
//! what is written.

mod support;

use std::path::Path;
use std::process::{Command, Output};
use support::snapshot;

fn shoal(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(args).current_dir(folder).env_clear().env("HOME", "/home/me").env("DATA", "/data");
    command.output().expect("shoal runs")
}

/// What somebody sees who types this.
fn seen(folder: &Path, args: &[&str]) -> String {
    let out = shoal(folder, args);
    let words: Vec<String> =
        args.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).into() }).collect();
    let both = [String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)].concat();
    let code = out.status.code().unwrap_or(-1);
    format!("$ shoal {}\n{}\n[exit code {code}]\n", words.join(" "), both.trim_end())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    for name in ["initial-cluster.yaml", "cluster-template.yaml", "values.yaml", "cluster.yaml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/aws-cluster").join(name);
        std::fs::copy(from, folder.path().join(name)).expect("an example");
    }
    folder
}

const BAD: [(&str, &str); 13] = [
    ("syntax.yaml", "cluster_name: x\nprovider: {type: aws, region: us-west-2\nauth: {ssh_user: ubuntu}\n"),
    ("tabs.yaml", "cluster_name: x\nprovider:\n\ttype: aws\n"),
    ("indent.yaml", "cluster_name: x\nprovider:\n  type: aws\n   region: us-west-2\n"),
    ("twice.yaml", "cluster_name: x\nprovider: {type: aws, region: us-west-2}\nauth: {}\nauth: {ssh_user: me}\n"),
    (
        "types.yaml",
        "cluster_name: [x]\nprovider: {type: aws, region: us-west-2, cache_stopped_nodes: maybe}\nmax_workers: many\nsetup_commands:\n  - echo done: yes\nfile_mounts: [a]\n",
    ),
    (
        "unknown.yaml",
        "cluster_name: x\nprovider: {type: local, head_ip: 10.0.0.1, worker_ip: [10.0.0.2]}\nauth: {ssh_usr: me}\nhead_setup_comands: []\ncolour: blue\n",
    ),
    ("provider.yaml", "cluster_name: x\nprovider:\n  type: gcp\n  project_id: y\n"),
    ("coordinator.yaml", "cluster_name: x\nprovider:\n  type: local\n  coordinator_address: 10.0.0.1:1234\n"),
    (
        "variable.yaml",
        "cluster_name: x\nprovider: {type: local, head_ip: 10.0.0.1}\nfile_mounts:\n  ~/data: $DATA/set\n  ~/code: \"${CODE_HOME}/here\"\n  ~/other: ~bob/files\n",
    ),
    (
        "counts.yaml",
        "cluster_name: x\nmax_workers: 3\nprovider: {type: aws, region: us-west-2}\nhead_node_type: head\navailable_node_types:\n  head: {node_config: {InstanceType: m5.large}}\n  few: {node_config: {InstanceType: m5.large}, min_workers: 2}\n  many: {node_config: {InstanceType: m5.large}, min_workers: 2}\n",
    ),
    (
        "bomb.yaml",
        "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\nprovider: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n",
    ),
    ("empty.yaml", "provider:\ncluster_name:\n"),
    (
        "container.yaml",
        "cluster_name: x\nprovider: {type: aws, region: us-west-2, efs: {}, placement: spread}\ndocker: {head_image: rayproject/ray}\n",
    ),
];

#[test]
fn every_kind_of_mistake_is_said_at_its_line_and_column() {
    let folder = folder(&BAD);
    let mut text = String::new();
    for (name, _) in BAD {
        let said = seen(folder.path(), &["fleet", "check", name]);
        assert!(said.contains("[exit code 2]"), "{said}");
        text.push_str(&said);
        text.push('\n');
    }
    snapshot::check("cluster_file_wrong", &text);
}

#[test]
fn slots_are_named_until_they_are_filled() {
    let folder = folder(&[("near.yaml", "AMI Id: ami-1\nEFS ID: fs-1\nName of the placement group: p\nzone: a\n")]);
    let mut text = String::new();
    for args in [
        &["fleet", "check", "cluster-template.yaml"][..],
        &["fleet", "check", "cluster-template.yaml", "--values", "near.yaml"],
        &["fleet", "check", "cluster-template.yaml", "--set", "AMI ID"],
        &["fleet", "check", "cluster-template.yaml", "--values", "values.yaml"],
        &["fleet", "check", "cluster-template.yaml", "--values", "values.yaml", "--set", "AMI ID=ami-2"],
        &["fleet", "check", "cluster.yaml"],
    ] {
        text.push_str(&seen(folder.path(), args));
        text.push('\n');
    }
    snapshot::check("cluster_file_slots", &text);
}

#[test]
fn a_file_of_2020_is_migrated_with_its_comments() {
    let folder = folder(&[]);
    snapshot::check("fleet_migrate", &seen(folder.path(), &["fleet", "migrate", "cluster-template.yaml"]));

    let printed = shoal(folder.path(), &["fleet", "migrate", "cluster-template.yaml"]).stdout;
    let written = shoal(folder.path(), &["fleet", "migrate", "cluster-template.yaml", "-o", "new.yaml"]);
    assert!(written.status.success() && written.stdout.is_empty(), "{written:?}");
    assert_eq!(std::fs::read(folder.path().join("new.yaml")).expect("written"), printed);
    let replaced = shoal(folder.path(), &["fleet", "migrate", "cluster-template.yaml", "--in-place"]);
    assert!(replaced.status.success(), "{replaced:?}");
    assert_eq!(std::fs::read(folder.path().join("cluster-template.yaml")).expect("replaced"), printed);
    let again = shoal(folder.path(), &["fleet", "migrate", "cluster-template.yaml", "--in-place"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("already"), "{again:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 5, "nothing is left beside");
}

#[test]
fn runs_know_local_machines_and_say_how_to_get_others() {
    let local = "cluster_name: lab\nprovider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, {address: 10.0.0.3, port: 2222}]}\nauth: {ssh_user: alice}\n";
    let folder = folder(&[("local.yaml", local)]);
    let mut text = String::new();
    for args in [
        &["fleet", "check", "local.yaml"][..],
        &["fleet", "check", "cluster.yaml", "--json"],
        &["fleet", "convert", "local.yaml"],
        &["run", "-f", "cluster.yaml", "--", "true"],
    ] {
        text.push_str(&seen(folder.path(), args));
        text.push('\n');
    }
    snapshot::check("cluster_file_fleet", &text);
}

/// Slots are filled for runs as they are for `up`.
#[test]
fn a_run_fills_slots_too() {
    let text = "cluster_name: lab\nprovider: {type: local, head_ip: { Head }, worker_ips: [{ Other One }]}\n";
    let folder = folder(&[("lab.yaml", text), ("v.yaml", "Other One: 10.0.0.2\n"), ("fleet.yaml", "hosts: [a]\n")]);
    let run = |args: &[&str]| seen(folder.path(), &[&["run", "--dry-run"], args, &["--", "true"]].concat());
    let plan = run(&["-f", "lab.yaml", "--set", "Head=10.0.0.1", "--values", "v.yaml"]);
    assert!(plan.contains("10.0.0.1") && plan.contains("10.0.0.2") && plan.contains("[exit code 0]"), "{plan}");
    let empty = run(&["-f", "lab.yaml", "--set", "Head=10.0.0.1"]);
    assert!(empty.contains("Other One") && empty.contains("[exit code 2]"), "{empty}");
    let none = run(&["-f", "fleet.yaml", "--set", "Head=10.0.0.1"]);
    assert!(none.contains("no cluster file") && none.contains("[exit code 2]"), "{none}");
}

/// Nobody says where this user's files are: a folder in /tmp, which anybody may have made before, is no place for keys and locks.
#[test]
fn without_a_home_nothing_is_kept_anywhere() {
    let folder = folder(&[("lab.yaml", "cluster_name: lab\nprovider: {type: local, head_ip: localhost}\n")]);
    for verb in ["up", "down"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
        let out =
            command.args([verb, "-y", "lab.yaml"]).current_dir(folder.path()).env_clear().output().expect("shoal runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("neither XDG_STATE_HOME nor HOME is set") && said.contains("hint: set HOME"), "{said}");
    }
}
