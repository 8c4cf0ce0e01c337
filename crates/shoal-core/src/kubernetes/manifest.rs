//! How does one object of a launch look?

use super::names;
use super::plan::Run;
use super::runs::{Command, Entry, Runs};
use super::template::{Kind, Template};
use serde_json::{Map, Value, json};

pub struct Naming<'n> {
    pub launch: &'n str,
    pub name: &'n str,
    pub kind: Kind,
}

pub fn of(template: &Template, runs: &Runs, entry: &Entry, run: &Run, naming: &Naming) -> Value {
    let mut pod = pod(template, runs, entry, run, naming);
    let labels = labels(template.object.pointer("/metadata/labels"), naming);
    let mut annotations = object(template.object.pointer("/metadata/annotations"));
    annotations.extend(facts(run));
    let mut metadata = object(template.object.pointer("/metadata"));
    metadata.insert("name".into(), naming.name.into());
    metadata.insert("labels".into(), Value::Object(labels));
    metadata.insert("annotations".into(), Value::Object(annotations));
    let spec = match naming.kind {
        Kind::Pod => pod.remove("spec").unwrap_or_default(),
        Kind::Job => job(template, runs, pod),
        Kind::ReplicaSet | Kind::Deployment => set(template, pod),
    };
    let mut made = json!({
        "apiVersion": naming.kind.api_version(), "kind": naming.kind.word(), "metadata": metadata, "spec": spec,
    });
    // Whoever launches again can be told what differs from what was asked for, whatever the server has added since.
    let asked = made.to_string();
    made["metadata"]["annotations"][names::APPLIED] = asked.into();
    made
}

/// What one wants to read of a run in a table.
fn facts(run: &Run) -> Map<String, Value> {
    let seed = run.seed.to_string();
    let known = [
        (names::NAME, Some(&run.name)),
        (names::SEED, Some(&seed)),
        (names::GPU, run.gpu.as_ref()),
        (names::NODE, run.node.as_ref()),
        (names::SAVE_PATH, run.save_path.as_ref()),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key.to_string(), Value::from(value?.as_str())))).collect()
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The template's own, and ours, of which `shoal/run` is on no other object.
fn labels(given: Option<&Value>, naming: &Naming) -> Map<String, Value> {
    let mut labels = object(given);
    for (key, value) in [(names::MANAGED_BY, names::MANAGER), (names::LAUNCH, naming.launch), (names::RUN, naming.name)]
    {
        labels.insert(key.into(), value.into());
    }
    labels
}

/// Metadata and spec of a pod.
fn pod(template: &Template, runs: &Runs, entry: &Entry, run: &Run, naming: &Naming) -> Map<String, Value> {
    let path: String = template.kind.pod_path().iter().map(|part| format!("/{part}")).collect();
    let given = template.object.pointer(&path);
    let mut metadata = object(given.and_then(|pod| pod.get("metadata")));
    let own = ["name", "generateName", "namespace"];
    metadata.retain(|key, _| !own.contains(&key.as_str()));
    metadata.insert("labels".into(), Value::Object(labels(metadata.get("labels"), naming)));
    let mut spec = object(given.and_then(|pod| pod.get("spec")));
    if let Some(node) = &run.node {
        let mut selector = object(spec.get("nodeSelector"));
        selector.insert("kubernetes.io/hostname".into(), node.as_str().into());
        spec.insert("nodeSelector".into(), Value::Object(selector));
    }
    let variables = variables(runs, entry, run, naming);
    if let Some(containers) = spec.get_mut("containers").and_then(Value::as_array_mut) {
        for container in containers.iter_mut() {
            set_environment(container, &variables);
        }
        if let (Some(container), Some(command)) = (containers.first_mut(), &entry.command) {
            set_command(container, command);
        }
    }
    Map::from_iter([("metadata".into(), Value::Object(metadata)), ("spec".into(), Value::Object(spec))])
}

