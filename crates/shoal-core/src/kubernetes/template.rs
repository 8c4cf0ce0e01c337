//! What does a template say, and is it what it says it is?
//!
//! Only what the plan touches is checked here, with its place. The rest is the server's to judge: it knows every field of its version, and
//! what it says is shown at its place too (`place`).

use super::names;
use super::tree;
use crate::diagnostic::{Diagnostic, Diagnostics, Place};
use crate::document::node::{Node, Value};
use crate::document::reader::Reader;
use crate::document::yaml;
use serde_json::Value as Json;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ReplicaSet,
    Deployment,
    Job,
    Pod,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::ReplicaSet, Kind::Deployment, Kind::Job, Kind::Pod];

    pub fn word(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "ReplicaSet",
            Kind::Deployment => "Deployment",
            Kind::Job => "Job",
            Kind::Pod => "Pod",
        }
    }

    pub fn api_version(self) -> &'static str {
        match self {
            Kind::ReplicaSet | Kind::Deployment => "apps/v1",
            Kind::Job => "batch/v1",
            Kind::Pod => "v1",
        }
    }

    /// As the paths of the server call many of them.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "replicasets",
            Kind::Deployment => "deployments",
            Kind::Job => "jobs",
            Kind::Pod => "pods",
        }
    }

    /// Whether its pods are started again for ever, also after success.
    pub fn starts_again(self) -> bool {
        matches!(self, Kind::ReplicaSet | Kind::Deployment)
    }

    /// The path to what a pod is made of.
    pub fn pod_path(self) -> &'static [&'static str] {
        if self == Kind::Pod { &[] } else { &["spec", "template"] }
    }
}

/// A volume of the template, where the containers have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub path: String,
    /// The volume claim behind it.
    pub claim: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Template {
    pub kind: Kind,
    pub name: String,
    pub namespace: Option<String>,
    /// As the file has it.
    pub object: Json,
    pub tree: Node,
    /// How many pods it asks for.
    pub replicas: u64,
    pub mounts: Vec<Mount>,
    pub images: Vec<String>,
    /// Where it asks the device plugin for GPUs.
    pub asks_gpus: Option<Place>,
}

pub const PLUGIN: &str = "nvidia.com/gpu";

pub fn read(file: &str, text: &str) -> Result<(Template, Vec<Diagnostic>), Diagnostics> {
    let mut reader = Reader::new(file, text);
    let tree = reader.tree(yaml::parse_with_aliases(text));
    let template = tree.and_then(|tree| understand(&mut reader, tree));
    reader.finish(template)
}

fn understand(reader: &mut Reader, tree: Node) -> Option<Template> {
    let fields = reader.fields(&tree, "the template", &["apiVersion", "kind", "metadata", "spec", "status"])?;
    let kind = kind(reader, &tree)?;
    let metadata = need(reader, &tree, fields.at, "metadata", "the template")?;
    let named = need(reader, metadata, metadata.at, "name", "`metadata`")?;
    let name = reader.text(named, "`metadata.name`")?.to_string();
    if let Some(fault) = names::label_fault(&name) {
        reader.error(named.at, format!("`{name}` cannot be the name of a launch: {fault}"));
    }
    let namespace = metadata.get("namespace").and_then(|node| reader.text(node, "`metadata.namespace`"));
    let namespace = namespace.map(Into::into);
    let spec = need(reader, &tree, fields.at, "spec", "the template")?;
    reader.map(spec, "`spec`")?;
    let pod = match kind {
        Kind::Pod => &tree,
        _ => need(reader, spec, spec.at, "template", "`spec`")?,
    };
    let path = if kind == Kind::Pod { "spec" } else { "spec.template.spec" };
    let pod_spec = need(reader, pod, pod.at, "spec", "`spec.template`")?;
    let (images, asks_gpus) = containers(reader, pod_spec, path)?;
    if kind.starts_again() {
        selector(reader, spec, pod);
    }
    if let Some(ttl) = spec.get("ttlSecondsAfterFinished").filter(|_| kind == Kind::Job) {
        let message = "finished Jobs are removed after this time, so that launching again would run them again";
        reader.warn(ttl.at, message, "leave it out; `shoal k8s destroy` removes them");
    }
    let replicas = [spec.get("replicas"), spec.get("completions"), spec.get("parallelism")];
    let replicas = replicas.into_iter().flatten().next();
    let replicas = replicas.map_or(Some(1), |node| reader.integer(node, "the number of replicas", 1..=10_000))?;
    let mounts = mounts(pod_spec);
    let object = tree::json(&tree);
    Some(Template { kind, name, namespace, object, replicas, mounts, images, asks_gpus, tree })
}

