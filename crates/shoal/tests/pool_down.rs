//! `shoal status` and `shoal down` of a fleet with pools: what is there and whose it is; what is ours goes, and nothing else.

mod support;

use serde_json::{Value, json};
use shoal_testkit::kubernetes::NodeSpec;
use std::process::{Command, Stdio};
use support::desk::text;
use support::pools::{LONG, Lab, SPACE, USUAL};
use support::until;

fn shoal(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.desk.shoal(args);
    command.env("KUBECONFIG", &lab.kubeconfig);
    command
}

#[track_caller]
fn ends(lab: &Lab, args: &[&str], code: i32, says: &[&str]) -> String {
    let output = shoal(lab, args).output().expect("shoal runs");
    let said = text(&output.stderr) + &text(&output.stdout);
    eprintln!("$ shoal {args:?}\n{said}");
    assert_eq!(output.status.code(), Some(code), "{said}");
    for words in says {
        assert!(said.contains(words), "no `{words}` in what {args:?} said:\n{said}");
    }
    text(&output.stdout)
}

/// `[what, name, ours, jobs]` of everything that is there.
fn things(lab: &Lab) -> Vec<(String, String, bool, u64)> {
    let said: Value = serde_json::from_str(&ends(lab, &["status", "lab.yaml", "--json"], 0, &[])).expect("JSON");
    let word = |thing: &Value, key: &str| thing[key].as_str().expect("a word").to_string();
    let things = said["pools"][0]["things"].as_array().expect("things").iter();
    let things = things.map(|thing| {
        (word(thing, "what"), word(thing, "name"), thing["ours"] == true, thing["jobs"].as_u64().expect("a number"))
    });
    things.collect()
}