fn variables(runs: &Runs, entry: &Entry, run: &Run, naming: &Naming) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    if let Some(gpu) = &run.gpu {
        all.push(("NVIDIA_VISIBLE_DEVICES".into(), gpu.clone()));
        // The one GPU that the container sees is its first, whichever of the node's it is.
        all.push(("CUDA_VISIBLE_DEVICES".into(), "0".into()));
    }
    all.push(("SHOAL_LAUNCH".into(), naming.launch.into()));
    all.push(("SHOAL_RUN".into(), naming.name.into()));
    all.push(("SHOAL_SEED".into(), run.seed.to_string()));
    all.extend(run.save_path.iter().map(|path| ("SHOAL_SAVE_PATH".into(), path.clone())));
    all.extend(runs.env.iter().chain(&entry.env).cloned());
    all
}

/// Where the template has a variable it keeps its place, so that `$(NAME)` of a later one still finds it; what is new comes first for the same
/// reason.
fn set_environment(container: &mut Value, variables: &[(String, String)]) {
    let Some(container) = container.as_object_mut() else { return };
    let mut env: Vec<Value> = container.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut new: Vec<Value> = Vec::new();
    for (name, value) in variables {
        let made = json!({"name": name, "value": value});
        let is_it = |one: &&mut Value| one["name"] == name.as_str();
        match env.iter_mut().chain(new.iter_mut()).find(is_it) {
            Some(one) => *one = made,
            None => new.push(made),
        }
    }
    new.append(&mut env);
    container.insert("env".into(), Value::Array(new));
}

fn set_command(container: &mut Value, command: &Command) {
    let Some(container) = container.as_object_mut() else { return };
    let words = match command {
        Command::Words(words) => words.clone(),
        Command::Line(line) => {
            let given: Vec<&str> = container
                .get("command")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let shell = if given.get(1) == Some(&"-c") { given[0] } else { "/bin/sh" };
            vec![shell.into(), "-c".into(), line.clone()]
        }
    };
    container.insert("command".into(), words.into());
    container.remove("args");
}

/// A Job ends when its run has ended, and stays: what is finished is not started again.
fn job(template: &Template, runs: &Runs, mut pod: Map<String, Value>) -> Value {
    let was_job = template.kind == Kind::Job;
    let mut spec = if was_job { object(template.object.pointer("/spec")) } else { Map::new() };
    // One run is one pod that begins at once: what is about indexes, or about beginning later, is refused by the server or never ends.
    let indexed = ["completionMode", "backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"];
    for ours in ["selector", "manualSelector", "suspend"].iter().chain(&indexed) {
        spec.remove(*ours);
    }
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        // Its only index is the whole of it.
        if rule["action"] == "FailIndex" {
            rule["action"] = "FailJob".into();
        }
    }
    spec.insert("parallelism".into(), 1.into());
    spec.insert("completions".into(), 1.into());
    // A pod that is going still holds its share of the GPU: its successor waits until it is gone.
    spec.entry("podReplacementPolicy").or_insert("Failed".into());
    if !was_job || runs.retries > 0 || !spec.contains_key("backoffLimit") {
        spec.insert("backoffLimit".into(), runs.retries.into());
    }
    let pod_spec = pod.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(pod_spec) = pod_spec {
        if !was_job {
            pod_spec.insert("restartPolicy".into(), "Never".into());
        }
        let never = pod_spec.entry("restartPolicy").or_insert("Never".into()) == "Never";
        if never {
            // Who was evicted did nothing wrong: that counts as no try.
            let ignore = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
            spec.entry("podFailurePolicy").or_insert(ignore);
        }
    }
    spec.insert("template".into(), Value::Object(pod));
    Value::Object(spec)
}

fn set(template: &Template, pod: Map<String, Value>) -> Value {
    let mut spec = object(template.object.pointer("/spec"));
    spec.insert("replicas".into(), 1.into());
    let mut wanted = object(spec.get("selector").and_then(|selector| selector.get("matchLabels")));
    let run = pod.get("metadata").and_then(|metadata| metadata.pointer("/labels/shoal~1run")).cloned();
    wanted.extend(run.map(|run| (names::RUN.to_string(), run)));
    let mut selector = object(spec.get("selector"));
    selector.insert("matchLabels".into(), Value::Object(wanted));
    spec.insert("selector".into(), Value::Object(selector));
    spec.insert("template".into(), Value::Object(pod));
    Value::Object(spec)
}
