//! Will a launch work on this cluster? From what the server says to findings, each with what to do about it.

use super::template::{PLUGIN, Template};
use crate::checkup::Level;
use serde::Serialize;
use serde_json::Value;

/// Verb, group and resource.
pub type Right = (&'static str, &'static str, &'static str);

/// What is asked before it hurts: the verbs that `launch`, `status` and `destroy` need, by group and resource.
pub const RIGHTS: [Right; 19] = [
    ("list", "", "pods"),
    ("watch", "", "pods"),
    ("delete", "", "pods"),
    ("list", "batch", "jobs"),
    ("watch", "batch", "jobs"),
    ("create", "batch", "jobs"),
    ("patch", "batch", "jobs"),
    ("delete", "batch", "jobs"),
    ("list", "apps", "replicasets"),
    ("watch", "apps", "replicasets"),
    ("create", "apps", "replicasets"),
    ("patch", "apps", "replicasets"),
    ("delete", "apps", "replicasets"),
    ("list", "apps", "deployments"),
    ("watch", "apps", "deployments"),
    ("create", "apps", "deployments"),
    ("patch", "apps", "deployments"),
    ("delete", "apps", "deployments"),
    ("list", "", "events"),
];

/// What a server said; `None`: it does not let us ask.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub server: String,
    pub version: String,
    pub namespace: String,
    /// Whether the namespace could be asked for by name.
    pub saw_namespace: bool,
    /// Those that were asked for and are not granted.
    pub missing: Vec<Right>,
    pub quotas: Option<Vec<Value>>,
    /// The volume claims of the template, by name; a claim that is not there is null.
    pub claims: Option<Vec<(String, Value)>>,
    pub nodes: Option<Vec<Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub level: Level,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

fn finding(check: &'static str, level: Level, what: impl Into<String>, hint: Option<&str>) -> Finding {
    Finding { check, level, what: what.into(), hint: hint.map(Into::into) }
}

pub fn judge(facts: &Facts, template: Option<&Template>) -> Vec<Finding> {
    let mut found =
        vec![finding("server", Level::Green, format!("{} answers, version {}", facts.server, facts.version), None)];
    found.push(match facts.saw_namespace {
        true => finding("namespace", Level::Green, format!("`{}` is there", facts.namespace), None),
        false => finding(
            "namespace",
            Level::Unknown,
            format!("whether `{}` is there may not be asked", facts.namespace),
            None,
        ),
    });
    found.extend(rights(facts));
    found.extend(quotas(facts));
    found.extend(claims(facts, template));
    found.extend(nodes(facts, template));
    found
}

fn rights(facts: &Facts) -> Vec<Finding> {
    if facts.missing.is_empty() {
        return vec![finding("rights", Level::Green, "launch, status and destroy are allowed", None)];
    }
    let each = facts.missing.iter().map(|(verb, group, resource)| {
        let of = if group.is_empty() { String::new() } else { format!(".{group}") };
        // What is only needed to keep a kind, to shorten a grace or to explain more does not keep Jobs from running and from being destroyed.
        let looks = ["list", "watch"].contains(verb);
        let only_some = *resource == "events" || (!looks && *resource != "jobs");
        let level = if only_some { Level::Yellow } else { Level::Red };
        let hint = "ask whoever runs the cluster for a role in the namespace that has it";
        finding("rights", level, format!("you may not {verb} {resource}{of}"), Some(hint))
    });
    each.collect()
}

fn quotas(facts: &Facts) -> Vec<Finding> {
    let Some(quotas) = &facts.quotas else {
        return vec![finding("quota", Level::Unknown, "quotas may not be looked at", None)];
    };
    let mut found = Vec::new();
    for quota in quotas {
        let name = quota["metadata"]["name"].as_str().unwrap_or_default();
        for (of, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
            let hard = hard.as_str().unwrap_or_default();
            let used = quota["status"]["used"][of].as_str().unwrap_or("0");
            let what = format!("`{name}`: {used} of {hard} {of} are used");
            found.push(match used == hard {
                true => finding(
                    "quota",
                    Level::Yellow,
                    what,
                    Some("what is over it waits until others are done, or until it is raised"),
                ),
                false => finding("quota", Level::Green, what, None),
            });
        }
    }
    if found.is_empty() { vec![finding("quota", Level::Green, "none is set", None)] } else { found }
}

fn claims(facts: &Facts, template: Option<&Template>) -> Vec<Finding> {
    match (&facts.claims, template) {
        (_, None) => Vec::new(),
        (None, _) => vec![finding("volume", Level::Unknown, "volume claims may not be looked at", None)],
        (Some(claims), Some(_)) if claims.is_empty() => {
            let hint = "what runs write goes with their pods; mount a persistentVolumeClaim";
            vec![finding("volume", Level::Yellow, "the template mounts no volume claim", Some(hint))]
        }
        (Some(claims), Some(_)) => claims.iter().map(|(name, claim)| of_claim(name, claim)).collect(),
    }
}

fn of_claim(name: &str, claim: &Value) -> Finding {
    match claim["status"]["phase"].as_str() {
        _ if claim.is_null() => {
            let hint = "check `claimName` in the template; `kubectl get pvc` shows those there are";
            finding("volume", Level::Red, format!("there is no claim `{name}`"), Some(hint))
        }
        Some("Bound") => {
            let size = claim["status"]["capacity"]["storage"].as_str().unwrap_or("unknown size");
            finding("volume", Level::Green, format!("`{name}` is bound ({size})"), None)
        }
        Some("Lost") => {
            finding("volume", Level::Red, format!("`{name}` has lost its volume"), Some("ask whoever runs the cluster"))
        }
        _ => {
            let hint = "some classes bind only when the first pod comes; otherwise there is no volume for it";
            finding("volume", Level::Yellow, format!("`{name}` is not bound yet"), Some(hint))
        }
    }
}

fn nodes(facts: &Facts, template: Option<&Template>) -> Vec<Finding> {
    let Some(nodes) = &facts.nodes else {
        return vec![finding("nodes", Level::Unknown, "nodes may not be looked at", None)];
    };
    let mut found = Vec::new();
    for node in nodes {
        let name = node["metadata"]["labels"]["kubernetes.io/hostname"].as_str().or(node["metadata"]["name"].as_str());
        let name = name.unwrap_or_default();
        let gpus = node["status"]["allocatable"][PLUGIN].as_str().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        let offers = match gpus {
            0 => "no GPUs by the device plugin".to_string(),
            gpus => super::summary::count(gpus as usize, "GPU") + " by the device plugin",
        };
        found.push(match (ready, node["spec"]["unschedulable"] == true) {
            (true, false) => finding("nodes", Level::Green, format!("{name} is ready: {offers}"), None),
            (true, true) => {
                finding("nodes", Level::Yellow, format!("{name} takes no new pods"), Some("it was cordoned"))
            }
            (false, _) => {
                finding("nodes", Level::Yellow, format!("{name} is not ready"), Some("leave it out of the runs"))
            }
        });
    }
    let can_be_asked = nodes.iter().any(|node| !node["status"]["allocatable"][PLUGIN].is_null());
    if template.is_some_and(|template| template.asks_gpus.is_some()) && !can_be_asked {
        let hint = "pin GPUs with `gpu:` in the runs instead, and leave `nvidia.com/gpu` out of the template";
        found.push(finding(
            "nodes",
            Level::Red,
            "the template asks for nvidia.com/gpu, which no node offers",
            Some(hint),
        ));
    }
    found
}

/// One line a finding: `ok`, `?`, `!` or `!!`, and what to do below it.
pub fn text(findings: &[Finding]) -> String {
    let line = |one: &Finding| {
        let mark = match one.level {
            Level::Green => "ok",
            Level::Unknown => "?",
            Level::Yellow => "!",
            Level::Red => "!!",
        };
        let hint = one.hint.as_ref().map_or_else(String::new, |hint| format!("{:14}hint: {hint}\n", ""));
        format!("{mark:<2}  {:<9} {}\n{hint}", one.check, one.what)
    };
    findings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_fact_has_its_finding() {
        let node = |ready: &str| json!({"metadata": {"name": "n1"}, "status": {"allocatable": {PLUGIN: "8"}, "conditions": [{"type": "Ready", "status": ready}]}});
        let quota = json!({"metadata": {"name": "q"}, "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}});
        let facts = Facts {
            missing: vec![("patch", "batch", "jobs"), ("list", "", "events")],
            quotas: Some(vec![quota]),
            nodes: Some(vec![node("True"), node("Unknown")]),
            ..Facts::default()
        };
        let found = judge(&facts, None);
        let has = |level: Level, words: &str| found.iter().any(|one| one.level == level && one.what.contains(words));
        assert!(has(Level::Red, "may not patch jobs.batch") && has(Level::Yellow, "may not list events"), "{found:?}");
        assert!(has(Level::Yellow, "4 of 4 pods") && has(Level::Green, "8 GPUs") && has(Level::Yellow, "not ready"));
        for (claim, level) in [
            (Value::Null, Level::Red),
            (json!({"status": {"phase": "Bound"}}), Level::Green),
            (json!({"status": {"phase": "Pending"}}), Level::Yellow),
            (json!({"status": {"phase": "Lost"}}), Level::Red),
        ] {
            assert_eq!(of_claim("data", &claim).level, level, "{claim}");
        }
        assert!(text(&found).contains("!!  rights    you may not patch jobs.batch\n"), "{}", text(&found));
    }
}
