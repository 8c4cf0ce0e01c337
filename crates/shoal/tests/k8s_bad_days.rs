//! `shoal k8s` when something is wrong: each says what, where, why and what to do.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{Namespace, example, example_text, out_of, plane};
use std::net::TcpListener;

const ONE: &str = "runs: [{name: a, seeds: 1}]\n";

/// Without a cluster: what is wrong with the way there.
#[test]
fn a_cluster_that_cannot_be_reached_is_explained() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "ways");
    let template = example("multi-seed-template.yaml");
    let runs = here.write("runs.yaml", ONE);
    let launch = ["launch", "-f", &template, "--runs", &runs, "-y", "--namespace", "ways"];
    // No kubeconfig: HOME is an empty folder.
    out_of(&mut here.command(&launch))
        .expect(3, &["there is no kubeconfig", ".kube/config does not exist", "--kubeconfig"]);
    let missing = here.folder.path().join("nowhere");
    here.shoal_as(&missing, &launch).expect(3, &["there is no kubeconfig", "nowhere"]);
    // The template is looked at first, and a dry run needs no cluster at all.
    out_of(&mut here.command(&[&launch[..], &["--dry-run"]].concat())).expect(0, &["1 pod"]);
    here.shoal(&[&launch[..6], &["--context", "tset"]].concat()).expect(3, &["no context `tset`", "`test`"]);

    // Nobody listens.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let good = std::fs::read_to_string(&here.kubeconfig).expect("a kubeconfig");
    let away = here.write("away", &good.replace(&plane.url(), &format!("https://{free}")));
    here.shoal_as(away.as_ref(), &launch)
        .expect(3, &[&format!("https://{free} cannot be reached: nobody listens there")]);
    // Somebody else answers in its place.
    let authority = good.replace("\"certificate-authority\"", "\"was\"");
    let stranger = here.write("stranger", &authority);
    here.shoal_as(stranger.as_ref(), &launch).expect(3, &["certificate"]);
    // A token that the server does not take (any more).
    let token = plane.bearer("late", "a-token-that-has-expired", "ways").expect("a kubeconfig");
    let out = here.shoal_as(&token, &launch).expect(3, &["does not know you", "expired", "log in again"]);
    assert!(!out.errors.contains("a-token"), "{}", out.errors);

    here.shoal_as(&here.kubeconfig, &["launch", "-f", &template, "--runs", &runs, "-y", "--namespace", "wayz"])
        .expect(3, &["there is no namespace `wayz`", "kubectl get namespaces"]);
    here.shoal_as(&here.kubeconfig, &["destroy", "-f", &template, "-y", "--namespace", "wayz"])
        .expect(3, &["there is no namespace `wayz`"]);
    here.assert_empty();
}

/// Each right that is missing is named, until there are enough: these, and no more.
#[test]
fn missing_rights_are_named() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "rights");
    let template = example("multi-seed-template.yaml");
    let runs = here.write("runs.yaml", ONE);
    let ann = plane.user("ann", "rights").expect("a user");
    let launch = ["launch", "-f", &template, "--runs", &runs, "-y"];
    here.shoal_as(&ann, &launch).expect(
        3,
        &["`ann` may not list replicasets.apps in namespace `rights`", "kubectl auth can-i list replicasets.apps"],
    );
    let grant = |name: &str, verbs: &str, what: &str| {
        let (verbs, what) = (format!("--verb={verbs}"), format!("--resource={what}"));
        here.kubectl.text(&["create", "role", name, &verbs, &what, "--namespace=rights"]);
        let role = format!("--role={name}");
        here.kubectl.text(&["create", "rolebinding", name, &role, "--user=ann", "--namespace=rights"]);
    };
    grant("look", "get,list,watch", "pods,replicasets.apps,deployments.apps,jobs.batch");
    here.shoal_as(&ann, &launch).expect(3, &["`ann` may not patch jobs.batch in namespace `rights`"]);
    here.assert_empty();
    grant("make", "create,patch", "jobs.batch");
    here.shoal_as(&ann, &[&launch[..], &["--wait", "finished"]].concat()).expect(0, &["1 run: 1 finished"]);
    here.shoal_as(&ann, &["destroy", "-f", &template, "-y"]).expect(3, &["`ann` may not delete jobs.batch"]);
    grant("end", "delete", "jobs.batch");
    here.shoal_as(&ann, &["destroy", "-f", &template, "-y"]).expect(0, &["nothing of launch"]);
    here.assert_empty();
}

