//! Which objects is a gang at the server? A Job for each role, a headless Service that gives its pods names, and a Secret with its token (SEC-2).

use crate::fleet::pool::Pool;
use crate::kubernetes::names::{MANAGED_BY, MANAGER, RUN, part};
use crate::kubernetes::pool::job::{as_whom, mounts, volumes, where_to};
use crate::rank::Rank;
use crate::variables;
use serde_json::{Map, Value, json};

/// The role of an object's or a pod's rank.
pub const ROLE: &str = "shoal/role";
/// How long Jobs that are over stay, should nobody be there to remove them: everything else of the run goes with them.
const KEPT_S: u32 = 600;
/// The key in the Secret.
const TOKEN: &str = "token";
/// Where pods have their own address.
pub const POD_IP: &str = "SHOAL_POD_IP";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Master,
    Server,
    Worker,
}

impl Role {
    pub fn word(self) -> &'static str {
        match self {
            Role::Master => "master",
            Role::Server => "server",
            Role::Worker => "worker",
        }
    }
}

/// Which index of which role a rank is.
pub fn seat(rank: Rank) -> (Role, u32) {
    match rank {
        Rank::Master => (Role::Master, 0),
        Rank::Server(k) => (Role::Server, k),
        Rank::Worker(k) => (Role::Worker, k),
    }
}

/// How far a gang is. A Job is applied anew when that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has no pods yet: what they need is not all there.
    Held,
    /// Its pods come up; if they are not all up in time, the server itself ends them, should nobody else be there to do it.
    Gathers,
    /// It runs as long as it likes.
    Goes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang<'a> {
    pub pool: &'a Pool,
    pub run: &'a str,
    /// The run's, on the volume; the same path in pods.
    pub folder: &'a str,
    /// Whose files they are.
    pub user: u32,
    pub group: u32,
    pub master: bool,
    pub servers: u32,
    pub workers: u32,
    /// Of each worker: the device plugin's name, and how many.
    pub gpus: Option<(String, u32)>,
    /// Of each worker.
    pub memory_bytes: Option<u64>,
    pub grace_seconds: u64,
    /// After which the server itself ends what has not begun.
    pub deadline_seconds: u64,
}

/// Of the Service and the Secret; Jobs have the role behind it.
pub fn object_name(run: &str) -> String {
    format!("run-{}", part(run))
}

pub fn job_name(run: &str, role: Role) -> String {
    format!("{}-{}", object_name(run), role.word())
}

/// What selects everything of a run.
pub fn selector(run: &str) -> String {
    format!("{MANAGED_BY}={MANAGER},{RUN}={run}")
}

/// What has to be there before pods are, and goes with the workers' Job, whose id is `owner`. `token`: of a run without a master none.
pub fn beside(gang: &Gang, token: Option<&str>, owner: &str) -> Vec<Value> {
    let mut objects = vec![json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(gang, None, Some(owner)),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {MANAGED_BY: MANAGER, RUN: gang.run}},
    })];
    if let Some(token) = token {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(gang, None, Some(owner)),
            "type": "Opaque",
            "immutable": true,
            "stringData": {TOKEN: token},
        }));
    }
    objects
}

/// The Jobs of the other roles, which go with the workers'.
pub fn helpers(gang: &Gang, stage: Stage, owner: &str) -> Vec<Value> {
    let roles = [(Role::Master, u32::from(gang.master)), (Role::Server, gang.servers)];
    roles
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(role, count)| job(gang, *role, *count, stage, Some(owner)))
        .collect()
}

/// The Job that everything hangs on.
pub fn workers(gang: &Gang, stage: Stage) -> Value {
    job(gang, Role::Worker, gang.workers, stage, None)
}

fn metadata(gang: &Gang, role: Option<Role>, owner: Option<&str>) -> Value {
    let name = role.map_or_else(|| object_name(gang.run), |role| job_name(gang.run, role));
    let mut metadata = json!({"name": name, "labels": labels(gang, role)});
    if let Some(namespace) = &gang.pool.kubernetes.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    if let Some(uid) = owner {
        let name = job_name(gang.run, Role::Worker);
        metadata["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}]);
    }
    metadata
}

fn labels(gang: &Gang, role: Option<Role>) -> Value {
    let mut labels = json!({MANAGED_BY: MANAGER, RUN: gang.run});
    if let Some(role) = role {
        labels[ROLE] = role.word().into();
    }
    labels
}

/// An index has one pod and never a second one: whoever begins anew would not be known to the others.
fn job(gang: &Gang, role: Role, count: u32, stage: Stage, owner: Option<&str>) -> Value {
    let mut spec = json!({
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": 0,
        "podReplacementPolicy": "Failed",
        "suspend": stage == Stage::Held,
        "ttlSecondsAfterFinished": KEPT_S,
        "template": {"metadata": {"labels": labels(gang, Some(role))}, "spec": pod(gang, role)},
    });
    if stage != Stage::Goes {
        spec["activeDeadlineSeconds"] = gang.deadline_seconds.into();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(gang, Some(role), owner), "spec": spec})
}

