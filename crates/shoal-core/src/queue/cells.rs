//! Which configuration has which number? Made from the axes when it is asked for, never kept.

use super::sweep::{Axes, Config, Sweep, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Runs of one sweep, at most: what a journal, a memory and a person can bear.
pub const MOST_RUNS: u64 = 4_000_000;

/// How many configurations a part has.
pub fn count(axes: &Axes) -> u64 {
    axes.only.as_ref().map_or_else(|| product(axes), |only| only.len() as u64)
}

/// How many it would have without conditions.
pub fn product(axes: &Axes) -> u64 {
    axes.dimensions.iter().fold(1, |all: u64, dimension| all.saturating_mul(dimension.rows.len() as u64))
}

/// How many configurations a sweep has.
pub fn total(sweep: &Sweep) -> u64 {
    sweep.parts.iter().map(count).fold(0, u64::saturating_add)
}

/// The configuration of this number; numbers run through the parts.
pub fn config(sweep: &Sweep, cell: u32) -> Option<Config> {
    let (axes, number) = part_of(sweep, cell)?;
    let mut config = axes.fixed.clone();
    for (name, value) in chosen(axes, number) {
        config.insert(name.clone(), value.clone());
    }
    Some(config)
}

/// Only these parameters of it, in this order; those that it lacks are left out.
pub fn values(sweep: &Sweep, cell: u32, names: &[String]) -> Vec<(String, Value)> {
    let Some((axes, number)) = part_of(sweep, cell) else { return Vec::new() };
    let moved: BTreeMap<&String, &Value> = chosen(axes, number).collect();
    let value = |name: &String| moved.get(name).copied().or_else(|| axes.fixed.get(name));
    names.iter().filter_map(|name| Some((name.clone(), value(name)?.clone()))).collect()
}

/// The name of a configuration by its content: the same on every machine, whatever sweep it is in.
pub fn config_id(config: &Config) -> String {
    let digest = Sha256::digest(canonical(&Value::Map(config.clone())).as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Parameters in which configurations of the sweep differ, in the order of the axes. From the axes alone: a value that a
/// condition leaves out everywhere still counts.
pub fn differing(sweep: &Sweep) -> Vec<String> {
    let mut names: Vec<&String> = Vec::new();
    let mut known = BTreeSet::new();
    let moving = sweep.parts.iter().flat_map(|part| part.dimensions.iter().flat_map(|dimension| &dimension.names));
    for name in moving.chain(sweep.parts.iter().flat_map(|part| part.fixed.keys())) {
        if known.insert(name) {
            names.push(name);
        }
    }
    names.into_iter().filter(|name| differs(sweep, name)).cloned().collect()
}

fn differs(sweep: &Sweep, name: &String) -> bool {
    fn is_new<'s>(first: &mut Option<Option<&'s Value>>, value: Option<&'s Value>) -> bool {
        *first.get_or_insert(value) != value
    }
    let mut first = None;
    // Empty parts say nothing.
    sweep.parts.iter().filter(|part| count(part) > 0).any(|part| {
        let fixed = part.fixed.get(name);
        let mut moving = part.dimensions.iter().rev();
        let place = moving.find_map(|dimension| Some((dimension, dimension.names.iter().position(|n| n == name)?)));
        match place {
            Some((dimension, at)) => {
                dimension.rows.iter().any(|row| is_new(&mut first, row.get(at).and_then(Option::as_ref).or(fixed)))
            }
            None => is_new(&mut first, fixed),
        }
    })
}

/// The part that a configuration is in, and its number in the part's full product.
fn part_of(sweep: &Sweep, cell: u32) -> Option<(&Axes, u64)> {
    let mut left = u64::from(cell);
    for axes in &sweep.parts {
        let here = count(axes);
        if left < here {
            let number = match &axes.only {
                Some(only) => u64::from(*only.get(usize::try_from(left).ok()?)?),
                None => left,
            };
            return (number < product(axes)).then_some((axes, number));
        }
        left -= here;
    }
    None
}

/// What the dimensions say at this number of the full product. A later one overrides an earlier one of the same name.
fn chosen(axes: &Axes, number: u64) -> impl Iterator<Item = (&String, &Value)> {
    let mut stride = product(axes).max(1);
    axes.dimensions.iter().flat_map(move |dimension| {
        let rows = (dimension.rows.len() as u64).max(1);
        stride = (stride / rows).max(1);
        let row = dimension.rows.get(((number / stride) % rows) as usize);
        let pairs = row.into_iter().flat_map(|row| dimension.names.iter().zip(row));
        pairs.filter_map(|(name, value)| Some((name, value.as_ref()?)))
    })
}

/// The same text for the same value: keys sorted, no blanks.
fn canonical(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What stands for a configuration when two sweeps are compared: the sum of what stands for its parameters, so that it is
/// made from an axis' sums without making the configuration.
pub(in crate::queue) type Mark = u128;

/// Marks of all configurations of a part, in their order. `None` if it is too large to number, or not well made.
pub(in crate::queue) fn marks(axes: &Axes) -> Option<Vec<Mark>> {
    let all = u32::try_from(product(axes)).ok()?;
    if count(axes) > MOST_RUNS {
        return None;
    }
    let moving: BTreeSet<&String> = axes.dimensions.iter().flat_map(|dimension| &dimension.names).collect();
    let fixed = axes.fixed.iter().filter(|(name, _)| !moving.contains(name));
    let base = fixed.fold(0, |sum: Mark, (name, value)| sum.wrapping_add(mark(name, value)));
    let rows: Vec<Vec<Mark>> =
        axes.dimensions.iter().map(|dimension| row_marks(axes, &dimension.names, &dimension.rows)).collect();
    let number = |full: u32| {
        let mut left = full as usize;
        rows.iter().rev().fold(base, |sum, row| {
            let at = left % row.len();
            left /= row.len();
            sum.wrapping_add(row[at])
        })
    };
    match &axes.only {
        Some(only) if only.iter().any(|full| *full >= all) => None,
        Some(only) => Some(only.iter().map(|full| number(*full)).collect()),
        None if all == 0 => Some(Vec::new()),
        None => Some((0..all).map(number).collect()),
    }
}

fn row_marks(axes: &Axes, names: &[String], rows: &[Vec<Option<Value>>]) -> Vec<Mark> {
    let one = |row: &Vec<Option<Value>>| {
        let pairs =
            names.iter().zip(row).filter_map(|(name, value)| Some((name, value.as_ref().or(axes.fixed.get(name))?)));
        pairs.fold(0, |sum: Mark, (name, value)| sum.wrapping_add(mark(name, value)))
    };
    rows.iter().map(one).collect()
}

fn mark(name: &str, value: &Value) -> Mark {
    let mut digest = Sha256::new();
    digest.update((name.len() as u64).to_le_bytes());
    digest.update(name.as_bytes());
    digest.update(canonical(value).as_bytes());
    let bytes: [u8; 32] = digest.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    Mark::from_le_bytes(half)
}

/// What is wrong with the shape of a part, if something is.
pub fn problem(axes: &Axes) -> Option<String> {
    let mut names = BTreeSet::new();
    for dimension in &axes.dimensions {
        if let Some(name) = dimension.names.iter().find(|name| !names.insert(*name)) {
            return Some(format!("parameter `{name}` is on two axes of the same part"));
        }
        if dimension.rows.iter().any(|row| row.len() != dimension.names.len()) {
            return Some(format!("an axis of {} has rows of another length", dimension.names.join(", ")));
        }
    }
    let all = product(axes);
    if all > u64::from(u32::MAX) {
        return Some(format!("the axes make {all} configurations before conditions; the most is {}", u32::MAX));
    }
    let only = axes.only.as_deref().unwrap_or_default();
    let ascending = only.windows(2).all(|pair| pair[0] < pair[1]);
    let outside = only.last().is_some_and(|last| u64::from(*last) >= all);
    (!ascending || outside).then(|| "the numbers that conditions leave are not ascending, or not of this part".into())
}

#[cfg(test)]
#[path = "cells_tests.rs"]
mod tests;