#[test]
fn what_is_ours_goes_and_what_is_not_stays() {
    let pool = format!("{{name: cloud, slots: 4, kubernetes: {{{USUAL}}}}}");
    let Some(mut lab) = Lab::new([NodeSpec::new("one")], None, &[&pool]) else { return };
    ends(&lab, &["status", "lab.yaml"], 0, &["cloud: namespace lab of https://", "nothing of Shoal is there"]);
    ends(&lab, &["down", "lab.yaml"], 0, &["nothing of it was in namespace lab"]);
    ends(&lab, &["down", "lab.yaml", "--pool", "clod"], 2, &["did you mean `cloud`?"]);
    ends(&lab, &["down", "lab.yaml", "--keep-stopped"], 2, &["are for clusters, not for pools"]);
    lab.serve();
    lab.sweep("held", 3, "echo up; until [ -e /mnt/go ]; do sleep 0.2; done; echo $1 >>/mnt/done\n", &[]);
    lab.until_counts("held", "running", 3);
    // A gang; another queue's sweep; somebody's launch; and a Job that has nothing to do with Shoal.
    let mut gang = shoal(&lab, &["run", "-f", "lab.yaml", "-n", "1", "--no-master", "--grace", "2", "--"]);
    gang.args(["sh", "-c", "touch /mnt/up; exec sleep 600"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let gang = gang.spawn().expect("shoal runs");
    until(LONG, "the gang", || lab.volume.join("up").exists().then_some(()));
    let job = |name: &str, labels: Value| {
        let container = json!({"name": "run", "image": "here", "command": ["sleep", "600"]});
        let pod = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": SPACE, "labels": labels},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}})
    };
    let ours = "app.kubernetes.io/managed-by";
    let others = [
        job("theirs", json!({ours: "shoal", "shoal/pool": "cloud-0123456789", "shoal/sweep": "theirs"})),
        job("launched", json!({ours: "shoal", "shoal/launch": "workers", "shoal/run": "launched"})),
        job("unknown", json!({"app": "web"})),
    ];
    lab.kubectl().apply(&json!({"apiVersion": "v1", "kind": "List", "items": others}).to_string());
    let all = until(LONG, "all of it", || {
        let all = things(&lab);
        (all.len() == 4 && all.iter().all(|(.., jobs)| *jobs > 0)).then_some(all)
    });
    let whose: Vec<(&str, bool)> = all.iter().map(|(what, _, ours, _)| (what.as_str(), *ours)).collect();
    assert_eq!(whose, [("sweep", true), ("sweep", false), ("gang", true), ("launch", false)]);
    until(LONG, "pods that run", || ends(&lab, &["status", "lab.yaml"], 0, &[]).contains("3 running").then_some(()));
    let table = ["sweep held", "ours", "another queue's", "launch workers", "`shoal k8s destroy` removes it"];
    ends(&lab, &["status", "lab.yaml"], 0, &table);

    ends(
        &lab,
        &["down", "lab.yaml"],
        2,
        &["take down cloud in namespace lab: sweep held (3 running)", "say yes with -y"],
    );
    ends(&lab, &["down", "lab.yaml", "-y"], 0, &["sweep held", "nothing of it is left", "`shoal resume --host cloud`"]);
    let mut left: Vec<String> = lab.objects().lines().filter(|name| name.starts_with("job")).map(Into::into).collect();
    left.sort();
    assert_eq!(left, ["job.batch/launched", "job.batch/theirs", "job.batch/unknown"]);
    // The pods of those alone.
    assert_eq!(lab.objects().lines().count(), 6, "{}", lab.objects());
    let gang = gang.wait_with_output().expect("its end");
    assert_eq!(gang.status.code(), Some(255), "{}", text(&gang.stderr));
    assert!(text(&gang.stderr).contains("deleted"), "{}", text(&gang.stderr));

    // What was taken away waits, and is done once when the pool takes runs again.
    lab.until_counts("held", "waiting", 3);
    lab.until_says(&["why", "held"], "paused");
    assert!(things(&lab).iter().all(|(.., ours, _)| !ours));
    lab.touch("go");
    lab.desk.says(&["resume", "--host", "cloud"]);
    lab.until_counts("held", "finished", 3);
    assert_eq!(support::pools::lines(&lab.volume.join("done")), ["0", "1", "2"]);
}

#[test]
fn what_is_stuck_is_named_and_no_server_is_an_error() {
    let pool = format!("{{name: cloud, slots: 4, kubernetes: {{{USUAL}}}}}");
    let Some(mut lab) = Lab::new([NodeSpec::new("one")], None, &[&pool]) else { return };
    lab.serve();
    lab.sweep("held", 1, "exec sleep 600\n", &[]);
    lab.until_counts("held", "running", 1);
    let job = until(LONG, "its Job", || {
        let job = lab.of_sweep("jobs", "held").first()?["metadata"]["name"].as_str()?.to_string();
        Some(job)
    });
    let keep = |finalizers: &str| {
        let patch = format!("{{\"metadata\":{{\"finalizers\":{finalizers}}}}}");
        lab.kubectl().text(&["patch", "job", &job, "--namespace", SPACE, "--type=merge", "--patch", &patch]);
    };
    keep("[\"lab.example/keep\"]");
    let mut down = shoal(&lab, &["down", "lab.yaml", "-y", "--json"]);
    let down = down.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("shoal runs");
    until(LONG, "its Job to be asked to go", || {
        let jobs = lab.of_sweep("jobs", "held");
        jobs.iter().all(|job| !job["metadata"]["deletionTimestamp"].is_null()).then_some(())
    });
    // Somebody does not wait for as long as it would.
    let told = Command::new("kill").args(["-INT", &down.id().to_string()]).status().expect("kill");
    assert!(told.success());
    let output = down.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("lab.example/keep"), "{}", text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(said["pools"][0]["left"].to_string().contains(&job), "{said}");
    keep("null");
    ends(&lab, &["down", "lab.yaml", "-y"], 0, &[]);
    lab.until_empty();
    lab.plane.kill_api_server();
    ends(&lab, &["status", "lab.yaml"], 3, &["cannot be reached"]);
    ends(&lab, &["down", "lab.yaml", "-y"], 3, &["cannot be reached"]);
}
