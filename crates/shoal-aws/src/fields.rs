//! A map of the file whose every key must be known: values by type, and what is wrong collected with its path.

use serde_json::{Map, Value};
use shoal_core::suggest::closest;
use std::cell::RefCell;

pub struct Fields<'f> {
    path: String,
    map: &'f Map<String, Value>,
    asked: RefCell<Vec<&'static str>>,
    errors: &'f RefCell<Vec<String>>,
}

impl<'f> Fields<'f> {
    /// `None` and an error if it is no map.
    pub fn of(path: &str, value: &'f Value, errors: &'f RefCell<Vec<String>>) -> Option<Fields<'f>> {
        match value {
            Value::Object(map) => Some(Fields { path: path.into(), map, asked: RefCell::default(), errors }),
            other => {
                errors.borrow_mut().push(format!("{path}: expected a map, found {}", word(other)));
                None
            }
        }
    }

    fn get(&self, key: &'static str) -> Option<&'f Value> {
        self.asked.borrow_mut().push(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn bad(&self, key: &str, expected: &str, found: &Value) {
        let text = format!("{}.{key}: expected {expected}, found {}", self.path, word(found));
        self.errors.borrow_mut().push(text);
    }

    pub fn text(&self, key: &'static str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) => Some(text.clone()),
            // YAML reads `MaxPrice: 0.5` as a number; boto3 wants text there.
            Value::Number(number) => Some(number.to_string()),
            other => {
                self.bad(key, "a text", other);
                None
            }
        }
    }

    pub fn number(&self, key: &'static str) -> Option<i32> {
        let value = self.get(key)?;
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
        if number.is_none() {
            self.bad(key, "a whole number", value);
        }
        number
    }

    pub fn flag(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        if value.as_bool().is_none() {
            self.bad(key, "true or false", value);
        }
        value.as_bool()
    }

    pub fn texts(&self, key: &'static str) -> Vec<String> {
        let items = self.list(key);
        items
            .iter()
            .filter_map(|(path, item)| match item {
                Value::String(text) => Some(text.clone()),
                other => {
                    self.errors.borrow_mut().push(format!("{path}: expected a text, found {}", word(other)));
                    None
                }
            })
            .collect()
    }

    /// The items with their paths.
    pub fn list(&self, key: &'static str) -> Vec<(String, &'f Value)> {
        match self.get(key) {
            Some(Value::Array(items)) => {
                items.iter().enumerate().map(|(i, item)| (format!("{}.{key}[{i}]", self.path), item)).collect()
            }
            Some(other) => {
                self.bad(key, "a list", other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    pub fn maps(&self, key: &'static str) -> Vec<Fields<'f>> {
        self.list(key).into_iter().filter_map(|(path, item)| Fields::of(&path, item, self.errors)).collect()
    }

    pub fn map(&self, key: &'static str) -> Option<Fields<'f>> {
        let value = self.get(key)?;
        Fields::of(&format!("{}.{key}", self.path), value, self.errors)
    }

    /// A key that has no place here, and why.
    pub fn refuse(&self, key: &'static str, why: &str) {
        if self.get(key).is_some() {
            self.errors.borrow_mut().push(format!("{}.{key}: {why}", self.path));
        }
    }

    pub fn error(&self, text: &str) {
        self.errors.borrow_mut().push(format!("{}: {text}", self.path));
    }
}

/// Whatever was not asked for is not known.
impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let asked = self.asked.borrow();
        for key in self.map.keys().filter(|key| !asked.contains(&key.as_str())) {
            let meant = closest(key, asked.iter().copied());
            let meant = meant.map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
            self.errors.borrow_mut().push(format!("{}.{key}: unknown key{meant}", self.path));
        }
    }
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
