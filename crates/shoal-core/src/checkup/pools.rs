//! What does a cluster say about a part of it that is to take runs?

use super::{Check, Finding, HostReport};
use crate::fleet::pool::{Gpus, Pool, Share};
use crate::kubernetes::checkup::{Facts, Right};
use crate::kubernetes::helper;
use serde_json::Value;

/// What the queue needs, then what files and shells need, then what only explains.
const NEEDED: [Right; 8] = [
    ("list", "batch", "jobs"),
    ("watch", "batch", "jobs"),
    ("create", "batch", "jobs"),
    ("patch", "batch", "jobs"),
    ("delete", "batch", "jobs"),
    ("list", "", "pods"),
    ("watch", "", "pods"),
    ("get", "batch", "jobs"),
];
const USEFUL: [Right; 5] = [
    ("delete", "", "pods"),
    ("create", "", "pods/exec"),
    ("get", "", "pods/exec"),
    ("get", "", "persistentvolumeclaims"),
    ("list", "", "events"),
];

pub fn rights() -> Vec<Right> {
    NEEDED.into_iter().chain(USEFUL).collect()
}

/// What was tried with a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    /// Why the pod does not run, and what to do; none: it ran.
    pub fault: Option<(String, String)>,
    /// Whether a file that was made `here` was there in the pod; none: it could not be made, or not be looked for.
    pub same: Option<bool>,
}

/// What this machine says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Here {
    /// Whether the folder where the carrier is seen is there.
    pub is_there: bool,
    pub tried: Option<Tried>,
}

pub fn unreached(pool: &Pool, what: &str, hint: &str) -> HostReport {
    let mut report = blank(pool);
    report.add(Finding::red(Check::Cluster, "no", what, hint));
    report.fill(&CHECKS, "not looked at, because of what is red");
    report
}

/// What is looked at of pools alone.
pub const CHECKS: [Check; 8] = [
    Check::Cluster,
    Check::Namespace,
    Check::Rights,
    Check::Quota,
    Check::Volume,
    Check::Here,
    Check::Image,
    Check::Nodes,
];

fn blank(pool: &Pool) -> HostReport {
    let address = pool.kubernetes.context.clone().unwrap_or_else(|| "the current context".into());
    HostReport { name: pool.name.clone(), address, findings: Vec::new(), facts: None }
}

pub fn judge(pool: &Pool, facts: &Facts, here: &Here) -> HostReport {
    let mut report = blank(pool);
    report.address.clone_from(&facts.server);
    let text = format!("{} answers, version {}", facts.server, facts.version);
    report.add(Finding::green(Check::Cluster, &facts.version, text));
    report.add(match facts.saw_namespace {
        true => Finding::green(Check::Namespace, &facts.namespace, format!("`{}` is there", facts.namespace)),
        false => Finding::unknown(Check::Namespace, format!("whether `{}` is there may not be asked", facts.namespace)),
    });
    report.add(may(facts));
    report.add(quota(facts));
    report.add(volume(pool, facts));
    report.add(seen_here(pool, here));
    report.add(image(pool, here));
    report.add(nodes(pool, facts));
    report
}

fn may(facts: &Facts) -> Finding {
    let named = |(verb, group, resource): &Right| match *group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {resource}.{group}"),
    };
    let missing = facts.missing.iter().map(named).collect::<Vec<_>>().join(", ");
    let cell = format!("{} missing", facts.missing.len());
    let hint = "ask whoever runs the cluster for a role in the namespace that has them";
    if facts.missing.iter().any(|right| NEEDED.contains(right)) {
        return Finding::red(Check::Rights, cell, format!("you may not {missing}"), hint);
    }
    if facts.missing.is_empty() {
        return Finding::green(Check::Rights, "all", "sweeps, files and shells are allowed");
    }
    let text = format!("sweeps are allowed; for files of the volume, shells and reasons you may not {missing}");
    Finding::yellow(Check::Rights, cell, text, hint)
}

