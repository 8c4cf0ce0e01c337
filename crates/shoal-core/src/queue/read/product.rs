//! Which configurations are the product of `grid` and `zip`, less what `when` leaves out?

use super::conditions::{Placed, chosen};
use super::parameters::{Twice, check_name, shown, shown_config};
use super::range::range;
use super::scalar;
use crate::diagnostic::Place;
use crate::document::node::{Node, Value as Tree};
use crate::document::reader::{Fields, Reader};
use crate::queue::render::text::json;
use crate::queue::sweep::{Axes, Config, Dimension, Value};
use std::collections::BTreeMap;

/// A part of the product: one parameter, or several that move together.
#[derive(Debug)]
pub struct Axis {
    dimension: Dimension,
}

#[derive(Debug)]
pub struct Product {
    pub axes: Axes,
    pub names: Vec<String>,
}

pub fn read_axes(reader: &mut Reader, fields: Fields, twice: Twice) -> Option<Vec<Axis>> {
    let mut known: BTreeMap<String, Place> = BTreeMap::new();
    let mut axes: Vec<Option<Axis>> = Vec::new();
    if let Some(node) = fields.get("grid") {
        match read_columns(reader, node, "`grid`", &mut known) {
            Some(columns) => axes
                .extend(columns.into_iter().map(|column| column.and_then(|column| axis(reader, vec![column], twice)))),
            None => axes.push(None),
        }
    }
    if let Some(node) = fields.get("zip") {
        let groups = match &node.value {
            Tree::List(groups) => groups.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for group in groups {
            let columns: Option<Vec<Option<Column>>> = read_columns(reader, group, "`zip`", &mut known);
            let columns: Option<Vec<Column>> = columns.and_then(|columns| columns.into_iter().collect());
            axes.push(columns.and_then(|columns| axis(reader, columns, twice)));
        }
    }
    axes.into_iter().collect()
}

/// One parameter, and each of its values with its place.
struct Column {
    name: String,
    at: Place,
    values: Vec<(Value, Place)>,
}

fn read_columns(
    reader: &mut Reader,
    node: &Node,
    what: &str,
    known: &mut BTreeMap<String, Place>,
) -> Option<Vec<Option<Column>>> {
    let Tree::Map(_) = &node.value else {
        reader.mismatch(node, what, "a map of parameters to lists of values");
        return None;
    };
    let fields = reader.map(node, what)?;
    let mut columns = Vec::new();
    for (key, node) in fields.entries() {
        let named = check_name(reader, key);
        if let Some(first) = known.get(&key.text) {
            let wrong = reader.at(key.at, format!("`{}` is varied twice", key.text));
            reader.report(wrong.help(format!("the first is in line {}", first.line)));
        }
        if key.text == "seed" {
            let message = "`seed` as a parameter makes every copy a configuration of its own";
            reader.warn(key.at, message, "`reps: N` gives each copy its own `{seed}`, and results take them together");
        }
        let values = read_values(reader, node, &key.text);
        columns.push(values.filter(|_| named).map(|values| Column { name: key.text.clone(), at: key.at, values }));
        if reader.is_full() {
            return None;
        }
    }
    // Twice in one map has been reported already.
    known.extend(fields.entries().iter().map(|(key, _)| (key.text.clone(), key.at)));
    Some(columns)
}

fn read_values(reader: &mut Reader, node: &Node, name: &str) -> Option<Vec<(Value, Place)>> {
    let items = match &node.value {
        Tree::List(items) if items.is_empty() => {
            let wrong = reader.at(node.at, format!("`{name}` has no values, so there would be no configuration"));
            reader.report(wrong.expected("at least one value").found("an empty list"));
            return None;
        }
        Tree::List(items) => items.as_slice(),
        Tree::Scalar { text, plain: true } if range(text).is_some() => std::slice::from_ref(node),
        Tree::Scalar { text, .. } => {
            let wrong = reader.at(node.at, format!("`{name}` has one value where a list is needed"));
            let wrong = wrong.expected("a list of values").found(node.description());
            let help = format!("write [{text}], or move it to `params` if it stays the same");
            reader.report(wrong.help(help));
            return None;
        }
        Tree::Map(_) => {
            reader.mismatch(node, &format!("`{name}`"), "a list of values");
            return None;
        }
    };
    let mut values = Vec::new();
    let mut complete = true;
    for item in items {
        let found = match &item.value {
            Tree::Scalar { text, plain: true } => range(text),
            _ => None,
        };
        match found {
            Some(Ok(found)) => values.extend(found.into_iter().map(|value| (value, item.at))),
            Some(Err(why)) => {
                reader.report(reader.at(item.at, format!("`{name}` has a range that cannot be used")).help(why));
                complete = false;
            }
            None => match scalar::value(reader, item, &format!("`{name}`")) {
                Some(value) => values.push((value, item.at)),
                None => complete = false,
            },
        }
        if reader.is_full() {
            return None;
        }
    }
    complete.then_some(values)
}

/// Columns side by side; the same row twice would be the same configurations twice.
fn axis(reader: &mut Reader, columns: Vec<Column>, twice: Twice) -> Option<Axis> {
    let first = columns.first()?;
    if let Some(other) = columns.iter().find(|column| column.values.len() != first.values.len()) {
        let message = format!("`{}` and `{}` move together, but differ in length", first.name, other.name);
        let wrong =
            reader.at(other.at, message).expected(format!("{} values, as `{}` has", first.values.len(), first.name));
        reader.report(wrong.found(format!("{}", other.values.len())));
        return None;
    }
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut seen: BTreeMap<String, Place> = BTreeMap::new();
    let mut rows = Vec::new();
    let mut complete = true;
    for index in 0..first.values.len() {
        let row: Vec<&Value> = columns.iter().map(|column| &column.values[index].0).collect();
        let at = first.values[index].1;
        if let Some(before) = seen.get(&key(row.iter().copied())) {
            if twice == Twice::Refuse {
                let message = match &names[..] {
                    [name] => format!("`{name}` has {} twice", shown(row[0])),
                    _ => format!("{} is there twice", shown_config(names.iter().zip(row.iter().copied()))),
                };
                let first = format!("the first is in line {}, column {}; remove one", before.line, before.column);
                reader.report(reader.at(at, message).help(first));
                complete = false;
            }
            continue;
        }
        seen.insert(key(row.iter().copied()), at);
        rows.push(row.into_iter().map(|value| Some(value.clone())).collect());
        if reader.is_full() {
            return None;
        }
    }
    complete.then_some(Axis { dimension: Dimension { names, rows } })
}

/// What tells values apart: as configurations are told apart by their JSON.
pub fn key<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    values.map(|value| json(value) + "\n").collect()
}

