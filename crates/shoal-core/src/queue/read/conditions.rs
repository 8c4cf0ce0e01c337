//! Which configurations of a product do conditions leave?

use super::command::inside;
use super::parameters::shown_config;
use super::when::{self, Condition};
use crate::document::node::{Node, Value as Tree};
use crate::document::reader::{Fields, Reader};
use crate::queue::cells;
use crate::queue::sweep::{Axes, Value};
use crate::suggest::closest;

/// So many configurations are looked at, at most, to see which of them conditions leave.
const MOST_LOOKED_AT: u64 = 16_000_000;

/// One condition, and where it stands.
#[derive(Debug)]
pub struct Placed {
    node: Node,
    condition: Condition,
}

pub fn read_conditions(reader: &mut Reader, fields: Fields) -> Option<Vec<Placed>> {
    let Some(node) = fields.get("when") else { return Some(Vec::new()) };
    let items = match &node.value {
        Tree::Scalar { .. } => std::slice::from_ref(node),
        _ => reader.list(node, "`when`", "conditions")?,
    };
    let mut conditions = Vec::new();
    for item in items {
        // `when: true` is a condition as well.
        let text = reader.any_text(item, "`when`")?;
        match when::parse(text) {
            Ok(condition) => conditions.push(Some(Placed { node: item.clone(), condition })),
            Err(wrong) => {
                let at = inside(reader, item, wrong.at, wrong.width);
                reader.report(reader.at(at, "this condition cannot be understood").help(wrong.why));
                conditions.push(None);
            }
        }
    }
    conditions.into_iter().collect()
}

/// Where a condition finds a parameter.
enum Source<'a> {
    Fixed(&'a Value),
    Moving { dimension: usize, column: usize },
}

/// Their numbers; `None` within: all of them.
pub fn chosen(
    reader: &mut Reader,
    fields: Fields,
    axes: &Axes,
    names: &[String],
    conditions: &[Placed],
) -> Option<Option<Vec<u32>>> {
    let mut sources: Vec<Vec<Source>> = Vec::new();
    for placed in conditions {
        let found = placed.condition.names.iter().map(|(name, offset)| {
            let found = source(axes, name);
            if found.is_none() {
                let at = inside(reader, &placed.node, *offset, name.chars().count());
                let wrong = reader.at(at, format!("the condition names `{name}`, which is no parameter"));
                let meant = closest(name, names.iter().map(String::as_str));
                let help = format!("parameters are {}; text stands in quotes", names.join(", "));
                reader.report(wrong.suggestion(meant).help(help));
            }
            found
        });
        sources.extend(found.collect::<Vec<_>>().into_iter().collect::<Option<Vec<_>>>());
    }
    if sources.len() < conditions.len() {
        return None;
    }
    let at = fields.key("when").unwrap_or(fields.at);
    let all = cells::product(axes);
    if all > MOST_LOOKED_AT {
        let message = format!("conditions would have to look at {all} configurations");
        let wrong = reader.at(at, message).expected(format!("at most {MOST_LOOKED_AT}"));
        reader.report(wrong.help("shorten the lists, or make several sweeps of it"));
        return None;
    }
    let mut only = Vec::new();
    let mut indices = vec![0; axes.dimensions.len()];
    for number in 0..u32::try_from(all).unwrap_or(u32::MAX) {
        let mut holds = true;
        for (placed, sources) in conditions.iter().zip(&sources) {
            match placed.condition.holds(&values(axes, sources, &indices)) {
                Ok(true) => {}
                Ok(false) => {
                    holds = false;
                    break;
                }
                Err(wrong) => {
                    let at = inside(reader, &placed.node, wrong.at, wrong.width);
                    let place = values(axes, sources, &indices);
                    let names = placed.condition.names.iter().map(|(name, _)| name);
                    let help = format!("{}, for {}", wrong.why, shown_config(names.zip(place)));
                    reader.report(reader.at(at, "this condition cannot be decided").help(help));
                    return None;
                }
            }
        }
        if holds {
            only.push(number);
        }
        turn(axes, &mut indices);
    }
    if only.is_empty() {
        let wrong = reader.at(at, format!("the conditions leave none of {all} configurations"));
        reader.report(wrong.help("all of them have to hold at once; for either of two, write `or`"));
        return None;
    }
    Some((only.len() as u64 != all).then_some(only))
}

fn source<'a>(axes: &'a Axes, name: &str) -> Option<Source<'a>> {
    let moving = axes.dimensions.iter().enumerate().find_map(|(dimension, values)| {
        let column = values.names.iter().position(|known| known == name)?;
        Some(Source::Moving { dimension, column })
    });
    moving.or_else(|| axes.fixed.get(name).map(Source::Fixed))
}

fn values<'a>(axes: &'a Axes, sources: &[Source<'a>], indices: &[usize]) -> Vec<&'a Value> {
    const NOTHING: &Value = &Value::Null;
    let value = |source: &Source<'a>| match source {
        Source::Fixed(value) => *value,
        Source::Moving { dimension, column } => {
            axes.dimensions[*dimension].rows[indices[*dimension]][*column].as_ref().unwrap_or(NOTHING)
        }
    };
    sources.iter().map(value).collect()
}

/// The next configuration: the last dimension turns fastest.
fn turn(axes: &Axes, indices: &mut [usize]) {
    for (index, dimension) in indices.iter_mut().zip(&axes.dimensions).rev() {
        *index += 1;
        if *index < dimension.rows.len() {
            return;
        }
        *index = 0;
    }
}