fn quota(facts: &Facts) -> Finding {
    let Some(quotas) = &facts.quotas else { return Finding::unknown(Check::Quota, "quotas may not be looked at") };
    let mut full = Vec::new();
    let mut all = 0;
    for quota in quotas {
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        for (of, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
            let (hard, used) = (hard.as_str().unwrap_or_default(), quota["status"]["used"][of].as_str().unwrap_or("0"));
            all += 1;
            if used == hard {
                full.push(format!("`{name}`: {used} of {hard} {of} are used"));
            }
        }
    }
    match (all, full.len()) {
        (0, _) => Finding::green(Check::Quota, "none", "none is set"),
        (_, 0) => Finding::green(Check::Quota, "free", "nothing of it is used up"),
        _ => {
            let hint = "what is over it waits until others are done, or until it is raised";
            Finding::yellow(Check::Quota, "full", full.join("; "), hint)
        }
    }
}

fn volume(pool: &Pool, facts: &Facts) -> Finding {
    let Some(claims) = &facts.claims else {
        return Finding::unknown(Check::Volume, "volume claims may not be looked at");
    };
    let place = |name: &str| {
        let volume = pool.kubernetes.volumes.iter().find(|volume| volume.claim == name);
        volume.map_or("", |volume| volume.at.as_str()).to_string()
    };
    let mut said = Vec::new();
    let mut cell = String::new();
    for (name, claim) in claims {
        if let Some((what, hint)) = helper::claim_fault(name, claim) {
            return Finding::red(Check::Volume, "missing", what, hint);
        }
        if helper::is_unbound(claim) {
            let hint = "some classes bind only when the first pod comes; otherwise there is no volume for it";
            return Finding::yellow(Check::Volume, "unbound", format!("`{name}` is not bound yet"), hint);
        }
        let size = claim["status"]["capacity"]["storage"].as_str().unwrap_or("unknown size");
        cell = format!("bound {size}");
        said.push(format!("`{name}` is bound ({size}), at {}", place(name)));
    }
    Finding::green(Check::Volume, cell, said.join("; "))
}

fn seen_here(pool: &Pool, here: &Here) -> Finding {
    let Some((volume, path)) = pool.carrier() else {
        return Finding::unknown(Check::Here, "no volume of the pool is seen by this machine");
    };
    let claim = &volume.claim;
    if !here.is_there {
        let what = format!("{path} is not there, where the claim `{claim}` is to be seen");
        let hint = "mount the same volume on the machine that runs `shoal serve`, or correct `here`";
        return Finding::red(Check::Here, "missing", what, hint);
    }
    match here.tried.as_ref().and_then(|tried| tried.same) {
        Some(true) => {
            Finding::green(Check::Here, "same", format!("{path} and the claim `{claim}` are the same volume"))
        }
        Some(false) => {
            let what = format!("a file made at {path} is not at {} in a pod: they are two volumes", volume.at);
            let hint =
                "code would not get to pods, nor results back: correct `here`, or mount the claim's volume there";
            Finding::red(Check::Here, "other", what, hint)
        }
        None => {
            Finding::green(Check::Here, "there", format!("{path} is there; with --pods it is compared with the claim"))
        }
    }
}

fn image(pool: &Pool, here: &Here) -> Finding {
    let image = &pool.kubernetes.image;
    match &here.tried {
        None => Finding::unknown(Check::Image, "with --pods a pod is started with it"),
        Some(Tried { fault: None, .. }) => Finding::green(Check::Image, "runs", format!("{image} runs")),
        Some(Tried { fault: Some((what, hint)), .. }) => Finding::red(Check::Image, "no", what, hint),
    }
}

