//! Which parameters differ, which metrics are there, and which runs are copies of each other?

use crate::queue::render::text::json;
use crate::queue::request::ResultRow;
use crate::queue::sweep::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All of these refer to the rows they were made from.
#[derive(Debug)]
pub struct Gathered<'r> {
    pub rows: &'r [ResultRow],
    /// All parameters, sorted.
    pub parameters: Vec<&'r str>,
    /// Those in which configurations differ.
    pub differing: Vec<&'r str>,
    /// In the order of their first appearance.
    pub metrics: Vec<&'r str>,
    /// Copies of a configuration, by its number; within, by rep.
    pub groups: Vec<Vec<&'r ResultRow>>,
}

pub fn gather(rows: &[ResultRow]) -> Gathered<'_> {
    let mut groups: BTreeMap<(&str, u32), Vec<&ResultRow>> = BTreeMap::new();
    let mut metrics = Vec::new();
    let mut known = BTreeSet::new();
    for row in rows {
        groups.entry((&row.run.sweep, row.run.cell)).or_default().push(row);
        metrics.extend(row.metrics.iter().map(|(name, _)| name.as_str()).filter(|name| known.insert(*name)));
    }
    let mut groups: Vec<Vec<&ResultRow>> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.sort_by_key(|row| row.run.rep));
    let (parameters, differing) = differing(&groups);
    Gathered { rows, parameters, differing, metrics, groups }
}

fn differing<'r>(groups: &[Vec<&'r ResultRow>]) -> (Vec<&'r str>, Vec<&'r str>) {
    // The first value of each, how many have it, and whether all of them have the same.
    let mut seen: BTreeMap<&str, (String, usize, bool)> = BTreeMap::new();
    for row in groups.iter().filter_map(|group| group.first()) {
        for (name, value) in &row.config {
            let text = json(value);
            let (first, count, same) = seen.entry(name).or_insert_with(|| (text.clone(), 0, true));
            *same &= *first == text;
            *count += 1;
        }
    }
    let all = seen.keys().copied().collect();
    let moved =
        |(name, (_, count, same)): (&'r str, (String, usize, bool))| (!same || count < groups.len()).then_some(name);
    (all, seen.into_iter().filter_map(moved).collect())
}

impl Gathered<'_> {
    /// How many different values a parameter takes.
    pub fn values_of(&self, name: &str) -> usize {
        let values = self.groups.iter().filter_map(|group| group.first()).filter_map(|row| parameter(row, name));
        values.map(|value| (json(value), ())).collect::<HashMap<_, _>>().len()
    }
}

pub fn parameter<'r>(row: &'r ResultRow, name: &str) -> Option<&'r Value> {
    row.config.iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

pub fn metric<'r>(row: &'r ResultRow, name: &str) -> Option<&'r str> {
    row.metrics.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
}

/// A metric of all runs of a group, where it is a number.
pub fn metric_numbers(group: &[&ResultRow], name: &str) -> Vec<f64> {
    group.iter().filter_map(|row| metric(row, name)?.trim().parse().ok()).collect()
}
