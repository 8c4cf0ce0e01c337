//! Which Job is a batch of runs?

use super::ask::Ask;
use super::{JOBS, PODS};
use crate::fleet::pool::{Pool, Share};
use crate::kubernetes::names::{MANAGED_BY, MANAGER, part};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The pool that an object is of, its sweep, and which run is which index.
pub const POOL: &str = "shoal/pool";
pub const SWEEP: &str = "shoal/sweep";
pub const RUNS: &str = "shoal/runs";
/// How much longer than its limit a pod may be there, in seconds: its image has to come first.
const BEYOND_LIMIT: u64 = 24 * 3600;
/// How many seconds a Job that is over stays, should nobody be there to remove it. Ends are on the volume as well, and stay there.
const KEPT: u32 = 24 * 3600;

/// Where and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place<'a> {
    pub pool: &'a Pool,
    /// What tells objects of this queue's pool from those of others ([`owner`]).
    pub owner: &'a str,
    /// The agent's folder: on the volume, under this path also in pods.
    pub folder: &'a str,
    /// Whose files they are.
    pub user: u32,
    pub group: u32,
}

/// The value of the label [`POOL`]: a store has many pools, a namespace many stores.
pub fn owner(store: &str, pool: &str) -> String {
    format!("{}-{}", part(pool), digest([store, pool], 5))
}

/// Where the Job's pods find which run is which index.
pub fn table(folder: &str, job: &str) -> String {
    format!("{folder}/{PODS}/{JOBS}/{job}")
}

/// By its content: asked for twice, it is there once (QUEUE-2).
pub fn name(place: &Place, asks: &[Ask]) -> String {
    let sweep = asks.first().map_or("", |ask| ask.attempt.run.sweep.as_str());
    let mut short = part(sweep);
    // Pods bear its name with more behind it.
    short.truncate(30);
    let names = asks.iter().map(|ask| ask.name.as_str());
    let digest = digest(std::iter::once(place.owner).chain(names), 6);
    format!("{}-{digest}", if short.is_empty() { "sweep" } else { short.trim_end_matches('-') })
}

fn digest<'t>(words: impl IntoIterator<Item = &'t str>, bytes: usize) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// The object of a batch whose runs are alike. Retries are the queue's, which counts them over all machines: an index has one pod, and a
/// second one only after an eviction, which is not the program's fault.
pub fn of(place: &Place, asks: &[Ask]) -> Value {
    let name = name(place, asks);
    let labels = labels(place, asks);
    let runs: Vec<&str> = asks.iter().map(|ask| ask.name.as_str()).collect();
    let mut metadata = json!({
        "name": name, "labels": labels, "annotations": {RUNS: Value::from(runs).to_string()},
    });
    if let Some(namespace) = &place.pool.kubernetes.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": asks.len(),
            "parallelism": asks.len(),
            "backoffLimitPerIndex": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [0]}},
            ]},
            "ttlSecondsAfterFinished": KEPT,
            "template": {"metadata": {"labels": labels}, "spec": pod(place, &name, asks)},
        },
    })
}

fn labels(place: &Place, asks: &[Ask]) -> Value {
    let mut sweep = part(asks.first().map_or("", |ask| ask.attempt.run.sweep.as_str()));
    sweep.truncate(63);
    json!({MANAGED_BY: MANAGER, POOL: place.owner, SWEEP: sweep.trim_end_matches('-')})
}