fn pod(gang: &Gang, role: Role) -> Value {
    let kubernetes = &gang.pool.kubernetes;
    let folder = format!("{}/{}", gang.folder, role.word());
    // The master has no number.
    let which =
        if role == Role::Master { "exec /bin/sh \"$0/sh\"" } else { "exec /bin/sh \"$0$JOB_COMPLETION_INDEX/sh\"" };
    let mut env = vec![json!({"name": POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})];
    if gang.master {
        let key = json!({"name": object_name(gang.run), "key": TOKEN});
        env.push(json!({"name": variables::TOKEN, "valueFrom": {"secretKeyRef": key}}));
    }
    let mut limits = Map::new();
    if role == Role::Worker {
        limits.extend(gang.memory_bytes.map(|bytes| ("memory".to_string(), bytes.to_string().into())));
        limits.extend(gang.gpus.as_ref().map(|(resource, count)| (resource.clone(), (*count).into())));
    }
    if kubernetes.gpus.is_some() && (role != Role::Worker || gang.gpus.is_none()) {
        // Images for GPUs ask for all there are; those there are promised to others (PLAN-2).
        env.push(json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}));
    }
    let mut container = json!({
        "name": "run",
        "image": kubernetes.image,
        "command": ["/bin/sh", "-c", which, folder],
        "env": env,
        "volumeMounts": mounts(gang.pool),
    });
    if !limits.is_empty() {
        container["resources"] = json!({"limits": limits});
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "subdomain": object_name(gang.run),
        "terminationGracePeriodSeconds": gang.grace_seconds,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {"runAsUser": gang.user, "runAsGroup": gang.group},
        "containers": [container],
        "volumes": volumes(gang.pool),
    });
    where_to(&mut spec, gang.pool, None);
    as_whom(&mut spec, gang.pool);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::emit;
    use crate::kubernetes::names::label_fault;

    fn pool(more: &str) -> Pool {
        let text = format!(
            "pools:\n  - name: cloud\n    slots: 4\n    kubernetes:\n      namespace: lab\n      image: i:1\n      volumes: [{{claim: c, at: /mnt, here: /hot}}]\n{more}"
        );
        crate::fleet::read("lab.yaml", &text).expect("a pool").fleet.pools.remove(0)
    }

    fn gang(pool: &Pool) -> Gang<'_> {
        Gang {
            pool,
            run: "260101-000000-abcdef",
            folder: "/hot/gangs/r",
            user: 7,
            group: 8,
            master: true,
            servers: 2,
            workers: 4,
            gpus: Some(("nvidia.com/gpu".into(), 1)),
            memory_bytes: Some(1 << 30),
            grace_seconds: 5,
            deadline_seconds: 660,
        }
    }

    #[test]
    fn everything_hangs_on_the_workers_job() {
        let pool = pool("");
        let gang = gang(&pool);
        let workers = workers(&gang, Stage::Gathers);
        let others: Vec<Value> =
            helpers(&gang, Stage::Gathers, "u").into_iter().chain(beside(&gang, Some("secret"), "u")).collect();
        let kinds: Vec<&str> = others.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(kinds, ["Job", "Job", "Service", "Secret"]);
        for object in others.iter().chain([&workers]) {
            let metadata = &object["metadata"];
            assert_eq!(
                (&metadata["labels"][RUN], &metadata["labels"][MANAGED_BY]),
                (&gang.run.into(), &"shoal".into())
            );
            assert_eq!(label_fault(metadata["name"].as_str().expect("a name")), None);
            let owner = &metadata["ownerReferences"][0];
            assert!(*object == workers || (owner["uid"] == "u" && owner["name"] == workers["metadata"]["name"]));
        }
        assert!(workers["metadata"]["ownerReferences"].is_null());
        // The token is in the Secret and nowhere else (SEC-2).
        let with: Vec<&Value> = others.iter().filter(|object| emit::yaml(object).contains("secret\n")).collect();
        assert!(matches!(with.as_slice(), [only] if only["kind"] == "Secret"), "{with:#?}");
    }

    #[test]
    fn no_pod_comes_twice_and_none_lives_for_ever() {
        let pool = pool("");
        let gang = gang(&pool);
        for (stage, suspend, deadline) in
            [(Stage::Held, true, json!(660)), (Stage::Gathers, false, json!(660)), (Stage::Goes, false, Value::Null)]
        {
            for job in helpers(&gang, stage, "u").into_iter().chain([workers(&gang, stage)]) {
                let spec = &job["spec"];
                assert_eq!((&spec["suspend"], &spec["activeDeadlineSeconds"]), (&suspend.into(), &deadline));
                assert_eq!((&spec["backoffLimitPerIndex"], &spec["completionMode"]), (&0.into(), &"Indexed".into()));
                assert!(spec["podFailurePolicy"].is_null() && spec["ttlSecondsAfterFinished"].is_u64());
                assert_eq!(spec["template"]["spec"]["restartPolicy"], "Never");
            }
        }
    }

    #[test]
    fn workers_alone_hold_gpus_and_memory() {
        let pool = pool("      gpus: {count: 8}\n");
        let gang = gang(&pool);
        let of = |job: &Value| job["spec"]["template"]["spec"]["containers"][0].clone();
        let worker = of(&workers(&gang, Stage::Goes));
        assert_eq!(worker["resources"]["limits"], json!({"memory": "1073741824", "nvidia.com/gpu": 1}));
        assert_eq!(worker["command"][3], "/hot/gangs/r/worker");
        for helper in helpers(&gang, Stage::Goes, "u") {
            let helper = of(&helper);
            assert!(helper["resources"].is_null());
            let env: Vec<&str> =
                helper["env"].as_array().expect("env").iter().filter_map(|v| v["name"].as_str()).collect();
            assert_eq!(env, [POD_IP, "SHOAL_TOKEN", "NVIDIA_VISIBLE_DEVICES"]);
        }
        let alone = Gang { master: false, servers: 0, ..gang };
        assert!(helpers(&alone, Stage::Goes, "u").is_empty());
        assert_eq!(beside(&alone, None, "u").len(), 1);
    }
}
