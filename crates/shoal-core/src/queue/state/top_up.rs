//! What does a submission add to what is there? Configurations are known by content: the same one is the same cell.

use super::Queue;
use super::runs::State;
use crate::queue::cells::{self, MOST_RUNS, Mark};
use crate::queue::event::Event;
use crate::queue::sweep::{Axes, Dimension, SWEEP_VERSION, Sweep};
use crate::queue::{Moment, Target, is_sweep_name};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Why a submission is not taken, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    pub hint: Option<String>,
}

/// What becomes of a submission: a new sweep, or more of one that is there. Nothing that is done is repeated: only
/// configurations that the sweep does not have, and copies that it was not asked for before, are new.
pub fn top_up(queue: &Queue, sweep: &Sweep, now: Moment) -> Result<Event, Refusal> {
    check(queue, sweep)?;
    let known = queue.sweep_key(&sweep.name).and_then(|key| queue.sweeps.get(&key));
    let mut seen = known.map_or_else(|| Ok(HashMap::new()), |state| marks_of(&state.sweep))?;
    let Some(state) = known else {
        within(cells::total(sweep), sweep.reps)?;
        compare(sweep, &mut seen)?;
        return Ok(Event::Submitted { at: now, sweep: Box::new(sweep.clone()) });
    };
    if state.sweep.owner != sweep.owner {
        return Err(refuse(
            format!("`{}` is a sweep of {}", sweep.name, state.sweep.owner),
            Some("give yours another name".into()),
        ));
    }
    let old = cells::total(&state.sweep);
    let new = find_new(sweep, &mut seen)?;
    let reps = sweep.reps.max(state.sweep.reps);
    within(new.iter().map(cells::count).fold(old, u64::saturating_add), reps)?;
    let like = Sweep { reps, ..without_parts(sweep) };
    Ok(Event::ToppedUp { at: now, name: sweep.name.clone(), new, reps, like: Box::new(like) })
}

/// What a submission starts again: runs of its configurations that failed or were stopped are missing as much as those that never were. Of
/// other configurations nobody spoke. To be asked before the submission is taken in.
pub fn again(queue: &Queue, sweep: &Sweep) -> Result<Vec<Target>, Refusal> {
    let Some((key, state)) = queue.sweep_key(&sweep.name).and_then(|key| Some((key, queue.sweeps.get(&key)?))) else {
        return Ok(Vec::new());
    };
    let whole = Target::Sweep(sweep.name.clone());
    let places = queue.places_of(key, &whole).into_iter();
    let unfinished = places.filter(|(_, state)| matches!(state, State::Failed | State::Stopped));
    let cells: BTreeSet<u32> = unfinished.filter_map(|(run, _)| Some(state.runs.id(run)?.0)).collect();
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let known = marks_of(&state.sweep)?;
    let mut named = HashSet::new();
    for part in &sweep.parts {
        named.extend(marks(part)?.into_iter().filter_map(|mark| known.get(&mark).copied()));
    }
    match cells.iter().all(|cell| named.contains(cell)) {
        true => Ok(vec![whole]),
        false => {
            let named = cells.into_iter().filter(|cell| named.contains(cell));
            Ok(named.map(|cell| Target::Cell(sweep.name.clone(), cell)).collect())
        }
    }
}

/// What runs of the one would be done with, and runs of the other not. Names and numbers of configurations are none of it: they are what a
/// top-up is about.
pub fn changes(old: &Sweep, new: &Sweep) -> Vec<&'static str> {
    let (old, new) = (&old.command, &new.command);
    let all = [
        ("the command", old.argv != new.argv || old.pass != new.pass || old.folder != new.folder),
        ("source or data", old.trees != new.trees),
        ("environment variables", old.env != new.env),
        ("the Python environment", old.virtualenv != new.virtualenv || old.requirements != new.requirements),
        ("lines of set-up", old.setup != new.setup),
    ];
    all.into_iter().filter_map(|(what, differs)| differs.then_some(what)).collect()
}

fn refuse(why: impl Into<String>, hint: Option<String>) -> Refusal {
    Refusal { why: why.into(), hint }
}

/// What has to hold of any submission.
fn check(queue: &Queue, sweep: &Sweep) -> Result<(), Refusal> {
    if sweep.version != SWEEP_VERSION {
        let why = format!("the sweep is written in version {}, this queue reads {SWEEP_VERSION}", sweep.version);
        return Err(refuse(why, Some("use the same version of shoal on both sides".into())));
    }
    if !is_sweep_name(&sweep.name) {
        let why = format!("`{}` cannot be the name of a sweep", sweep.name);
        return Err(refuse(why, Some("letters, digits, `-`, `_` and `.`, at most 64 of them".into())));
    }
    if sweep.reps == 0 || sweep.wants.ranks == 0 {
        return Err(refuse("a sweep needs at least one copy of each configuration and one process in each run", None));
    }
    if sweep.command.argv.first().is_none_or(String::is_empty) {
        return Err(refuse("there is no command to run", None));
    }
    if let Some(problem) = sweep.parts.iter().find_map(cells::problem) {
        return Err(refuse(problem, None));
    }
    if cells::total(sweep) == 0 {
        let hint = "look at the axes without values, or at the conditions: they leave nothing".to_string();
        return Err(refuse("the sweep has no configurations", Some(hint)));
    }
    for other in &sweep.after {
        if queue.sweep_key(other).is_none() {
            let hint = "submit that one first; a sweep that was forgotten need not be waited for".to_string();
            return Err(refuse(format!("it waits for `{other}`, and there is no such sweep"), Some(hint)));
        }
        if waits_for(queue, other, &sweep.name) {
            return Err(refuse(format!("it waits for `{other}`, which waits for it"), None));
        }
    }
    Ok(())
}