fn need<'n>(reader: &mut Reader, node: &'n Node, at: Place, name: &str, of: &str) -> Option<&'n Node> {
    let fields = reader.map(node, of)?;
    let found = fields.get(name).filter(|node| !node.is_nothing());
    if found.is_none() {
        let at = fields.key(name).unwrap_or(at);
        reader.report(reader.at(at, format!("{of} has no `{name}`")).help("docs/reference/k8s.md has a template"));
    }
    found
}

fn kind(reader: &mut Reader, tree: &Node) -> Option<Kind> {
    let at = tree.at;
    let said = need(reader, tree, at, "kind", "the template")?;
    let word = reader.text(said, "`kind`")?;
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.word() == word) else {
        let words = Kind::ALL.map(Kind::word);
        let meant = crate::suggest::closest(word, words);
        let diagnostic = reader.at(said.at, format!("templates of kind `{word}` are not for runs"));
        reader.report(diagnostic.suggestion(meant).expected(format!("one of {}", words.join(", "))));
        return None;
    };
    let version = need(reader, tree, at, "apiVersion", "the template")?;
    let said = reader.any_text(version, "`apiVersion`")?;
    if said != kind.api_version() {
        let diagnostic = reader.at(version.at, format!("a {word} is not of `{said}`"));
        reader.report(diagnostic.expected(format!("`{}`", kind.api_version())));
    }
    Some(kind)
}

/// The images, and where GPUs are asked for.
fn containers(reader: &mut Reader, pod: &Node, path: &str) -> Option<(Vec<String>, Option<Place>)> {
    let list = need(reader, pod, pod.at, "containers", &format!("`{path}`"))?;
    let list = reader.list(list, "`containers`", "containers")?;
    if list.is_empty() {
        reader.error(pod.at, "`containers` is empty: there is nothing to run");
        return None;
    }
    let mut images = Vec::new();
    let mut asks = None;
    for container in list {
        need(reader, container, container.at, "name", "the container").and_then(|n| reader.text(n, "its name"));
        let image = need(reader, container, container.at, "image", "the container");
        images.extend(image.and_then(|node| reader.text(node, "`image`")).map(String::from));
        environment(reader, container);
        for part in ["limits", "requests"] {
            let found = container.get("resources").and_then(|node| node.get(part)).and_then(|node| node.get(PLUGIN));
            asks = asks.or(found.map(|node| node.at));
        }
    }
    Some((images, asks))
}

fn environment(reader: &mut Reader, container: &Node) {
    let Some(env) = container.get("env") else { return };
    for one in reader.list(env, "`env`", "variables, each with a name and a value").unwrap_or_default() {
        if let Some(name) = need(reader, one, one.at, "name", "the variable") {
            reader.any_text(name, "the variable's name");
        }
        // The most common slip of all: Kubernetes takes text alone.
        if let Some(value) = one.get("value").filter(|node| !node.is_nothing()) {
            let quoted = matches!(&value.value, Value::Scalar { plain: false, .. });
            if !quoted {
                reader.text(value, "the variable");
            }
        }
    }
}

/// A set that does not select its own pods is refused by the server only later, and in other words.
fn selector(reader: &mut Reader, spec: &Node, pod: &Node) {
    let labels = pod.get("metadata").and_then(|node| node.get("labels"));
    let Some(wanted) = spec.get("selector").and_then(|node| node.get("matchLabels")) else {
        let message = "`spec` has no `selector.matchLabels`: the set would not know its pods";
        reader.error(spec.at, message);
        return;
    };
    let Some(wanted) = reader.map(wanted, "`matchLabels`") else { return };
    for (key, value) in wanted.entries() {
        let found = labels.and_then(|node| node.get(&key.text));
        if found.map(tree::json) != Some(tree::json(value)) {
            let found = found.map_or_else(|| "no such label".into(), Node::description);
            let message = "the selector does not match the template's own labels";
            let diagnostic = reader.at(value.at, message).expected("what `spec.template.metadata.labels` has");
            reader.report(diagnostic.found(format!("{found} there")));
        }
    }
}

fn mounts(pod: &Node) -> Vec<Mount> {
    let items = |node: Option<&Node>| match node.map(|node| &node.value) {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    let text = |node: Option<&Node>| match node.map(|node| &node.value) {
        Some(Value::Scalar { text, .. }) => Some(text.clone()),
        _ => None,
    };
    let volumes = items(pod.get("volumes"));
    let mut found: Vec<Mount> = Vec::new();
    for mount in items(pod.get("containers")).iter().flat_map(|container| items(container.get("volumeMounts"))) {
        let Some(path) = text(mount.get("mountPath")) else { continue };
        let volume = volumes.iter().find(|volume| text(volume.get("name")) == text(mount.get("name")));
        let claim = volume.and_then(|volume| text(volume.get("persistentVolumeClaim")?.get("claimName")));
        if !found.iter().any(|mount| mount.path == path) {
            found.push(Mount { path, claim });
        }
    }
    found
}
