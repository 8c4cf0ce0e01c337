//! Which pod lets people reach a pool's volumes for a while?
//!
//! It is a Job's, so that the server takes it away when it has ended, whoever is still there. Its main process ends by itself when nobody has
//! spoken to it for a while: a client that was killed leaves nothing. The image is the user's: a shell, `sleep`, `head` and `chmod` are all
//! that is asked of it; what else is needed is sent there.

use super::names::{MANAGED_BY, MANAGER, part};
use super::pool::job::{as_whom, volume_name, where_to};
use super::state::{self, State};
use crate::fleet::pool::{Pool, Volume};
use serde_json::{Value, json};

/// The label of all objects of a helper; its value is the Job's name.
pub const HELPER: &str = "shoal/helper";
/// The pool that it is for.
pub const OF: &str = "shoal/helper-of";
pub const CONTAINER: &str = "helper";
/// A folder of the pod's own, writable for everybody, whatever the image is.
pub const ROOM: &str = "/.shoal";
/// Nobody moves files or sits at a shell for longer than a day.
pub const LONGEST_S: u32 = 24 * 3600;

#[derive(Debug, Clone)]
pub struct Wish<'a> {
    pub pool: &'a Pool,
    /// Of the Job; nobody else's.
    pub name: &'a str,
    /// Whose files they are: those of runs on the pool are the same user's.
    pub user: u32,
    pub group: u32,
    /// How long it stays when nobody speaks to it.
    pub idle_s: u32,
}

/// A name for a helper: the pool's and something that nobody else has.
pub fn name(pool: &str, random: &[u8]) -> String {
    let mut short = part(pool);
    short.truncate(30);
    let digits: String = random.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("shoal-helper-{}-{digits}", short.trim_end_matches('-'))
}

/// The value of the label [`OF`].
pub fn of(pool: &str) -> String {
    let mut of = part(pool);
    of.truncate(63);
    of.trim_end_matches('-').into()
}

