//! What does a program ask for? The fields of a sweep's file as JSON, and `configs`: a list of configurations, which may be long.

use super::listed::Bare;
use super::parameters::NAME;
use super::scalar::{unwritable, unwritable_key};
use super::{Draft, read_tree};
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::document::json;
use crate::document::node::short;
use crate::document::reader::Reader;
use crate::queue::render::template::is_parameter_name;
use crate::queue::sweep::{Config, Value};
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

const FILE: &str = "JSON";
/// The longest text that is read.
const MOST_BYTES: usize = 256 << 20;
/// As deep as `param2val.yaml` can be read again.
const DEEPEST: usize = 24;

/// Reads fields as JSON. Places are those of the text, or, for what is wrong with a field, of its fields written anew.
pub fn from_json(text: &str) -> Result<Draft, Vec<Diagnostic>> {
    if text.len() > MOST_BYTES {
        return Err(vec![at_text(text, 0, format!("more than {} MiB of JSON", MOST_BYTES >> 20))]);
    }
    let mut source = serde_json::Deserializer::from_str(text);
    let all = serde::Deserializer::deserialize_any(&mut source, All);
    let (rest, configs) = match all.and_then(|all| source.end().map(|()| all)) {
        Ok(all) => all,
        Err(error) => return Err(vec![syntax(text, &error)]),
    };
    let fields = serde_json::to_string_pretty(&rest).unwrap_or_default();
    read_tree(Reader::new(FILE, &fields), json::parse(&fields), configs)
}

fn at_text(text: &str, at: usize, message: String) -> Diagnostic {
    let at = boundary(text, at.min(text.len()));
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    // A line of many megabytes is not worth keeping: what is near the place is.
    let (from, to) = (boundary(text, start.max(at.saturating_sub(60))), boundary(text, at + 60));
    let source = text[from..to.max(at)].lines().next().unwrap_or_default().to_string();
    Diagnostic {
        severity: Severity::Error,
        file: FILE.into(),
        at: Place { line: text[..at].matches('\n').count() + 1, column: text[from..at].chars().count() + 1, width: 1 },
        source,
        message,
        expected: None,
        found: None,
        suggestion: None,
        help: None,
    }
}

fn syntax(text: &str, error: &serde_json::Error) -> Diagnostic {
    let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = line_start + error.column().saturating_sub(1);
    let why = error.to_string();
    let why = why.split(" at line ").next().unwrap_or_default();
    // Python's `json` writes these, though JSON has no word for them; the reader stops at or behind their first letters.
    let near = text.get(boundary(text, at.saturating_sub(2))..).unwrap_or_default();
    let near: String = near.chars().take(14).collect();
    if let Some(word) = ["Infinity", "NaN"].into_iter().find(|word| near.contains(word)) {
        let wrong = at_text(text, at, format!("a value is {word}, which cannot be written as JSON or YAML"));
        return wrong.help("leave the parameter out, or give it as text");
    }
    let help = match error.is_data() {
        true => None,
        false => Some("was it cut off, or written by hand?".to_string()),
    };
    Diagnostic { help, ..at_text(text, at, format!("this cannot be read: {why}")) }
}

type Parts = (BTreeMap<String, serde_json::Value>, Option<Bare>);

fn given_twice<E: Error>(key: &str) -> E {
    E::custom(format!("`{}` is given twice", short(key)))
}

/// The last place at or before this byte where a character begins.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

struct All;

impl<'de> Visitor<'de> for All {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the fields of a sweep")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let mut rest = BTreeMap::new();
        let mut configs = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "configs" {
                configs = Some(map.next_value_seed(Configs)?);
            } else {
                let value = map.next_value()?;
                match rest.entry(key) {
                    Entry::Vacant(place) => drop(place.insert(value)),
                    Entry::Occupied(first) => return Err(given_twice(first.key())),
                }
            }
        }
        Ok((rest, configs))
    }
}

struct Configs;

impl<'de> DeserializeSeed<'de> for Configs {
    type Value = Bare;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Bare, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Configs {
    type Value = Bare;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("`configs` to be a list of objects, each a configuration")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bare, A::Error> {
        let mut configs: Vec<Config> = Vec::new();
        while let Some(value) = list.next_element_seed(Parameter { depth: 0 })? {
            let Value::Map(config) = value else {
                return Err(A::Error::custom(format!("configs[{}] is not an object of parameters", configs.len())));
            };
            if let Some(name) = config.keys().find(|name| !is_parameter_name(name)) {
                let which = configs.len();
                let name = short(name);
                return Err(A::Error::custom(format!(
                    "`{name}` in configs[{which}] cannot be a parameter's name: {NAME}"
                )));
            }
            configs.push(config);
        }
        if configs.is_empty() {
            return Err(A::Error::custom("`configs` is empty, so there would be no configuration"));
        }
        Ok(Bare(configs))
    }
}

/// One value, checked while it is read.
#[derive(Clone, Copy)]
struct Parameter {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Parameter {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parameter {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value of a parameter")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Bool(yes))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        let fits = i64::try_from(number);
        fits.map(Value::Int).map_err(|_| E::custom(format!("{number} does not fit into 64 bits; give it as text")))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        match number.is_finite() {
            true => Ok(Value::Float(number)),
            false => Err(E::custom("a number is too large")),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        match unwritable(&text) {
            Some(why) => Err(E::custom(format!("text cannot be kept: {why}"))),
            None => Ok(Value::Text(text)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Some(why) = unwritable_key(&key) {
                return Err(A::Error::custom(format!("`{}` cannot be a key: {why}", short(&key))));
            }
            let value = map.next_value_seed(inner)?;
            match entries.entry(key) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(first) => return Err(given_twice(first.key())),
            }
        }
        Ok(Value::Map(entries))
    }
}

impl Parameter {
    fn deeper<E: Error>(self) -> Result<Parameter, E> {
        match self.depth < DEEPEST {
            true => Ok(Parameter { depth: self.depth + 1 }),
            false => Err(E::custom(format!("nested more than {DEEPEST} levels deep"))),
        }
    }
}
