//! Is a run over, and how? Pure: what the volume says, what the server says, and for how long it has said so.

use shoal_core::kubernetes::pool::seen::{Stage, of_code};
use shoal_core::queue::work::Ending;
use std::time::Duration;

/// An image may still be pushed, a secret made; then somebody else should have the seat.
const STUCK: Duration = Duration::from_secs(120);
/// A node that is gone does not take its pods off the list. Beyond the grace of the run.
const GONE: Duration = Duration::from_secs(60);
/// Until the server has heard of a pod's end from its node.
const HEARD: Duration = Duration::from_secs(10);

/// What is known of one run.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// What its script left.
    pub code: Option<i64>,
    /// Somebody wants it to end.
    pub to_stop: bool,
    /// Marks of its script: its time was over; it was told to end, and its program ended with 0.
    pub limit: bool,
    pub told: bool,
    /// By the server; none while that is away or has not told everything yet.
    pub stage: Option<&'a Stage>,
    /// For how long code and stage have been as they are.
    pub since: Duration,
    pub grace: Duration,
    /// Its node takes nothing and another would: why.
    pub given_up: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, and what is worth saying of it.
    Goes(Option<String>),
    /// Its pod is to be taken away, if it has one.
    TakeAway,
    Over(Ending),
}

pub fn verdict(known: &Known) -> Verdict {
    let is_over = known.code.is_some() || matches!(known.stage, Some(Stage::Over(_)));
    if known.limit && !known.to_stop && is_over {
        return Verdict::Over(Ending::TimeLimit);
    }
    if known.told && known.code.is_none() {
        return told(known);
    }
    if let Some(code) = known.code {
        return of_its_own(code, known);
    }
    if known.to_stop {
        return match known.stage {
            Some(Stage::Over(Ending::Exited(0))) => Verdict::Over(Ending::Exited(0)),
            // It has no pod, and a pod that comes now does not begin.
            Some(Stage::Over(_)) => Verdict::Over(Ending::Stopped),
            Some(Stage::Leaves { .. }) => leaves(known, None),
            Some(_) => Verdict::TakeAway,
            None => Verdict::Goes(None),
        };
    }
    match known.stage {
        Some(Stage::Over(ending)) => Verdict::Over(ending.clone()),
        Some(Stage::Unplaced(_)) if known.given_up.is_some() => {
            Verdict::Over(Ending::lost(known.given_up.unwrap_or_default()))
        }
        Some(Stage::Waits(why) | Stage::Unplaced(why)) => Verdict::Goes(Some(why.clone())),
        Some(Stage::Stuck(why)) if known.since < STUCK => Verdict::Goes(Some(why.clone())),
        Some(Stage::Stuck(why)) => Verdict::Over(Ending::NotStarted { why: why.clone() }),
        Some(Stage::Leaves { node }) => leaves(known, node.as_deref()),
        Some(Stage::Runs) | None => Verdict::Goes(None),
    }
}

/// Told to end, its program ended with 0: it may have saved its work and gone. As on a host that is being shut down, that is no end of its own,
/// unless we asked for it.
fn told(known: &Known) -> Verdict {
    Verdict::Over(match known.stage {
        _ if known.to_stop => Ending::Exited(0),
        Some(Stage::Over(ending)) if !ending.success() => ending.clone(),
        _ => Ending::lost("its pod was told to end by somebody else before its program was done"),
    })
}

/// Its program is over. A code that stands for a signal may mean a limit, which the server alone knows of.
fn of_its_own(code: i64, known: &Known) -> Verdict {
    let ending = of_code(code);
    let by_limit = |ending: &Ending| matches!(ending, Ending::OutOfMemory | Ending::TimeLimit);
    match (&ending, known.stage) {
        (Ending::Signaled(_), Some(Stage::Over(said))) if by_limit(said) => Verdict::Over(said.clone()),
        (Ending::Signaled(_), Some(Stage::Over(_))) => Verdict::Over(ending),
        (Ending::Signaled(_), _) if known.since < HEARD && !known.to_stop => Verdict::Goes(None),
        _ => Verdict::Over(ending),
    }
}

