//! How is `pools:` of a native file read?
//!
//! ```yaml
//! pools:
//!   - name: phoebe
//!     slots: 12
//!     kubernetes:
//!       context: phoebe
//!       namespace: l2r
//!       image: registry.lab/l2r-node:latest
//!       volumes: [{claim: l2r-persistent-claim, at: /mnt, here: /hot/l2r}]
//!       nodes: [phortx1, phortx2]
//!       gpus: {share: pinned, count: 8, runs: 4}
//! ```

use super::native::{safe_name, text};
use super::pool::{GPU_RESOURCE, Gpus, Kubernetes, Pool, Share, Toleration, Volume};
use super::{Host, size};
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::kubernetes::names::label_fault;
use crate::suggest::closest;
use std::collections::BTreeMap;

pub const POOL_FIELDS: [&str; 6] = ["name", "groups", "slots", "cpus", "memory", "kubernetes"];
pub const KUBERNETES_FIELDS: [&str; 12] = [
    "context",
    "namespace",
    "image",
    "pull_secrets",
    "volumes",
    "nodes",
    "labels",
    "tolerations",
    "gpus",
    "runtime_class",
    "service_account",
    "shm",
];
pub const VOLUME_FIELDS: [&str; 3] = ["claim", "at", "here"];
pub const TOLERATION_FIELDS: [&str; 4] = ["key", "operator", "value", "effect"];
pub const GPUS_FIELDS: [&str; 4] = ["share", "count", "runs", "resource"];

const MOST: u64 = 10_000;

pub(super) fn read(reader: &mut Reader, node: &Node, hosts: &[Host]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for item in reader.list(node, "`pools`", "pools").unwrap_or_default() {
        let Some(pool) = read_pool(reader, item) else { continue };
        let twice =
            hosts.iter().any(|host| host.name == pool.name) || pools.iter().any(|known| known.name == pool.name);
        if twice {
            reader.error(item.at, format!("a host or pool `{}` is in this file already", pool.name));
        }
        pools.push(pool);
    }
    pools
}

fn read_pool(reader: &mut Reader, node: &Node) -> Option<Pool> {
    let fields = reader.fields(node, "the pool", &POOL_FIELDS)?;
    let name = required(reader, fields, "name", "the pool", "a name such as `phoebe`")
        .and_then(|node| dns(reader, node, "`name`"));
    let slots = required(reader, fields, "slots", "the pool", "how many runs it takes at once")
        .and_then(|node| reader.integer(node, "`slots`", 1..=MOST));
    let cpus = fields.get("cpus").and_then(|node| reader.integer(node, "`cpus`", 1..=MOST));
    let memory_bytes = fields.get("memory").and_then(|node| bytes(reader, node, "`memory`"));
    let groups = fields.get("groups").and_then(|node| reader.list(node, "`groups`", "names")).unwrap_or_default();
    let groups = groups.iter().filter_map(|node| safe_name(reader, node, "the group")).collect();
    let kubernetes = required(reader, fields, "kubernetes", "the pool", "where and how its pods run")
        .and_then(|node| read_kubernetes(reader, node));
    Some(Pool {
        name: name?,
        groups,
        slots: u32::try_from(slots?).ok()?,
        cpus: cpus.and_then(|cpus| u32::try_from(cpus).ok()),
        memory_bytes,
        kubernetes: kubernetes?,
    })
}

fn read_kubernetes(reader: &mut Reader, node: &Node) -> Option<Kubernetes> {
    let fields = reader.fields(node, "`kubernetes`", &KUBERNETES_FIELDS)?;
    let context = fields.get("context").and_then(|node| text(reader, node, "`context`"));
    let namespace = fields.get("namespace").and_then(|node| dns(reader, node, "`namespace`"));
    let image = required(reader, fields, "image", "`kubernetes`", "the image that runs start in")
        .and_then(|node| text(reader, node, "`image`"));
    let pull_secrets = fields.get("pull_secrets").and_then(|node| reader.list(node, "`pull_secrets`", "names"));
    let pull_secrets = pull_secrets.unwrap_or_default().iter().filter_map(|node| text(reader, node, "the secret"));
    let pull_secrets = pull_secrets.collect();
    let nodes = fields.get("nodes").and_then(|node| reader.list(node, "`nodes`", "names of nodes")).unwrap_or_default();
    let nodes: Vec<String> = nodes.iter().filter_map(|node| text(reader, node, "the node")).collect();
    let mut labels = BTreeMap::new();
    if let Some(map) = fields.get("labels").and_then(|node| reader.map(node, "`labels`")) {
        for (key, value) in map.entries() {
            if let Some(value) = reader.any_text(value, &format!("`{}`", key.text)) {
                labels.insert(key.text.clone(), value.to_string());
            }
        }
    }
    let tolerations = fields.get("tolerations").and_then(|node| reader.list(node, "`tolerations`", "tolerations"));
    let tolerations = tolerations.unwrap_or_default().iter().filter_map(|node| read_toleration(reader, node)).collect();
    let gpus = fields.get("gpus").and_then(|node| read_gpus(reader, node, &nodes));
    let volumes = required(reader, fields, "volumes", "`kubernetes`", "the claim that code and results travel through")
        .and_then(|node| read_volumes(reader, node));
    let runtime_class = fields.get("runtime_class").and_then(|node| text(reader, node, "`runtime_class`"));
    let service_account = fields.get("service_account").and_then(|node| text(reader, node, "`service_account`"));
    let shm_bytes = fields.get("shm").and_then(|node| bytes(reader, node, "`shm`"));
    let (image, volumes) = (image?, volumes?);
    Some(Kubernetes {
        context,
        namespace,
        image,
        pull_secrets,
        volumes,
        nodes,
        labels,
        tolerations,
        gpus,
        runtime_class,
        service_account,
        shm_bytes,
    })
}

