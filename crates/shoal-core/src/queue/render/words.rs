//! Which program runs, with which arguments?

use super::template::{Piece, pieces};
use super::text::{json, word};
use crate::queue::Attempt;
use crate::queue::sweep::{Config, Sweep, Value};
use crate::queue::work::RUN_DIR_MARK;
use std::collections::BTreeSet;

/// Whose words these are.
#[derive(Debug, Clone, Copy)]
pub struct Person<'s> {
    pub sweep: &'s Sweep,
    pub attempt: &'s Attempt,
    pub config: &'s Config,
}

impl Person<'_> {
    /// Copies of a configuration differ in their seed alone.
    pub fn seed(&self) -> u64 {
        self.sweep.rules.seed.wrapping_add(u64::from(self.attempt.run.rep))
    }

    fn named(&self, name: &str) -> Option<String> {
        if let Some(value) = self.config.get(name) {
            return Some(word(value));
        }
        match name {
            "seed" => Some(self.seed().to_string()),
            "rep" => Some(self.attempt.run.rep.to_string()),
            "run" => Some(self.attempt.run.to_string()),
            "run_dir" => Some(RUN_DIR_MARK.into()),
            _ => None,
        }
    }
}

/// The words of the command, filled in; then the parameters that none of them names, as flags.
pub fn argv(person: &Person) -> Result<Vec<String>, String> {
    let mut argv = Vec::new();
    let mut named = BTreeSet::new();
    for template in &person.sweep.command.argv {
        let mut filled = String::new();
        for piece in pieces(template).map_err(|odd| format!("in the command's word `{template}`: {}", odd.why))? {
            match piece {
                Piece::Text(text) => filled.push_str(&text),
                Piece::Name(name) => {
                    let value = person.named(&name).ok_or_else(|| {
                        format!("configuration {} has no `{name}`, which the command names", person.attempt.run.cell)
                    })?;
                    filled.push_str(&value);
                    named.insert(name);
                }
            }
        }
        argv.push(filled);
    }
    if person.sweep.command.pass.flags {
        let rest = person.config.iter().filter(|(name, _)| !named.contains(*name));
        rest.for_each(|(name, value)| flag(&mut argv, name, value));
    }
    Ok(argv)
}

/// `--name value`; `true` is the flag alone, `false`, nothing and an empty list are no flag; of a list, each item has its own flag.
fn flag(argv: &mut Vec<String>, name: &str, value: &Value) {
    let pair = |argv: &mut Vec<String>, value: &Value| {
        let text = if let Value::List(_) = value { json(value) } else { word(value) };
        // Text that looks like an option would be taken for one.
        if text.starts_with('-') && matches!(value, Value::Text(_)) {
            argv.push(format!("--{name}={text}"));
        } else {
            argv.extend([format!("--{name}"), text]);
        }
    };
    match value {
        Value::Null | Value::Bool(false) => {}
        Value::Bool(true) => argv.push(format!("--{name}")),
        Value::List(items) => items.iter().for_each(|item| pair(argv, item)),
        other => pair(argv, other),
    }
}
