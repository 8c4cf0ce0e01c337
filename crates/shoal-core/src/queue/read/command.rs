//! Which program is run, and how do parameters reach it?

use super::parameters::Parameters;
use super::scalar::unwritable;
use super::words::split;
use crate::diagnostic::Place;
use crate::document::node::{Node, Value};
use crate::document::reader::{Fields, Reader};
use crate::queue::render::env::{is_ours, parameter_variable};
use crate::queue::render::template::{BUILT_IN, Odd, Piece, pieces};
use crate::queue::sweep::Pass;
use crate::quote::is_variable_name;
use crate::suggest::closest;
use std::collections::{BTreeMap, BTreeSet};

/// Longer commands do not fit into what a kernel takes for one argument.
const LONGEST_WORD: usize = 64 << 10;
const MOST_WORDS: usize = 4096;

/// The words, and what they ask for.
#[derive(Debug)]
pub struct Argv {
    pub words: Vec<String>,
    /// Names in braces, and where they stand.
    named: Vec<(String, Place)>,
}

/// Where a part of a scalar's text stands: exactly, if the text stands in the file as it is.
pub fn inside(reader: &Reader, node: &Node, offset: usize, width: usize) -> Place {
    let Value::Scalar { text, plain } = &node.value else { return node.at };
    let quote = usize::from(!plain);
    let source = reader.at(node.at, "").source;
    let there: String = source.chars().skip(node.at.column - 1 + quote).take(text.chars().count()).collect();
    match there == *text {
        true => Place { column: node.at.column + quote + offset, width: width.max(1), ..node.at },
        false => node.at,
    }
}

pub fn read(reader: &mut Reader, fields: Fields) -> Option<Argv> {
    let Some(node) = fields.get("command") else {
        if !fields.has_misspelt("command", &super::FIELDS) {
            let missing = reader.at(fields.at, "there is no `command`").expected("the program and its arguments");
            reader.report(missing.help("add for example `command: python train.py`"));
        }
        return None;
    };
    let argv = match &node.value {
        Value::Scalar { .. } => line(reader, node),
        _ => list(reader, node),
    }?;
    let fault = match argv.words.first().map(String::as_str) {
        None | Some("") => Some("it names no program"),
        Some(_) if argv.words.iter().any(|word| word.len() > LONGEST_WORD) => Some("a word is longer than 64 KiB"),
        Some(_) if argv.words.len() > MOST_WORDS => Some("it has more than 4096 words"),
        Some(_) => argv.words.iter().find_map(|word| unwritable(word)),
    };
    if let Some(why) = fault {
        reader.report(reader.at(node.at, "`command` cannot be run").found(node.description()).help(why));
        return None;
    }
    Some(argv)
}

/// One text, taken apart as a shell does.
fn line(reader: &mut Reader, node: &Node) -> Option<Argv> {
    let text = reader.text(node, "`command`")?;
    let words = match split(text) {
        Ok(words) => words,
        Err(wrong) => {
            let at = inside(reader, node, wrong.at, 1);
            reader.report(reader.at(at, "`command` is no list of words").help(wrong.why));
            return None;
        }
    };
    let mut named = Vec::new();
    for word in &words {
        let names = braces(word).map_err(|odd| {
            let start = text.find(word.as_str()).map(|byte| text[..byte].chars().count());
            let at = start.map_or(node.at, |start| inside(reader, node, start + odd.at, odd.width));
            reader.error(at, odd.why);
        });
        for (name, _) in names.ok()? {
            let written = format!("{{{name}}}");
            let start = text.find(&written).map_or(0, |byte| text[..byte].chars().count());
            named.push((name, inside(reader, node, start, written.chars().count())));
        }
    }
    Some(Argv { words, named })
}

/// Words as they are. Numbers and booleans are words too.
fn list(reader: &mut Reader, node: &Node) -> Option<Argv> {
    let items = reader.list(node, "`command`", "words, or one text")?;
    let mut argv = Argv { words: Vec::new(), named: Vec::new() };
    let mut complete = true;
    for item in items {
        let Value::Scalar { text, .. } = &item.value else {
            let wrong = reader.at(item.at, "`command` has a wrong value").expected("a word").found(item.description());
            reader.report(wrong.help("text with braces in a list stands in quotes: [\"--lr={lr}\"]"));
            complete = false;
            continue;
        };
        match braces(text) {
            Ok(names) => {
                for (name, offset) in names {
                    let at = inside(reader, item, offset, name.chars().count() + 2);
                    argv.named.push((name, at));
                }
            }
            Err(odd) => {
                reader.error(inside(reader, item, odd.at, odd.width), odd.why);
                complete = false;
            }
        }
        argv.words.push(text.clone());
    }
    complete.then_some(argv)
}