/// Whether a sweep waits for another, through any number of others, or is the same.
fn waits_for(queue: &Queue, sweep: &str, other: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![sweep];
    while let Some(name) = open.pop() {
        if name == other {
            return true;
        }
        if seen.insert(name) {
            open.extend(queue.sweep(name).into_iter().flat_map(|sweep| &sweep.after).map(String::as_str));
        }
    }
    false
}

fn within(cells: u64, reps: u32) -> Result<(), Refusal> {
    if cells.saturating_mul(u64::from(reps)) <= MOST_RUNS {
        return Ok(());
    }
    let why = format!("{cells} configurations, {reps} of each, are too many; a sweep has at most {MOST_RUNS} runs");
    Err(refuse(why, Some("submit it as several sweeps".into())))
}

/// Numbers of configurations by what stands for them. Some tens of bytes for each, for as long as it takes to compare.
fn marks_of(sweep: &Sweep) -> Result<HashMap<Mark, u32>, Refusal> {
    let mut seen = HashMap::with_capacity(usize::try_from(cells::total(sweep).min(MOST_RUNS)).unwrap_or(0));
    for part in &sweep.parts {
        for mark in marks(part)? {
            let number = seen.len() as u32;
            seen.insert(mark, number);
        }
    }
    Ok(seen)
}

fn marks(part: &Axes) -> Result<Vec<Mark>, Refusal> {
    let why = || format!("a part of it has more than {MOST_RUNS} configurations");
    cells::marks(part).ok_or_else(|| refuse(why(), Some("submit it as several sweeps".into())))
}

/// Set in a number of `seen` when the submission has the configuration: the rest is the number there.
const HERE: u32 = 1 << 31;

/// For each part, the numbers in its full product that `seen` does not have; `None`: all of them. A configuration that is
/// there twice would run twice as often as it should, and is refused.
fn compare(sweep: &Sweep, seen: &mut HashMap<Mark, u32>) -> Result<Vec<Option<Vec<u32>>>, Refusal> {
    let mut number = 0u32;
    let mut compared = Vec::with_capacity(sweep.parts.len());
    for part in &sweep.parts {
        let mut left = Vec::new();
        let marks = marks(part)?;
        let all = marks.len();
        seen.reserve(all);
        for (at, mark) in marks.into_iter().enumerate() {
            match seen.insert(mark, number | HERE) {
                Some(first) if first & HERE != 0 => return Err(twins(first & !HERE, number)),
                Some(_) => {}
                None => left.push(part.only.as_ref().and_then(|only| only.get(at).copied()).unwrap_or(at as u32)),
            }
            number += 1;
        }
        compared.push((left.len() < all).then_some(left));
        within(u64::from(number), sweep.reps)?;
    }
    Ok(compared)
}

/// Parts, reduced to what the sweep does not have yet.
fn find_new(sweep: &Sweep, seen: &mut HashMap<Mark, u32>) -> Result<Vec<Axes>, Refusal> {
    let compared = compare(sweep, seen)?;
    let parts = sweep.parts.iter().zip(compared).filter_map(|(part, left)| match left {
        None => Some(part.clone()),
        Some(left) if left.is_empty() => None,
        Some(left) => Some(reduced(part, left)),
    });
    Ok(parts.filter(|part| cells::count(part) > 0).collect())
}

fn twins(first: u32, second: u32) -> Refusal {
    let hint = "leave one of them out; for more copies of each configuration, raise `reps`".to_string();
    refuse(format!("configurations {first} and {second} are the same"), Some(hint))
}

/// The part with these numbers only. Of a list, what is not needed is not written down again.
fn reduced(part: &Axes, numbers: Vec<u32>) -> Axes {
    let [list] = part.dimensions.as_slice() else { return Axes { only: Some(numbers), ..part.clone() } };
    let rows = numbers.iter().filter_map(|number| list.rows.get(*number as usize).cloned()).collect();
    let dimensions = vec![Dimension { names: list.names.clone(), rows }];
    Axes { fixed: part.fixed.clone(), dimensions, only: None }
}

/// What may change later, without what the event says elsewhere: a list of a million configurations is written once.
fn without_parts(sweep: &Sweep) -> Sweep {
    Sweep {
        version: sweep.version,
        name: sweep.name.clone(),
        owner: sweep.owner.clone(),
        parts: Vec::new(),
        reps: sweep.reps,
        command: sweep.command.clone(),
        wants: sweep.wants.clone(),
        rules: sweep.rules.clone(),
        after: sweep.after.clone(),
        provenance: sweep.provenance.clone(),
    }
}