/// What keeps pods from starting is said by name as soon as it is known, without waiting for the end of patience.
#[test]
fn runs_that_do_not_start_say_why() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "stuck");
    let text = example_text("multi-seed-template.yaml");
    let template = here.write("template.yaml", &text);
    let launch = |name: &str, template: &str, runs: &str| {
        let runs = here.write(&format!("{name}-runs.yaml"), runs);
        here.shoal(&["launch", "-f", template, "--runs", &runs, "-y", "--name", name, "--timeout", "120"])
    };
    launch("lost", &template, "runs: [{name: a, node: phortx9, gpu: 0, seeds: 1}]\n")
        .expect(4, &["lost-a-0-phortx9-s0: stuck: no node takes it", "0/2 nodes are available"]);
    let picture = here.write("picture.yaml", &text.replace("registry.example/you/", "missing/"));
    launch("picture", &picture, ONE)
        .expect(4, &["picture-a-s0: stuck: image missing/l2r-node:latest cannot be had", "imagePullSecrets"]);
    here.shoal(&["status", "--name", "picture"]).expect(0, &["cannot be had"]);
    let bad = "runs: [{name: a, seeds: 1, cmd: exit 3}]\n";
    let bad = here.write("bad.yaml", bad);
    here.shoal(&["launch", "-f", &template, "--runs", &bad, "-y", "--name", "bad", "--wait", "finished"])
        .expect(1, &["bad-a-s0: failed: exit code 3"]);
    for name in ["lost", "picture", "bad"] {
        here.shoal(&["destroy", "--name", name, "-y", "--grace", "1"]).expect(0, &["nothing of launch"]);
    }
    here.assert_empty();

    // A quota for two pods: two run, two wait, and start when there is room.
    here.kubectl.text(&["create", "quota", "small", "--hard=pods=2", "--namespace=stuck"]);
    let full = "env: {SECONDS_TO_TRAIN: 600}\nruns: [{name: a, seeds: 4}]\n";
    launch("full", &template, full).expect(4, &["exceeded quota: small", "quota raised", "2 running, 2 stuck"]);
    here.kubectl.text(&["delete", "quota", "small", "--namespace=stuck"]);
    here.shoal(&["destroy", "--name", "full", "-y", "--grace", "1"]).expect(0, &["nothing of launch"]);
    // A quota on Jobs themselves: the server refuses, and nothing is there.
    here.kubectl.text(&["create", "quota", "none", "--hard=count/jobs.batch=0", "--namespace=stuck"]);
    launch("none", &template, ONE).expect(3, &["exceeded quota: none"]);
    here.kubectl.text(&["delete", "quota", "none", "--namespace=stuck"]);
    here.assert_empty();
}

/// A template that is not what it says, at its line and column: what we know ourselves, and what only the server knows.
#[test]
fn wrong_files_are_shown_at_their_place() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "wrong");
    let text = example_text("multi-seed-template.yaml");
    let runs = here.write("runs.yaml", ONE);
    let mut wrong = String::new();
    for (from, to, place, says) in [
        ("kind: ReplicaSet", "kind: ReplicaSett", "2:7", "did you mean `ReplicaSet`"),
        ("name: worker-pods", "name: Worker_Pods", "4:9", "`worker-pods` would do"),
        ("value: \"0\" #", "value: 0 #", "33:22", "put it in quotes"),
        // From here on it is the server that refuses.
        ("tty: true", "ttty: true", "26:11", "ttty"),
        ("stdin: true", "stdin: \"maybe\"", "27:11", "stdin"),
        ("name: l2r-volume", "name: l2r-volumes", "29:15", "Not found"),
        ("name: worker-container", "name: Worker_Container", "25:11", "lowercase RFC 1123 label"),
    ] {
        let template = here.write("template.yaml", &text.replacen(from, to, 1));
        let out = here.shoal(&["launch", "-f", &template, "--runs", &runs, "-y"]);
        let right = out.code == Some(2) && out.errors.contains(&format!("template.yaml:{place}\n"));
        if !right || !out.errors.contains(says) {
            wrong.push_str(&format!("{to}, at {place}, {says}: {:?}: {}\n", out.code, out.errors));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let long = here.write("long.yaml", &format!("runs: [{{name: {}}}]\n", "a".repeat(60)));
    let template = here.write("template.yaml", &text);
    here.shoal(&["launch", "-f", &template, "--runs", &long, "-y"])
        .expect(2, &["characters too long", "long.yaml:1:8"]);
    let dns = here.write("dns.yaml", "runs: [{name: Seed_1}]\n");
    here.shoal(&["launch", "-f", &template, "--runs", &dns, "-y"]).expect(2, &["`seed-1` would do", "dns.yaml:1:15"]);
    here.shoal(&["launch", "-f", &template, "--runs", &runs, "-y", "--name", "No"]).expect(2, &["`no` would do"]);
    here.shoal(&["launch", "-f", "nowhere.yaml", "--runs", &runs, "-y"]).expect(2, &["nowhere.yaml"]);
    here.assert_empty();
}
