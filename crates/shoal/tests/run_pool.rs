//! `shoal run` on a pool: a real control plane, pods that really run, and nothing left of any of them (GANG-1, GANG-2, SEC-2).

mod support;

use serde_json::{Value, json};
use shoal_testkit::kubernetes::{ControlPlane, Kubectl, NodeSpec};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use support::desk::{Desk, text};
use support::{interpreter, until};

const LONG: Duration = Duration::from_secs(300);

/// One plane for all tests of this file; it ends with the process.
fn plane() -> Option<&'static ControlPlane> {
    static PLANE: OnceLock<Option<ControlPlane>> = OnceLock::new();
    let start = || {
        let mut plane = ControlPlane::up_or_skip()?;
        plane.add_nodes([NodeSpec::new("one").gpus(2), NodeSpec::new("two").gpus(2)]).expect("nodes");
        Some(plane)
    };
    PLANE.get_or_init(start).as_ref()
}

/// A namespace with a claim, and a desk whose fleet is a pool there.
struct Lab {
    desk: Desk,
    kubectl: Kubectl,
    kubeconfig: PathBuf,
    space: String,
    volume: PathBuf,
}

impl Lab {
    fn new(plane: &ControlPlane, space: &str) -> Lab {
        let kubectl = plane.kubectl();
        kubectl.namespace(space);
        let volume = plane.folder().join(format!("volume-{space}"));
        std::fs::create_dir_all(&volume).expect("a folder");
        let size = json!({"storage": "1Gi"});
        let objects = [
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": space}, "spec": {
                "capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": volume}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": space}, "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": space, "resources": {"requests": size}}}),
        ];
        kubectl.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
        let desk = Desk::new();
        let here = volume.display();
        let pool = format!(
            "pools:\n  - name: cloud\n    slots: 8\n    kubernetes:\n      namespace: {space}\n      image: here\n      volumes: [{{claim: data, at: /mnt, here: {here}}}]\n      gpus: {{count: 4}}\n"
        );
        desk.file("lab.yaml", &pool);
        Lab { desk, kubectl, kubeconfig: plane.kubeconfig(), space: space.into(), volume }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.desk.shoal(args);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        let args = [&["run", "-f", "lab.yaml"], args].concat();
        self.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("shoal runs")
    }

    /// Its end, and that nothing is left: neither objects, nor folders of runs on the volume.
    #[track_caller]
    fn ends(&self, child: Child, code: i32, says: &[&str]) -> String {
        let output = child.wait_with_output().expect("its output");
        // Sentences are folded; here they are not.
        let errors = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{errors}");
        for words in says {
            assert!(errors.contains(words), "`{words}` is not said:\n{errors}");
        }
        assert_eq!(self.objects(), "");
        let gangs = self.volume.join(".shoal/cloud/gangs");
        let left: Vec<_> = std::fs::read_dir(gangs).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "{left:?}");
        errors
    }

    /// The witness.
    fn objects(&self) -> String {
        let kinds = "jobs,pods,services,secrets";
        let text = self.kubectl.text(&["get", kinds, "--namespace", &self.space, "--output=name"]);
        text.trim().to_string()
    }

    fn jobs(&self) -> Vec<Value> {
        let all = self.kubectl.json(&["get", "jobs", "--namespace", &self.space]);
        all["items"].as_array().cloned().unwrap_or_default()
    }

    fn run_id(&self) -> Option<String> {
        let ps = self.desk.shoal(&["ps", "--json"]).output().expect("shoal runs");
        let ps: Value = serde_json::from_slice(&ps.stdout).unwrap_or_default();
        Some(ps["runs"].as_array()?.iter().find(|run| run["state"] == "running")?["run"].as_str()?.to_string())
    }

    /// Until a file is on the volume.
    fn until_there(&self, name: &str, child: &mut Child) {
        until(LONG, name, || {
            assert!(child.try_wait().expect("a state").is_none(), "it ended before {name} was there");
            self.volume.join(name).exists().then_some(())
        });
    }
}