fn nodes(pool: &Pool, facts: &Facts) -> Finding {
    let Some(nodes) = &facts.nodes else { return Finding::unknown(Check::Nodes, "nodes may not be looked at") };
    let kubernetes = &pool.kubernetes;
    let label = |node: &Value, key: &str| node["metadata"]["labels"][key].as_str().map(String::from);
    let name = |node: &Value| {
        let hostname = label(node, "kubernetes.io/hostname");
        hostname.unwrap_or_else(|| node["metadata"]["name"].as_str().unwrap_or_default().into())
    };
    let is_meant = |node: &&Value| {
        (kubernetes.nodes.is_empty() || kubernetes.nodes.contains(&name(node)))
            && kubernetes.labels.iter().all(|(key, value)| label(node, key).as_ref() == Some(value))
    };
    let takes = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        is_ready && node["spec"]["unschedulable"] != true
    };
    let meant: Vec<&Value> = nodes.iter().filter(is_meant).collect();
    let ready: Vec<&Value> = meant.iter().copied().filter(|node| takes(node)).collect();
    let offered = |resource: &str| -> u64 {
        let of = |node: &&Value| node["status"]["allocatable"][resource].as_str()?.parse::<u64>().ok();
        ready.iter().filter_map(of).sum()
    };
    let absent: Vec<&str> = kubernetes
        .nodes
        .iter()
        .filter(|wanted| !nodes.iter().any(|node| name(node) == **wanted))
        .map(String::as_str)
        .collect();
    let hint =
        "`nodes` and `labels` of the pool say which are meant; `kubectl get nodes --show-labels` shows those there are";
    if !absent.is_empty() {
        return Finding::red(Check::Nodes, "missing", format!("the cluster has no node {}", absent.join(", ")), hint);
    }
    if ready.is_empty() {
        let what = match meant.len() {
            0 => "no node has what the pool asks for".to_string(),
            n => format!("none of its {n} nodes is ready and takes pods"),
        };
        return Finding::red(Check::Nodes, "none", what, hint);
    }
    let resource = kubernetes.gpus.as_ref().map_or(crate::fleet::pool::GPU_RESOURCE, |gpus| gpus.resource.as_str());
    let gpus = offered(resource);
    let count = match meant.len() - ready.len() {
        0 => format!("{} ready", ready.len()),
        _ => format!("{} of {} ready", ready.len(), meant.len()),
    };
    let cell = if gpus > 0 { format!("{count}, {gpus} GPUs") } else { count.clone() };
    let text = format!("{count}; they offer {gpus} of {resource}");
    match &kubernetes.gpus {
        Some(Gpus { share, count, runs, .. }) if *share != Share::Pinned => {
            let wanted = u64::from(*count) * if *share == Share::Whole { 1 } else { u64::from(*runs) };
            if gpus >= wanted {
                return Finding::green(Check::Nodes, cell, text);
            }
            let what = format!("{text}, and the pool counts on {wanted}");
            let hint = "correct `count`, `runs` and `share` of the pool's `gpus`, or pin GPUs where the cluster has no device plugin";
            if gpus == 0 {
                Finding::red(Check::Nodes, cell, what, hint)
            } else {
                Finding::yellow(Check::Nodes, cell, what, hint)
            }
        }
        _ if ready.len() < meant.len() => {
            Finding::yellow(Check::Nodes, cell, text, "runs go to the others; `kubectl get nodes` shows which are not")
        }
        _ => Finding::green(Check::Nodes, cell, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkup::Level;
    use serde_json::json;

    fn pool(more: &str) -> Pool {
        let text = format!(
            "pools:\n  - name: phoebe\n    slots: 12\n    kubernetes:\n      image: i:1\n      volumes: [{{claim: c, at: /mnt, here: /hot}}]\n{more}"
        );
        crate::fleet::read("lab.yaml", &text).expect("a pool").fleet.pools.remove(0)
    }

    fn node(name: &str, ready: &str, gpus: u32) -> Value {
        json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": {
            "allocatable": {"nvidia.com/gpu": gpus.to_string()}, "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn facts() -> Facts {
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "20Gi"}}});
        Facts {
            server: "https://a".into(),
            version: "v1.34".into(),
            namespace: "l2r".into(),
            saw_namespace: true,
            missing: Vec::new(),
            quotas: Some(Vec::new()),
            claims: Some(vec![("c".into(), bound)]),
            nodes: Some(vec![node("n1", "True", 8), node("n2", "False", 8)]),
        }
    }

    #[track_caller]
    fn says(more: &str, facts: &Facts, here: &Here, check: Check, level: Level, words: &str) {
        let report = judge(&pool(more), facts, here);
        let found = report.finding(check).expect("a finding");
        assert_eq!(found.level, level, "{found:?}");
        assert!(format!("{} {}", found.cell, found.text).contains(words), "{found:?}");
    }

    #[test]
    fn each_fact_has_its_finding() {
        let here = Here { is_there: true, tried: None };
        let gone = Here::default();
        let tried = |fault: Option<(String, String)>, same| Here { is_there: true, tried: Some(Tried { fault, same }) };
        use Level::{Green, Red, Unknown, Yellow};
        says("", &facts(), &here, Check::Rights, Green, "all");
        let but = |change: &dyn Fn(&mut Facts)| {
            let mut facts = facts();
            change(&mut facts);
            facts
        };
        let bad = but(&|f| f.missing = vec![("create", "batch", "jobs"), ("create", "", "pods/exec")]);
        says("", &bad, &here, Check::Rights, Red, "2 missing you may not create jobs.batch, create pods/exec");
        let some = but(&|f| f.missing = vec![("create", "", "pods/exec")]);
        says("", &some, &here, Check::Rights, Yellow, "sweeps are allowed");
        let quota = json!({"metadata": {"name": "q"}, "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}});
        says("", &but(&|f| f.quotas = Some(vec![quota.clone()])), &here, Check::Quota, Yellow, "4 of 4 pods");
        says("", &facts(), &here, Check::Volume, Green, "bound 20Gi");
        says(
            "",
            &but(&|f| f.claims = Some(vec![("c".into(), Value::Null)])),
            &here,
            Check::Volume,
            Red,
            "no persistent",
        );
        says("", &but(&|f| f.claims = None), &here, Check::Volume, Unknown, "may not");
        says("", &facts(), &here, Check::Here, Green, "there");
        says("", &facts(), &gone, Check::Here, Red, "/hot is not there");
        says("", &facts(), &tried(None, Some(true)), Check::Here, Green, "same");
        says("", &facts(), &tried(None, Some(false)), Check::Here, Red, "two volumes");
        says("", &facts(), &here, Check::Image, Unknown, "--pods");
        says("", &facts(), &tried(None, None), Check::Image, Green, "i:1 runs");
        says("", &facts(), &tried(Some(("no".into(), "h".into())), None), Check::Image, Red, "no");
        says("", &facts(), &here, Check::Nodes, Yellow, "1 of 2 ready, 8 GPUs");
        says("      nodes: [n1]\n", &facts(), &here, Check::Nodes, Green, "1 ready, 8 GPUs");
        says("      nodes: [n2]\n", &facts(), &here, Check::Nodes, Red, "none of its 1 nodes");
        says("      nodes: [n3]\n", &facts(), &here, Check::Nodes, Red, "no node n3");
        says("      labels: {a: b}\n", &facts(), &here, Check::Nodes, Red, "no node has");
        says("      gpus: {count: 9}\n", &facts(), &here, Check::Nodes, Yellow, "counts on 9");
        let none = but(&|f| f.nodes = Some(vec![node("n1", "True", 0)]));
        says("      gpus: {count: 1}\n", &none, &here, Check::Nodes, Red, "counts on 1");
    }

    #[test]
    fn what_is_not_reached_is_red_once() {
        let report = unreached(&pool(""), "no way", "look");
        assert!(report.is_pool());
        assert_eq!(report.findings.iter().filter(|one| one.level == Level::Red).count(), 1);
        assert_eq!(report.findings.len(), CHECKS.len());
    }
}