fn pod(place: &Place, job: &str, asks: &[Ask]) -> Value {
    let kubernetes = &place.pool.kubernetes;
    let ask = asks.first();
    let on = Devices::of(place.pool, ask);
    let mut container = json!({
        "name": "run",
        "image": kubernetes.image,
        "command": ["/bin/sh", "-c", "exec /bin/sh \"$0/$JOB_COMPLETION_INDEX\"", table(place.folder, job)],
        "volumeMounts": mounts(place.pool),
    });
    if !on.env.is_empty() {
        container["env"] = on.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    }
    let mut limits = Map::new();
    if let Some(bytes) = ask.and_then(|ask| ask.memory_bytes) {
        limits.insert("memory".into(), bytes.to_string().into());
    }
    if let Some((resource, count)) = &on.resource {
        limits.insert(resource.clone(), (*count).into());
    }
    if !limits.is_empty() {
        container["resources"] = json!({"limits": limits});
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": ask.map_or(10, |ask| ask.grace_seconds),
        // Runs have no business with the API server.
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // What they write is read, moved and removed by the queue's user.
        "securityContext": {"runAsUser": place.user, "runAsGroup": place.group},
        "containers": [container],
        "volumes": volumes(place.pool),
    });
    if let Some(seconds) = ask.and_then(|ask| ask.time_limit_seconds) {
        // Its script holds it to its time; this is for one whose image, or whose node, never comes to that.
        spec["activeDeadlineSeconds"] = seconds.saturating_add(BEYOND_LIMIT).into();
    }
    where_to(&mut spec, place.pool, on.node.as_deref());
    as_whom(&mut spec, place.pool);
    spec
}

const SHM: &str = "shm";

pub fn volume_name(i: usize) -> String {
    format!("volume-{i}")
}

/// The claims, as a pod names them.
pub(in crate::kubernetes) fn volumes(pool: &Pool) -> Value {
    let claims = pool.kubernetes.volumes.iter().enumerate();
    let claims =
        claims.map(|(i, volume)| json!({"name": volume_name(i), "persistentVolumeClaim": {"claimName": volume.claim}}));
    let shm = pool
        .kubernetes
        .shm_bytes
        .map(|bytes| json!({"name": SHM, "emptyDir": {"medium": "Memory", "sizeLimit": bytes.to_string()}}));
    claims.chain(shm).collect()
}

/// The carrier is there twice: where people expect it, and where the queue's machine has it.
pub(in crate::kubernetes) fn mounts(pool: &Pool) -> Value {
    let mut mounts = Vec::new();
    for (i, volume) in pool.kubernetes.volumes.iter().enumerate() {
        mounts.push(json!({"name": volume_name(i), "mountPath": volume.at}));
        if let Some(here) = volume.here.as_ref().filter(|here| **here != volume.at) {
            mounts.push(json!({"name": volume_name(i), "mountPath": here}));
        }
    }
    if pool.kubernetes.shm_bytes.is_some() {
        mounts.push(json!({"name": SHM, "mountPath": "/dev/shm"}));
    }
    mounts.into()
}

/// On which nodes a pod of the pool may be; `node`: on this one alone.
pub fn where_to(spec: &mut Value, pool: &Pool, node: Option<&str>) {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    let kubernetes = &pool.kubernetes;
    let mut selector: Map<String, Value> =
        kubernetes.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    match (node, kubernetes.nodes.as_slice()) {
        (Some(node), _) => drop(selector.insert(HOSTNAME.into(), node.into())),
        (None, [node]) => drop(selector.insert(HOSTNAME.into(), node.as_str().into())),
        (None, []) => {}
        (None, nodes) => {
            let one_of = json!({"key": HOSTNAME, "operator": "In", "values": nodes});
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [one_of]}]});
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        }
    }
    if !selector.is_empty() {
        spec["nodeSelector"] = selector.into();
    }
    if !kubernetes.tolerations.is_empty() {
        spec["tolerations"] = serde_json::to_value(&kubernetes.tolerations).unwrap_or_default();
    }
}

/// What all pods of the pool are like, whatever they are for.
pub fn as_whom(spec: &mut Value, pool: &Pool) {
    let kubernetes = &pool.kubernetes;
    if !kubernetes.pull_secrets.is_empty() {
        spec["imagePullSecrets"] = kubernetes.pull_secrets.iter().map(|name| json!({"name": name})).collect();
    }
    if let Some(class) = &kubernetes.runtime_class {
        spec["runtimeClassName"] = class.as_str().into();
    }
    if let Some(account) = &kubernetes.service_account {
        spec["serviceAccountName"] = account.as_str().into();
    }
}

