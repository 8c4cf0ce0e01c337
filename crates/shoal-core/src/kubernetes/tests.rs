//! From the two files to the objects: one table a question.

use super::plan::{Options, Plan, Source, plan};
use super::template::Kind;
use super::{emit, runs, summary, template};
use std::collections::BTreeSet;

/// As in the guide that this replaces: four pods on one GPU, a volume at /mnt.
const TEMPLATE: &str = r#"apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: workers
spec:
  replicas: 4
  selector:
    matchLabels: {tier: worker-set}
  template:
    metadata:
      labels: {tier: worker-set}
    spec:
      nodeSelector: {kubernetes.io/hostname: phortx1}
      volumes:
        - {name: data, persistentVolumeClaim: {claimName: l2r}}
      containers:
        - name: worker
          tty: true
          volumeMounts: [{name: data, mountPath: "/mnt"}]
          env:
            - {name: NVIDIA_VISIBLE_DEVICES, value: "0"}
            - {name: CUDA_VISIBLE_DEVICES, value: "0"}
          image: lab/node:1
          command: [/bin/bash, -c, ./run.bash -b random]
"#;
const TWELVE: &str = "runs:\n  - {name: random, node: phortx1, gpu: 0}\n  - {name: random, node: phortx1, gpu: 1}\n  - {name: random, node: phortx2, gpu: 2}\n";

fn made(template_text: &str, runs_text: &str, options: &Options) -> Result<Plan, String> {
    let (template, _) = template::read("t.yaml", template_text).map_err(|d| d.to_string())?;
    let (runs, _) = runs::read("r.yaml", runs_text).map_err(|d| d.to_string())?;
    let user = |name: &str| (name == "USER").then(|| "ada".to_string());
    let source = Source { file: "r.yaml", text: runs_text };
    plan(&template, &runs, options, source, &user).map(|(plan, _)| plan).map_err(|d| d.to_string())
}

fn variable<'p>(plan: &'p Plan, index: usize, name: &str) -> Option<&'p str> {
    let object = &plan.objects[index].manifest;
    let pod = if plan.kind == Kind::Pod { object } else { &object["spec"]["template"] };
    let env = pod["spec"]["containers"][0]["env"].as_array()?;
    env.iter().find(|one| one["name"] == name)?["value"].as_str()
}

#[test]
fn twelve_seeds_are_twelve_jobs_that_share_nothing() {
    let plan = made(TEMPLATE, TWELVE, &Options::default()).expect("good");
    assert_eq!((plan.objects.len(), plan.kind), (12, Kind::Job));
    let each = |name| (0..12).filter_map(|n| variable(&plan, n, name).map(String::from)).collect::<Vec<_>>();
    assert_eq!(each("SHOAL_SEED"), (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(each("SHOAL_SAVE_PATH").iter().collect::<BTreeSet<_>>().len(), 12);
    assert_eq!(each("NVIDIA_VISIBLE_DEVICES"), ["0", "0", "0", "0", "1", "1", "1", "1", "2", "2", "2", "2"]);
    assert_eq!(each("CUDA_VISIBLE_DEVICES"), vec!["0"; 12], "inside, the one GPU is the first");
    let last = &plan.objects[11];
    assert_eq!(last.name, "workers-random-2-phortx2-s11");
    assert_eq!(last.run.save_path.as_deref(), Some("/mnt/workers/random/seed-11"));
    let spec = &last.manifest["spec"];
    assert_eq!((&spec["parallelism"], &spec["backoffLimit"]), (&1.into(), &0.into()));
    assert_eq!(spec["podReplacementPolicy"], "Failed");
    assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never", "what is finished stays finished");
    assert_eq!(spec["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"], "phortx2");
    assert_eq!(spec["template"]["metadata"]["labels"]["shoal/run"], "workers-random-2-phortx2-s11");
    assert!(spec.get("selector").is_none(), "a Job's selector is the server's");
    let asked = summary::of(&plan, "lab");
    assert!(asked.contains("12 pods and 3 GPUs") && asked.contains("phortx1: GPU 0: 4, GPU 1: 4"), "{asked}");
}

#[test]
fn a_kept_kind_has_a_selector_of_its_own_and_one_replica() {
    let plan = made(TEMPLATE, TWELVE, &Options { keep_kind: true, name: Some("mine") }).expect("good");
    let selectors: BTreeSet<String> =
        plan.objects.iter().map(|object| object.manifest["spec"]["selector"]["matchLabels"].to_string()).collect();
    assert_eq!((plan.kind, selectors.len()), (Kind::ReplicaSet, 12));
    let first = &plan.objects[0].manifest;
    assert_eq!(first["spec"]["selector"]["matchLabels"]["tier"], "worker-set");
    assert_eq!((&first["spec"]["replicas"], plan.objects[0].name.as_str()), (&1.into(), "mine-random-0-phortx1-s0"));
}

/// The same pod under every kind that a template may be of.
fn template_of(kind: &str, version: &str, more: &str) -> String {
    let (_, pod) = TEMPLATE.split_once("  template:\n").expect("a pod");
    format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: workers}}\nspec:\n{more}  template:\n{pod}")
}

