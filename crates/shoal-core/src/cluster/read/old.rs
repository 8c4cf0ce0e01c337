//! What of a file is in Ray's dialect of 2020, and what does it mean today?
//!
//! `initial_workers` were started at once and `min_workers` kept; since nothing here takes workers away, both mean:
//! so many.

use super::{Dialect, FIELDS_OF_2020, node_types, raw, take};
use crate::cluster::Provider;
use crate::diagnostic::Place;
use crate::document::node::Value;
use crate::document::reader::{Fields, Reader};
use serde_json::Value as Json;

pub fn dialect(fields: Fields, provider: &Provider) -> Dialect {
    if first(fields, provider).is_some() { Dialect::Of2020 } else { Dialect::Current }
}

/// The first field of the old dialect. For a `local` cluster, `min_workers` is a field of both.
pub fn first(fields: Fields, provider: &Provider) -> Option<Place> {
    let both = |name: &str| name == "min_workers" && matches!(provider, Provider::Local(_));
    let old = fields.entries().iter().map(|(key, _)| key);
    old.filter(|key| FIELDS_OF_2020.contains(&key.text.as_str()) && !both(&key.text)).map(|key| key.at).min()
}

/// Whether `head_node` or `worker_nodes` says anything.
pub fn is_given(fields: Fields, name: &str) -> bool {
    let empty = |value: &Value| matches!(value, Value::Map(entries) if entries.is_empty());
    take::present(fields, name).is_some_and(|node| !empty(&node.value))
}

/// `head_node` or `worker_nodes`: the configuration, if it is given, and the resources that were part of it then.
/// `None` if it is wrong.
pub fn node(reader: &mut Reader, fields: Fields, name: &str) -> Option<(Option<Json>, Json)> {
    let Some(node) = take::present(fields, name).filter(|_| is_given(fields, name)) else {
        return Some((None, Json::Null));
    };
    let what = format!("`{name}`");
    let map = reader.map(node, &what)?;
    node_types::refuse_persistent(reader, node);
    let resources = take::present(map, "resources").map_or(Json::Null, |node| node_types::resources(reader, node));
    let mut config = raw::json(reader, node, &what);
    if let Some(config) = config.as_object_mut() {
        config.remove("resources");
    }
    Some((Some(config), resources))
}

/// How many workers are wanted, if the file says so outside of its types.
pub fn minimum(reader: &mut Reader, fields: Fields) -> Option<u32> {
    let least = take::count(reader, fields, "min_workers");
    let initial = take::count(reader, fields, "initial_workers");
    least.max(initial)
}
