//! How is a run, by what the server has of its Job and its pods?

use crate::kubernetes::state::{self, State};
use crate::queue::work::Ending;
use serde_json::Value;

use super::NOT_BEGUN;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Not yet, and why, for `shoal why`.
    Waits(String),
    /// The same: no node takes its pod.
    Unplaced(String),
    /// Something has to be done about it: an image that is not there, a container that cannot be made.
    Stuck(String),
    Runs,
    /// The server has been asked to take the pod away, and where it is.
    Leaves {
        node: Option<String>,
    },
    Over(Ending),
}

impl Stage {
    /// Whether it is the same state, in whatever words: messages alternate, and name other numbers each time.
    pub fn is_like(&self, other: &Stage) -> bool {
        match (self, other) {
            (Stage::Over(one), Stage::Over(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

const DELETED: &str = "its pod was deleted by somebody else";

/// `job`: as the server has it; none: it is not there any more. `pods`: those of the run's index. `refused`: what the controller said when it could
/// not make one.
pub fn of(job: Option<&Value>, index: usize, pods: &[&Value], refused: Option<&str>) -> Stage {
    match (once(job, index, pods, refused), youngest(pods), job) {
        // The controller makes another pod, unless the Job is on its way out.
        (Stage::Over(Ending::Lost { why, .. }), Some(pod), Some(job))
            if is_disrupted(pod) && job["metadata"]["deletionTimestamp"].is_null() =>
        {
            Stage::Waits(format!("{why}; it begins anew"))
        }
        (stage, ..) => stage,
    }
}

/// The youngest says how it is now; those before it were evicted.
fn youngest<'v>(pods: &[&'v Value]) -> Option<&'v Value> {
    pods.iter().copied().max_by_key(|pod| {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
        (text("creationTimestamp"), text("name"))
    })
}

/// The same of an index that has one pod and never another.
pub fn once(job: Option<&Value>, index: usize, pods: &[&Value], refused: Option<&str>) -> Stage {
    match (job, youngest(pods).map(of_pod)) {
        (Some(_), Some(stage)) => stage,
        (None, Some(Stage::Over(ending))) if ending != Ending::lost(DELETED) => Stage::Over(ending),
        (None, Some(stage @ Stage::Leaves { .. })) => stage,
        (None, _) => lost("its Job was deleted by somebody else".into()),
        (Some(job), None) if has_index(&job["status"]["failedIndexes"], index) => lost(DELETED.into()),
        (Some(job), None) if has_index(&job["status"]["completedIndexes"], index) => Stage::Over(Ending::Exited(0)),
        (Some(job), None) => {
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            let why = refused.map_or_else(
                || format!("`kubectl describe job/{name}` says if a quota or a right is missing"),
                String::from,
            );
            Stage::Waits(format!("its pod is not made yet: {why}"))
        }
    }
}

/// Why a pod that still lives is on its way out, and on which node it is.
pub fn leaving(pod: &Value) -> Option<String> {
    let node = pod["spec"]["nodeName"].as_str().map_or_else(String::new, |node| format!(" on {node}"));
    let disrupted = condition(pod, "DisruptionTarget", "True").map(|_| match failed(pod) {
        Ending::Lost { why, .. } => why,
        _ => format!("its pod was evicted{node}"),
    });
    let deleted = || {
        let is = !pod["metadata"]["deletionTimestamp"].is_null();
        is.then(|| format!("its pod{node} was deleted by somebody else"))
    };
    disrupted.or_else(deleted)
}

fn lost(why: String) -> Stage {
    Stage::Over(Ending::lost(why))
}

fn of_pod(pod: &Value) -> Stage {
    let status = &pod["status"];
    match status["phase"].as_str() {
        Some("Succeeded") => return Stage::Over(Ending::Exited(0)),
        Some("Failed") => {
            return match failed(pod) {
                // Told to end by somebody, and not by us: else nobody would ask.
                Ending::Exited(_) | Ending::Signaled(_) if is_deleted(pod) => lost(DELETED.into()),
                ending => Stage::Over(ending),
            };
        }
        _ => {}
    }
    if is_deleted(pod) {
        return Stage::Leaves { node: pod["spec"]["nodeName"].as_str().map(Into::into) };
    }
    let seen = state::of_pod(pod);
    match (seen.state, seen.why) {
        (State::Running, _) => Stage::Runs,
        // A node may come free: that is the scheduler's business.
        (State::Stuck, _) if is_unscheduled(pod) => {
            Stage::Unplaced(format!("no node takes its pod: {}", scheduler(pod)))
        }
        (State::Stuck, Some(why)) => Stage::Stuck(why),
        (_, why) => {
            Stage::Waits(format!("its pod is starting{}", why.map(|why| format!(" ({why})")).unwrap_or_default()))
        }
    }
}

fn is_deleted(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn condition<'v>(pod: &'v Value, kind: &str, status: &str) -> Option<&'v Value> {
    pod["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind && one["status"] == status)
}

fn is_disrupted(pod: &Value) -> bool {
    condition(pod, "DisruptionTarget", "True").is_some()
}

fn is_unscheduled(pod: &Value) -> bool {
    condition(pod, "PodScheduled", "False").is_some()
}

fn scheduler(pod: &Value) -> String {
    let message = condition(pod, "PodScheduled", "False").and_then(|one| one["message"].as_str());
    message.unwrap_or("the scheduler does not say why").trim_end_matches('.').into()
}

/// In the queue's own words. What is not the program's fault costs no retry.
fn failed(pod: &Value) -> Ending {
    let node = pod["spec"]["nodeName"].as_str().map_or_else(String::new, |node| format!(" on {node}"));
    let said = |value: &Value, key: &str| value[key].as_str().filter(|text| !text.is_empty()).map(String::from);
    if let Some(disrupted) = condition(pod, "DisruptionTarget", "True") {
        let why = said(disrupted, "message").or_else(|| said(disrupted, "reason")).unwrap_or_default();
        let what = if said(disrupted, "reason").is_some_and(|reason| reason.contains("Taint")) {
            "its node is gone"
        } else {
            "its pod was evicted"
        };
        return Ending::lost(format!("{what}{node}: {why}"));
    }
    let reason = said(&pod["status"], "reason").unwrap_or_default();
    if reason == "DeadlineExceeded" {
        return Ending::TimeLimit;
    }
    let ended = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let ended = ended.map(|container| &container["state"]["terminated"]).find(|end| end.is_object());
    match ended {
        Some(end) if end["reason"] == "OOMKilled" => Ending::OutOfMemory,
        Some(end) => match end["exitCode"].as_i64().unwrap_or(-1) {
            NOT_BEGUN => Ending::NotStarted {
                why: "its folder on the pool's volume cannot be used in the pod; is `here` the same volume, and may the queue's user write there?".into(),
            },
            code => of_code(code),
        },
        None => {
            let message = said(&pod["status"], "message").unwrap_or_default();
            Ending::lost(format!("its pod failed{node}: {reason} {message}").trim_end())
        }
    }
}

/// Of a shell: what died by a signal has 128 and its number.
pub fn of_code(code: i64) -> Ending {
    match code {
        129..=159 => Ending::Signaled((code - 128) as i32),
        code => Ending::Exited(i32::try_from(code).unwrap_or(-1)),
    }
}

/// `1,3-5,7`, as Jobs list indexes.
fn has_index(list: &Value, index: usize) -> bool {
    list.as_str().unwrap_or_default().split(',').any(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        matches!((low.trim().parse::<usize>(), high.trim().parse::<usize>()), (Ok(low), Ok(high)) if (low..=high).contains(&index))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(phase: &str, more: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"}, "status": {"phase": phase}});
        for (key, value) in more.as_object().into_iter().flatten() {
            pod["status"][key] = value.clone();
        }
        pod
    }

    fn ended(state: Value) -> Value {
        json!({"containerStatuses": [{"image": "i:1", "state": state}]})
    }

    #[test]
    fn what_the_server_says_becomes_an_end_of_the_queue() {
        let job = json!({"metadata": {"name": "j"}, "status": {"failedIndexes": "1,4-6", "completedIndexes": "2"}});
        let exit = |code: i64| pod("Failed", ended(json!({"terminated": {"exitCode": code, "reason": "Error"}})));
        let disrupted = |reason: &str| {
            pod(
                "Failed",
                json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "taken"}]}),
            )
        };
        let over = |ending: Ending| Stage::Over(ending);
        let lost = |why: &str| over(Ending::lost(why));
        // Its program ended because its pod was told to: that is nobody's failure, and the end of a Job that is gone.
        let mut told = exit(143);
        told["metadata"]["deletionTimestamp"] = "now".into();
        let oom = pod("Failed", ended(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})));
        for (job, index, pods, wanted) in [
            (Some(&job), 0, vec![pod("Succeeded", json!({}))], over(Ending::Exited(0))),
            (Some(&job), 0, vec![exit(3)], over(Ending::Exited(3))),
            (Some(&job), 0, vec![exit(139)], over(Ending::Signaled(11))),
            (Some(&job), 0, vec![told.clone()], lost(DELETED)),
            (None, 0, vec![told], lost("its Job was deleted by somebody else")),
            (Some(&job), 0, vec![oom], over(Ending::OutOfMemory)),
            (Some(&job), 0, vec![pod("Failed", json!({"reason": "DeadlineExceeded"}))], over(Ending::TimeLimit)),
            (
                Some(&job),
                0,
                vec![disrupted("EvictionByEvictionAPI")],
                Stage::Waits("its pod was evicted on n1: taken; it begins anew".into()),
            ),
            (None, 0, vec![disrupted("DeletionByTaintManager")], lost("its node is gone on n1: taken")),
            (None, 0, vec![], lost("its Job was deleted by somebody else")),
            (None, 0, vec![pod("Running", json!({}))], lost("its Job was deleted by somebody else")),
            (Some(&job), 5, vec![], lost("its pod was deleted by somebody else")),
            (Some(&job), 2, vec![], over(Ending::Exited(0))),
            (Some(&job), 0, vec![pod("Running", json!({}))], Stage::Runs),
            (
                Some(&job),
                0,
                vec![pod("Failed", json!({"reason": "OutOfcpu", "message": "m"}))],
                lost("its pod failed on n1: OutOfcpu m"),
            ),
        ] {
            let pods: Vec<&Value> = pods.iter().collect();
            assert_eq!(of(job, index, &pods, None), wanted);
        }
        assert!(matches!(of(Some(&job), 0, &[&exit(125)], None), Stage::Over(Ending::NotStarted { .. })));
    }

    #[test]
    fn what_keeps_a_pod_from_starting_is_said() {
        let job = json!({"metadata": {"name": "j"}});
        let unscheduled = pod(
            "Pending",
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available."}]}),
        );
        let image = pod("Pending", ended(json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})));
        assert_eq!(
            of(Some(&job), 0, &[&unscheduled], None),
            Stage::Unplaced("no node takes its pod: 0/3 nodes are available".into())
        );
        let Stage::Stuck(why) = of(Some(&job), 0, &[&image], None) else { panic!("not stuck") };
        assert!(why.contains("image i:1 cannot be had"), "{why}");
        let pulling = pod("Pending", ended(json!({"waiting": {"reason": "ErrImagePull", "message": "401"}})));
        let (one, other) = (of(Some(&job), 0, &[&image], None), of(Some(&job), 0, &[&pulling], None));
        assert!(one != other && one.is_like(&other), "stuck is stuck");
        assert!(!one.is_like(&Stage::Runs) && !Stage::Waits("a".into()).is_like(&Stage::Unplaced("a".into())));
        assert!(!Stage::Over(Ending::Exited(0)).is_like(&Stage::Over(Ending::Exited(1))));
        let Stage::Waits(why) = of(Some(&job), 0, &[], None) else { panic!("not waiting") };
        assert!(why.contains("kubectl describe job/j"), "{why}");
        let Stage::Waits(why) = of(Some(&job), 0, &[], Some("exceeded quota: q")) else { panic!("not waiting") };
        assert_eq!(why, "its pod is not made yet: exceeded quota: q");
        let mut leaving = pod("Running", json!({}));
        leaving["metadata"]["deletionTimestamp"] = "now".into();
        assert_eq!(of(Some(&job), 0, &[&leaving], None), Stage::Leaves { node: Some("n1".into()) });
        // The youngest counts.
        let mut second = pod("Running", json!({}));
        second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
        let first = pod("Failed", json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}));
        assert_eq!(of(Some(&job), 0, &[&second, &first], None), Stage::Runs);
    }
}