pub fn job(wish: &Wish) -> Value {
    let kubernetes = &wish.pool.kubernetes;
    let labels = json!({MANAGED_BY: MANAGER, HELPER: wish.name, OF: of(&wish.pool.name)});
    let volumes = kubernetes.volumes.iter().enumerate();
    let room = json!({"name": "room", "emptyDir": {}});
    let claims = volumes
        .clone()
        .map(|(i, volume)| json!({"name": volume_name(i), "persistentVolumeClaim": {"claimName": volume.claim}}));
    let mounts = volumes.map(|(i, volume)| json!({"name": volume_name(i), "mountPath": volume.at}));
    let mut pod = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {"runAsUser": wish.user, "runAsGroup": wish.group},
        "containers": [{
            "name": CONTAINER,
            "image": kubernetes.image,
            "command": ["/bin/sh", "-c", STAYING, "shoal-helper", wish.idle_s.to_string()],
            // Images for GPUs ask for all there are; these are promised to runs.
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
            "volumeMounts": mounts.chain([json!({"name": "room", "mountPath": ROOM})]).collect::<Vec<_>>(),
        }],
        "volumes": claims.chain([room]).collect::<Vec<_>>(),
    });
    where_to(&mut pod, wish.pool, None);
    as_whom(&mut pod, wish.pool);
    let mut metadata = json!({"name": wish.name, "labels": labels});
    if let Some(namespace) = &kubernetes.namespace {
        metadata["namespace"] = namespace.as_str().into();
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": LONGEST_S,
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// The main process: it ends when what is said to it has not changed for `$1` seconds.
const STAYING: &str = "trap 'exit 0' TERM INT; last=; idle=0
while [ $idle -lt $1 ]; do
sleep 1 & wait $! || exit 3
now=; [ -r /.shoal/beat ] && read -r now </.shoal/beat
if [ \"$now\" = \"$last\" ]; then idle=$((idle+1)); else last=$now; idle=0; fi
done";

/// What a second process does in it: each line that it hears is something said.
pub const LISTENING: &str =
    "n=0; while read -r line; do n=$((n+1)); echo $$.$n >/.shoal/.beat && mv -f /.shoal/.beat /.shoal/beat; done";

/// Our program, once it is there.
pub fn program() -> String {
    format!("{ROOM}/shoal")
}

/// Takes our program from its input. It gets its name only after it has run there and found itself complete. Its length is said: some
/// servers cannot pass on the end of an input.
pub fn receiving(digest: &str, bytes: u64) -> String {
    let to = program();
    format!(
        "umask 077; t={to}.arriving; head -c {bytes} >$t && chmod 700 $t && test \"$($t host digest)\" = {digest} && mv -f $t {to}"
    )
}

/// A shell for people, the best there is: in the folder `$0`, in a terminal of the kind `$1`.
pub const SHELL: &str = "cd \"$0\"; export TERM=\"$1\"; command -v bash >/dev/null 2>&1 && exec bash; exec /bin/sh";

/// Where a path that somebody names is in the pool's pods; what is not absolute is on its only volume, or on the first.
pub fn inside(pool: &Pool, path: &str) -> Result<String, String> {
    let volumes = &pool.kubernetes.volumes;
    let places = || volumes.iter().map(|volume| volume.at.as_str()).collect::<Vec<_>>().join(", ");
    let Some(first) = volumes.first() else {
        return Err(format!("the pool `{}` has no volumes", pool.name));
    };
    if path.starts_with('~') {
        let hint = format!("a pod has no home that stays; its volumes are at {}", places());
        return Err(format!("`{path}`: there is no home folder on a pool\n  hint: {hint}"));
    }
    let whole = if path.starts_with('/') { path.to_string() } else { format!("{}/{path}", first.at) };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    // A slash at the end means something.
    let slash = if whole.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    let clean = format!("/{}", parts.join("/"));
    let below = |volume: &&Volume| {
        let at = volume.at.trim_end_matches('/');
        clean.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match volumes.iter().find(below) {
        Some(_) => Ok(format!("{clean}{slash}")),
        None => {
            let hint = format!("what is elsewhere in a pod goes with it; the pool's volumes are at {}", places());
            Err(format!("`{path}` is on no volume of the pool `{}`\n  hint: {hint}", pool.name))
        }
    }
}

/// Why a claim gives no volume, and what to do; `claim` is null where there is none of that name.
pub fn claim_fault(name: &str, claim: &Value) -> Option<(String, &'static str)> {
    match claim["status"]["phase"].as_str() {
        _ if claim.is_null() => Some((
            format!("there is no persistent volume claim `{name}`"),
            "check `claim` in the fleet file; `kubectl get pvc` shows those there are",
        )),
        Some("Lost") => {
            Some((format!("the claim `{name}` has lost its volume"), "ask whoever runs the cluster what became of it"))
        }
        _ => None,
    }
}

/// Of claims that wait for a volume: what a pod that does not start may be waiting for.
pub fn is_unbound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Pending"
}

/// How far a helper's pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Its name.
    Runs(String),
    Waits(String),
    /// Something has to be done about it, if it stays so.
    Stuck {
        what: String,
        hint: String,
    },
    /// It will not come any more.
    Over {
        what: String,
        hint: String,
    },
}

/// `job` and `pods`: as the server has them. `refused`: what it said when no pod could be made. `unbound`: claims without a volume.
pub fn standing(job: Option<&Value>, pods: &[&Value], refused: Option<&str>, unbound: &[String]) -> Standing {
    let Some(job) = job else {
        let hint = "try again; did somebody clean up the namespace?".into();
        return Standing::Over { what: "its Job was deleted by somebody else".into(), hint };
    };
    let claims = match unbound {
        [] => String::new(),
        names => format!("; the claim {} has no volume yet", names.join(", ")),
    };
    if let Some(pod) = pods.first()
        && let Some(said) = unscheduled(pod)
    {
        let what = format!("no node takes its pod: {said}{claims}");
        let hint = "the pool's `nodes`, `labels` and `tolerations` say where it may be; `kubectl get nodes,pvc` shows what there is";
        return Standing::Stuck { what, hint: hint.into() };
    }
    // There is no second try: a pod that failed is the end, also before its Job says so.
    let failed = pods.first().filter(|pod| pod["status"]["phase"] == "Failed");
    let seen = failed.map_or_else(|| state::of(job, pods, refused), |pod| state::of_pod(pod));
    let why = seen.why.unwrap_or_default();
    let hint = || "`kubectl describe` of its pod says more".to_string();
    match seen.state {
        State::Running => {
            Standing::Runs(pods.first().and_then(|pod| pod["metadata"]["name"].as_str()).unwrap_or_default().into())
        }
        State::Stuck => {
            let (what, hint) = why.split_once("; ").map_or((why.clone(), hint()), |(a, b)| (a.into(), b.into()));
            Standing::Stuck { what, hint }
        }
        State::Failed | State::Finished | State::Gone => {
            let what = if why.is_empty() { "its pod has ended".to_string() } else { format!("its pod ended: {why}") };
            Standing::Over { what, hint: "does the image have /bin/sh and `sleep`?".into() }
        }
        _ if why.is_empty() => Standing::Waits(format!("its pod is starting{claims}")),
        _ => Standing::Waits(format!("{why}{claims}")),
    }
}

fn unscheduled(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    Some(one["message"].as_str().unwrap_or("the scheduler does not say why").trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::names::label_fault;

    fn pool() -> Pool {
        let text = "pools:\n  - name: phoebe\n    slots: 12\n    kubernetes:\n      namespace: l2r\n      image: i:1\n      pull_secrets: [key]\n      volumes: [{claim: c, at: /mnt, here: /hot}, {claim: d, at: /data/more}]\n      nodes: [n1]\n";
        crate::fleet::read("lab.yaml", text).expect("a pool").fleet.pools.remove(0)
    }

    #[test]
    fn a_helper_has_the_volumes_and_an_end() {
        let pool = pool();
        let name = name(&pool.name, &[1, 2, 3, 4, 255, 9]);
        assert_eq!(name, "shoal-helper-phoebe-01020304ff");
        assert_eq!(label_fault(&super::name(&"a".repeat(80), &[0; 5])), None);
        let job = job(&Wish { pool: &pool, name: &name, user: 7, group: 8, idle_s: 90 });
        let spec = &job["spec"];
        assert_eq!((&spec["ttlSecondsAfterFinished"], &spec["backoffLimit"]), (&0.into(), &0.into()));
        assert_eq!(spec["activeDeadlineSeconds"], LONGEST_S);
        assert_eq!(job["metadata"]["labels"], spec["template"]["metadata"]["labels"]);
        assert_eq!(job["metadata"]["labels"][MANAGED_BY], "shoal");
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["nodeSelector"]["kubernetes.io/hostname"], "n1");
        assert_eq!(pod["containers"][0]["command"][4], "90");
        let at = pod["containers"][0]["volumeMounts"].as_array().expect("mounts").iter();
        let at: Vec<&str> = at.filter_map(|mount| mount["mountPath"].as_str()).collect();
        assert_eq!(at, ["/mnt", "/data/more", ROOM]);
        assert_eq!(pod["securityContext"], json!({"runAsUser": 7, "runAsGroup": 8}));
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "key"}]));
    }

    #[test]
    fn paths_are_on_a_volume_or_refused() {
        for (path, wanted) in [
            ("/mnt/data", Some("/mnt/data")),
            ("/mnt", Some("/mnt")),
            ("/mnt/", Some("/mnt/")),
            ("data/", Some("/mnt/data/")),
            ("", Some("/mnt/")),
            (".", Some("/mnt")),
            ("/mnt/a/../b//c", Some("/mnt/b/c")),
            ("/data/more/x", Some("/data/more/x")),
            ("/mntx", None),
            ("/data", None),
            ("/etc/passwd", None),
            ("../etc", None),
            ("/mnt/../..", None),
            ("~/x", None),
        ] {
            let got = inside(&pool(), path);
            assert_eq!(got.as_deref().ok(), wanted, "{path}: {got:?}");
            assert!(got.is_ok() || got.is_err_and(|why| why.contains("/mnt, /data/more")), "{path}");
        }
    }

    #[test]
    fn how_far_a_pod_is() {
        let job = json!({"status": {}});
        let pod = |status: Value| json!({"metadata": {"name": "p"}, "status": status});
        let says = |standing: Standing| match standing {
            Standing::Runs(name) => format!("runs {name}"),
            Standing::Waits(what) => format!("waits {what}"),
            Standing::Stuck { what, .. } => format!("stuck {what}"),
            Standing::Over { what, .. } => format!("over {what}"),
        };
        let none = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available."}]});
        let image = json!({"phase": "Pending", "containerStatuses": [{"image": "x:1", "state": {"waiting": {"reason": "ErrImagePull", "message": "none"}}}]});
        let runs = json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]});
        for (job, pods, refused, wanted) in [
            (Some(&job), vec![pod(runs)], None, "runs p"),
            (
                Some(&job),
                vec![pod(none)],
                None,
                "stuck no node takes its pod: 0/2 nodes are available; the claim c has",
            ),
            (Some(&job), vec![pod(image)], None, "stuck image x:1 cannot be had"),
            (
                Some(&job),
                vec![],
                Some("pods \"a\" is forbidden: exceeded quota: q"),
                "stuck pods \"a\" is forbidden: exceeded quota",
            ),
            (Some(&job), vec![], None, "waits its pod is not made yet"),
            (Some(&job), vec![pod(json!({"phase": "Failed", "message": "evicted"}))], None, "over its pod ended"),
            (None, vec![], None, "over its Job was deleted"),
        ] {
            let said = says(standing(job, &pods.iter().collect::<Vec<_>>(), refused, &["c".into()]));
            assert!(said.starts_with(wanted), "{said}");
        }
    }

    #[test]
    fn claims_that_cannot_be_used_are_named() {
        assert!(claim_fault("c", &Value::Null).expect("a fault").0.contains("no persistent volume claim `c`"));
        assert!(claim_fault("c", &json!({"status": {"phase": "Lost"}})).is_some());
        let waits = json!({"status": {"phase": "Pending"}});
        assert!(claim_fault("c", &waits).is_none() && is_unbound(&waits));
    }
}
