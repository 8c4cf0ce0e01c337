//! `shoal doctor` on a fleet with pools: hosts and pools in one table.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{CLAIM, Namespace, Out, SHOAL, out_of, plane};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn doctor(here: &Namespace, kubeconfig: &Path, args: &[&str]) -> Out {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "240", SHOAL, "doctor"]).args(args);
    command.env("HOME", here.folder.path()).env("KUBECONFIG", kubeconfig).env("COLUMNS", "160");
    out_of(command.env("SHOAL_HELPER_IDLE_S", "10").stdin(Stdio::null()))
}

fn pool(name: &str, namespace: &str, image: &str, claim: &str, here: &Path) -> String {
    let here = here.display();
    format!(
        "  - name: {name}\n    slots: 4\n    kubernetes:\n      namespace: {namespace}\n      image: {image}\n      volumes: [{{claim: {claim}, at: /mnt, here: {here}}}]\n"
    )
}

/// Level and text of what was found out.
#[track_caller]
fn found(report: &Value, name: &str, check: &str) -> (String, String) {
    let host = report["hosts"].as_array().into_iter().flatten().find(|host| host["name"] == name).expect("a report");
    let finding = host["findings"].as_array().into_iter().flatten().find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("no {check}: {host:#}"));
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_string();
    (text("level"), text("text"))
}

#[test]
fn pools_are_in_the_table_and_what_is_missing_is_named() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "checks");
    let (volume, other) = (here.volume.clone(), here.folder.path().to_path_buf());
    let admin = plane.kubeconfig();
    let text = format!("hosts: [localhost]\npools:\n{}", pool("phoebe", "checks", "here", CLAIM, &volume));
    let file = here.write("lab.yaml", &text);
    let well = doctor(&here, &admin, &[&file]);
    for words in ["localhost", "phoebe", "cluster", "bound 20Gi", "2 ready, 16 GPUs", "1 host, 1 pool"] {
        assert!(well.text.contains(words), "`{words}` is not said:\n{}\n{}", well.text, well.errors);
    }

    // With a pod: the image, and whether both see one volume.
    let pools = [
        pool("phoebe", "checks", "here", CLAIM, &volume),
        pool("elsewhere", "checks", "here", CLAIM, &other),
        pool("unpulled", "checks", "missing/image:1", CLAIM, &volume),
        pool("unclaimed", "checks", "here", "nothing", &volume),
    ];
    let file = here.write("pools.yaml", &format!("pools:\n{}", pools.concat()));
    let report = doctor(&here, &admin, &[&file, "--pods", "--json"]).expect(1, &[]).json();
    let level = |name: &str, check: &str| found(&report, name, check).0;
    assert_eq!(level("phoebe", "here"), "green", "{report:#}");
    assert_eq!(level("phoebe", "image"), "green");
    assert!(found(&report, "phoebe", "here").1.contains("same volume"));
    assert_eq!(level("elsewhere", "here"), "red");
    assert_eq!(level("unpulled", "image"), "red");
    assert!(found(&report, "unpulled", "image").1.contains("image missing/image:1 cannot be had"));
    assert_eq!(level("unclaimed", "volume"), "red");
    assert_eq!(std::fs::read_dir(&volume).expect("the volume").count(), 1, "a mark is left on the volume");
    here.assert_empty();

    // Somebody who may only look at Jobs: each right is named.
    here.kubectl.text(&["create", "role", "look", "--verb=list,watch", "--resource=jobs.batch", "--namespace=checks"]);
    here.kubectl.text(&["create", "rolebinding", "look", "--role=look", "--user=eve", "--namespace=checks"]);
    let eve = plane.user("eve", "checks").expect("a user");
    let file = here.write("one.yaml", &format!("pools:\n{}", pool("phoebe", "checks", "here", CLAIM, &volume)));
    let report = doctor(&here, &eve, &[&file, "--json"]).expect(1, &[]).json();
    let (level, text) = found(&report, "phoebe", "rights");
    assert_eq!(level, "red");
    for right in ["create jobs.batch", "patch jobs.batch", "delete jobs.batch", "list pods", "create pods/exec"] {
        assert!(text.contains(right), "{right}: {text}");
    }
    assert!(!text.contains("list jobs.batch"), "{text}");
    assert_eq!(found(&report, "phoebe", "nodes").0, "unknown");

    // Nobody there.
    let nowhere = here.write(
        "nowhere.kubeconfig",
        &std::fs::read_to_string(&admin).expect("it").replace(&plane.url(), "https://127.0.0.1:9"),
    );
    let report = doctor(&here, Path::new(&nowhere), &[&file, "--json"]).expect(1, &[]).json();
    assert!(found(&report, "phoebe", "cluster").1.contains("nobody listens there"), "{report:#}");
}
