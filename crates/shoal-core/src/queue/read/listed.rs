//! Which configurations are listed one by one?

use super::factor::factor;
use super::parameters::{Twice, config, shown_config};
use super::product::Product;
use crate::diagnostic::Place;
use crate::document::node::{Node, Value as Tree};
use crate::document::reader::{Fields, Reader};
use crate::queue::sweep::{Axes, Config, Value};
use crate::suggest::closest;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Configurations from a program: they have no place in a file, and may differ in their names.
#[derive(Debug, Default)]
pub struct Bare(pub Vec<Config>);

/// One configuration of a file.
#[derive(Debug)]
pub struct Listed {
    config: Config,
    at: Place,
}

pub fn read(reader: &mut Reader, node: &Node) -> Option<Vec<Listed>> {
    if let Tree::Map(_) = &node.value {
        let wrong = reader.at(node.at, "`list` is one configuration where a list of them is needed");
        reader.report(wrong.expected("a list of maps").found("a map").help("write `list: [{...}, {...}]`"));
        return None;
    }
    let items = reader.list(node, "`list`", "configurations")?;
    if items.is_empty() {
        reader.mismatch(node, "`list`", "at least one configuration");
        return None;
    }
    let mut listed = Vec::new();
    let mut complete = true;
    for item in items {
        match &item.value {
            Tree::Map(_) => {
                let fields = reader.map(item, "a configuration")?;
                match config(reader, fields) {
                    Some(config) => listed.push(Listed { config, at: item.at }),
                    None => complete = false,
                }
            }
            _ => {
                reader.mismatch(item, "a configuration", "a map of parameters to values");
                complete = false;
            }
        }
        if reader.is_full() {
            return None;
        }
    }
    complete.then_some(listed)
}

/// What listed configurations are seen together with.
#[derive(Debug, Clone, Copy)]
pub struct Lists<'p> {
    pub fixed: &'p Config,
    pub product: Option<&'p Product>,
    pub twice: Twice,
}

type Names = BTreeMap<String, Option<String>>;

impl Lists<'_> {
    /// The part of the sweep that they are, if there are any, and the names of all parameters.
    pub fn gather(
        &self,
        reader: &mut Reader,
        fields: Fields,
        listed: Vec<Listed>,
        bare: Bare,
    ) -> Option<(Option<Axes>, Names)> {
        let mut names: BTreeSet<String> = self.fixed.keys().cloned().collect();
        names.extend(self.product.iter().flat_map(|product| product.names.iter().cloned()));
        names.extend(listed.iter().flat_map(|listed| listed.config.keys().cloned()));
        let same = self.same_names(reader, &names, &listed);
        for config in &bare.0 {
            if let Some(new) = config.keys().find(|name| !names.contains(*name)) {
                names.insert(new.clone());
                names.extend(config.keys().cloned());
            }
        }
        let names = self.lacking(names, &bare);
        let mut places = Vec::with_capacity(listed.len());
        let mut configs = Vec::with_capacity(listed.len() + bare.0.len());
        for Listed { config, at } in listed {
            places.push(at);
            configs.push(config);
        }
        configs.extend(bare.0);
        let configs = self.each_once(reader, fields, configs, &places)?;
        if !same {
            return None;
        }
        Some(((!configs.is_empty()).then(|| axes(self.fixed.clone(), configs)), names))
    }

    /// In a file, every configuration has the same parameters: one that is left out, or that others lack, is more likely a slip than
    /// meant. What is usual is what the grid has, or else most of the list.
    fn same_names(&self, reader: &mut Reader, names: &BTreeSet<String>, listed: &[Listed]) -> bool {
        let count = |name: &str| listed.iter().filter(|listed| listed.config.contains_key(name)).count();
        let usual: BTreeSet<&str> = match self.product {
            Some(product) => product.names.iter().map(String::as_str).collect(),
            None => names.iter().map(String::as_str).filter(|name| count(name) * 2 >= listed.len()).collect(),
        };
        let others = if self.product.is_some() { "the grid has" } else { "others have" };
        let help = "give it in all of them, or once for all in `params`; `null` stands for none";
        let mut same = true;
        for Listed { config, at } in listed {
            let has = |name: &str| config.contains_key(name) || self.fixed.contains_key(name);
            let mut missing: Vec<&str> = usual.iter().copied().filter(|name| !has(name)).collect();
            let odd = config.keys().filter(|name| !usual.contains(name.as_str()) && !self.fixed.contains_key(*name));
            for name in odd {
                let meant = closest(name, missing.iter().copied());
                missing.retain(|name| Some(*name) != meant);
                let wrong = reader.at(*at, format!("this configuration has `{name}`, which not all have"));
                reader.report(wrong.suggestion(meant).help(help));
                same = false;
            }
            for name in missing {
                reader.report(reader.at(*at, format!("this configuration has no `{name}`, but {others}")).help(help));
                same = false;
            }
            if reader.is_full() {
                return false;
            }
        }
        same
    }

    /// Which parameters not every configuration has.
    fn lacking(&self, names: BTreeSet<String>, bare: &Bare) -> Names {
        let mut names: Names = names.into_iter().map(|name| (name, None)).collect();
        if let (Some(product), false) = (self.product, bare.0.is_empty()) {
            let own: BTreeSet<&String> = product.names.iter().collect();
            names
                .iter_mut()
                .filter(|(name, _)| !own.contains(name))
                .for_each(|(_, lacking)| *lacking = Some("the grid".into()));
        }
        for (index, config) in bare.0.iter().enumerate() {
            for (name, lacking) in names.iter_mut().filter(|(_, lacking)| lacking.is_none()) {
                if !config.contains_key(name) && !self.fixed.contains_key(name) {
                    *lacking = Some(format!("configs[{index}]"));
                }
            }
        }
        names
    }

    fn each_once(
        &self,
        reader: &mut Reader,
        fields: Fields,
        configs: Vec<Config>,
        places: &[Place],
    ) -> Option<Vec<Config>> {
        let lookup = self.product.map(|product| (product, product.lookup()));
        let mut seen: HashMap<u128, usize> = HashMap::with_capacity(configs.len());
        let mut kept = Vec::with_capacity(configs.len());
        let mut complete = true;
        for (index, config) in configs.into_iter().enumerate() {
            let whole: BTreeMap<&String, &Value> = self.fixed.iter().chain(&config).collect();
            let mark = digest(&whole);
            let first = match seen.get(&mark) {
                Some(first) => Some(place(places, *first)),
                None => lookup.as_ref().and_then(|(product, lookup)| product.find(lookup, &whole)).map(in_product),
            };
            if let Some(first) = first {
                if self.twice == Twice::Refuse {
                    let message = match places.get(index) {
                        Some(_) => "this configuration is there twice".to_string(),
                        None => format!("configs[{}] is there twice", index - places.len()),
                    };
                    let at = places.get(index).copied().unwrap_or(fields.at);
                    let wrong = reader.at(at, message).found(shown_config(whole));
                    reader.report(wrong.help(format!("the first is {first}; remove one, or say `duplicates: merge`")));
                    complete = false;
                    if reader.is_full() {
                        return None;
                    }
                }
                continue;
            }
            seen.insert(mark, index);
            kept.push(config);
        }
        complete.then_some(kept)
    }
}

