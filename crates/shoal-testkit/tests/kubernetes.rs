//! The control plane for tests is a real one.

use shoal_testkit::kubernetes::{ControlPlane, NodeSpec};
use shoal_testkit::wait;
use std::time::Duration;

const BOUND: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_is_killed_comes_back_with_what_it_knew() {
    let Some(mut plane) = ControlPlane::up_or_skip() else { return };
    let kubectl = plane.kubectl();
    kubectl.namespace("kept");
    plane.kill_api_server();
    assert!(!kubectl.ok(&["get", "namespace", "kept"]), "a killed server answers");
    plane.start_api_server().unwrap();
    assert_eq!(kubectl.json(&["get", "namespace", "kept"])["status"]["phase"], "Active");
}

/// RBAC is on: a user has the rights that were granted, and no others.
#[test]
fn a_user_may_do_what_was_granted_and_nothing_else() {
    let Some(plane) = ControlPlane::up_or_skip() else { return };
    let admin = plane.kubectl();
    admin.namespace("mine");
    let user = plane.kubectl_as(&plane.user("ann", "mine").unwrap());
    assert!(!user.ok(&["get", "pods"]));
    admin.text(&["create", "role", "reader", "--verb=get,list", "--resource=pods", "--namespace=mine"]);
    admin.text(&["create", "rolebinding", "ann", "--role=reader", "--user=ann", "--namespace=mine"]);
    assert!(user.ok(&["get", "pods"]));
    assert!(!user.ok(&["get", "pods", "--namespace=default"]));
    assert!(!user.ok(&["create", "configmap", "c"]));

    admin.text(&[
        "create",
        "rolebinding",
        "account",
        "--role=reader",
        "--serviceaccount=mine:default",
        "--namespace=mine",
    ]);
    let token = admin.text(&["create", "token", "default", "--namespace=mine", "--duration=10m"]);
    let account = plane.kubectl_as(&plane.bearer("account", token.trim(), "mine").unwrap());
    assert!(account.ok(&["get", "pods"]));
    let stranger = plane.kubectl_as(&plane.bearer("stranger", "no-token", "mine").unwrap());
    assert!(!stranger.ok(&["get", "pods"]));
}

/// One pod of one container: `sh -c SCRIPT`, never started again; `more` are further fields of the container.
fn pod(namespace: &str, name: &str, script: &str, more: &serde_json::Value, volumes: &serde_json::Value) -> String {
    let mut container = serde_json::json!({"name": "main", "image": "here", "command": ["sh", "-c", script]});
    for (field, value) in more.as_object().into_iter().flatten() {
        container[field] = value.clone();
    }
    serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container], "volumes": volumes},
    })
    .to_string()
}

