//! A metric against a parameter: which points, on which lines?
//!
//! | file | question |
//! |---|---|
//! | `scale` | where a value is on an axis, and which values are written at it |
//! | `svg` | the picture |

mod scale;
mod svg;

use super::gather::{Gathered, gather, metric_numbers, parameter};
use super::numbers::{Summary, summary};
use crate::queue::render::text::word;
use crate::queue::request::ResultRow;
use crate::queue::sweep::Value;
use crate::suggest::closest;
use scale::Scale;
use std::collections::BTreeMap;

/// `None`: the first metric; the parameter with the most values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub metric: Option<String>,
    pub over: Option<String>,
}

struct Line {
    /// The values of the other parameters, where they differ.
    label: Vec<String>,
    /// From left to right.
    points: Vec<(f64, Summary)>,
}

/// A picture (SVG) of a metric against a parameter, a line for each setting of the others; or why there is none.
pub fn plot(rows: &[ResultRow], choice: &Choice) -> Result<String, String> {
    let gathered = gather(rows);
    let metric = chosen("metric", choice.metric.as_deref(), &gathered.metrics, gathered.metrics.first().copied())?;
    let most = gathered.differing.iter().rev().copied().max_by_key(|name| gathered.values_of(name));
    let over = chosen(
        "parameter",
        choice.over.as_deref(),
        &gathered.parameters,
        most.or(gathered.parameters.first().copied()),
    )?;
    let places = Places::new(&gathered, over);
    let others: Vec<&str> = gathered.differing.iter().copied().filter(|name| *name != over).collect();
    let lines = lines(&gathered, metric, over, &others, &places);
    if lines.is_empty() {
        return Err(format!("no finished run has both `{metric}` as a number and `{over}`"));
    }
    let marks = lines.iter().flat_map(|line| &line.points).flat_map(|(_, point)| {
        let half = point.half.unwrap_or(0.0);
        [point.mean - half, point.mean, point.mean + half]
    });
    // An interval that reaches below zero must not keep the axis from being logarithmic.
    let means: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|(_, point)| point.mean).collect();
    let vertical = Scale::over(&marks.collect::<Vec<_>>(), &means);
    let horizontal = match &places {
        Places::Numbers => {
            let xs: Vec<f64> = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
            Scale::over(&xs, &xs).naming(&xs)
        }
        Places::Names(names) => Scale::named(names),
    };
    let runs: usize = lines.iter().flat_map(|line| &line.points).map(|(_, point)| point.n).sum();
    let sweep = rows.first().map_or("", |row| row.run.sweep.as_str());
    let title = format!("{sweep}: {metric} over {over} (mean and 95 % interval, {runs} runs)");
    let picture = svg::Picture {
        title: &title,
        over,
        metric,
        others: &others,
        horizontal: &horizontal,
        vertical: &vertical,
        lines: &lines,
    };
    Ok(svg::draw(&picture))
}

fn chosen<'n>(kind: &str, asked: Option<&str>, known: &[&'n str], default: Option<&'n str>) -> Result<&'n str, String> {
    let Some(asked) = asked else {
        return default.ok_or_else(|| format!("no finished run has a {kind}, so there is nothing to draw"));
    };
    known.iter().find(|name| **name == asked).copied().ok_or_else(|| match closest(asked, known.iter().copied()) {
        Some(meant) => format!("there is no {kind} `{asked}`; did you mean `{meant}`?"),
        None => format!("there is no {kind} `{asked}`; there are {}", known.join(", ")),
    })
}

/// Where the values of a parameter lie on the axis: as numbers if all are, else side by side.
enum Places {
    Numbers,
    Names(Vec<String>),
}

impl Places {
    fn new(gathered: &Gathered, over: &str) -> Places {
        let values = || gathered.groups.iter().filter_map(|group| parameter(group.first()?, over));
        if values().all(|value| number(value).is_some()) {
            return Places::Numbers;
        }
        let mut names: Vec<String> = Vec::new();
        for value in values() {
            let name = word(value);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Places::Names(names)
    }

    fn at(&self, value: &Value) -> Option<f64> {
        match self {
            Places::Numbers => number(value),
            Places::Names(names) => names.iter().position(|name| *name == word(value)).map(|index| index as f64),
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
        _ => None,
    }
}

fn lines(gathered: &Gathered, metric: &str, over: &str, others: &[&str], places: &Places) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for group in &gathered.groups {
        let Some(first) = group.first() else { continue };
        let place = parameter(first, over).and_then(|value| places.at(value));
        let numbers: Vec<f64> = metric_numbers(group, metric).into_iter().filter(|number| number.is_finite()).collect();
        let (Some(x), Some(point)) = (place, summary(&numbers)) else { continue };
        let label: Vec<String> =
            others.iter().map(|name| parameter(first, name).map_or_else(|| "-".into(), word)).collect();
        let index = *known.entry(label.clone()).or_insert_with(|| {
            lines.push(Line { label, points: Vec::new() });
            lines.len() - 1
        });
        lines[index].points.push((x, point));
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|(a, _), (b, _)| a.total_cmp(b)));
    lines
}

#[cfg(test)]
mod tests;
