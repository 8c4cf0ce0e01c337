//! Why is an object that was deleted still there?

use serde_json::Value;

/// What is known of the node that a pod is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Ready,
    NotReady,
    Gone,
    Unknown,
}

pub fn why_left(object: &Value, node: NodeState) -> String {
    let metadata = &object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        return "it is not being deleted: somebody made it again, or the deletion was not taken".into();
    }
    let name = object["spec"]["nodeName"].as_str().unwrap_or_default();
    match node {
        NodeState::Gone => {
            return format!(
                "its node {name} is gone, and nobody can say that it has ended; `--force` takes it off the list"
            );
        }
        NodeState::NotReady => {
            return format!(
                "its node {name} does not answer; it may still run there. Have the node repaired, or take it off the list with `--force`"
            );
        }
        NodeState::Ready | NodeState::Unknown => {}
    }
    let finalizers: Vec<&str> =
        metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !finalizers.is_empty() {
        return format!(
            "it waits for its finalizers: {}; whoever set them has to take them off",
            finalizers.join(", ")
        );
    }
    let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    format!("it has {grace} s to end after the signal; wait, or destroy with a shorter `--grace`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_says_why() {
        let going = |more: Value| json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": more, "deletionGracePeriodSeconds": 30}, "spec": {"nodeName": "n1"}});
        for (object, node, says) in [
            (json!({"metadata": {}}), NodeState::Ready, "not being deleted"),
            (going(json!(["lab/keep"])), NodeState::Ready, "lab/keep"),
            (going(json!([])), NodeState::Ready, "30 s"),
            (going(json!([])), NodeState::Gone, "n1 is gone"),
            (going(json!([])), NodeState::NotReady, "n1 does not answer"),
        ] {
            assert!(why_left(&object, node).contains(says), "{says}");
        }
    }
}