fn leaves(known: &Known, node: Option<&str>) -> Verdict {
    if known.since < known.grace + GONE {
        return Verdict::Goes(None);
    }
    let why =
        format!("its node {} does not answer: its pod was to be taken away and is not", node.unwrap_or("(unknown)"));
    Verdict::Over(if known.to_stop { Ending::Stopped } else { Ending::lost(why) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown<'a>() -> Known<'a> {
        Known {
            code: None,
            to_stop: false,
            limit: false,
            told: false,
            stage: None,
            since: Duration::ZERO,
            grace: Duration::from_secs(10),
            given_up: None,
        }
    }

    #[test]
    fn what_its_script_marked_counts_before_what_the_server_calls_a_success() {
        let (ended, late) = (Stage::Over(Ending::Exited(0)), Stage::Over(Ending::TimeLimit));
        let over = Verdict::Over;
        let taken = || over(Ending::lost("its pod was told to end by somebody else before its program was done"));
        for (told, limit, code, to_stop, stage, wanted) in [
            (true, false, None, false, Some(&ended), taken()),
            (true, false, None, false, None, taken()),
            (true, false, None, false, Some(&late), over(Ending::TimeLimit)),
            (true, false, None, true, Some(&Stage::Runs), over(Ending::Exited(0))),
            (false, true, Some(0), false, Some(&Stage::Runs), over(Ending::TimeLimit)),
            (false, true, None, false, Some(&Stage::Runs), Verdict::Goes(None)),
            (false, true, None, false, Some(&ended), over(Ending::TimeLimit)),
        ] {
            let known = Known { told, limit, code, to_stop, stage, ..unknown() };
            assert_eq!(verdict(&known), wanted, "{known:?}");
        }
    }

    #[test]
    fn a_run_is_over_when_its_script_or_the_server_says_so() {
        let lost = || Ending::lost("w");
        let over = Stage::Over;
        let leaves = Stage::Leaves { node: Some("n".into()) };
        let said = |text: &str| Verdict::Goes(Some(text.into()));
        for (code, to_stop, stage, since, wanted) in [
            (Some(0), false, None, 0, Verdict::Over(Ending::Exited(0))),
            (Some(3), true, Some(Stage::Runs), 0, Verdict::Over(Ending::Exited(3))),
            (Some(137), false, Some(Stage::Runs), 0, Verdict::Goes(None)),
            (Some(137), false, Some(over(Ending::OutOfMemory)), 0, Verdict::Over(Ending::OutOfMemory)),
            (Some(143), false, Some(over(Ending::TimeLimit)), 0, Verdict::Over(Ending::TimeLimit)),
            (Some(137), false, None, 11, Verdict::Over(Ending::Signaled(9))),
            (Some(139), false, Some(over(lost())), 0, Verdict::Over(Ending::Signaled(11))),
            (None, false, Some(over(lost())), 0, Verdict::Over(lost())),
            (None, false, Some(Stage::Waits("no node".into())), 999, said("no node")),
            (None, false, Some(Stage::Stuck("no image".into())), 5, said("no image")),
            (
                None,
                false,
                Some(Stage::Stuck("no image".into())),
                121,
                Verdict::Over(Ending::NotStarted { why: "no image".into() }),
            ),
            (None, false, Some(leaves.clone()), 5, Verdict::Goes(None)),
            (None, true, Some(leaves.clone()), 71, Verdict::Over(Ending::Stopped)),
            (None, true, Some(Stage::Runs), 0, Verdict::TakeAway),
            (None, true, Some(over(lost())), 0, Verdict::Over(Ending::Stopped)),
            (None, true, None, 0, Verdict::Goes(None)),
        ] {
            let since = Duration::from_secs(since);
            let known = Known { code, to_stop, stage: stage.as_ref(), since, ..unknown() };
            assert_eq!(verdict(&known), wanted, "{known:?}");
        }
        let known = Known { stage: Some(&leaves), since: GONE * 2, grace: Duration::ZERO, ..unknown() };
        let unplaced = Stage::Unplaced("no node".into());
        let given_up = Some("its node n is cordoned");
        for (stage, to_stop, wanted) in [
            (&unplaced, false, Verdict::Over(Ending::lost("its node n is cordoned"))),
            (&unplaced, true, Verdict::TakeAway),
            (&Stage::Runs, false, Verdict::Goes(None)),
        ] {
            assert_eq!(verdict(&Known { stage: Some(stage), to_stop, given_up, ..known }), wanted);
        }
        assert!(
            matches!(verdict(&known), Verdict::Over(Ending::Lost { why, .. }) if why.contains("its node n does not answer"))
        );
    }
}
