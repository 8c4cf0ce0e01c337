//! How are the runs of a launch, all together, and is there anything left to wait for?

use super::names;
use super::state::{self, Seen, State};
use super::template::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One run, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub object: String,
    pub kind: Kind,
    pub seed: Option<String>,
    pub node: Option<String>,
    pub gpu: Option<String>,
    pub save_path: Option<String>,
    pub pod: Option<String>,
    pub state: State,
    pub why: Option<String>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Started,
    Finished,
}

/// What the server has of a launch.
#[derive(Debug, Default)]
pub struct Seeing<'v> {
    pub made: Vec<(Kind, &'v Value)>,
    pub pods: Vec<&'v Value>,
    /// What controllers said that could not make a pod, by the id of what they made it for.
    pub refused: BTreeMap<&'v str, &'v str>,
}

/// One row for each of `names`, or for all that is there where no names are given.
pub fn rows(seeing: &Seeing, names: Option<&[(Kind, &str)]>) -> Vec<Row> {
    let mut pods: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in &seeing.pods {
        pods.entry(pod["metadata"]["labels"][names::RUN].as_str().unwrap_or_default()).or_default().push(pod);
    }
    let made: BTreeMap<(Kind, &str), &Value> =
        seeing.made.iter().map(|(kind, object)| ((*kind, text(object, "name").unwrap_or_default()), *object)).collect();
    let all: Vec<(Kind, &str)> = match names {
        Some(names) => names.to_vec(),
        None => made.keys().copied().collect(),
    };
    let none = Vec::new();
    all.into_iter()
        .map(|(kind, name)| {
            let object = made.get(&(kind, name)).copied();
            let pods = pods.get(name).unwrap_or(&none);
            row(kind, name, object, pods, object.and_then(|o| seeing.refused.get(text(o, "uid")?)).copied())
        })
        .collect()
}

fn row(kind: Kind, name: &str, object: Option<&Value>, pods: &[&Value], refused: Option<&str>) -> Row {
    let seen = match (object, kind) {
        (None, _) => {
            let why = "somebody deleted it; launching again makes it anew".to_string();
            Seen { state: State::Gone, why: Some(why) }
        }
        (Some(pod), Kind::Pod) => state::of_pod(pod),
        (Some(object), _) => state::of(object, pods, refused),
    };
    let fact = |name: &str| object.and_then(|o| o["metadata"]["annotations"][name].as_str()).map(String::from);
    let pod = match kind {
        Kind::Pod => object.map(|_| name.to_string()),
        _ => pods
            .iter()
            .max_by_key(|pod| text(pod, "creationTimestamp"))
            .and_then(|pod| text(pod, "name"))
            .map(Into::into),
    };
    Row {
        object: name.into(),
        kind,
        seed: fact(names::SEED),
        node: fact(names::NODE),
        gpu: fact(names::GPU),
        save_path: fact(names::SAVE_PATH),
        pod,
        state: seen.state,
        why: seen.why,
    }
}

fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object["metadata"][field].as_str()
}

/// Whether nothing will change by itself any more. What is stuck may start when others have ended, so it counts as an end only where
/// nobody is left whose end could help.
pub fn is_settled(rows: &[Row], goal: Goal) -> bool {
    rows.iter().all(|row| match goal {
        Goal::Started => !matches!(row.state, State::Waiting | State::Starting),
        Goal::Finished => !matches!(row.state, State::Waiting | State::Starting | State::Running),
    })
}

pub fn is_reached(rows: &[Row], goal: Goal) -> bool {
    rows.iter().all(|row| match goal {
        Goal::Started => row.state.has_started(),
        Goal::Finished => row.state.is_over(),
    })
}

/// `12 runs: 8 running, 4 finished`.
pub fn count(rows: &[Row]) -> String {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for row in rows {
        *states.entry(row.state).or_default() += 1;
    }
    let parts: Vec<String> = states.iter().rev().map(|(state, count)| format!("{count} {}", state.word())).collect();
    let total = super::summary::count(rows.len(), "run");
    if parts.is_empty() { total } else { format!("{total}: {}", parts.join(", ")) }
}

/// Why runs do not run, each reason once, with the runs it holds for.
pub fn reasons(rows: &[Row]) -> Vec<String> {
    let mut groups: BTreeMap<(State, &str), Vec<&str>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !matches!(row.state, State::Running | State::Finished)) {
        let why = row.why.as_deref().unwrap_or("nothing is known yet");
        groups.entry((row.state, why)).or_default().push(&row.object);
    }
    groups.into_iter().map(|((state, why), names)| format!("{}: {}: {why}", some(&names), state.word())).collect()
}

/// The first of many names, and how many more.
pub fn some(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub fn json(rows: &[Row]) -> Value {
    let one = |row: &Row| {
        json!({
            "object": row.object, "kind": row.kind.word(), "seed": row.seed.as_deref().and_then(|s| s.parse::<u64>().ok()),
            "node": row.node, "gpu": row.gpu, "save_path": row.save_path, "pod": row.pod,
            "state": row.state.word(), "why": row.why,
        })
    };
    rows.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stuck_is_an_end_only_when_nobody_else_can_help() {
        let job = |name: &str| json!({"metadata": {"name": name, "uid": format!("u-{name}")}});
        let pod = |run: &str, phase: &str| json!({"metadata": {"name": format!("{run}-x"), "labels": {names::RUN: run}}, "status": {"phase": phase}});
        let (a, b, running) = (job("a"), job("b"), pod("a", "Running"));
        let mut seeing =
            Seeing { made: vec![(Kind::Job, &a), (Kind::Job, &b)], pods: vec![&running], ..Seeing::default() };
        let names = [(Kind::Job, "a"), (Kind::Job, "b"), (Kind::Job, "c")];
        assert!(!is_settled(&rows(&seeing, Some(&names[..2])), Goal::Started), "b may still come");
        seeing.refused.insert("u-b", "exceeded quota");
        let now = rows(&seeing, Some(&names));
        assert_eq!(count(&now), "3 runs: 1 running, 1 stuck, 1 gone");
        assert!(is_settled(&now, Goal::Started) && !is_reached(&now, Goal::Started));
        assert!(!is_settled(&now, Goal::Finished), "a's end may make room for b");
        let reasons = reasons(&now);
        assert!(reasons.len() == 2 && reasons[0].starts_with("c: gone") && reasons[1].contains("quota"), "{reasons:?}");
        assert_eq!(now[0].pod.as_deref(), Some("a-x"));
        assert_eq!(rows(&seeing, None).len(), 2);
    }
}