fn said(output: &Output) -> String {
    text(&output.stderr) + &text(&output.stdout)
}

fn interrupt(child: &Child) {
    let told = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(told.success());
}

#[test]
fn digits_learn_on_a_pool_what_they_learn_here() {
    let Some(plane) = plane() else { return };
    let Some(python) = interpreter::or_skip() else { return };
    let lab = Lab::new(plane, "digits");
    let train = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/train.py");
    std::fs::copy(train, lab.desk.work().join("train.py")).expect("the example");
    let python = python.display().to_string();
    let mut alone = Command::new(&python);
    let out = lab.desk.work().join("alone").display().to_string();
    let output = alone.current_dir(lab.desk.work()).args(["train.py", "--single", "4", "--out", &out]).output();
    let output = output.expect("python runs");
    assert!(output.status.success(), "{}", said(&output));
    let result = |path: PathBuf| -> Value {
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
            .expect("JSON")
    };
    let alone = result(lab.desk.work().join("alone.json"));
    let child = lab.start(&[
        "-n",
        "4",
        "--servers",
        "2",
        "-o",
        "logs",
        "--",
        "sh",
        "-c",
        &format!("exec {python} train.py --out /mnt/worker$RANK"),
    ]);
    lab.ends(child, 0, &["finished: 4 workers", "logs: "]);
    let accuracy = alone["accuracy"].as_f64().expect("a number");
    let digest = result(lab.volume.join("worker0.json"))["digest"].clone();
    for k in 0..4 {
        let worker = result(lab.volume.join(format!("worker{k}.json")));
        let theirs = worker["accuracy"].as_f64().expect("a number");
        eprintln!("worker{k}: accuracy {theirs}, alone {accuracy}");
        assert!((theirs - accuracy).abs() < 0.01, "worker{k}: {theirs}, alone: {accuracy}");
        assert_eq!(worker["digest"], digest);
        assert!(worker["bytes_sent"].as_u64().is_some_and(|bytes| bytes > 0));
    }
}