fn read_volumes(reader: &mut Reader, node: &Node) -> Option<Vec<Volume>> {
    let items = reader.list(node, "`volumes`", "volumes")?;
    let volumes: Vec<Option<Volume>> = items.iter().map(|item| read_volume(reader, item)).collect();
    let volumes: Vec<Volume> = volumes.into_iter().collect::<Option<_>>()?;
    for (i, volume) in volumes.iter().enumerate() {
        if volumes[..i].iter().any(|other| other.at == volume.at) {
            reader.error(items[i].at, format!("two volumes are at `{}`", volume.at));
        }
    }
    if volumes.iter().all(|volume| volume.here.is_none()) {
        let wrong = reader.at(node.at, "no volume says where this machine sees it");
        let help = "add `here: FOLDER` to the volume that the queue's machine has mounted too: code goes to the pods through it, and results come back";
        reader.report(wrong.expected("`here` in one of them").help(help));
        return None;
    }
    Some(volumes)
}

fn read_volume(reader: &mut Reader, node: &Node) -> Option<Volume> {
    let fields = reader.fields(node, "the volume", &VOLUME_FIELDS)?;
    let claim = required(reader, fields, "claim", "the volume", "the name of a persistent volume claim")
        .and_then(|node| text(reader, node, "`claim`"));
    let at = required(reader, fields, "at", "the volume", "where pods find it, such as `/mnt`")
        .and_then(|node| absolute(reader, node, "`at`"));
    let here = match fields.get("here") {
        Some(node) => Some(absolute(reader, node, "`here`")?),
        None => None,
    };
    Some(Volume { claim: claim?, at: at?, here })
}

fn read_toleration(reader: &mut Reader, node: &Node) -> Option<Toleration> {
    let fields = reader.fields(node, "the toleration", &TOLERATION_FIELDS)?;
    let mut said = |field: &str| {
        let node = fields.get(field)?;
        reader.any_text(node, &format!("`{field}`")).map(String::from)
    };
    let toleration =
        Toleration { key: said("key"), operator: said("operator"), value: said("value"), effect: said("effect") };
    one_of(reader, fields, "operator", &["Equal", "Exists"]);
    one_of(reader, fields, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    Some(toleration)
}

fn read_gpus(reader: &mut Reader, node: &Node, nodes: &[String]) -> Option<Gpus> {
    let fields = reader.fields(node, "`gpus`", &GPUS_FIELDS)?;
    one_of(reader, fields, "share", &Share::ALL.map(|(word, _)| word));
    let word = fields.get("share").and_then(plain).unwrap_or("whole");
    let share = Share::ALL.iter().find(|(known, _)| *known == word).map(|(_, share)| *share)?;
    let count =
        required(reader, fields, "count", "`gpus`", "how many GPUs: of each node if they are pinned, else of the pool")
            .and_then(|node| reader.integer(node, "`count`", 1..=MOST));
    let runs = fields.get("runs").map_or(Some(1), |node| reader.integer(node, "`runs`", 1..=1000));
    if let (Share::Whole, Some(2..), Some(at)) = (share, runs, fields.key("runs")) {
        let wrong = reader.at(at, "a whole GPU is for one run");
        reader.report(
            wrong.help("use `share: pinned`, or `slices` or `mps` where the cluster's device plugin offers them"),
        );
    }
    if share == Share::Pinned && nodes.is_empty() {
        let wrong = reader.at(fields.at, "pinned GPUs need `nodes`: a GPU is known by its node and its number");
        reader.report(wrong.help("add `nodes: [NAME, ...]` beside `gpus`"));
    }
    let resource = match fields.get("resource") {
        Some(node) => text(reader, node, "`resource`")?,
        None => GPU_RESOURCE.into(),
    };
    Some(Gpus { share, count: u32::try_from(count?).ok()?, runs: u32::try_from(runs?).ok()?, resource })
}

fn one_of(reader: &mut Reader, fields: Fields, field: &str, words: &[&str]) {
    let Some(node) = fields.get(field) else { return };
    let said = plain(node).unwrap_or_default();
    if !words.contains(&said) {
        let wrong = reader.at(node.at, format!("`{field}` has a wrong value")).found(node.description());
        let wrong = wrong.suggestion(closest(said, words.iter().copied()));
        reader.report(wrong.expected(format!("one of {}", words.join(", "))));
    }
}

fn required<'n>(reader: &mut Reader, fields: Fields<'n>, field: &str, what: &str, expected: &str) -> Option<&'n Node> {
    let found = fields.get(field);
    if found.is_none() {
        reader.report(reader.at(fields.at, format!("{what} has no `{field}`")).expected(expected));
    }
    found
}

