//! Bad days of sweeps on a pool: the way to the server, what happens to pods, and the deaths of those who look after them (QUEUE-1, QUEUE-2).

mod support;

use shoal_testkit::kubernetes::NodeSpec;
use std::net::TcpListener;
use support::desk::read;
use support::pools::{LONG, Lab, SPACE, USUAL, lines};
use support::until;

/// A run that says that it begins, and goes on until NAME-go is there.
fn held(name: &str) -> String {
    format!("echo $1 >>/mnt/{name}; until [ -e /mnt/{name}-go ]; do sleep 0.2; done; echo $1 >left\n")
}

fn pod_of(lab: &Lab, sweep: &str) -> String {
    let pods = lab.of_sweep("pods", sweep);
    let name = |pod: &serde_json::Value| Some(pod["metadata"]["name"].as_str()?.to_string());
    pods.iter().find_map(name).expect("a pod")
}

/// What is wrong is said, and work begins as soon as it is well again.
#[test]
fn a_way_to_the_server_that_is_wrong_is_explained() {
    let pool = |name: &str, more: &str| format!("{{name: {name}, slots: 4, kubernetes: {{{more}}}}}");
    let elsewhere = USUAL.replace("namespace: lab", "namespace: nowhere");
    let pools = [pool("cloud", USUAL), pool("elsewhere", &elsewhere)];
    let Some(mut lab) = Lab::new([NodeSpec::new("one")], None, &[&pools[0], &pools[1]]) else { return };
    let good = read(&lab.kubeconfig);
    let file = lab.desk.work().join("kubeconfig");
    lab.kubeconfig = file.clone();
    lab.serve();
    lab.until_says(&["hosts", "--json"], "there is no kubeconfig");
    lab.sweep("patient", 1, "echo done >left\n", &["--on", "cloud"]);

    // From one to the next, as a file is replaced that somebody else may be reading.
    let now = |text: &str| {
        let new = file.with_extension("new");
        std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file)).expect("a kubeconfig");
    };
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    now(&good.replace(&lab.plane.url(), &format!("https://{free}")));
    lab.until_says(&["hosts", "--json"], "cannot be reached: nobody listens there");
    let token = lab.plane.bearer("late", "a-token-that-has-expired", SPACE).expect("a kubeconfig");
    now(&read(&token));
    lab.until_says(&["hosts", "--json"], "does not know you");
    assert!(!lab.desk.says(&["hosts", "--json"]).contains("a-token"));
    let ann = lab.plane.user("ann", SPACE).expect("a user");
    now(&read(&ann));
    lab.until_says(&["hosts", "--json"], "`ann` may not");
    let kubectl = lab.kubectl();
    let grant = |name: &str, verbs: &str, what: &str| {
        let (verbs, what) = (format!("--verb={verbs}"), format!("--resource={what}"));
        kubectl.text(&["create", "role", name, &verbs, &what, "--namespace=lab"]);
        kubectl.text(&["create", "rolebinding", name, &format!("--role={name}"), "--user=ann", "--namespace=lab"]);
    };
    grant("look", "get,list,watch", "pods,jobs.batch");
    lab.until_says(&["hosts", "--json"], "`ann` may not patch jobs.batch");
    // These are enough, and no more.
    grant("make", "create,patch,delete", "jobs.batch");
    lab.until_counts("patient", "finished", 1);
    now(&good);
    lab.until_says(&["hosts", "--json"], "there is no namespace `nowhere`");
    lab.until_empty();
}

/// Whatever becomes of pods, Jobs and nodes: what is nobody's fault costs no retry, and each result is there once.
#[test]
fn what_takes_pods_away_costs_nothing() {
    let nodes = ["one", "two", "far"].map(NodeSpec::new);
    let pool = |name: &str, more: &str| format!("{{name: {name}, slots: 8, kubernetes: {{{more}}}}}");
    let picture = USUAL.replace("image: here", "image: missing/picture");
    let pools = [
        pool("cloud", &format!("{USUAL}, nodes: [one]")),
        pool("outskirts", &format!("{USUAL}, nodes: [far, two]")),
        pool("picture", &picture),
    ];
    let pools: Vec<&str> = pools.iter().map(String::as_str).collect();
    let Some(mut lab) = Lab::new(nodes, None, &pools) else { return };
    lab.serve();
    let kubectl = lab.kubectl();
    let on = |pool| ["--on", pool, "--grace", "1s"];

    // It takes the longest to be sure that a node is gone; other things happen meanwhile.
    kubectl.text(&["cordon", "two"]);
    lab.sweep("node", 1, &held("node"), &on("outskirts"));
    lab.until_lines("node", 1);
    kubectl.text(&["uncordon", "two"]);
    lab.plane.kill_node("far");

    for name in ["evicted", "deleted", "jobless"] {
        lab.sweep(name, 1, &held(name), &on("cloud"));
        lab.until_lines(name, 1);
    }
    kubectl.evict(SPACE, &pod_of(&lab, "evicted"));
    kubectl.text(&["delete", "pod", &pod_of(&lab, "deleted"), "--wait=false", "--namespace=lab"]);
    kubectl.text(&["delete", "jobs", "--selector=shoal/sweep=jobless", "--wait=false", "--namespace=lab"]);
    for name in ["evicted", "deleted", "jobless"] {
        // No retries were asked for: it begins again all the same.
        lab.until_lines(name, 2);
        lab.touch(&format!("{name}-go"));
        lab.until_counts(name, "finished", 1);
        assert_eq!(lab.results(name).len(), 1);
    }
    assert!(lab.desk.says(&["logs", "evicted"]).contains("its pod was taken away; it begins anew"));

    kubectl.text(&["create", "quota", "none", "--hard=pods=0", "--namespace=lab"]);
    lab.sweep("quota", 1, "true\n", &on("cloud"));
    lab.until_says(&["why", "quota"], "exceeded quota: none");
    kubectl.text(&["delete", "quota", "none", "--namespace=lab"]);
    lab.sweep("picture", 1, "true\n", &on("picture"));
    lab.until_says(&["why", "picture"], "image missing/picture cannot be had");
    lab.desk.says(&["stop", "picture"]);
    lab.until_counts("picture", "stopped", 1);
    lab.until_counts("quota", "finished", 1);

    lab.until_lines("node", 2);
    lab.touch("node-go");
    lab.until_counts("node", "finished", 1);
    assert_eq!(lab.results("node").len(), 1);
    lab.plane.start_node("far").expect("the node");
    lab.until_empty();
}

