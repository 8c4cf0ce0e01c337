//! Which configurations does a file ask for? The product of `grid` and `zip`, and those of `list`; `params` are in all of them.

use super::conditions;
use super::listed::{self, Bare};
use super::product::{self, Product};
use super::scalar;
use crate::document::node::{Key, Node, Value as Tree};
use crate::document::reader::{Fields, Reader};
use crate::queue::cells;
use crate::queue::render::template::is_parameter_name;
use crate::queue::sweep::{Axes, Config, Value};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Parameters {
    pub parts: Vec<Axes>,
    /// All there are; with one configuration that lacks it, if not every one has it.
    pub names: BTreeMap<String, Option<String>>,
    pub count: u64,
}

/// What to do with a configuration that is there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    Refuse,
    Merge,
}

pub fn read(reader: &mut Reader, fields: Fields, configs: Option<Bare>) -> Option<Parameters> {
    let twice = read_twice(reader, fields);
    let fixed = fields.get("params").map_or(Some(Config::new()), |node| read_fixed(reader, node));
    let has_list = fields.get("list").is_some() || configs.is_some();
    let has_product = ["grid", "zip"].iter().any(|field| fields.get(field).is_some()) || !has_list;
    let axes = product::read_axes(reader, fields, twice);
    let conditions = conditions::read_conditions(reader, fields);
    let listed = fields.get("list").map_or(Some(Vec::new()), |node| listed::read(reader, node));
    let (fixed, axes, conditions, listed) = (fixed?, axes?, conditions?, listed?);
    if let (false, Some(at)) = (has_product, fields.key("when")) {
        let wrong = reader.at(at, "`when` has nothing to choose from");
        reader.report(wrong.help("it applies to the product of `grid` and `zip`; what `list` says is taken as it is"));
        return None;
    }
    let product = match has_product {
        true => Some(Product::new(reader, fields, fixed.clone(), axes, &conditions)?),
        false => None,
    };
    let bare = configs.unwrap_or_default();
    let lists = listed::Lists { fixed: &fixed, product: product.as_ref(), twice };
    let (listed, names) = lists.gather(reader, fields, listed, bare)?;
    let mut parts: Vec<Axes> = product.into_iter().map(|product| product.axes).collect();
    parts.extend(listed);
    let count = parts.iter().map(cells::count).fold(0, u64::saturating_add);
    Some(Parameters { parts, names, count })
}

fn read_twice(reader: &mut Reader, fields: Fields) -> Twice {
    let Some(node) = fields.get("duplicates") else { return Twice::Refuse };
    match &node.value {
        Tree::Scalar { text, .. } if text == "merge" => Twice::Merge,
        Tree::Scalar { text, .. } if text == "refuse" => Twice::Refuse,
        _ => {
            reader.mismatch(node, "`duplicates`", "`refuse` or `merge`");
            Twice::Refuse
        }
    }
}

fn read_fixed(reader: &mut Reader, node: &Node) -> Option<Config> {
    let fields = reader.map(node, "`params`")?;
    config(reader, fields)
}

/// Names and one value each.
pub fn config(reader: &mut Reader, fields: Fields) -> Option<Config> {
    let mut config = Config::new();
    let mut complete = true;
    for (key, node) in fields.entries() {
        let named = check_name(reader, key);
        match scalar::value(reader, node, &format!("`{}`", key.text)) {
            Some(value) if named => drop(config.insert(key.text.clone(), value)),
            _ => complete = false,
        }
        if reader.is_full() {
            return None;
        }
    }
    complete.then_some(config)
}

pub fn check_name(reader: &mut Reader, key: &Key) -> bool {
    let fits = is_parameter_name(&key.text);
    if !fits {
        let wrong = reader.at(key.at, format!("`{}` cannot be the name of a parameter", key.text));
        reader.report(wrong.expected(NAME));
    }
    fits
}

pub const NAME: &str = "at most 100 letters, digits, `_`, `-` and `.`, starting with a letter or `_`";

/// A value as people know it, for a message.
pub fn shown(value: &Value) -> String {
    crate::document::node::short(&crate::queue::render::text::json(value))
}

/// A configuration as people know it, for a message.
pub fn shown_config<'c>(config: impl IntoIterator<Item = (&'c String, &'c Value)>) -> String {
    let pairs: Vec<String> = config.into_iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
    if pairs.is_empty() { "(no parameters)".into() } else { crate::document::node::short(&pairs.join(", ")) }
}