#[test]
fn a_gang_is_seen_while_it_runs_and_stopped_from_elsewhere() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "seen");
    lab.desk.file("note.txt", "of the source\n");
    let script = "echo hello from $RANK at $(pwd); cat note.txt; touch /mnt/up$RANK; exec sleep 600";
    let mut child = lab.start(&["-n", "2", "--servers", "1", "--grace", "3", "--", "sh", "-c", script]);
    lab.until_there("up0", &mut child);
    lab.until_there("up1", &mut child);
    let run = until(LONG, "the run in `shoal ps`", || lab.run_id());
    until(LONG, "its output", || {
        let logs = text(&lab.desk.shoal(&["logs", &run]).output().expect("shoal runs").stdout);
        (logs.contains("hello from 0") && logs.contains("hello from 1") && logs.contains("of the source")).then_some(())
    });
    // Into a rank's pod, by the same id; and what it prints is in the pod's log, too.
    let look = "echo $RANK in $(pwd); cat note.txt; echo ${SHOAL_TOKEN:+secret}; cat; exit 5";
    let into = |args: &[&str]| {
        let mut command = lab.command(&[&["attach"], args].concat());
        let output = command.output().expect("shoal runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, shown, errors) = into(&[&run, "--rank", "worker1", "--", "sh", "-c", look]);
    assert_eq!(code, Some(5), "{errors}");
    assert!(shown.starts_with("1 in ") && shown.ends_with("of the source\nsecret\n"), "{shown}");
    assert_eq!(into(&[&run, "--rank", "server0", "--", "true"]).0, Some(0));
    let (code, _, errors) = into(&[&run, "--rank", "worker2"]);
    assert!(code == Some(2) && errors.contains("there is no worker2 of"), "{code:?}: {errors}");
    let (code, _, errors) = into(&["261116-020304-a1b2c3"]);
    assert!(code == Some(2) && errors.contains("was launched from this machine"), "{code:?}: {errors}");
    until(LONG, "output in the log of a pod", || {
        let pod = format!(
            "--selector=batch.kubernetes.io/job-name=run-{run}-worker,batch.kubernetes.io/job-completion-index=1"
        );
        lab.kubectl.text(&["logs", "--namespace", &lab.space, &pod]).contains("hello from 1").then_some(())
    });
    let jobs = lab.jobs();
    let mut names: Vec<String> = jobs.iter().filter_map(|job| Some(job["metadata"]["name"].as_str()?.into())).collect();
    names.sort();
    assert_eq!(names, ["master", "server", "worker"].map(|role| format!("run-{run}-{role}")));
    until(LONG, "the server to let it run as long as it likes", || {
        lab.jobs().iter().all(|job| job["spec"]["activeDeadlineSeconds"].is_null()).then_some(())
    });
    // The token is in the Secret alone: neither in what others see of objects, nor on the volume (SEC-2).
    let secret = lab.kubectl.json(&["get", "secret", &format!("run-{run}"), "--namespace", &lab.space]);
    let token = secret["data"]["token"].as_str().expect("a token").to_string();
    let shown = lab.kubectl.text(&["get", "jobs,pods,services", "--namespace", &lab.space, "--output=json"]);
    let token = Command::new("sh").args(["-c", &format!("echo {token} | base64 -d")]).output().expect("base64");
    let token = text(&token.stdout);
    assert!(token.len() > 20 && !shown.contains(&token));
    let found = Command::new("grep").args(["-rl", &token]).arg(&lab.volume).output().expect("grep");
    assert_eq!(text(&found.stdout), "");

    let stopped = lab.desk.shoal(&["stop", &run]).output().expect("shoal runs");
    assert!(stopped.status.success(), "{}", said(&stopped));
    lab.ends(child, 130, &["stopped on request"]);
    let (code, _, errors) = into(&[&run]);
    assert!(code == Some(3) && errors.contains("does not run any more"), "{code:?}: {errors}");
}

#[test]
fn the_first_failure_ends_all_and_is_named() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "fails");
    let script = "touch /mnt/up$RANK; [ $RANK = 1 ] || exec sleep 600; until [ -e /mnt/up0 ]; do sleep 0.1; done; echo no such file; exit 3";
    let child = lab.start(&["-n", "3", "--grace", "2", "--", "sh", "-c", script]);
    let errors = lab.ends(child, 3, &["worker1 on ", "exited with code 3", "its last lines", "no such file", "log: "]);
    assert!(errors.contains("worker1 on one") || errors.contains("worker1 on two"), "{errors}");

    // More memory than it may have; and somebody who deletes a pod.
    let eats =
        "[ $RANK = 0 ] || exec sleep 600; exec python3 -c 'x = bytearray(300 << 20); import time; time.sleep(60)'";
    let child = lab.start(&["-n", "2", "--memory", "64M", "--no-master", "--grace", "2", "--", "sh", "-c", eats]);
    lab.ends(child, 137, &["worker0 on ", "memory"]);
    let mut child = lab.start(&[
        "-n",
        "2",
        "--no-master",
        "--grace",
        "2",
        "--",
        "sh",
        "-c",
        "touch /mnt/there$RANK; exec sleep 600",
    ]);
    lab.until_there("there0", &mut child);
    lab.until_there("there1", &mut child);
    let run = until(LONG, "the run in `shoal ps`", || lab.run_id());
    let which =
        format!("--selector=batch.kubernetes.io/job-name=run-{run}-worker,batch.kubernetes.io/job-completion-index=1");
    lab.kubectl.text(&["delete", "pods", "--namespace", &lab.space, "--wait=false", &which]);
    lab.ends(child, 255, &["worker1 on ", "was deleted by somebody else"]);
}