/// The names that stand in braces, and where in the word.
fn braces(word: &str) -> Result<Vec<(String, usize)>, Odd> {
    let mut offset = 0;
    let mut names = Vec::new();
    for piece in pieces(word)? {
        match piece {
            // Doubled braces are two characters of the word, and one of the text.
            Piece::Text(text) => {
                offset += text.chars().map(|c| if matches!(c, '{' | '}') { 2 } else { 1 }).sum::<usize>()
            }
            Piece::Name(name) => {
                let width = name.chars().count() + 2;
                names.push((name, offset));
                offset += width;
            }
        }
    }
    Ok(names)
}

pub fn read_pass(reader: &mut Reader, node: &Node) -> Pass {
    const WAYS: [&str; 4] = ["flags", "env", "file", "none"];
    let mut pass = Pass::default();
    let items = match &node.value {
        Value::Scalar { .. } => std::slice::from_ref(node),
        _ => reader.list(node, "`pass`", "ways: flags, env, file").unwrap_or_default(),
    };
    for item in items {
        match reader.text(item, "`pass`") {
            Some("flags") => pass.flags = true,
            Some("env") => pass.env = true,
            Some("file") => pass.file = true,
            Some("none") | None => {}
            Some(way) => {
                let wrong = reader.at(item.at, format!("`{way}` is no way to pass parameters"));
                let wrong = wrong.expected("`flags`, `env`, `file` or `none`");
                reader.report(wrong.suggestion(closest(way, WAYS)));
            }
        }
    }
    pass
}

pub fn read_env(reader: &mut Reader, node: &Node) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(fields) = reader.map(node, "`env`") else { return env };
    for (key, value) in fields.entries() {
        if !is_variable_name(&key.text) {
            let wrong = reader.at(key.at, format!("`{}` is no name of an environment variable", key.text));
            reader.report(wrong.expected("letters, digits and `_`, not starting with a digit"));
        } else if is_ours(&key.text) {
            reader.report(reader.at(key.at, format!("`{}` is set by every run itself", key.text)).help("remove it"));
        } else if let Some(text) = reader.any_text(value, &format!("`{}`", key.text)) {
            match unwritable(text) {
                Some(why) => reader.report(reader.at(value.at, format!("`{}` cannot be set", key.text)).help(why)),
                None => drop(env.insert(key.text.clone(), text.into())),
            }
        }
    }
    env
}

/// How parameters get to the program, as said or as the command suggests; and whether each of them does.
pub fn reach(
    reader: &mut Reader,
    fields: Fields,
    argv: &Argv,
    parameters: &Parameters,
    said: Option<Pass>,
) -> Option<Pass> {
    let known: Vec<&str> = parameters.names.keys().map(String::as_str).chain(BUILT_IN).collect();
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let mut understood = true;
    for (name, at) in &argv.named {
        match parameters.names.get(name) {
            Some(None) => {
                named.insert(name);
            }
            Some(Some(lacking)) => {
                let wrong = reader.at(*at, format!("not every configuration has `{name}`"));
                reader.report(wrong.help(format!("{lacking} lacks it; give it a value there, or in `params`")));
            }
            None if BUILT_IN.contains(&name.as_str()) => {}
            None => {
                understood = false;
                let wrong = reader.at(*at, format!("the command names `{name}`, which is no parameter"));
                let meant = closest(name, known.iter().copied());
                let list = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let wrong = wrong.suggestion(meant);
                reader.report(if known.len() <= 20 { wrong.expected(format!("one of {list}")) } else { wrong });
            }
        }
    }
    let pass = said.unwrap_or(Pass { flags: named.is_empty(), ..Pass::default() });
    // A name that is not understood may well be the one that is missing.
    if said.is_none() && !pass.flags && understood {
        let forgotten: Vec<&str> =
            parameters.names.keys().map(String::as_str).filter(|name| !named.contains(name)).collect();
        if let Some(first) = forgotten.first() {
            let at = fields.key("command").unwrap_or(fields.at);
            let wrong = reader.at(at, format!("the program never hears of `{}`", forgotten.join("`, `")));
            let help = format!("add `{{{first}}}` to the command, or say how the others get there: `pass: [flags]`");
            reader.report(wrong.help(help));
        }
    }
    if pass.env {
        let mut variables = BTreeMap::new();
        for name in parameters.names.keys() {
            if let Some(other) = variables.insert(parameter_variable(name), name) {
                let at = fields.key("pass").unwrap_or(fields.at);
                let message =
                    format!("`{other}` and `{name}` would be the same variable, {}", parameter_variable(name));
                reader.report(reader.at(at, message).help("rename one, or pass them otherwise"));
            }
        }
    }
    Some(pass)
}
