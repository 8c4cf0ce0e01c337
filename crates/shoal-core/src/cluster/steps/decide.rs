//! Which steps of a node run, which are skipped, and why?

use super::record::{Ended, Outcome, StepRecord};
use super::{Kind, Known, Options, Step};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Run(Because),
    Skip(Why),
}

/// Why a step runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// It does every time: it leaves nothing that could be seen to run still, or is quickly done.
    Always,
    /// Somebody wants it.
    Asked,
    /// It never ran there.
    New,
    /// The whole node is new, whatever the options say.
    NewNode,
    /// What it says is not what ran.
    Changed,
    /// Files that it names, or brings, are not those of the last time.
    FilesChanged,
    /// This one before it runs.
    After(String),
    /// It failed the last time.
    Failed(Ended),
    /// It was cut off the last time.
    Interrupted,
    /// The container in which things were set up is not there any more.
    ContainerGone,
    /// Something of what it left running does not run any more.
    Ended,
    /// This start command runs, and they all do or none does.
    With(String),
}

/// Why a step is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It ran, and nothing changed since.
    Unchanged,
    /// The same, and what it started still runs.
    Running,
    NoRestart,
    RestartOnly,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Because::Always => f.write_str("every time"),
            Because::Asked => f.write_str("asked for"),
            Because::New => f.write_str("never ran here"),
            Because::NewNode => f.write_str("this node is new"),
            Because::Changed => f.write_str("it changed"),
            Because::FilesChanged => f.write_str("its files changed"),
            Because::After(step) => write!(f, "{step} runs before it"),
            Because::Failed(how) => write!(f, "last time: {how}"),
            Because::Interrupted => f.write_str("it was cut off last time"),
            Because::ContainerGone => f.write_str("its container is gone"),
            Because::Ended => f.write_str("what it started has ended"),
            Because::With(step) => write!(f, "with {step}"),
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Why::Unchanged => "unchanged",
            Why::Running => "unchanged, and what it started runs",
            Why::NoRestart => "--no-restart",
            Why::RestartOnly => "--restart-only",
        })
    }
}

/// Commands are a chain: once one of them runs, those after it do too, as what they build on may be different now.
pub fn decide(steps: &mut [Step], known: &Known, options: Options) {
    let new_node = known.record.is_blank();
    let started = known.record.steps.keys().any(|id| id.starts_with("start "));
    let before = |step: &Step| known.record.steps.get(&step.id);
    // The container that was made is not the one that runs: the machine may have started anew. The next one is empty, and the folder in /tmp that
    // its files come from may be so too.
    let is_gone = |step: &Step| before(step).is_some_and(|b| b.outcome == Outcome::Done && b.made != known.container);
    let gone = steps.iter().any(|step| step.kind == Kind::Container && is_gone(step));
    let mut chain: Option<String> = None;
    let begin = steps.iter().position(|step| step.kind >= Kind::Stop).unwrap_or(steps.len());
    let (steps, starts) = steps.split_at_mut(begin);
    for step in steps.iter_mut() {
        let decision = match step.kind {
            Kind::Connect | Kind::Synced | Kind::Efs => Decision::Run(Because::Always),
            Kind::Container | Kind::Files if gone => Decision::Run(Because::ContainerGone),
            _ => compare(step, before(step), chain.as_ref().filter(|_| step.kind.is_chained())),
        };
        // Left out otherwise, what was in the container is done again: it would count as done there for every `up` to come.
        let is_lost = gone && matches!(step.kind, Kind::Container | Kind::Files | Kind::Setup);
        step.decision = match decision {
            Decision::Run(_) if options.restart_only && step.kind.is_set_up() && !is_lost => {
                if new_node {
                    Decision::Run(Because::NewNode)
                } else {
                    Decision::Skip(Why::RestartOnly)
                }
            }
            decision => decision,
        };
        if step.kind.is_chained() && chain.is_none() && matches!(step.decision, Decision::Run(_)) {
            chain = Some(step.id.clone());
        }
    }
    let all = |decision: Decision| starts.iter().map(|_| decision.clone()).collect::<Vec<_>>();
    let decisions = match options {
        Options { no_restart: true, .. } if gone => all(Decision::Run(Because::ContainerGone)),
        Options { no_restart: true, .. } if started => all(Decision::Skip(Why::NoRestart)),
        Options { no_restart: true, .. } => all(Decision::Run(Because::NewNode)),
        Options { restart_only: true, .. } | Options { restart: true, .. } => all(Decision::Run(Because::Asked)),
        _ => begin_again(steps, starts, known),
    };
    starts.iter_mut().zip(decisions).for_each(|(step, decision)| step.decision = decision);
}

/// Start commands run all or not at all: where something before them runs, where one of them is not what ran, and where something of what
/// they left running has ended. Who runs well is left alone: to start anew is to end people's work.
fn begin_again(before: &[Step], starts: &[Step], known: &Known) -> Vec<Decision> {
    let record = |step: &Step| known.record.steps.get(&step.id);
    let left = |step: &Step| record(step).is_some_and(|record| record.left.is_some());
    let reason = |step: &Step| match compare(step, record(step), None) {
        Decision::Skip(_) if left(step) && !known.alive.contains(&step.id) => Some(Because::Ended),
        Decision::Skip(_) => None,
        Decision::Run(because) => Some(because),
    };
    if let Some(step) =
        before.iter().filter(|step| step.kind.is_chained()).find(|step| matches!(step.decision, Decision::Run(_)))
    {
        let because = |start: &Step| match record(start) {
            Some(_) => Because::After(step.id.clone()),
            None => Because::New,
        };
        return starts.iter().map(|start| Decision::Run(because(start))).collect();
    }
    let reasons: Vec<Option<Because>> = starts.iter().map(reason).collect();
    let first = starts.iter().zip(&reasons).find(|(_, reason)| reason.is_some()).map(|(step, _)| step.id.clone());
    let is_removed = |id: &String| id.starts_with("start ") && starts.iter().all(|step| step.id != *id);
    let otherwise = match first {
        Some(first) => Decision::Run(Because::With(first)),
        None if known.record.steps.keys().any(is_removed) => Decision::Run(Because::Changed),
        None if starts.iter().any(left) => Decision::Skip(Why::Running),
        None => Decision::Run(Because::Always),
    };
    let each = |reason: Option<Because>| reason.map_or_else(|| otherwise.clone(), Decision::Run);
    reasons.into_iter().map(each).collect()
}

impl Kind {
    fn is_chained(self) -> bool {
        matches!(self, Kind::Initialization | Kind::Container | Kind::Setup)
    }

    fn is_set_up(self) -> bool {
        !matches!(self, Kind::Connect | Kind::Stop | Kind::Start | Kind::Efs)
    }
}

fn compare(step: &Step, before: Option<&StepRecord>, runs: Option<&String>) -> Decision {
    let Some(before) = before else {
        return Decision::Run(Because::New);
    };
    let stamp = &before.stamp;
    Decision::Run(match &before.outcome {
        _ if stamp.own != step.stamp.own => Because::Changed,
        _ if stamp.files != step.stamp.files => Because::FilesChanged,
        Outcome::Failed(Ended::Stopped) | Outcome::Begun => Because::Interrupted,
        Outcome::Failed(how) => Because::Failed(how.clone()),
        Outcome::Done => match runs {
            Some(step) => Because::After(step.clone()),
            None if stamp.hash != step.stamp.hash => Because::Changed,
            None => return Decision::Skip(Why::Unchanged),
        },
    })
}