#[test]
fn a_gang_that_does_not_fit_does_not_begin() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "fits");
    // Two nodes with two GPUs each.
    let script = "touch /mnt/begun; exec sleep 600";
    let child = lab.start(&["-n", "5", "--gpus", "1", "--wait", "20", "--", "sh", "-c", script]);
    lab.ends(child, 126, &["not all pods of the gang were up within 20 s", "Insufficient nvidia.com/gpu"]);
    assert!(!lab.volume.join("begun").exists(), "a rank has begun");
    // Nor does it wait when somebody has enough of it.
    let child = lab.start(&["-n", "5", "--gpus", "1", "--", "sh", "-c", script]);
    until(LONG, "its Jobs", || (lab.jobs().len() == 2).then_some(()));
    interrupt(&child);
    lab.ends(child, 130, &["stopped on request"]);
    let child = lab.start(&["-n", "9", "--", "true"]);
    lab.ends(child, 2, &["9 workers"]);
    let child = lab.start(&["--detach", "--", "true"]);
    lab.ends(child, 2, &["--detach is for hosts"]);
}

#[test]
fn ctrl_c_leaves_nothing_and_a_launcher_that_is_killed_nothing_alive() {
    let Some(plane) = plane() else { return };
    let lab = Lab::new(plane, "ctrl-c");
    let script = "trap 'touch /mnt/told$RANK; exit 0' TERM; touch /mnt/up$RANK; while :; do sleep 0.1; done";
    let mut child = lab.start(&["-n", "2", "--", "sh", "-c", script]);
    lab.until_there("up0", &mut child);
    lab.until_there("up1", &mut child);
    interrupt(&child);
    lab.ends(child, 130, &["stopped on request"]);
    assert!(lab.volume.join("told0").exists() && lab.volume.join("told1").exists());

    for file in ["up0", "up1", "told0", "told1"] {
        let _ = std::fs::remove_file(lab.volume.join(file));
    }
    let mut command = lab.command(&["run", "-f", "lab.yaml", "-n", "2", "--", "sh", "-c", script]);
    let mut child = command
        .env("SHOAL_GANG_SILENCE_MS", "4000")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("shoal runs");
    lab.until_there("up0", &mut child);
    lab.until_there("up1", &mut child);
    child.kill().expect("killed");
    child.wait().expect("gone");
    // Each finds by itself that nobody follows it, and is asked to end first.
    until(LONG, "the end of both", || {
        (lab.volume.join("told0").exists() && lab.volume.join("told1").exists()).then_some(())
    });
    until(LONG, "the end of all pods", || {
        let pods = lab.kubectl.json(&["get", "pods", "--namespace", &lab.space]);
        let over = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        pods["items"].as_array().is_some_and(|pods| pods.iter().all(over)).then_some(())
    });
    // Whoever deletes one thing deletes all of it.
    let job = lab
        .jobs()
        .iter()
        .find_map(|job| job["metadata"]["name"].as_str().filter(|name| name.ends_with("worker")).map(String::from));
    lab.kubectl.text(&["delete", "job", &job.expect("the workers' Job"), "--namespace", &lab.space]);
    until(LONG, "an empty namespace", || lab.objects().is_empty().then_some(()));
}

#[test]
fn a_dry_run_shows_the_objects_and_not_the_token() {
    let desk = Desk::new();
    desk.file(
        "lab.yaml",
        "pools:\n  - {name: cloud, slots: 8, kubernetes: {namespace: lab, image: here, volumes: [{claim: data, at: /mnt, here: /hot}]}}\n",
    );
    let shown =
        desk.says(&["run", "-f", "lab.yaml", "-n", "2", "--servers", "1", "--dry-run", "--", "python", "train.py"]);
    for words in [
        "kind: Job",
        "kind: Service",
        "kind: Secret",
        "token: \"***\"",
        "clusterIP: None",
        "python train.py",
        "completions: 2",
    ] {
        assert!(shown.contains(words), "`{words}` is not shown:\n{shown}");
    }
}