#[test]
fn pods_really_run() {
    let Some(mut plane) = ControlPlane::up_or_skip() else { return };
    plane.add_nodes([NodeSpec::new("one").label("kind", "small"), NodeSpec::new("two").gpus(2)]).unwrap();
    let kubectl = plane.kubectl();
    kubectl.namespace("pods");
    let of = "--namespace=pods";
    let none = serde_json::json!({});
    let nothing = serde_json::json!([]);
    let phase = |name: &str| kubectl.json(&["get", "pod", name, of])["status"]["phase"].clone();
    let ended =
        |name: &str| wait::until(BOUND, || ["Succeeded", "Failed"].iter().any(|end| phase(name) == *end).then_some(()));
    let ended = |name: &str| {
        ended(name)
            .unwrap_or_else(|| panic!("pod {name} does not end: {}", kubectl.text(&["describe", "pod", name, of])));
        kubectl.json(&["get", "pod", name, of])["status"].clone()
    };
    assert_eq!(kubectl.json(&["get", "node", "two"])["status"]["allocatable"]["nvidia.com/gpu"], "2");

    // Its words, its volumes, its own name; what it writes beside volumes is gone with it.
    let folder = plane.folder().join("volume");
    std::fs::create_dir_all(&folder).unwrap();
    let more = serde_json::json!({
        "env": [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [{"name": "data", "mountPath": "/mnt"}, {"name": "scratch", "mountPath": "/scratch"}],
    });
    let volumes =
        serde_json::json!([{"name": "data", "hostPath": {"path": folder}}, {"name": "scratch", "emptyDir": {}}]);
    let script = "echo I am $ME at $(hostname); echo kept >/mnt/$ME; echo x >/scratch/x; touch /shoal-was-here; echo bad >&2; exit 3";
    kubectl.apply(&pod("pods", "speaks", script, &more, &volumes));
    let status = ended("speaks");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3, "{status:#}");
    let words = kubectl.text(&["logs", "speaks", of]);
    assert!(words.contains("I am speaks at speaks") && words.contains("bad"), "{words}");
    assert_eq!(std::fs::read_to_string(folder.join("speaks")).unwrap(), "kept\n");
    assert!(!std::path::Path::new("/shoal-was-here").exists());

    // More memory than it may have.
    let more = serde_json::json!({"resources": {"limits": {"memory": "64Mi"}}});
    kubectl.apply(&pod(
        "pods",
        "eats",
        "exec python3 -c 'x = bytearray(200 << 20); import time; time.sleep(60)'",
        &more,
        &nothing,
    ));
    // No registry has its image.
    kubectl.apply(&pod("pods", "pictureless", "true", &serde_json::json!({"image": "missing/image:1"}), &nothing));
    // Hears TERM and goes on; and one that goes.
    let deaf = "trap 'echo heard' TERM; echo up; while true; do sleep 0.1; done";
    kubectl.apply(&pod("pods", "deaf", deaf, &none, &nothing));
    let reason = ended("eats")["containerStatuses"][0]["state"]["terminated"].clone();
    assert_eq!((&reason["reason"], &reason["exitCode"]), (&"OOMKilled".into(), &137.into()));
    let waiting = || {
        kubectl.json(&["get", "pod", "pictureless", of])["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
            .clone()
    };
    assert!(wait::until(BOUND, || (waiting() == "ImagePullBackOff").then_some(())).is_some(), "{}", waiting());

    kubectl.text(&["wait", "pod/deaf", "--for=condition=Ready", "--timeout=60s", of]);
    assert!(wait::until(BOUND, || kubectl.text(&["logs", "deaf", of]).contains("up").then_some(())).is_some());
    assert_eq!(kubectl.text(&["exec", "deaf", of, "--", "hostname"]).trim(), "deaf");
    assert_eq!(kubectl.output(&["exec", "deaf", of, "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    let follow =
        kubectl.command(&["logs", "--follow", "deaf", of]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    kubectl.text(&["delete", "pod", "deaf", of, "--wait=true", "--timeout=60s"]);
    let words = String::from_utf8(follow.wait_with_output().unwrap().stdout).unwrap();
    assert!(words.contains("heard"), "deleted without TERM: {words}");
}

#[test]
fn a_job_has_one_pod_for_each_index_and_pods_of_a_lost_node_are_missed() {
    let Some(mut plane) = ControlPlane::up_or_skip() else { return };
    plane.add_nodes([NodeSpec::new("one"), NodeSpec::new("two")]).unwrap();
    let kubectl = plane.kubectl();
    kubectl.namespace("jobs");
    let of = "--namespace=jobs";
    let folder = plane.folder().join("results");
    std::fs::create_dir_all(&folder).unwrap();
    let container = serde_json::json!({
        "name": "main", "image": "here", "command": ["sh", "-c", "echo $JOB_COMPLETION_INDEX >/mnt/$JOB_COMPLETION_INDEX"],
        "volumeMounts": [{"name": "data", "mountPath": "/mnt"}],
    });
    let volume = serde_json::json!([{"name": "data", "persistentVolumeClaim": {"claimName": "results"}}]);
    let size = serde_json::json!({"storage": "1Gi"});
    let documents = [
        serde_json::json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "results"}, "spec": {
            "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": folder}}}),
        serde_json::json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results", "namespace": "jobs"}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "results", "resources": {"requests": size}}}),
        serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "three", "namespace": "jobs"}, "spec": {
            "completions": 3, "parallelism": 3, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volume}}}}),
    ];
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": documents});
    kubectl.apply(&list.to_string());
    kubectl.text(&["wait", "job/three", "--for=condition=Complete", "--timeout=90s", of]);
    for index in ["0", "1", "2"] {
        assert_eq!(std::fs::read_to_string(folder.join(index)).unwrap().trim(), index);
    }

    plane.kill_node("two");
    let ready =
        || kubectl.text(&["get", "node", "two", "--output=jsonpath={.status.conditions[?(@.type==\"Ready\")].status}"]);
    assert!(
        wait::until(BOUND, || (ready() == "Unknown").then_some(())).is_some(),
        "node two is said to be ready: {}",
        ready()
    );
    plane.start_node("two").unwrap();
}
