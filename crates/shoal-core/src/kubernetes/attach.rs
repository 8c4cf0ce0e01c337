//! Which pod is a run's, and what is executed there for somebody who attaches to it? They find the run's folder, environment and virtualenv.

use super::pool::job::RUNS;
use super::pool::seen::{self, Stage};
use serde_json::Value;

/// The first line of scripts that know `attach` as their first word: then they execute the words behind it where their program runs, and nothing
/// else. Those of earlier versions would begin anew.
pub const ATTACHABLE: &str = "# shoal: `attach CMD` executes CMD in here";

/// In its `$0` is the script of the run, which is there when it has begun.
const ATTACH: &str = r#"first=
[ -r "$0" ] && read -r first <"$0"
[ "$first" = '# shoal: `attach CMD` executes CMD in here' ] && exec /bin/sh "$0" attach "$@"
cd /proc/1/cwd 2>/dev/null && cd "$(pwd -P)"
exec "$@"
"#;
/// The best shell there is.
const SHELL: &str = "command -v bash >/dev/null 2>&1 && exec bash; exec /bin/sh";
/// In its `$0` is the kind of terminal.
const IN_TERMINAL: &str = "export TERM=\"$0\"; exec \"$@\"";

/// What is executed: the command, or a shell. `terminal`: its kind, if there is one.
pub fn words(script: &str, command: &[String], terminal: Option<&str>) -> Vec<String> {
    let text = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let mut all = text(&["/bin/sh", "-c", ATTACH, script]);
    if let Some(kind) = terminal {
        all.extend(text(&["/bin/sh", "-c", IN_TERMINAL, kind]));
    }
    match command {
        [] => all.extend(text(&["/bin/sh", "-c", SHELL])),
        command => all.extend_from_slice(command),
    }
    all
}

/// Which Job of a pool has a run of a sweep, and at which index: its own name, with the attempt, is in the Job.
pub fn seat<'v>(jobs: impl IntoIterator<Item = &'v Value>, name: &str) -> Option<(&'v Value, usize)> {
    jobs.into_iter().find_map(|job| {
        let names = job["metadata"]["annotations"][RUNS].as_str()?;
        let names: Vec<String> = serde_json::from_str(names).ok()?;
        Some((job, names.iter().position(|one| one == name)?))
    })
}

/// How far the pod of a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pod {
    /// Its name.
    Runs(String),
    /// It is on its way, or nobody has said yet that it runs.
    Waits(String),
    Never(String),
}

pub fn pod(job: &Value, index: usize, pods: &[&Value]) -> Pod {
    let of_job = job["metadata"]["name"].as_str().unwrap_or_default();
    let label = |pod: &Value, key: &str| pod["metadata"]["labels"][key].as_str().unwrap_or_default().to_string();
    let is_its = |pod: &&&Value| {
        label(pod, "batch.kubernetes.io/job-name") == of_job
            && label(pod, "batch.kubernetes.io/job-completion-index") == index.to_string()
    };
    let its: Vec<&Value> = pods.iter().filter(is_its).copied().collect();
    match seen::of(Some(job), index, &its, None) {
        Stage::Runs => {
            let runs = its.iter().find(|pod| seen::of(Some(job), index, &[pod], None) == Stage::Runs);
            Pod::Runs(runs.and_then(|pod| pod["metadata"]["name"].as_str()).unwrap_or_default().into())
        }
        Stage::Waits(why) | Stage::Unplaced(why) | Stage::Stuck(why) => Pod::Waits(why),
        Stage::Leaves { .. } => Pod::Never("its pod is being taken away".into()),
        Stage::Over(_) => Pod::Never("its pod has ended".into()),
    }
}

/// The script that a pod of a sweep, or of a gang, executes: where it is, the Job says. A gang's pod has another for its rank.
pub fn script(job: &Value, index: usize, of_gang: bool) -> String {
    let command = &job["spec"]["template"]["spec"]["containers"][0]["command"];
    let at = command[3].as_str().unwrap_or_default();
    match of_gang {
        false => format!("{at}/{index}"),
        // The master has no number.
        true if command[2].as_str().is_some_and(|line| line.contains("JOB_COMPLETION_INDEX")) => {
            format!("{at}{index}/{}", super::gang::PROGRAM)
        }
        true => format!("{at}/{}", super::gang::PROGRAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job() -> Value {
        json!({
            "metadata": {"name": "six-ab", "annotations": {RUNS: r#"["six_0.0_1","six_1.0_2"]"#}},
            "spec": {"template": {"spec": {"containers": [{"command": ["/bin/sh", "-c", "exec /bin/sh \"$0/$JOB_COMPLETION_INDEX\"", "/hot/t"]}]}}},
        })
    }

    fn pod_of(index: &str, phase: &str) -> Value {
        let labels =
            json!({"batch.kubernetes.io/job-name": "six-ab", "batch.kubernetes.io/job-completion-index": index});
        json!({"metadata": {"name": format!("six-ab-{index}"), "labels": labels}, "status": {"phase": phase,
            "containerStatuses": [{"image": "i", "state": {"running": {}}}]}})
    }

    #[test]
    fn a_run_is_found_by_its_name_and_attempt() {
        let jobs = [job()];
        let (job, index) = seat(&jobs, "six_1.0_2").expect("a seat");
        assert_eq!((index, script(job, index, false).as_str()), (1, "/hot/t/1"));
        assert!(seat(&jobs, "six_1.0_1").is_none());
        let pods = [pod_of("0", "Pending"), pod_of("1", "Running")];
        assert_eq!(pod(job, 1, &pods.iter().collect::<Vec<_>>()), Pod::Runs("six-ab-1".into()));
        assert!(matches!(pod(job, 1, &[&pods[0]]), Pod::Waits(why) if why.contains("not made yet")));
        let mut leaves = pod_of("1", "Running");
        leaves["metadata"]["deletionTimestamp"] = "now".into();
        assert_eq!(pod(job, 1, &[&leaves]), Pod::Never("its pod is being taken away".into()));
        assert_eq!(pod(job, 1, &[&pod_of("1", "Succeeded")]), Pod::Never("its pod has ended".into()));
    }

    #[test]
    fn the_scripts_of_a_gang_are_its_ranks() {
        let of = |line: &str, at: &str| json!({"spec": {"template": {"spec": {"containers": [{"command": ["/bin/sh", "-c", line, at]}]}}}});
        let worker = of("exec /bin/sh \"$0$JOB_COMPLETION_INDEX/sh\"", "/g/worker");
        assert_eq!(script(&worker, 2, true), "/g/worker2/run");
        assert_eq!(script(&of("exec /bin/sh \"$0/sh\"", "/g/master"), 0, true), "/g/master/run");
    }

    #[test]
    fn the_line_is_known_to_the_shell_that_looks_for_it() {
        assert!(ATTACH.contains(&format!("'{ATTACHABLE}'")));
    }
}