#[test]
fn jobs_deployments_and_pods_become_the_same_runs() {
    let job = "  completionMode: Indexed\n  completions: 8\n  parallelism: 4\n  backoffLimitPerIndex: 2\n  maxFailedIndexes: 1\n  suspend: true\n  successPolicy: {rules: [{succeededCount: 1}]}\n  podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [3]}}]}\n  ttlSecondsAfterFinished: 60\n";
    let set = "  replicas: 3\n  selector: {matchLabels: {tier: worker-set}}\n";
    let (_, pod) = TEMPLATE.split_once("    spec:\n").expect("a pod");
    let pod = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: workers, labels: {{tier: w}}}}\nspec:\n{pod}");
    let job = template_of("Job", "batch/v1", job).replace("    spec:\n", "    spec:\n      restartPolicy: Never\n");
    let runs = "runs: [{name: a, node: n1, gpu: 0, seeds: 2}]\n";
    for (text, keep_kind, kind, version) in [
        (job.as_str(), false, Kind::Job, "batch/v1"),
        (job.as_str(), true, Kind::Job, "batch/v1"),
        (&template_of("Deployment", "apps/v1", set), false, Kind::Job, "batch/v1"),
        (&template_of("Deployment", "apps/v1", set), true, Kind::Deployment, "apps/v1"),
        (&pod, false, Kind::Job, "batch/v1"),
        (&pod, true, Kind::Pod, "v1"),
    ] {
        let plan = made(text, runs, &Options { keep_kind, name: None }).expect("good");
        assert_eq!((plan.kind, plan.objects.len()), (kind, 2), "{text}");
        let object = &plan.objects[1].manifest;
        assert_eq!((&object["apiVersion"], &object["kind"]), (&version.into(), &kind.word().into()));
        assert_eq!(variable(&plan, 1, "SHOAL_SEED"), Some("1"));
        let pod = if kind == Kind::Pod { &object["spec"] } else { &object["spec"]["template"]["spec"] };
        assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], "n1");
        assert_eq!(pod["containers"][0]["image"], "lab/node:1");
        let spec = object["spec"].as_object().expect("a spec");
        if kind == Kind::Job {
            assert_eq!((&spec["completions"], &pod["restartPolicy"]), (&1.into(), &"Never".into()));
            for gone in
                ["completionMode", "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy", "suspend", "replicas"]
            {
                assert!(!spec.contains_key(gone), "{gone} in {object}");
            }
            assert!(!object["spec"]["podFailurePolicy"].to_string().contains("FailIndex"), "{object}");
            let is_job = text.contains("kind: Job");
            assert_eq!(spec.contains_key("ttlSecondsAfterFinished"), is_job);
        } else if kind == Kind::Deployment {
            assert_eq!(
                (&spec["replicas"], &spec["selector"]["matchLabels"]["tier"]),
                (&1.into(), &"worker-set".into())
            );
        }
    }
}

#[test]
fn the_same_files_give_the_same_text() {
    let text = |_| {
        let plan = made(TEMPLATE, TWELVE, &Options::default()).expect("good");
        emit::documents(plan.objects.iter().map(|object| &object.manifest))
    };
    let texts: Vec<String> = (0..2).map(text).collect();
    assert_eq!(texts[0], texts[1]);
    assert_eq!(texts[0].matches("kind: Job").count(), 12);
}

