//! Which rows and columns does `shoal results` show?

use super::gather::{Gathered, gather, metric, metric_numbers, parameter};
use super::numbers::{Summary, summary};
use crate::queue::request::ResultRow;
use crate::queue::sweep::Value;
use crate::suggest::closest;
use std::cmp::Ordering;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// A line for each run, not one for each configuration.
    pub runs: bool,
    /// All parameters, not only those that differ.
    pub all_parameters: bool,
    /// Only these columns, in this order; all if empty.
    pub columns: Vec<String>,
    /// By this column; with a minus in front, largest first.
    pub sort: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// A line is a configuration, not a run.
    pub grouped: bool,
    pub columns: Vec<Column>,
    pub lines: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `mlp:17`, or `mlp:17.2`.
    Id,
    Parameter(String),
    /// How many copies there are.
    Count,
    Metric(String),
    Seconds,
    Host,
    Folder,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Nothing,
    Text(String),
    Count(usize),
    Value(Value),
    Number(f64),
    Mean(Summary),
}

/// Why a table cannot be made: a column is asked for that is not there.
pub fn table(rows: &[ResultRow], choice: &Choice) -> Result<Table, String> {
    let gathered = gather(rows);
    let columns = all_columns(&gathered, choice);
    let find =
        |name: &str| columns.iter().find(|column| column.name == name).cloned().ok_or_else(|| unknown(name, &columns));
    let chosen = match choice.columns.is_empty() {
        true => columns.clone(),
        false => choice.columns.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let sort = match choice.sort.as_deref() {
        // A name may begin with a minus itself.
        Some(word) => Some(match (find(word), word.strip_prefix('-')) {
            (Err(_), Some(name)) => (find(name)?, true),
            (found, _) => (found?, false),
        }),
        None => None,
    };
    let mut groups: Vec<Vec<&ResultRow>> = match choice.runs {
        true => gathered.groups.iter().flatten().map(|row| vec![*row]).collect(),
        false => gathered.groups.clone(),
    };
    if let Some((column, falling)) = sort {
        let mut keyed: Vec<(Cell, Vec<&ResultRow>)> =
            groups.into_iter().map(|group| (cell(&group, &column, choice.runs), group)).collect();
        keyed.sort_by(|(a, _), (b, _)| order(a, b, falling));
        groups = keyed.into_iter().map(|(_, group)| group).collect();
    }
    let line = |group: &Vec<&ResultRow>| chosen.iter().map(|column| cell(group, column, choice.runs)).collect();
    let lines = groups.iter().map(line).collect();
    Ok(Table { grouped: !choice.runs, columns: chosen, lines })
}

fn all_columns(gathered: &Gathered, choice: &Choice) -> Vec<Column> {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    let mut columns = vec![match choice.runs {
        true => column("run", Kind::Id),
        false => column("cell", Kind::Id),
    }];
    let parameters = if choice.all_parameters { &gathered.parameters } else { &gathered.differing };
    columns.extend(parameters.iter().map(|name| column(name, Kind::Parameter((*name).into()))));
    if !choice.runs {
        columns.push(column("n", Kind::Count));
    }
    columns.extend(gathered.metrics.iter().map(|name| column(name, Kind::Metric((*name).into()))));
    columns.push(column("seconds", Kind::Seconds));
    if choice.runs {
        columns.extend([column("host", Kind::Host), column("folder", Kind::Folder)]);
    }
    // Of two columns of one name, the metric or parameter says what it is.
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    for column in &mut columns {
        let twice = names.iter().filter(|name| **name == column.name).count() > 1;
        match &column.kind {
            Kind::Metric(name) if twice => column.name = format!("metric.{name}"),
            Kind::Parameter(name) if twice => column.name = format!("param.{name}"),
            _ => {}
        }
    }
    columns
}

fn unknown(name: &str, columns: &[Column]) -> String {
    let names = || columns.iter().map(|column| column.name.as_str());
    match closest(name, names()) {
        Some(meant) => format!("there is no column `{name}`; did you mean `{meant}`?"),
        None => format!("there is no column `{name}`; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

fn cell(group: &[&ResultRow], column: &Column, runs: bool) -> Cell {
    let Some(first) = group.first() else { return Cell::Nothing };
    let mean = |numbers: &[f64]| match runs {
        true => numbers.first().map_or(Cell::Nothing, |number| Cell::Number(*number)),
        false => summary(numbers).map_or(Cell::Nothing, Cell::Mean),
    };
    match &column.kind {
        Kind::Id if runs => Cell::Text(first.run.to_string()),
        Kind::Id => Cell::Text(format!("{}:{}", first.run.sweep, first.run.cell)),
        Kind::Parameter(name) => parameter(first, name).map_or(Cell::Nothing, |value| Cell::Value(value.clone())),
        Kind::Count => Cell::Count(group.len()),
        Kind::Metric(name) => match mean(&metric_numbers(group, name)) {
            // What is no number is shown for a single run only.
            Cell::Nothing if group.len() == 1 => {
                metric(first, name).map_or(Cell::Nothing, |text| Cell::Text(text.into()))
            }
            cell => cell,
        },
        Kind::Seconds => mean(&group.iter().map(|row| row.seconds).collect::<Vec<_>>()),
        Kind::Host => Cell::Text(first.host.clone()),
        Kind::Folder => first.folder.as_ref().map_or(Cell::Nothing, |folder| Cell::Text(folder.clone())),
    }
}

/// Numbers before text; what is missing, or no number, comes last whichever way it goes.
fn order(a: &Cell, b: &Cell, falling: bool) -> Ordering {
    let turned = |order: Ordering| if falling { order.reverse() } else { order };
    let number = |cell: &Cell| match cell {
        Cell::Count(count) => Some(*count as f64),
        Cell::Number(number) => Some(*number),
        Cell::Mean(summary) => Some(summary.mean),
        Cell::Value(Value::Int(number)) => Some(*number as f64),
        Cell::Value(Value::Float(number)) => Some(*number),
        _ => None,
    };
    match (number(a).filter(|a| !a.is_nan()), number(b).filter(|b| !b.is_nan())) {
        (Some(a), Some(b)) => turned(a.partial_cmp(&b).unwrap_or(Ordering::Equal)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (text(a), text(b)) {
            (Some(a), Some(b)) => turned(a.cmp(&b)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        },
    }
}

fn text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Text(text) => Some(text.clone()),
        Cell::Value(value) => Some(crate::queue::render::text::word(value)),
        _ => None,
    }
}