fn dns(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let said = text(reader, node, what)?;
    match label_fault(&said) {
        None => Some(said),
        Some(fault) => {
            reader.error(node.at, format!("{what} `{said}` cannot be used on Kubernetes: {fault}"));
            None
        }
    }
}

fn absolute(reader: &mut Reader, node: &Node, what: &str) -> Option<String> {
    let said = text(reader, node, what)?;
    // A colon ends the path for some runtimes; Kubernetes refuses it.
    if said.starts_with('/') && said.len() > 1 && !said.contains(':') && !said.split('/').any(|part| part == "..") {
        return Some(said.trim_end_matches('/').into());
    }
    reader.mismatch(node, what, "a path that starts with `/`, without `..` and `:`");
    None
}

fn bytes(reader: &mut Reader, node: &Node, what: &str) -> Option<u64> {
    let bytes = plain(node).and_then(size::parse).filter(|bytes| *bytes > 0);
    if bytes.is_none() {
        reader.mismatch(node, what, "a size such as 64GiB");
    }
    bytes
}

fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "pools:
  - name: phoebe
    slots: 12
    kubernetes:
      context: lab
      namespace: l2r
      image: registry.lab/l2r:1
      volumes: [{claim: c, at: /mnt/, here: /hot/c}]
      nodes: [phortx1, phortx2]
      labels: {kind: gpu}
      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
      gpus: {share: pinned, count: 8, runs: 4}
";

    #[test]
    fn a_pool_is_read_with_or_without_hosts() {
        let fleet = super::super::read("lab.yaml", POOL).expect("a fleet").fleet;
        let pool = &fleet.pools[0];
        assert_eq!((pool.name.as_str(), pool.slots, fleet.hosts.len()), ("phoebe", 12, 0));
        let kubernetes = &pool.kubernetes;
        assert_eq!(kubernetes.volumes[0].at, "/mnt");
        assert_eq!(kubernetes.tolerations[0].operator.as_deref(), Some("Exists"));
        let gpus = kubernetes.gpus.as_ref().expect("gpus");
        assert_eq!((gpus.share, gpus.count, gpus.runs), (Share::Pinned, 8, 4));
        let both = super::super::read("lab.yaml", &format!("hosts: [a]\n{POOL}")).expect("a fleet").fleet;
        assert_eq!((both.hosts.len(), both.pools.len()), (1, 1));
        assert_eq!(both.pools[0].policy(600, "lab.yaml").slots, Some(12));
    }

    #[test]
    fn slips_are_shown_where_they_are() {
        for (from, to, said) in [
            ("slots: 12", "slot: 12", "did you mean `slots`?"),
            ("slots: 12", "slots: 0", "a whole number from 1"),
            ("name: phoebe", "name: Phoebe_1", "`phoebe-1` would do"),
            ("      image: registry.lab/l2r:1\n", "", "`kubernetes` has no `image`"),
            (", here: /hot/c", "", "lab.yaml:8:16"),
            ("at: /mnt/", "at: mnt", "a path that starts with `/`"),
            ("share: pinned", "share: pined", "did you mean `pinned`?"),
            ("share: pinned", "share: whole", "a whole GPU is for one run"),
            ("      nodes: [phortx1, phortx2]\n", "", "pinned GPUs need `nodes`"),
            ("effect: NoSchedule", "effect: NoScedule", "did you mean `NoSchedule`?"),
            ("pools:", "hosts: [phoebe]\npools:", "a host or pool `phoebe` is in this file already"),
        ] {
            let text = POOL.replace(from, to);
            let shown = super::super::read("lab.yaml", &text).expect_err(to).to_string();
            assert!(shown.contains(said), "{shown}");
        }
    }
}
