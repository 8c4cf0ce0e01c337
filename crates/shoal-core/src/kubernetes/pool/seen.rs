//! How is a run, by what the server has of its Job and its pods?

use crate::kubernetes::state::{self, State};
use crate::queue::work::Ending;
use serde_json::Value;

use super::NOT_BEGUN;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Not yet, and why, for `shoal why`.
    Waits(String),
    /// Something has to be done about it: an image that is not there, a container that cannot be made.
    Stuck(String),
    Runs,
    /// The server has been asked to take the pod away, and where it is.
    Leaves {
        node: Option<String>,
    },
    Over(Ending),
}

/// `job`: as the server has it; none: it is not there any more. `pods`: those of the run's index.
pub fn of(job: Option<&Value>, index: usize, pods: &[&Value]) -> Stage {
    // The youngest says how it is now; those before it were evicted.
    let youngest = pods.iter().max_by_key(|pod| {
        let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
        (text("creationTimestamp"), text("name"))
    });
    let Some(job) = job else {
        return match youngest.map(|pod| of_pod(pod)) {
            Some(Stage::Over(ending)) => Stage::Over(ending),
            Some(Stage::Leaves { node }) => Stage::Leaves { node },
            _ => lost("its Job was deleted by somebody else".into()),
        };
    };
    match youngest {
        Some(pod) => match of_pod(pod) {
            // The controller makes another pod, unless the Job is on its way out.
            Stage::Over(Ending::Lost { why, .. })
                if is_disrupted(pod) && job["metadata"]["deletionTimestamp"].is_null() =>
            {
                Stage::Waits(format!("{why}; it begins anew"))
            }
            stage => stage,
        },
        None if has_index(&job["status"]["failedIndexes"], index) => {
            lost("its pod was deleted by somebody else".into())
        }
        None if has_index(&job["status"]["completedIndexes"], index) => Stage::Over(Ending::Exited(0)),
        None => {
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            Stage::Waits(format!(
                "its pod is not made yet; `kubectl describe job/{name}` says if a quota or a right is missing"
            ))
        }
    }
}

fn lost(why: String) -> Stage {
    Stage::Over(Ending::lost(why))
}

fn of_pod(pod: &Value) -> Stage {
    let status = &pod["status"];
    match status["phase"].as_str() {
        Some("Succeeded") => return Stage::Over(Ending::Exited(0)),
        Some("Failed") => return Stage::Over(failed(pod)),
        _ => {}
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Stage::Leaves { node: pod["spec"]["nodeName"].as_str().map(Into::into) };
    }
    let seen = state::of_pod(pod);
    match (seen.state, seen.why) {
        (State::Running, _) => Stage::Runs,
        // A node may come free: that is the scheduler's business.
        (State::Stuck, _) if is_unscheduled(pod) => Stage::Waits(format!("no node takes its pod: {}", scheduler(pod))),
        (State::Stuck, Some(why)) => Stage::Stuck(why),
        (_, why) => {
            Stage::Waits(format!("its pod is starting{}", why.map(|why| format!(" ({why})")).unwrap_or_default()))
        }
    }
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
        let oom = pod("Failed", ended(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})));
        for (job, index, pods, wanted) in [
            (Some(&job), 0, vec![pod("Succeeded", json!({}))], over(Ending::Exited(0))),
            (Some(&job), 0, vec![exit(3)], over(Ending::Exited(3))),
            (Some(&job), 0, vec![exit(139)], over(Ending::Signaled(11))),
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
            assert_eq!(of(job, index, &pods), wanted);
        }
        assert!(matches!(of(Some(&job), 0, &[&exit(125)]), Stage::Over(Ending::NotStarted { .. })));
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
            of(Some(&job), 0, &[&unscheduled]),
            Stage::Waits("no node takes its pod: 0/3 nodes are available".into())
        );
        let Stage::Stuck(why) = of(Some(&job), 0, &[&image]) else { panic!("not stuck") };
        assert!(why.contains("image i:1 cannot be had"), "{why}");
        let Stage::Waits(why) = of(Some(&job), 0, &[]) else { panic!("not waiting") };
        assert!(why.contains("kubectl describe job/j"), "{why}");
        let mut leaving = pod("Running", json!({}));
        leaving["metadata"]["deletionTimestamp"] = "now".into();
        assert_eq!(of(Some(&job), 0, &[&leaving]), Stage::Leaves { node: Some("n1".into()) });
        // The youngest counts.
        let mut second = pod("Running", json!({}));
        second["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z".into();
        let first = pod("Failed", json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}));
        assert_eq!(of(Some(&job), 0, &[&second, &first]), Stage::Runs);
    }
}
