//! Does a migrated file mean what it meant, and does it look as it looked?

use proptest::prelude::*;
use shoal_core::cluster::migrate::{Migrated, migrate};
use shoal_core::cluster::read::{self, Dialect, Given};

fn migrated(text: &str) -> Migrated {
    migrate("old.yaml", text, &Given::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn example(name: &str) -> String {
    let path = format!("{}/../../examples/aws-cluster/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("the example")
}

#[test]
fn nodes_become_types_with_their_comments() {
    let old = "\
# Ours.
cluster_name: x

# How many at least.
min_workers: 1 # really
# How many at once.
initial_workers: 2
max_workers: 4
autoscaling_mode: default

provider: {type: aws, region: us-west-2}

# The head.
head_node:
  InstanceType: p3.2xlarge  # a GPU
  # ImageId: other
  ImageId: { AMI ID }

# Where Ray logs in.
auth: {ssh_user: ubuntu}

# The others.
worker_nodes:
  InstanceType: m5.large
  resources: {machine: 1}
  ImageId: { AMI ID }

setup_commands:
  - echo '{\"a\":1}'
";
    let new = "\
# Ours.
cluster_name: x

# How many at once.
# Left out by `shoal fleet migrate`: `min_workers` of ray.worker.default says it.
# initial_workers: 2
max_workers: 4
# Left out by `shoal fleet migrate`: `upscaling_speed` is what Ray has instead.
# autoscaling_mode: default

provider: {type: aws, region: us-west-2}

available_node_types:
  # The head.
  ray.head.default:
    resources: {}
    node_config:
      InstanceType: p3.2xlarge  # a GPU
      # ImageId: other
      ImageId: { AMI ID }

  # The others.
  ray.worker.default:
    # How many at least.
    min_workers: 2
    resources: {machine: 1}
    node_config:
      InstanceType: m5.large
      ImageId: { AMI ID }

head_node_type: ray.head.default

# Where Ray logs in.
auth: {ssh_user: ubuntu}

setup_commands:
  - echo '{\"a\":1}'
";
    let result = migrated(old);
    assert_eq!(result.text, new);
    assert_eq!(result.notes.len(), 4, "{:?}", result.notes);
    assert_eq!(migrated(new), Migrated { text: new.into(), notes: Vec::new() }, "once is enough");
}

#[test]
fn the_examples_migrate_and_keep_every_comment() {
    for name in ["initial-cluster.yaml", "cluster-template.yaml"] {
        let old = example(name);
        let new = migrated(&old).text;
        for comment in old.lines().filter_map(|line| line.split_once('#')).map(|(_, comment)| comment.trim()) {
            assert!(new.contains(comment), "{name}: {comment}\n{new}");
        }
        assert!(!new.contains("\n\n\n"), "{new}");
    }
}

#[test]
fn odd_layouts_migrate_too() {
    let aws = "provider: {type: aws, region: r}\n";
    let local = "provider: {type: local, head_ip: a, worker_ips: [b, c]}\n";
    for old in [
        format!("{aws}head_node: {{InstanceType: a}}\nworker_nodes: {{InstanceType: b}}\n"),
        format!(
            "{aws}worker_nodes:\n        InstanceType: b\nhead_node:\n        InstanceType: a\n        Tags:\n        - Key: x\n          Value: y\n"
        ),
        format!("{aws}head_node: {{\n  InstanceType: a,\n  ImageId: x\n}}\nmin_workers: 1\nworker_nodes: {{}}"),
        format!("{aws}min_workers: 2\n"),
        format!("{aws}initial_workers: 2\n"),
        format!("{aws}head_node:\n    <<: &x {{InstanceType: a}}\n    ImageId: y\nworker_nodes: *x\n"),
        format!("{aws}head_node: &h\n    InstanceType: a\nworker_nodes:\n    <<: *h\n    ImageId: y\n"),
        format!(
            "{aws}head_node:\n    UserData: |\n        #!/bin/sh\n\n        echo hi\n    InstanceType: a\n\n\n# end\n"
        ),
        format!("{aws}\"head_node\": # here\n    InstanceType: a\n\"min_workers\": 1\n"),
        format!(
            "{aws}max_workers: {{How many}}\nmin_workers: {{How many}}\ninitial_workers: {{How many}}\nhead_node: {{ImageId: {{AMI ID}}}}\n"
        ),
        format!(
            "{aws}head_node_type: h\nworker_default_node_type: w\nmin_workers: 2\navailable_node_types:\n  h: {{node_config: {{a: 1}}}}\n  w:\n    # its own\n    node_config: {{b: 1}}\n"
        ),
        format!("{aws}head_node:\r\n    InstanceType: a\r\nmin_workers: 1\r\n"),
        format!(
            "{local}head_node: {{}}\nworker_nodes: {{}}\nmin_workers: 0\ninitial_workers: 2\nautoscaling_mode: default\n"
        ),
        format!("{local}initial_workers: 1\ntarget_utilization_fraction: 0.8\n"),
    ] {
        let new = migrated(&old).text;
        assert!(!migrated(&old).notes.is_empty(), "{old}");
        assert_eq!(new.contains('\r'), old.contains('\r'));
        if !old.contains("{How many}") {
            let reading = read::read("new.yaml", &new, &Given::default()).unwrap_or_else(|e| panic!("{e}\n{new}"));
            assert_eq!(reading.dialect, Dialect::Current, "{new}");
        }
    }
}

#[test]
fn what_cannot_be_moved_is_said_at_its_place() {
    for (old, words) in [
        ("{provider: {type: aws, region: r}, head_node: {a: 1}}\n", "fields in { } cannot be moved"),
        ("provider: {type: aws, region: r}\nhead_node: {a: 1, resources: {CPU: 1}}\n", "cannot be moved out of here"),
        (
            "provider: {type: aws, region: r}\nmax_workers: 4\nmin_workers: {How many}\ninitial_workers: 1\n",
            "cannot be compared",
        ),
        ("provider: {type: aws, region: r}\nhead_nod: {a: 1}\n", "did you mean `head_node`?"),
    ] {
        let said = migrate("old.yaml", old, &Given::default()).expect_err(old).to_string();
        assert!(said.contains(words), "{words}:\n{said}");
    }
}

/// An old file: fields in any order, in braces or in lines, with comments anywhere.
fn old_files() -> impl Strategy<Value = String> {
    let node = |name: &'static str| {
        let comment = prop::option::of("# [a-z ]{1,9}");
        (prop::sample::select(vec![2usize, 3, 4, 8]), 0..5u8, comment, 1..300u32).prop_map(
            move |(indent, shape, comment, size)| {
                let pad = " ".repeat(indent);
                let comment = comment.map_or_else(String::new, |comment| format!("{pad}{comment}\n"));
                match shape {
                    0 => format!("{name}: {{InstanceType: t{size}, ImageId: ami-1}}\n"),
                    1 => format!("{name}: {{}}\n"),
                    2 => format!("{name}:\n{comment}{pad}InstanceType: t{size}\n{pad}ImageId: {{ AMI ID }}\n"),
                    3 => format!(
                        "{name}: # why\n{pad}BlockDeviceMappings:\n{pad}- Ebs: {{VolumeSize: {size}}}\n{comment}"
                    ),
                    _ => format!(
                        "{name}:\n\n{pad}InstanceType: a\n\n{comment}{pad}resources: {{CPU: {size}}}\n{pad}KeyName: k\n"
                    ),
                }
            },
        )
    };
    let counts = (0..4u32, 0..4u32, 4..9u32).prop_map(|(least, initial, most)| {
        vec![
            format!("min_workers: {least}\n"),
            format!("initial_workers: {initial} # so many\n"),
            format!("max_workers: {most}\n"),
        ]
    });
    let others = Just(vec![
        "autoscaling_mode: default\n".to_string(),
        "target_utilization_fraction: 0.8\n".to_string(),
        "setup_commands:\n    - echo {a,b}\n    # - no\n".to_string(),
        "auth: {ssh_user: ubuntu}\n".to_string(),
    ]);
    let above = prop::collection::vec(
        prop::option::of(prop_oneof![Just("\n"), Just("# words\n"), Just("\n# more words\n")]),
        9,
    );
    (node("head_node"), node("worker_nodes"), counts, others, above, prop::collection::vec(any::<bool>(), 9))
        .prop_flat_map(|(head, worker, counts, others, above, kept)| {
            let fields: Vec<String> = [vec![head, worker], counts, others].concat();
            let kept: Vec<String> =
                fields.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(field, _)| field).collect();
            (Just(kept).prop_shuffle(), Just(above))
        })
        .prop_map(|(fields, above)| {
            let body =
                fields.into_iter().zip(above).map(|(field, above)| format!("{}{field}", above.unwrap_or_default()));
            format!("cluster_name: x\nprovider:\n  type: aws\n  region: r\n{}", body.collect::<String>())
        })
}

proptest! {
    #[test]
    fn a_migrated_file_means_the_same(old in old_files()) {
        let sample = |text: &str| {
            let mut given = Given::default();
            if text.contains("{ AMI ID }") {
                given.values.insert("AMI ID".into(), "ami-2".into());
            }
            read::read("x.yaml", text, &given)
        };
        // Not every choice of fields fits together; those that do not are refused the same way.
        let Ok(before) = sample(&old) else {
            prop_assert!(migrate("x.yaml", &old, &Given::default()).is_err());
            return Ok(());
        };
        let new = migrate("x.yaml", &old, &Given::default()).map_err(|e| TestCaseError::fail(format!("{e}\n{old}")))?;
        let after = sample(&new.text).map_err(|e| TestCaseError::fail(format!("{e}\n{}", new.text)))?;
        prop_assert_eq!(before.cluster, after.cluster);
        prop_assert_eq!(after.dialect, Dialect::Current);
        for line in old.lines().filter(|line| line.trim_start().starts_with('#')) {
            prop_assert!(new.text.contains(line.trim()), "{}\n{}", line, new.text);
        }
    }
}
