//! `shoal k8s doctor` on clusters that are well and on some that are not.

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{Namespace, example, example_text, plane};
use serde_json::Value;

fn red(out: &Value) -> Vec<String> {
    let findings = out["findings"].as_array().expect("findings");
    let red = findings.iter().filter(|one| one["level"] == "red");
    red.filter_map(|one| one["what"].as_str()).map(String::from).collect()
}

#[test]
fn what_is_missing_is_named_before_it_hurts() {
    let Some(plane) = plane() else { return };
    let here = Namespace::new(plane, "doctor");
    let template = example("multi-seed-template.yaml");
    let well = here.shoal(&["doctor", "-f", &template]).expect(0, &[]);
    for words in
        ["ok  rights", "`doctor` is there", "`l2r-persistent-claim` is bound (20Gi)", "phortx1 is ready: 8 GPUs"]
    {
        assert!(well.text.contains(words), "`{words}` is not said:\n{}", well.text);
    }
    here.kubectl.text(&["create", "quota", "small", "--hard=pods=0", "--namespace=doctor"]);
    let claim = example_text("multi-seed-template.yaml").replace("claimName: l2r-persistent-claim", "claimName: l2r");
    let claim = here.write("template.yaml", &claim);
    let ill = here.shoal(&["doctor", "-f", &claim, "--json"]).expect(1, &[]).json();
    assert_eq!(red(&ill), ["there is no claim `l2r`"]);
    assert!(ill.to_string().contains("`small`: 0 of 0 pods are used"), "{ill:#}");

    // Somebody who may only look at Jobs: each right that is missing is named, and what may not be asked is said to be unknown.
    here.kubectl.text(&["create", "role", "look", "--verb=list,watch", "--resource=jobs.batch", "--namespace=doctor"]);
    here.kubectl.text(&["create", "rolebinding", "look", "--role=look", "--user=eve", "--namespace=doctor"]);
    let eve = plane.user("eve", "doctor").expect("a user");
    let ill = here.shoal_as(&eve, &["doctor", "--json"]).expect(1, &[]).json();
    let wanted = ["list pods", "watch pods", "create jobs.batch", "patch jobs.batch", "delete jobs.batch"];
    let missing = red(&ill);
    for right in wanted {
        assert!(missing.contains(&format!("you may not {right}")), "{right}: {missing:?}");
    }
    assert!(!missing.iter().any(|one| one.contains("list jobs.batch")), "{missing:?}");
    assert!(ill.to_string().contains("nodes may not be looked at"), "{ill:#}");
}