fn place(places: &[Place], index: usize) -> String {
    match places.get(index) {
        Some(at) => format!("in line {}", at.line),
        None => format!("configs[{}]", index - places.len()),
    }
}

fn in_product(number: u32) -> String {
    format!("configuration {number} of the grid")
}

/// What a configuration is told apart by: enough of it that no two are the same by chance.
fn digest(config: &BTreeMap<&String, &Value>) -> u128 {
    let mut text = Vec::with_capacity(256);
    for (name, value) in config {
        text.extend_from_slice(name.as_bytes());
        text.push(0);
        // Writing to memory cannot fail, and every value has a JSON form.
        let _ = serde_json::to_writer(&mut text, value);
        text.push(0);
    }
    let bytes = Sha256::digest(&text);
    bytes[..16].iter().fold(0, |number, byte| (number << 8) | u128::from(*byte))
}

/// One dimension of rows, or several where they are a product. What is the same in all of them is kept once.
fn axes(mut fixed: Config, mut configs: Vec<Config>) -> Axes {
    let names: BTreeSet<String> = configs.iter().flat_map(BTreeMap::keys).cloned().collect();
    let (first, rest) = match configs.split_first() {
        Some((first, rest)) => (first.clone(), rest),
        None => return Axes { fixed, dimensions: Vec::new(), only: None },
    };
    let constant = |name: &String| first.get(name).is_some_and(|v| rest.iter().all(|other| other.get(name) == Some(v)));
    let (same, moving): (Vec<String>, Vec<String>) = names.into_iter().partition(constant);
    for name in same {
        if let Some(value) = first.get(&name) {
            fixed.insert(name, value.clone());
        }
    }
    if moving.is_empty() {
        return Axes { fixed, dimensions: Vec::new(), only: None };
    }
    // A name that some rows lack but `params` has keeps the value from there.
    let rows = configs.iter_mut().map(|config| moving.iter().map(|name| config.remove(name)).collect());
    let rows: Vec<Vec<Option<Value>>> = rows.collect();
    Axes { fixed, dimensions: factor(moving, rows), only: None }
}