/// What the devices that a run holds mean in its pod.
#[derive(Default)]
struct Devices {
    node: Option<String>,
    env: Vec<(&'static str, String)>,
    resource: Option<(String, u32)>,
}

impl Devices {
    fn of(pool: &Pool, ask: Option<&Ask>) -> Devices {
        let Some(gpus) = &pool.kubernetes.gpus else { return Devices::default() };
        let Some(ask) = ask.filter(|ask| !ask.devices.is_empty()) else {
            // Images for GPUs ask for all there are: whoever holds none sees none, since those there are promised to others (PLAN-2).
            return Devices { env: vec![("NVIDIA_VISIBLE_DEVICES", "void".into())], ..Devices::default() };
        };
        if gpus.share != Share::Pinned {
            // A part of a GPU is as many of its slices as make up that part, at least one.
            let slices = |milli: u32| (milli * gpus.runs).div_ceil(1000).max(1);
            let count = ask.devices.iter().map(|held| slices(held.milli)).sum();
            return Devices { resource: Some((gpus.resource.clone(), count)), ..Devices::default() };
        }
        let mut pairs = ask.devices.iter().filter_map(|held| held.uuid.rsplit_once('/')).peekable();
        let node = pairs.peek().map(|(node, _)| node.to_string());
        // A number means a GPU of its own node only: on another it would be somebody else's (PLAN-2).
        let here = pairs.filter(|(of, _)| Some(*of) == node.as_deref());
        let numbers: Vec<&str> = here.map(|(_, number)| number).collect();
        // In the container the GPUs that it sees are counted from 0 again.
        let seen: Vec<String> = (0..numbers.len()).map(|n| n.to_string()).collect();
        let env = vec![("NVIDIA_VISIBLE_DEVICES", numbers.join(",")), ("CUDA_VISIBLE_DEVICES", seen.join(","))];
        Devices { node, env, resource: None }
    }
}

/// Variables of a run that its pod sets itself: a number on the host means nothing in it.
pub fn is_of_the_pod(name: &str) -> bool {
    ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::super::ask::tests::ask;
    use super::*;
    use crate::kubernetes::names::label_fault;
    use crate::queue::host::Held;

    fn pool(more: &str) -> Pool {
        let text = format!(
            "pools:\n  - name: phoebe\n    slots: 12\n    kubernetes:\n      namespace: l2r\n      image: i:1\n      volumes: [{{claim: c, at: /mnt, here: /hot}}, {{claim: d, at: /data}}]\n{more}"
        );
        crate::fleet::read("lab.yaml", &text).expect("a pool").fleet.pools.remove(0)
    }

    fn place(pool: &Pool) -> Place<'_> {
        Place { pool, owner: "phoebe-0123", folder: "/hot/.shoal/phoebe/s", user: 7, group: 8 }
    }

    #[test]
    fn a_batch_is_one_indexed_job() {
        let pool = pool("");
        let asks: Vec<Ask> = (0..3).map(|cell| ask("My_Sweep", cell, None)).collect();
        let job = of(&place(&pool), &asks);
        let spec = &job["spec"];
        assert_eq!((&spec["completions"], &spec["completionMode"]), (&3.into(), &"Indexed".into()));
        assert_eq!((&spec["backoffLimitPerIndex"], &spec["podReplacementPolicy"]), (&0.into(), &"Failed".into()));
        assert_eq!(spec["podFailurePolicy"]["rules"][0]["action"], "Ignore");
        let labels = &job["metadata"]["labels"];
        assert_eq!((&labels[MANAGED_BY], &labels[SWEEP]), (&"shoal".into(), &"my-sweep".into()));
        assert_eq!(job["metadata"]["annotations"][RUNS], r#"["My_Sweep_0.0_1","My_Sweep_1.0_1","My_Sweep_2.0_1"]"#);
        let name = job["metadata"]["name"].as_str().expect("a name");
        assert_eq!(label_fault(name), None, "{name}");
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["containers"][0]["command"][3], format!("/hot/.shoal/phoebe/s/pods/.jobs/{name}"));
        let at: Vec<&str> = pod["containers"][0]["volumeMounts"]
            .as_array()
            .expect("mounts")
            .iter()
            .filter_map(|m| m["mountPath"].as_str())
            .collect();
        assert_eq!(at, ["/mnt", "/hot", "/data"]);
        assert_eq!(pod["containers"][0]["resources"]["limits"]["memory"], "1073741824");
        assert_eq!(pod["securityContext"]["runAsUser"], 7);
        // The same runs are the same Job; others are another.
        assert_eq!(of(&place(&pool), &asks), job);
        assert_ne!(super::name(&place(&pool), &asks[..2]), name);
        for sweep in ["", "___", &"a".repeat(100), &format!("{}-x", "a".repeat(29))] {
            let name = super::name(&place(&pool), &[ask(sweep, 0, None)]);
            assert!(label_fault(&name).is_none() && name.len() <= 50, "{name}");
        }
    }