#[test]
fn seeds_save_paths_and_commands_are_as_asked() {
    let runs = "first_seed: 10\nsave_path: /mnt/${USER}/${NAME}/${SEED}/\nenv: {A: 1}\nruns:\n  - {name: a, seeds: [11, 3]}\n  - {name: a, gpu: 1, replicas: 3, cmd: ./go, env: {A: 2}}\n  - {name: b, seeds: 1, cmd: [./x, y]}\n";
    let plan = made(TEMPLATE, runs, &Options::default()).expect("good");
    let seeds: Vec<u64> = plan.objects.iter().map(|object| object.run.seed).collect();
    assert_eq!(seeds, [11, 3, 10, 12, 13, 10], "counted seeds go past the given ones, each name for itself");
    assert_eq!(variable(&plan, 0, "SHOAL_SAVE_PATH"), Some("/mnt/ada/a/11"));
    assert_eq!((variable(&plan, 0, "A"), variable(&plan, 2, "A")), (Some("1"), Some("2")));
    let command =
        |n: usize| plan.objects[n].manifest["spec"]["template"]["spec"]["containers"][0]["command"].to_string();
    assert_eq!(command(0), r#"["/bin/bash","-c","./run.bash -b random"]"#);
    assert_eq!((command(2).as_str(), command(5).as_str()), (r#"["/bin/bash","-c","./go"]"#, r#"["./x","y"]"#));
}

#[test]
fn templates_that_are_not_what_they_say_are_refused_at_their_place() {
    for (from, to, place, says) in [
        ("kind: ReplicaSet", "kind: ReplicaSett", "2:7", "did you mean `ReplicaSet`"),
        ("kind: ReplicaSet", "kind: Service", "2:7", "not for runs"),
        ("apiVersion: apps/v1", "apiVersion: v1", "1:13", "expected `apps/v1`"),
        ("name: workers", "name: Worker_Pods", "4:9", "`worker-pods` would do"),
        ("value: \"0\"}", "value: 0}", "21:53", "put it in quotes"),
        ("labels: {tier: worker-set}", "labels: {tier: other}", "8:25", "does not match"),
        ("replicas: 4", "replicas: four", "6:13", "whole number"),
        ("          image: lab/node:1\n", "", "17:11", "no `image`"),
        ("spec:\n  replicas", "spek:\n  replicas", "5:1", "did you mean `spec`"),
        ("tty: true", "\ttty: true", "17:17", "not YAML"),
    ] {
        let error = made(&TEMPLATE.replacen(from, to, 1), TWELVE, &Options::default()).expect_err(to);
        assert!(error.contains(&format!("t.yaml:{place}")) && error.contains(says), "{to}: {error}");
    }
}

#[test]
fn runs_that_cannot_be_meant_are_refused_at_their_place() {
    let long = format!("runs: [{{name: {}, gpu: 0, node: phortx1}}]", "a".repeat(50));
    for (runs, place, says) in [
        ("runs: []", "1:7", "empty"),
        ("{}", "1:1", "no `runs`"),
        ("runs: [{nam: a}]", "1:9", "did you mean `name`"),
        ("runs: [{name: A}]", "1:15", "`a` would do"),
        ("runs: [{name: a, gpu: first}]", "1:23", "one GPU's number"),
        ("runs: [{name: a, node: \"x y\"}]", "1:24", "no name of a node"),
        ("runs: [{name: a, gpu: 0}, {name: a, gpu: 0}]", "1:27", "given twice"),
        ("runs: [{name: a, seeds: [1, 1]}]", "1:29", "given twice"),
        ("runs: [{name: a, seeds: [1]}, {name: a, gpu: 1, seeds: [1]}]", "1:31", "seed 1 twice"),
        ("runs: [{name: a, seeds: 2, replicas: 2}]", "1:38", "both"),
        ("runs: [{name: a, env: {SHOAL_SEED: 1}}]", "1:24", "set by the launch itself"),
        ("per_gpu: 3\nruns: [{name: a, gpu: 0}]", "2:8", "more than the 3"),
        ("save_path: /mnt/x\nruns: [{name: a}]", "1:12", "both save to /mnt/x"),
        ("save_path: /data/${SEED}\nruns: [{name: a}]", "1:12", "on no volume"),
        ("save_path: /mnt/${NOBODY}\nruns: [{name: a}]", "1:12", "export NOBODY"),
        (long.as_str(), "1:8", "characters too long"),
    ] {
        let error = made(TEMPLATE, runs, &Options::default()).expect_err(runs);
        assert!(error.contains(&format!("r.yaml:{place}\n")) && error.contains(says), "{runs}: {error}");
        assert_eq!(error.matches("error: ").count(), 1, "said once: {error}");
    }
    let shared = "share_save_path: true\nsave_path: /mnt/x\nruns: [{name: a}]";
    assert!(made(TEMPLATE, shared, &Options::default()).is_ok(), "unless asked to");
    let plugin = TEMPLATE.replace("tty: true", "resources: {limits: {nvidia.com/gpu: 1}}");
    let plan = made(&plugin, "runs: [{name: a}]", &Options::default()).expect("its own way");
    let asked = summary::of(&plan, "lab");
    assert!(asked.contains("4 pods and 4 GPUs") && asked.contains("of the device plugin"), "{asked}");
    let error = made(&plugin, TWELVE, &Options::default()).expect_err("both ways");
    assert!(error.contains("device plugin"), "{error}");
}