/// Where the queue chooses nodes, one that takes nothing is passed by, and who waits for it goes to another. All GPUs of a run are of one node (PLAN-2).
#[test]
fn a_pinned_node_that_takes_nothing_is_passed_by() {
    let nodes = ["one", "two"].map(NodeSpec::new);
    let gpus = "gpus: {share: pinned, count: 3, runs: 1}";
    let pool = format!("{{name: cloud, slots: 8, kubernetes: {{{USUAL}, nodes: [one, two], {gpus}}}}}");
    let Some(mut lab) = Lab::new(nodes, None, &[&pool]) else { return };
    lab.kubectl().text(&["cordon", "one"]);
    lab.serve();
    let on = ["--on", "cloud", "--gpus", "2"];
    lab.sweep("first", 1, "echo $NVIDIA_VISIBLE_DEVICES >>/mnt/first; echo done >left\n", &on);
    lab.until_says(&["hosts", "--json"], "node one is cordoned");
    lab.until_counts("first", "finished", 1);
    assert_eq!(lines(&lab.volume.join("first")), ["0,1"]);

    lab.kubectl().text(&["uncordon", "one"]);
    lab.sweep("both", 2, &held("both"), &on);
    lab.until_lines("both", 2);
    let mut nodes: Vec<String> =
        lab.of_sweep("pods", "both").iter().map(|pod| pod["spec"]["nodeName"].to_string()).collect();
    nodes.sort();
    assert_eq!(nodes, ["\"one\"", "\"two\""], "three of each node are not two twice");
    lab.touch("both-go");
    lab.until_counts("both", "finished", 2);
    lab.until_empty();
}

/// Agent, daemon and keeper are killed while pods run: the first two are missed by nobody, and what the third kept begins anew.
#[test]
fn who_looks_after_pods_may_be_killed() {
    let pool = format!("{{name: cloud, slots: 8, kubernetes: {{{USUAL}}}}}");
    let Some(mut lab) = Lab::new([NodeSpec::new("one")], None, &[&pool]) else { return };
    lab.serve();
    const RUNS: u32 = 4;
    let begin = |lab: &Lab, name: &str| {
        lab.sweep(name, RUNS, &held(name), &["--on", "cloud"]);
        lab.until_lines(name, RUNS as usize);
    };
    let ends = |lab: &Lab, name: &str, begun: usize| {
        lab.until_counts(name, "finished", RUNS);
        assert_eq!(lines(&lab.volume.join(name)).len(), begun, "{name}");
        let mut left: Vec<String> = lab.results(name).iter().map(|row| row["run"].to_string()).collect();
        left.dedup();
        assert_eq!(left.len(), RUNS as usize, "{name}");
    };

    begin(&lab, "agent");
    lab.kill("cloud", "agent");
    lab.touch("agent-go");
    ends(&lab, "agent", RUNS as usize);

    begin(&lab, "daemon");
    lab.kill_daemon();
    lab.touch("daemon-go");
    let done = lab.volume.join(".shoal/cloud");
    assert!(done.is_dir());
    until(LONG, "pods to end while no daemon is there", || {
        let pods = lab.of_sweep("pods", "daemon");
        pods.iter().all(|pod| pod["status"]["phase"] != "Running").then_some(())
    });
    lab.serve();
    ends(&lab, "daemon", RUNS as usize);

    begin(&lab, "keeper");
    lab.kill("cloud", "queue-keeper");
    // Nobody waits for the first pods any more: they go, and others come in their place.
    lab.until_lines("keeper", 2 * RUNS as usize);
    lab.touch("keeper-go");
    ends(&lab, "keeper", 2 * RUNS as usize);
    lab.until_empty();
}
