//! What do the objects that are there already mean for a launch?
//!
//! Nothing is ever overwritten: an object that is there is either exactly what is asked for, and stays, or the launch is refused as a whole.

use super::difference;
use super::names;
use super::plan::{Object, Plan};
use super::state::{self, State};
use super::template::Kind;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object of the namespace, as the server has it.
#[derive(Debug, Clone)]
pub struct There {
    pub kind: Kind,
    pub object: Value,
}

#[derive(Debug, Default)]
pub struct Meeting<'p> {
    /// To be applied.
    pub new: Vec<&'p Object>,
    /// There as asked for.
    pub there: Vec<&'p Object>,
    pub notes: Vec<String>,
}

/// Differences of one object that are shown.
const MOST_DIFFERENCES: usize = 5;

impl There {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn launch(&self) -> Option<&str> {
        let labels = &self.object["metadata"]["labels"];
        (labels[names::MANAGED_BY] == names::MANAGER).then(|| labels[names::LAUNCH].as_str())?
    }

    /// Not made by another object of ours.
    pub fn is_root(&self) -> bool {
        self.object["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
    }

    fn fact(&self, annotation: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][annotation].as_str()
    }

    fn is_over(&self) -> bool {
        let state = match self.kind {
            Kind::Pod => state::of_pod(&self.object).state,
            _ => state::of(&self.object, &[], None).state,
        };
        matches!(state, State::Failed | State::Finished)
    }
}

/// `there`: all objects of the namespace that bear our label, and any others of the plan's kind.
pub fn meet<'p>(plan: &'p Plan, there: &[There]) -> Result<Meeting<'p>, Vec<String>> {
    let roots: Vec<&There> = there.iter().filter(|there| there.is_root()).collect();
    let by_name: BTreeMap<(Kind, &str), &There> = roots.iter().map(|root| ((root.kind, root.name()), *root)).collect();
    let mut meeting = Meeting::default();
    let mut refusals = Vec::new();
    for object in &plan.objects {
        match by_name.get(&(object.kind, object.name.as_str())) {
            None => meeting.new.push(object),
            Some(root) => match refusal(plan, object, root) {
                Some(refusal) => refusals.push(refusal),
                None => meeting.there.push(object),
            },
        }
    }
    let others: Vec<&There> = roots
        .iter()
        .filter(|root| root.launch().is_some())
        .filter(|root| !plan.objects.iter().any(|object| object.kind == root.kind && object.name == root.name()))
        .copied()
        .collect();
    if !plan.share_save_path {
        refusals.extend(meeting.new.iter().filter_map(|object| shared(object, &others)));
    }
    refusals.extend(crowded(plan, &others));
    let beside = others.iter().filter(|root| root.launch() == Some(&plan.launch)).count();
    if beside > 0 {
        meeting.notes.push(format!(
            "{} more of launch `{}` are there that the files do not name; they stay",
            super::summary::count(beside, "object"),
            plan.launch
        ));
    }
    if refusals.is_empty() { Ok(meeting) } else { Err(refusals) }
}

fn refusal(plan: &Plan, object: &Object, root: &There) -> Option<String> {
    let called = format!("{} `{}`", object.kind.word(), object.name);
    if root.launch() != Some(&plan.launch) {
        let whose = root.launch().map_or_else(|| "not made by shoal".into(), |launch| format!("of launch `{launch}`"));
        return Some(format!("{called} is there already and is {whose}; launch under another --name"));
    }
    if !root.object["metadata"]["deletionTimestamp"].is_null() {
        return Some(format!(
            "{called} is still being destroyed; wait until `shoal k8s destroy` says that nothing is left"
        ));
    }
    let asked = &object.manifest["metadata"]["annotations"][names::APPLIED];
    let before = root.fact(names::APPLIED);
    if before == asked.as_str() {
        return None;
    }
    let read = |text: Option<&str>| text.and_then(|text| serde_json::from_str::<Value>(text).ok()).unwrap_or_default();
    let differences = difference::between(&read(before), &read(asked.as_str()));
    let shown: Vec<String> = differences.iter().take(MOST_DIFFERENCES).map(|one| format!("\n    {one}")).collect();
    let more = differences.len().saturating_sub(MOST_DIFFERENCES);
    let more = if more > 0 { format!("\n    and {more} more") } else { String::new() };
    Some(format!("{called} is there already, and was asked for differently:{}{more}", shown.concat()))
}