    #[test]
    fn gpus_are_shared_as_the_pool_says() {
        let held = |more: &str, device: (&str, u32)| {
            let pool = pool(more);
            of(&place(&pool), &[ask("a", 0, Some(device))])["spec"]["template"]["spec"].clone()
        };
        let pinned = held("      nodes: [n1, n2]\n      gpus: {share: pinned, count: 8, runs: 4}\n", ("n2/5", 250));
        assert_eq!(pinned["nodeSelector"]["kubernetes.io/hostname"], "n2");
        let env =
            json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "5"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]);
        assert_eq!(pinned["containers"][0]["env"], env);
        assert!(pinned["containers"][0]["resources"]["limits"]["nvidia.com/gpu"].is_null());
        let two = pool("      nodes: [n1, n2]\n      gpus: {share: pinned, count: 8, runs: 1}\n");
        let mut both = ask("a", 0, Some(("n1/7", 1000)));
        both.devices.push(Held { uuid: "n1/3".into(), milli: 1000 });
        // What an earlier queue may have decided.
        both.devices.push(Held { uuid: "n2/0".into(), milli: 1000 });
        let pod = of(&place(&two), &[both])["spec"]["template"]["spec"].clone();
        assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], "n1");
        let env = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "7,3"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}]);
        assert_eq!(pod["containers"][0]["env"], env);
        let mut limited = ask("a", 0, None);
        limited.time_limit_seconds = Some(60);
        let spec = of(&place(&two), &[limited])["spec"]["template"]["spec"].clone();
        assert_eq!(spec["activeDeadlineSeconds"], 60 + BEYOND_LIMIT, "an image takes its time to come");
        let none = of(&place(&pool("      gpus: {count: 8}\n")), &[ask("a", 0, None)]);
        let env = &none["spec"]["template"]["spec"]["containers"][0]["env"];
        assert_eq!(env, &json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]));
        for (more, milli, count) in [
            ("      gpus: {count: 8}\n", 1000, 1),
            ("      gpus: {share: slices, count: 8, runs: 4}\n", 250, 1),
            ("      gpus: {share: slices, count: 8, runs: 4}\n", 300, 2),
            ("      gpus: {share: mps, count: 8, runs: 2}\n", 1000, 2),
        ] {
            let pod = held(more, ("phoebe/0", milli));
            assert_eq!(pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], count, "{more}");
            assert!(pod["containers"][0]["env"].is_null() && pod["nodeSelector"].is_null());
        }
    }

    #[test]
    fn pods_are_as_the_cluster_wants_them() {
        let pool = pool("      runtime_class: nvidia\n      service_account: lab\n      shm: 8Gi\n");
        let pod = of(&place(&pool), &[ask("a", 0, None)])["spec"]["template"]["spec"].clone();
        assert_eq!((&pod["runtimeClassName"], &pod["serviceAccountName"]), (&"nvidia".into(), &"lab".into()));
        assert_eq!(pod["automountServiceAccountToken"], false);
        let shm = json!({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8589934592"}});
        assert!(pod["volumes"].as_array().expect("volumes").contains(&shm));
        let mounts = pod["containers"][0]["volumeMounts"].as_array().expect("mounts");
        assert!(mounts.contains(&json!({"name": "shm", "mountPath": "/dev/shm"})));
    }

    #[test]
    fn nodes_are_chosen_by_name_by_label_and_by_what_they_keep_away() {
        let pool =
            pool("      nodes: [n1, n2]\n      labels: {kind: big}\n      tolerations: [{key: k, operator: Exists}]\n");
        let job = of(&place(&pool), &[ask("a", 0, None)]);
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"kind": "big"}));
        let required = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"], json!(["n1", "n2"]));
        assert_eq!(pod["tolerations"], json!([{"key": "k", "operator": "Exists"}]));
    }
}
