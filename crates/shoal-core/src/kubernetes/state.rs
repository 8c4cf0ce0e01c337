//! How is a run, by what the server has of it?

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Somebody deleted its object.
    Gone,
    /// Its pod does not start, and something has to be done about it.
    Stuck,
    Failed,
    Waiting,
    Starting,
    Running,
    Finished,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Gone => "gone",
            State::Stuck => "stuck",
            State::Failed => "failed",
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::Finished => "finished",
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self, State::Failed | State::Finished)
    }

    /// It runs or has run: nothing keeps it from starting.
    pub fn has_started(self) -> bool {
        self.is_over() || self == State::Running
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub state: State,
    /// Why, and what to do, where there is something to say.
    pub why: Option<String>,
}

fn seen(state: State, why: impl Into<Option<String>>) -> Seen {
    Seen { state, why: why.into() }
}

/// `made`: the object of the run. `refused`: what the controller said when it could not make a pod.
pub fn of(made: &Value, pods: &[&Value], refused: Option<&str>) -> Seen {
    if let Some(failed) = condition(made, "Failed") {
        let exit = pods.iter().find_map(|pod| ended(pod));
        return seen(State::Failed, exit.or_else(|| text(failed, "message")));
    }
    if condition(made, "Complete").is_some() {
        return seen(State::Finished, None);
    }
    // The youngest says how it is now; the others were tries.
    let youngest = pods.iter().max_by_key(|pod| text(&pod["metadata"], "creationTimestamp"));
    match youngest {
        // What made it has not given up: another pod follows, or it says so in a moment.
        Some(pod) if of_pod(pod).state == State::Failed => {
            let how = ended(pod).or_else(|| text(&pod["status"], "message"));
            let how = how.map(|how| format!(" ({how})")).unwrap_or_default();
            seen(State::Starting, format!("its last pod failed{how}; another is to follow"))
        }
        Some(pod) => of_pod(pod),
        None => match refused.map(String::from).or_else(|| text(condition(made, "ReplicaFailure")?, "message")) {
            Some(why) if why.contains("exceeded quota") => {
                let help = "ask for less, wait until others are done, or have the namespace's quota raised";
                seen(State::Stuck, format!("{why}; {help}"))
            }
            Some(why) => seen(State::Stuck, why),
            None => seen(State::Waiting, "its pod is not made yet".to_string()),
        },
    }
}

pub fn of_pod(pod: &Value) -> Seen {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => return seen(State::Finished, None),
        Some("Failed") => return seen(State::Failed, ended(pod).or_else(|| text(&pod["status"], "message"))),
        _ => {}
    }
    if let Some(unscheduled) = condition_is(pod, "PodScheduled", "False") {
        let why = text(unscheduled, "message").unwrap_or_else(|| "no node was found for it".into());
        let help = "`shoal k8s status` shows when one is; check `node`, taints and what it requests";
        return seen(State::Stuck, format!("no node takes it: {why}; {help}"));
    }
    let containers = || pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    for container in containers() {
        let waiting = &container["state"]["waiting"];
        let image = container["image"].as_str().unwrap_or("its image");
        let message = text(waiting, "message").unwrap_or_default();
        match waiting["reason"].as_str() {
            Some("ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull") => {
                let help = "check the name and tag, that it was pushed, and the namespace's imagePullSecrets";
                return seen(State::Stuck, format!("image {image} cannot be had: {message}; {help}"));
            }
            Some(
                reason @ ("CrashLoopBackOff"
                | "CreateContainerConfigError"
                | "CreateContainerError"
                | "RunContainerError"),
            ) => {
                return seen(State::Stuck, format!("{reason}: {message}; `kubectl logs` and `describe` say more"));
            }
            _ => {}
        }
    }
    match pod["status"]["phase"].as_str() {
        Some("Running") => seen(State::Running, None),
        _ => seen(State::Starting, containers().find_map(|c| text(&c["state"]["waiting"], "reason"))),
    }
}

/// How a pod's container ended badly.
fn ended(pod: &Value) -> Option<String> {
    let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let ends = containers.map(|container| &container["state"]["terminated"]);
    let code = |end: &Value| end["exitCode"].as_i64().filter(|code| *code != 0);
    ends.filter_map(|end| Some((code(end)?, end))).next().map(|(code, end)| match end["reason"].as_str() {
        Some("OOMKilled") => "out of memory: give it a higher limit, or the GPU fewer runs".into(),
        _ => format!("exit code {code}"),
    })
}

fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    condition_is(object, kind, "True")
}

fn condition_is<'v>(object: &'v Value, kind: &str, status: &str) -> Option<&'v Value> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|one| one["type"] == kind && one["status"] == status)
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().filter(|text| !text.is_empty()).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_says_has_a_word_and_a_reason() {
        let job = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "message": "m"}]}});
        let pod = |phase: &str, state: Value| json!({"status": {"phase": phase, "containerStatuses": [{"image": "x:1", "state": state}]}});
        let unscheduled = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}});
        let exit = pod("Failed", json!({"terminated": {"exitCode": 3, "reason": "Error"}}));
        let oom = pod("Failed", json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}));
        let image = pod("Pending", json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}));
        let nothing = json!({});
        for (made, pod, refused, state, says) in [
            (&job("Complete"), None, None, State::Finished, ""),
            (&job("Failed"), Some(&exit), None, State::Failed, "exit code 3"),
            (&job("Failed"), Some(&oom), None, State::Failed, "out of memory"),
            (&job("Failed"), None, None, State::Failed, "m"),
            (&nothing, Some(&unscheduled), None, State::Stuck, "0/3 nodes are available"),
            (&nothing, Some(&image), None, State::Stuck, "image x:1 cannot be had"),
            (&nothing, None, Some("pods is forbidden: exceeded quota: q"), State::Stuck, "quota raised"),
            (&nothing, None, None, State::Waiting, "not made yet"),
            (&nothing, Some(&exit), None, State::Starting, "failed (exit code 3); another is to follow"),
            (&nothing, Some(&pod("Running", json!({"running": {}}))), None, State::Running, ""),
        ] {
            let seen = of(made, &pod.into_iter().collect::<Vec<_>>(), refused);
            assert_eq!(seen.state, state, "{seen:?}");
            assert!(seen.why.unwrap_or_default().contains(says), "{says}");
        }
    }
}