fn shared(object: &Object, others: &[&There]) -> Option<String> {
    let path = object.run.save_path.as_deref()?;
    let other = others.iter().find(|other| other.fact(names::SAVE_PATH) == Some(path))?;
    Some(format!(
        "`{}` would save to {path}, where `{}` of launch `{}` saves; change `save_path`, or say `share_save_path: true`",
        object.name,
        other.name(),
        other.launch().unwrap_or_default()
    ))
}

/// GPUs that would hold more than `per_gpu` allows, with what other launches run there.
fn crowded(plan: &Plan, others: &[&There]) -> Vec<String> {
    let Some(most) = plan.per_gpu else { return Vec::new() };
    let mut wanted: BTreeMap<(Option<&str>, &str), u64> = BTreeMap::new();
    for run in plan.objects.iter().map(|object| &object.run) {
        if let Some(gpu) = &run.gpu {
            *wanted.entry((run.node.as_deref(), gpu)).or_default() += 1;
        }
    }
    let mut said = Vec::new();
    for ((node, gpu), ours) in wanted {
        let on_it = |other: &&&There| other.fact(names::GPU) == Some(gpu) && other.fact(names::NODE) == node;
        let held = others.iter().filter(on_it).filter(|other| !other.is_over()).count() as u64;
        if held > 0 && held + ours > most {
            let node = node.unwrap_or("any node");
            said.push(format!(
                "GPU {gpu} of {node} holds {held} already and would hold {}: more than the {most} that `per_gpu` allows",
                held + ours
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::plan::Run;
    use super::*;
    use serde_json::json;

    fn object(name: &str, path: &str, image: &str) -> Object {
        let applied = json!({"image": image}).to_string();
        let run = Run {
            name: "r".into(),
            seed: 0,
            node: Some("n1".into()),
            gpu: Some("0".into()),
            save_path: Some(path.into()),
        };
        let facts = json!({names::APPLIED: applied, names::SAVE_PATH: path, names::GPU: "0", names::NODE: "n1"});
        let manifest = json!({"metadata": {"name": name, "annotations": facts}});
        Object { kind: Kind::Job, name: name.into(), run, manifest }
    }

    fn there(object: &Object, launch: Option<&str>) -> There {
        let mut made = object.manifest.clone();
        if let Some(launch) = launch {
            made["metadata"]["labels"] = json!({names::MANAGED_BY: names::MANAGER, names::LAUNCH: launch});
        }
        There { kind: Kind::Job, object: made }
    }

    #[test]
    fn nothing_is_overwritten() {
        let plan = |per_gpu| Plan {
            launch: "mine".into(),
            kind: Kind::Job,
            per_gpu,
            share_save_path: false,
            objects: vec![object("a", "/mnt/a", "x:1"), object("b", "/mnt/b", "x:1")],
        };
        let two = plan(None);
        let same = there(&two.objects[0], Some("mine"));
        let met = meet(&two, std::slice::from_ref(&same)).expect("harmless");
        assert_eq!((met.new.len(), met.there.len()), (1, 1));
        let mut going = same.clone();
        going.object["metadata"]["deletionTimestamp"] = "now".into();
        for (there, says) in [
            (there(&object("a", "/mnt/a", "x:2"), Some("mine")), "image is \"x:2\" there, \"x:1\" in the files"),
            (there(&two.objects[0], None), "not made by shoal"),
            (there(&two.objects[0], Some("hers")), "of launch `hers`"),
            (going, "still being destroyed"),
            (there(&object("c", "/mnt/b", "x:1"), Some("hers")), "where `c` of launch `hers` saves"),
        ] {
            let refusals = meet(&two, &[there]).expect_err(says);
            assert!(refusals.len() == 1 && refusals[0].contains(says), "{refusals:?}");
        }
        let mut elsewhere = there(&object("c", "/mnt/c", "x:1"), Some("hers"));
        let three = plan(Some(2));
        let refusals = meet(&three, std::slice::from_ref(&elsewhere)).expect_err("crowded");
        assert!(refusals[0].contains("would hold 3"), "{refusals:?}");
        elsewhere.object["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert!(meet(&three, &[elsewhere]).is_ok(), "what is over holds nothing");
    }
}