impl Product {
    pub fn new(
        reader: &mut Reader,
        fields: Fields,
        mut fixed: Config,
        axes: Vec<Axis>,
        conditions: &[Placed],
    ) -> Option<Product> {
        let dimensions: Vec<Dimension> = axes.into_iter().map(|axis| axis.dimension).collect();
        for name in dimensions.iter().flat_map(|dimension| &dimension.names) {
            fixed.remove(name);
        }
        let mut axes = Axes { fixed, dimensions, only: None };
        let names: Vec<String> =
            axes.fixed.keys().chain(axes.dimensions.iter().flat_map(|dimension| &dimension.names)).cloned().collect();
        if !conditions.is_empty() {
            axes.only = chosen(reader, fields, &axes, &names, conditions)?;
        }
        Some(Product { axes, names })
    }

    /// The number of this configuration, if it is one of the product's.
    pub fn find(&self, lookup: &Lookup, config: &BTreeMap<&String, &Value>) -> Option<u32> {
        let fixed = || self.axes.fixed.iter().all(|(name, value)| config.get(name) == Some(&value));
        if config.len() != self.names.len() || !fixed() {
            return None;
        }
        let mut number: u64 = 0;
        for (dimension, rows) in self.axes.dimensions.iter().zip(&lookup.0) {
            let values: Option<Vec<&Value>> = dimension.names.iter().map(|name| config.get(name).copied()).collect();
            let index = rows.get(&key(values?.into_iter()))?;
            number = number * dimension.rows.len() as u64 + index;
        }
        let number = u32::try_from(number).ok()?;
        match &self.axes.only {
            Some(only) => only.binary_search(&number).ok().map(|_| number),
            None => Some(number),
        }
    }

    pub fn lookup(&self) -> Lookup {
        let rows = |dimension: &Dimension| {
            let keys = dimension.rows.iter().map(|row| key(row.iter().flatten()));
            keys.zip(0..).collect::<BTreeMap<String, u64>>()
        };
        Lookup(self.axes.dimensions.iter().map(rows).collect())
    }
}

/// Where each row of each dimension stands.
#[derive(Debug)]
pub struct Lookup(Vec<BTreeMap<String, u64>>);
